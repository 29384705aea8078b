"""An evaluation's results on a terminal: a row a task, worst first, then categories and headline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..outcomes import RIGHT
from ..terminal import print_table, width

ALL, IDENTICAL = "ALL TASKS", "IDENTICAL QUESTIONS"
UNKNOWN = "-"
TASK, OF_RIGHT, TOKENS, WHY = "TASK", "95 % OF IT", "TOKENS", "NOT RIGHT"


def print_results(results: Mapping[str, Any]) -> None:
    """Print what results.json says; nothing where nothing was scored."""
    if not any(row["completions"] for row in results["tasks"].values()):
        return
    print(f"\n{_title(results)}\n")
    rows = list(_rows(results))
    columns = _columns(rows, str(max(map(int, results["overall"].get("pass_at", {"1": 1})))))
    for dispensable in (OF_RIGHT, TOKENS):
        if _room(columns) < 20:  # too narrow for the reasons in the last column
            columns.pop(dispensable, None)
    columns[WHY] = [_why(row, _room(columns)) for _, row in rows]
    numbers = [name for name in columns if name not in (TASK, WHY)]
    print_table(list(columns), zip(*columns.values(), strict=True), numbers=numbers)
    print("""
SCORE, RIGHT: mean score, and share of completions that score 0.99 or more, with 95 % intervals (bootstrap over
problems; in the last rows over tasks, whose unweighted mean is given); TOKENS: mean of a completion""")
    if results.get("published"):
        _print_published(results)
    for remark in results["remarks"]:
        print(f"\nNot as published: {remark}.")


def _title(results: Mapping[str, Any]) -> str:
    overall, fingerprint = results["overall"], results["fingerprint"]
    preset = f", {results['preset']}" if results.get("preset") else ""
    title = f"{results['model']}{preset}: {overall['problems']} problems of {overall['tasks']} tasks"
    return f"{title}, set {fingerprint[:12]}" if fingerprint else title


def _rows(results: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield names and rows: tasks, worst first, categories, headline and a preset's comparable part."""
    tasks, categories = results["tasks"].items(), results["categories"].items()
    yield from sorted(tasks, key=lambda item: (item[1].get("mean_score", 2.0), item[0]))
    if len(categories) > 1:
        yield from ((f"category:{name}", row) for name, row in categories)
    yield ALL, results["overall"]
    if results.get("identical"):
        yield IDENTICAL, results["identical"]


def _columns(rows: Sequence[tuple[str, Mapping[str, Any]]], repeats: str) -> dict[str, list[str]]:
    """Return the cells of each column but the last, by its heading."""
    figures = [row for _, row in rows]
    columns = {
        TASK: [name for name, _ in rows],
        "N": [str(row["problems"]) for row in figures],
        "SCORE": [_number(row.get("mean_score")) for row in figures],
        "95 %": [_interval(row.get("mean_score_interval")) for row in figures],
        "RIGHT": [_number(row.get("accuracy")) for row in figures],
        OF_RIGHT: [_interval(row.get("accuracy_interval")) for row in figures],
    }
    if repeats != "1":
        columns[f"PASS@{repeats}"] = [_number(row.get("pass_at", {}).get(repeats)) for row in figures]
    columns[TOKENS] = [UNKNOWN if row.get("tokens") is None else f"{row['tokens']:.0f}" for row in figures]
    return columns


def _room(columns: Mapping[str, Sequence[str]]) -> int:
    """Return how many characters are left for one more column; each is followed by two blanks."""
    return width() - sum(2 + max(map(len, [heading, *cells])) for heading, cells in columns.items())


def _why(row: Mapping[str, Any], room: int) -> str:
    """Return as much as fits of what is missing, then of what is not right, the most frequent first."""
    missing = {"failed": row["failed"], "not made": row["not_made"]}
    words = [f"{count} {word}" for word, count in missing.items() if count]
    words += [f"{word} {share:.0%}" for word, share in row.get("reasons", {}).items() if word != RIGHT]
    while words and len(", ".join(words)) > room:
        words.pop()
    return ", ".join(words)


def _print_published(results: Mapping[str, Any]) -> None:
    published: Mapping[str, Any] = results["published"]
    names = [name for name, _ in _rows(results)]
    column_width = 7  # of a score and the two blanks before it
    room = width() - max(map(len, names)) - column_width
    shown = list(published)[: max(1, room // column_width)]
    letters = [chr(ord("A") + number) for number in range(len(shown))]
    rows = [
        [name, _number(row.get("library_score")), *(_number(_published(published[model], name)) for model in shown)]
        for name, row in _rows(results)
    ]
    print()
    print_table([TASK, "YOURS", *letters], rows, numbers=["YOURS", *letters])
    print(
        "\nYOURS: the library's own score (plain verifier, last answer), as published; "
        "the models by their score over all tasks"
    )
    for letter, model in zip(letters, shown, strict=True):
        print(f"  {letter} {model} {_number(published[model]['overall'])}")


def _published(model: Mapping[str, Any], row: str) -> float | None:
    if row == ALL:
        score = model["overall"]
    elif row == IDENTICAL:
        score = model["identical"]
    else:
        category = row.removeprefix("category:")
        score = model["tasks"].get(row) if category == row else model["categories"].get(category)
    return None if score is None else float(score)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _interval(ends: Sequence[float] | None) -> str:
    return UNKNOWN if ends is None else f"{ends[0]:.2f}-{ends[1]:.2f}"

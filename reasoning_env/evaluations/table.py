"""An evaluation's results on a terminal: a row a task, worst first, then categories and headline.

A terminal gets the twenty tasks that matter most: the worst ones, and those that are furthest behind published models.
What is no terminal, such as a file, gets all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..metrics.outcomes import RIGHT
from ..runtime.terminal import UNLIMITED, print_table, width

ALL, COMPARABLE = "ALL TASKS", "COMPARABLE TASKS"
MOST = 20
"""Tasks that fit a screen."""
UNKNOWN = "-"
TASK, OF_RIGHT, TOKENS, WHY = "TASK", "95 % OF IT", "TOKENS", "NOT RIGHT"


def print_results(results: Mapping[str, Any]) -> None:
    """Print what results.json says; nothing where nothing was scored."""
    if not any(row["completions"] for row in results["tasks"].values()):
        return
    print(f"\n{_title(results)}\n")
    names = _shown(sorted(results["tasks"], key=lambda task: (results["tasks"][task].get("mean_score", 2.0), task)))
    rows = list(_rows(results, names))
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
    if len(names) < len(results["tasks"]):
        print(f"\nThe worst {MOST} of {len(results['tasks'])} tasks; results.json and the command `report` have all.")
    if results.get("published"):
        _print_published(results)
    for remark in results["remarks"]:
        print(f"\nNot as published: {remark}.")


def _title(results: Mapping[str, Any]) -> str:
    overall, fingerprint = results["overall"], results["fingerprint"]
    preset = f", {results['preset']}" if results.get("preset") else ""
    title = f"{results['model']}{preset}: {overall['problems']} problems of {overall['tasks']} tasks"
    return f"{title}, set {fingerprint[:12]}" if fingerprint else title


def _shown(tasks: Sequence[str]) -> Sequence[str]:
    return tasks if width() == UNLIMITED else tasks[:MOST]


def _rows(results: Mapping[str, Any], tasks: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield names and rows: these tasks, categories, a preset's comparable part and the headline."""
    categories = results["categories"].items()
    for task in tasks:
        row = results["tasks"][task]
        # Of which something differs from the published runs.
        mark = {"questions": "~", "scoring": "+"}.get(row.get("differs") or "")
        yield f"{task} {mark}" if mark else task, row
    if len(categories) > 1:
        yield from ((f"category:{name}", row) for name, row in categories)
    if results.get("comparable"):
        yield COMPARABLE, results["comparable"]
    yield ALL, results["overall"]


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
    """Print scores beside those of published models, the best of them first; tasks by how far they are behind it."""
    published: Mapping[str, Any] = results["published"]

    def behind(task: str) -> float:
        scores = [model["tasks"][task] for model in published.values() if task in model["tasks"]]
        return max(scores, default=0.0) - float(results["tasks"][task].get("library_score", 0.0))

    tasks = _shown(sorted(results["tasks"], key=lambda task: (-behind(task), task)))
    rows = list(_rows(results, tasks))
    headings = {model: means.get("short", model) for model, means in published.items()}
    room = width() - max(len(name) for name, _ in rows) - 7  # of a score and the two blanks before it
    shown = list(published)[: max(1, room // 8)]
    cells = [
        [name, _number(row.get("library_score")), *(_number(_published(published[model], name)) for model in shown)]
        for name, row in rows
    ]
    columns = [headings[model] for model in shown]
    print()
    print_table([TASK, "YOURS", *columns], cells, numbers=["YOURS", *columns])
    print(f"""
YOURS: the library's own score (plain verifier, last answer), as published; the published models by their score over
{COMPARABLE}: those with the questions and the scoring of the published runs
~  other questions than published: the library has changed    +  the same questions, scored otherwise since""")
    for model in shown:
        print(f"  {headings[model]:7} {model} {_number(published[model]['comparable'])}")
    if len(tasks) < len(results["tasks"]):
        print(f"The {MOST} tasks furthest behind the best of them; results.json and the command `report` have all.")


def _published(model: Mapping[str, Any], row: str) -> float | None:
    if row in (ALL, COMPARABLE):
        score = model["overall" if row == ALL else "comparable"]
    else:
        category = row.removeprefix("category:")
        score = model["tasks"].get(row.split()[0]) if category == row else model["categories"].get(category)
    return None if score is None else float(score)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _interval(ends: Sequence[float] | None) -> str:
    return UNKNOWN if ends is None else f"{ends[0]:.2f}-{ends[1]:.2f}"

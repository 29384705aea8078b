"""The results of an evaluation on a terminal: a row a task, worst first, then categories and the headline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..terminal import print_table, width
from .samples import RIGHT

ALL, IDENTICAL = "ALL TASKS", "IDENTICAL QUESTIONS"
UNKNOWN = "-"
NAME_COLUMNS, MODEL_COLUMNS = 40, 7
"""What the columns before the published models take, and each of these."""
LEGEND = """
SCORE, RIGHT: mean score, and share of completions that score 0.99 or more, with 95 % intervals (bootstrap over
problems; in the last rows over tasks, whose unweighted mean is given); TOKENS: mean of a completion"""
PUBLISHED_LEGEND = """
YOURS: the library's own score (plain verifier, last answer), as published; the models by their score over all tasks"""


def print_results(results: Mapping[str, Any]) -> None:
    """Print what results.json says; nothing where nothing was scored."""
    if not any(row["completions"] for row in results["tasks"].values()):
        return
    print(f"\n{_title(results)}\n")
    repeats = max(map(int, results["overall"].get("pass_at", {"1": 1})))
    extra = [f"PASS@{repeats}"] if repeats > 1 else []
    numbers = ["N", "SCORE", "95 %", "RIGHT", "95 % OF IT", *extra, "TOKENS"]
    print_table(["TASK", *numbers, "NOT RIGHT"], [_row(*row, repeats) for row in _rows(results)], numbers=numbers)
    print(LEGEND)
    if results.get("published"):
        _print_published(results)
    for remark in results["remarks"]:
        print(f"\nNot as published: {remark}.")


def _title(results: Mapping[str, Any]) -> str:
    overall, preset = results["overall"], results.get("preset")
    return (
        f"{results['model']}{f', {preset}' if preset else ''}: {overall['problems']} problems of {overall['tasks']} "
        f"tasks, set {results['fingerprint'][:12]}"
    )


def _rows(results: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield names and rows: tasks, worst first, categories, the headline and, with a preset, its comparable part."""
    tasks, categories = results["tasks"].items(), results["categories"].items()
    yield from sorted(tasks, key=lambda item: (item[1].get("mean_score", 2.0), item[0]))
    if len(categories) > 1:
        yield from ((f"category:{name}", row) for name, row in categories)
    yield ALL, results["overall"]
    if results.get("identical"):
        yield IDENTICAL, results["identical"]


def _row(name: str, row: Mapping[str, Any], repeats: int) -> list[str]:
    passes = [_number(row.get("pass_at", {}).get(str(repeats)))] if repeats > 1 else []
    tokens = row.get("tokens")
    why = [f"{word} {share:.0%}" for word, share in row.get("reasons", {}).items() if word != RIGHT]
    if row["failed"]:
        why.append(f"{row['failed']} completions failed")
    return [
        *(name, str(row["problems"])),
        *(_number(row.get("mean_score")), _interval(row.get("mean_score_interval"))),
        *(_number(row.get("accuracy")), _interval(row.get("accuracy_interval"))),
        *passes,
        UNKNOWN if tokens is None else f"{tokens:.0f}",
        ", ".join(why),
    ]


def _print_published(results: Mapping[str, Any]) -> None:
    published: Mapping[str, Any] = results["published"]
    shown = list(published)[: max(1, (width() - NAME_COLUMNS) // MODEL_COLUMNS)]
    letters = [chr(ord("A") + place) for place in range(len(shown))]
    rows = [
        [name, _number(row.get("library_score")), *(_number(_published(published[model], name)) for model in shown)]
        for name, row in _rows(results)
    ]
    print()
    print_table(["TASK", "YOURS", *letters], rows, numbers=["YOURS", *letters])
    print(PUBLISHED_LEGEND)
    for letter, model in zip(letters, shown, strict=True):
        print(f"  {letter} {model} {_number(published[model]['overall'])}")


def _published(model: Mapping[str, Any], row: str) -> float | None:
    if row == ALL:
        found = model["overall"]
    elif row == IDENTICAL:
        found = model["identical"]
    else:
        category = row.removeprefix("category:")
        found = model["tasks"].get(row) if category == row else model["categories"].get(category)
    return None if found is None else float(found)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _interval(ends: Sequence[float] | None) -> str:
    return UNKNOWN if ends is None else f"{ends[0]:.2f}-{ends[1]:.2f}"

"""Print an evaluation's results as a table: a row for each task (worst first), each category, and all tasks together.

A terminal shows only the worst twenty tasks. In the table of published results, the worst tasks are those in which this
model is furthest below the best published score. A file or pipe gets all tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from ..inference.token_limits import LIMIT_NAMES
from ..metrics.outcomes import RIGHT
from ..metrics.remarks import outcome_remarks
from ..runtime.terminal import UNLIMITED, print_table, width
from ..runtime.text import pluralize, printable
from .folder import PublishedMeans, Results
from .summary import SYSTEM_MESSAGE, TOKEN_LIMIT, ParameterChange, SentRequests, SummaryRow

ALL = "ALL TASKS"
COMPARABLE = "COMPARABLE TASKS"
MAX_TASKS = 20
"""Maximum number of tasks that a terminal shows."""
MANY_FAILED = 0.05
"""Above this share of failed completions, the scores do not represent the whole set."""
UNKNOWN = "-"
TASK_HEADING = "TASK"
RIGHT_INTERVAL = "RIGHT 95 %"
TOKENS = "TOKENS"
NOT_RIGHT = "NOT RIGHT"


def print_results(results: Results) -> None:
    """Print an evaluation's results as tables and remarks; print nothing if no completion was scored."""
    overall = results["overall"]
    if overall is None or not overall["completions"]:
        return
    print(f"\n{_title(results, overall)}\n")
    # Tasks without a score come last: 2.0 is above every score.
    names = _shown(sorted(results["tasks"], key=lambda task: (results["tasks"][task].get("mean_score", 2.0), task)))
    rows = list(_rows(results, overall, names))
    columns = _columns(rows, repeats=max(map(int, overall["pass_at"])))
    for dispensable in (RIGHT_INTERVAL, TOKENS):
        if _characters_left(columns) < 20:  # too narrow for the reasons in the last column
            columns.pop(dispensable, None)
    columns[NOT_RIGHT] = [_not_right(row, _characters_left(columns)) for _, row in rows]
    numbers = [name for name in columns if name not in (TASK_HEADING, NOT_RIGHT)]
    print_table(list(columns), zip(*columns.values(), strict=True), numbers=numbers)
    tokens = "; TOKENS: mean tokens of a completion" if TOKENS in columns else ""
    print(f"""
SCORE: mean score; RIGHT: share of completions that score 0.99 or more{tokens}
95 %: confidence interval, clustered by problem (bootstrap; Clopper-Pearson if all problems score the same)
The last rows are unweighted means over tasks, with intervals clustered by task""")
    if len(names) < len(results["tasks"]):
        print(f"\nThe worst {MAX_TASKS} of {len(results['tasks'])} tasks; results.json and `report` show all tasks.")
    if results.get("published"):
        _print_published(results, overall, results["published"])
    for remark in results["remarks"]:
        print(f"\nNot as published: {remark}.")
    for remark in not_as_requested(results):
        print(f"\nNot as requested: {remark}.")
    for remark in remarks(results):
        print(f"\n{remark}.")


def remarks(results: Results) -> list[str]:
    """Return sentences about likely mistakes in the set-up: many failed completions, or many with the same outcome."""
    overall = results["overall"]
    if overall is None:
        return []
    found = []
    if (failed := failed_share(overall)) > MANY_FAILED:
        found.append(
            f"{failed:.0%} of completions failed, because the server never returned them; the scores cover only the "
            "returned completions"
        )
    change = results["sent"]["changed"].get(TOKEN_LIMIT) if "sent" in results else None
    completion_tokens = (change and change["sent"]) or results["settings"].get("max_completion_tokens")
    tokens = completion_tokens or results["settings"].get("max_token_length")
    amount = f"{tokens:,} tokens" if isinstance(tokens, int) else "the server's own"
    limit = f"{amount}{'' if completion_tokens else ' for prompt and completion together'} (--max-tokens)"
    return [*found, *outcome_remarks(overall.get("reasons", {}), limit).values()]


def not_as_requested(results: Results) -> list[str]:
    """Return a sentence for each difference between the requested and the actual parameters and models.

    Omit sentences that are in `remarks` of results.json.
    """
    if "sent" not in results:
        return []
    sent = results["sent"]
    found = [*describe_changes(sent), *describe_models(sent, results["model"])]
    return [sentence for sentence in found if sentence not in results["remarks"]]


def describe_changes(sent: SentRequests) -> list[str]:
    """Return a sentence on each parameter that was not sent as requested."""
    return [_describe_change(name, change, sent["parameters"]) for name, change in sorted(sent["changed"].items())]


def _describe_change(name: str, change: ParameterChange, parameters: Mapping[str, Sequence[object]]) -> str:
    requested = show_values([change["requested"]])
    as_sent = show_values([change["sent"]])
    if name == SYSTEM_MESSAGE:
        return f"the server refused the system message; the text of this message was sent {change['sent']}"
    if name == TOKEN_LIMIT and change["sent"] is not None:
        limits = [limit for limit in (change["requested"], change["sent"]) if isinstance(limit, int)]
        was_raised = len(limits) == 2 and limits[0] < limits[1]
        more = "fewer" if was_raised else "more"
        return f"completions were limited to {as_sent} tokens, not {requested}, because the server refused {more}"
    if change["sent"] is not None:
        return f"{name} was sent as {as_sent}, not {requested}"
    some = "some " if any(value is not None for value in parameters.get(name, ())) else ""
    return f"{some}requests were sent without {name} (the setting is {requested}): the server refused this parameter"


def describe_models(sent: SentRequests, requested: str) -> list[str]:
    """Return a list of one sentence if replies name another model than the requested model; otherwise []."""
    others = [model for model in sent["models"] if model != requested]
    if not others:
        return []
    return [f"the requested model is {printable(requested, 100)}, but the server's replies name {', '.join(others)}"]


def values_as_sent(sent: SentRequests, name: str) -> list[JsonValue]:
    """Return the sent values of a parameter; [None] if it was not sent.

    For the name TOKEN_LIMIT, find the token limit under any of its names (LIMIT_NAMES).
    """
    names = LIMIT_NAMES if name == TOKEN_LIMIT else (name,)
    return next((sent["parameters"][each] for each in names if each in sent["parameters"]), [None])


def show_values(values: Sequence[object]) -> str:
    """Format a parameter's values for a sentence: `0.6` or, if some requests lack the parameter, `0.6 and nothing`."""
    return " and ".join("nothing" if value is None else _show(value) for value in values)


def _show(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(value if isinstance(value, str) else json.dumps(value), 100)


def failed_share(row: SummaryRow) -> float:
    """Return the share of completions that the server never returned."""
    return row["failed"] / max(1, row["failed"] + row["completions"])


def _title(results: Results, overall: SummaryRow) -> str:
    preset = f", {results['preset']}" if results["preset"] else ""
    problems = f"{pluralize(overall['problems'], 'problem')} of {pluralize(overall['tasks'], 'task')}"
    title = f"{results['model']}{preset}: {problems}"
    fingerprint = results["fingerprint"]
    return f"{title}, set {fingerprint[:12]}" if fingerprint else title


def _shown(tasks: Sequence[str]) -> Sequence[str]:
    return tasks if width() == UNLIMITED else tasks[:MAX_TASKS]


def _rows(results: Results, overall: SummaryRow, tasks: Sequence[str]) -> Iterator[tuple[str, SummaryRow]]:
    """Yield (name, row) for `tasks`, then for categories, COMPARABLE (with a preset) and ALL."""
    for task in tasks:
        row = results["tasks"][task]
        yield f"{task}{_change_mark(row)}", row
    if len(results["categories"]) > 1:
        for category, row in results["categories"].items():
            yield f"category:{category}", row
    if results.get("comparable"):
        yield COMPARABLE, results["comparable"]
    yield ALL, overall


def _change_mark(row: SummaryRow) -> str:
    """Return the mark for a task that has changed since the published runs; "" for other tasks."""
    match row.get("differs"):
        case "questions":
            return " ~"
        case "scoring":
            return " +"
        case _:
            return ""


def _columns(rows: Sequence[tuple[str, SummaryRow]], repeats: int) -> dict[str, list[str]]:
    """Return the columns of the table as lists of cells, by heading, without the last column (NOT_RIGHT)."""
    figures = [row for _, row in rows]
    columns = {
        TASK_HEADING: [name for name, _ in rows],
        "N": [str(row["problems"]) for row in figures],
        "SCORE": [_number(row.get("mean_score")) for row in figures],
        "95 %": [_interval(row.get("mean_score_interval")) for row in figures],
        "RIGHT": [_number(row.get("accuracy")) for row in figures],
        RIGHT_INTERVAL: [_interval(row.get("accuracy_interval")) for row in figures],
    }
    if repeats > 1:
        columns[f"PASS@{repeats}"] = [_number(row.get("pass_at", {}).get(str(repeats))) for row in figures]
    columns[TOKENS] = [_number(row.get("tokens"), digits=0) for row in figures]
    return columns


def _characters_left(columns: Mapping[str, Sequence[str]]) -> int:
    """Return how many characters of the line are left for a further column. Two spaces follow each column."""
    return width() - sum(2 + max(map(len, [heading, *cells])) for heading, cells in columns.items())


def _not_right(row: SummaryRow, room: int) -> str:
    """Return failures, missing problems and shares of wrong outcomes, in at most `room` characters."""
    words = []
    if row["failed"]:
        words.append(f"{row['failed']} failed")
    if row["not_made"]:
        words.append(f"{row['not_made']} not made")
    words += [f"{word} {share:.0%}" for word, share in row.get("reasons", {}).items() if word != RIGHT]
    while words and len(", ".join(words)) > room:
        words.pop()
    return ", ".join(words)


def _print_published(results: Results, overall: SummaryRow, published: Mapping[str, PublishedMeans]) -> None:
    """Print a table with a column for this model and for each published model, the best published model first.

    The first tasks are those in which this model is furthest below the best published score.
    """

    def behind(task: str) -> float:
        scores = [model["tasks"][task] for model in published.values() if task in model["tasks"]]
        return max(scores, default=0.0) - results["tasks"][task].get("library_score", 0.0)

    tasks = _shown(sorted(results["tasks"], key=lambda task: (-behind(task), task)))
    rows = list(_rows(results, overall, tasks))
    headings = {model: means["short"] for model, means in published.items()}
    room = width() - max(len(name) for name, _ in rows) - 7  # a score takes 5 characters, after two spaces
    shown = list(published)[: max(1, room // 8)]
    cells = [
        [name, _number(row.get("library_score")), *(_number(_published(published[model], name)) for model in shown)]
        for name, row in rows
    ]
    columns = [headings[model] for model in shown]
    print()
    print_table([TASK_HEADING, "YOURS", *columns], cells, numbers=["YOURS", *columns])
    print(f"""
YOURS: scores of your model; as in the published runs, the library's verifier scores each completion's last answer
{COMPARABLE}: mean over the tasks without ~ and +; the columns are sorted by this row
~  the questions have changed since the published runs    +  only the library's verifier has changed""")
    for model in shown:
        print(f"  {headings[model]:7} {model} {_number(published[model]['comparable'])}")
    if len(tasks) < len(results["tasks"]):
        print(f"The {MAX_TASKS} tasks in which your model is furthest behind the best published model.")
        print("The command `report` shows all tasks.")


def _published(model: PublishedMeans, row_name: str) -> float | None:
    """Return a published model's score for the row `row_name` of the table."""
    if row_name == ALL:
        return model["overall"]
    if row_name == COMPARABLE:
        return model["comparable"]
    if row_name.startswith("category:"):
        return model["categories"].get(row_name.removeprefix("category:"))
    task = row_name.split()[0]
    return model["tasks"].get(task)


def _number(value: float | None, digits: int = 3) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _interval(ends: Sequence[float] | None) -> str:
    return UNKNOWN if ends is None else f"{ends[0]:.2f}-{ends[1]:.2f}"

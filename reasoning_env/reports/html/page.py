"""The page of `report`: one HTML file with data, script and style."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import itertools
import json
import shlex
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

from ...dumps.format import DumpedGroup
from ...dumps.reader import SeenGroups
from ...errors import ConfigError
from ...evaluations.comparison import ComparisonData, RunScores, compare
from ...evaluations.folder import PublishedMeans, Results
from ...evaluations.summary import SummaryRow
from ...evaluations.table import not_as_requested
from ...metrics.outcomes import FORMAT_FAILURES, TRUNCATED
from ...prompts.thinking import TAGS, Thinking, named_thinking
from ...runtime.terminal import progress_bar
from ...runtime.text import printable
from ...settings import SYSTEM_PROMPT
from ...storage.files import replace_file
from ...tasks import find_task
from ..runs import StoredRun, distinct_ends, find_series
from .figures import PAGE_OUTCOMES, Figures, RunFigures
from .sample import RolloutSample, encode_messages, encode_rollout

DOCTYPE = b"<!doctype html>"
"""The first bytes of every page that this module writes."""


class PageRun(RunFigures):
    """The name, path and numbers of a run."""

    name: str
    path: str
    evaluation: bool
    facts: list[list[str]]
    """[name, value] of each property of an evaluation, such as its model, preset and settings."""
    published: PublishedScores | None


class PublishedModel(PublishedMeans):
    """The name and scores of a published model, from results.json."""

    name: str


class ComparableTasks(TypedDict):
    """The tasks whose questions and scoring are the same as in the published runs."""

    tasks: list[str]
    own: dict[str, float]


class PublishedScores(TypedDict):
    """Mean scores of published models and of the evaluated model (`own`) on the same tasks."""

    models: list[PublishedModel]
    own: dict[str, float]
    comparable: ComparableTasks


class Pair(ComparisonData):
    """A comparison of two runs. `a` and `b` are positions in the page's `runs`; tasks are positions in `tasks`."""

    a: int
    b: int


class Series(TypedDict):
    """The evaluations of a training: positions in the page's `runs`, in the order of the trainer's steps."""

    name: str
    runs: list[int]
    steps: list[int]


class PageData(TypedDict):
    """The page's data, as `assets/app.js` reads it. Each string of `groups` is JSON."""

    made: str
    notes: list[str]
    tasks: list[tuple[str, str]]
    """Name and category of each task."""
    outcomes: tuple[str, ...]
    forms: tuple[str, ...]
    """The outcomes of completions whose answer could not be scored: truncated, or with a format failure."""
    runs: list[PageRun]
    series: list[Series]
    comparisons: list[Pair]
    groups: list[str]


def check_page(path: Path, setting: str | None = None) -> None:
    """Raise ConfigError if a page cannot be written at the path, or would replace a file that is not a page."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", setting=setting, remedy="name a file")
    try:
        with path.open("rb") as file:
            start = file.read(len(DOCTYPE))
    except FileNotFoundError:
        return
    except OSError as error:
        fault = f"{path} cannot be read: {error.strerror}"
        raise ConfigError(fault, setting=setting, remedy="choose another file") from error
    if start and start.lower() != DOCTYPE:
        raise ConfigError(f"{path} exists, but is not an HTML page", setting=setting, remedy="choose another file")


def collect(runs: Sequence[StoredRun], program: str, sample_mb: float = 16.0) -> PageData:
    """Read all runs once and return the page's data, with up to `sample_mb` megabytes of sampled rollouts.

    `program` is the name of this program in the commands that the page shows.
    """
    sample = RolloutSample(int(sample_mb * 1_000_000))
    read: list[tuple[StoredRun, Figures]] = []
    seen = SeenGroups()
    for run in runs:
        number = len(read)
        figures = Figures(keep_problems=run.evaluation)
        with progress_bar(run.name, None) as advance:
            for group in run.groups(seen):
                figures.add(group)
                if group.rollouts:
                    sample.offer(number, group, functools.partial(_encode_group, number, program=program))
                advance()
        if figures.rollouts:
            read.append((run, figures))
    tasks = sorted({task for _, figures in read for task in figures.tasks})
    modules = {task: module for _, figures in read for task, module in figures.modules.items() if module is not None}
    categories = {task: modules.get(task) or find_task(task).category for task in tasks}
    series = _name_series([run for run, _ in read])
    return {
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "notes": [
            *(line for run in runs for line in run.faults),
            *(
                f"{run.name}: {share:.0%} of the questions of {task} are repeats; `tasks {task}` shows how many "
                "different questions the task has"
                for run, figures in read
                for task, share in figures.often_repeated.items()
            ),
            *(f"{run.name}: {remark}" for run, figures in read for remark in figures.remarks),
        ],
        "tasks": list(categories.items()),
        "outcomes": PAGE_OUTCOMES,
        "forms": (TRUNCATED, *FORMAT_FAILURES),
        "runs": [
            {
                "name": run.name,
                "path": printable(str(run.path)),
                "evaluation": run.evaluation,
                "facts": _facts(run.results),
                "published": _beside_published(run.results),
                **figures.result(tasks, categories),
            }
            for run, figures in read
        ],
        "series": series,
        "comparisons": _comparisons(read, tasks, _pairs(len(read), series)),
        "groups": sample.groups(),
    }


def _name_series(runs: Sequence[StoredRun]) -> list[Series]:
    """Return a Series for each training, and rename the evaluations to the training's name and the step.

    Trainings are named after their models. If two models are equal, the names are the ends of the folders' paths.
    If two folders are equal too, the names are model and number.
    """
    numbers = {id(run): number for number, run in enumerate(runs)}
    found = find_series(runs)
    names = [_model(of_training[0]) for of_training in found]
    if len(set(names)) < len(names):
        folders = distinct_ends([of_training[0].path.parent for of_training in found])
        names = folders if len(set(folders)) == len(folders) else [f"{name} ({n})" for n, name in enumerate(names, 1)]
    series: list[Series] = []
    for name, of_training in zip(names, found, strict=True):
        steps = [run.step for run in of_training if run.step is not None]
        for run in of_training:
            run.name = f"{name}, step {run.step}"
        series.append({"name": name, "runs": [numbers[id(run)] for run in of_training], "steps": steps})
    return series


def _model(run: StoredRun) -> str:
    """Return the last part of the model's name, as in the names of evaluation folders."""
    return "" if run.results is None else run.results["model"].rstrip("/").rpartition("/")[2]


def _pairs(runs: int, series: Sequence[Series]) -> list[tuple[int, int]]:
    """Return the pairs of evaluations to compare.

    An evaluation during a training is compared with the training's first evaluation and with the previous one. The last
    evaluations of all trainings, and the evaluations outside of trainings, are all compared with each other.
    """
    # Comparing all evaluations with each other would take minutes.
    inner = {run for of_training in series for run in of_training["runs"][:-1]}
    pairs = set(itertools.combinations([run for run in range(runs) if run not in inner], 2))
    for of_training in series:
        first, *later = of_training["runs"]
        pairs |= {(first, run) for run in later} | set(itertools.pairwise(of_training["runs"]))
    return sorted((min(pair), max(pair)) for pair in pairs)


def _comparisons(
    runs: Sequence[tuple[StoredRun, Figures]], tasks: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> list[Pair]:
    """Compare the two runs of each pair if they have problems in common. `pairs` has positions in `runs`."""
    numbers = {task: number for number, task in enumerate(tasks)}
    scored = [RunScores(run.path, run.results, figures.problems) for run, figures in runs]
    compared_pairs: list[Pair] = []
    for a, b in pairs:
        first, second = scored[a], scored[b]
        if first.can_be_compared(second):
            compared = compare(first, second).as_json()
            rows = [{**row, "task": numbers[str(row["task"])]} for row in compared["tasks"]]
            compared_pairs.append({**compared, "tasks": rows, "a": a, "b": b})
    return compared_pairs


def _facts(results: Results | None) -> list[list[str]]:
    """Return [name, value] of each property of an evaluation, such as its model; empty for a run without results."""
    if results is None:
        return []
    facts: list[tuple[str, object]] = []
    if not results["finished"]:
        facts.append(("state", "not finished"))
    facts += [
        ("model", results["model"]),
        ("preset", results["preset"]),
        ("step", results["step"]),
        ("started", results["started"]),
        ("fingerprint", results["fingerprint"]),
    ]
    for name in ("eval_temperature", "top_p", "max_completion_tokens", "eval_seed", "eval_level"):
        facts.append((name, results["settings"].get(name)))
    facts += results["versions"].items()
    overall = results["overall"]
    if overall is not None and overall.get("not_made"):
        facts.append(("problems not generated", overall["not_made"]))
    # Join the remarks, because the page compares properties of two evaluations by name, so each name must be unique.
    facts.append(("not as published", "; ".join(results["remarks"]) or None))
    facts.append(("not as requested", "; ".join(not_as_requested(results)) or None))
    return [[name, printable(str(value))] for name, value in facts if value is not None]


def _beside_published(results: Results | None) -> PublishedScores | None:
    """Return mean scores of published models and this model on the same tasks; None if no scores are published."""
    if results is None or results["overall"] is None or not results.get("published"):
        return None
    rows = results.get("tasks", {})
    return {
        "models": [{**means, "name": name} for name, means in results["published"].items()],
        "own": _own_scores(results["overall"]),
        "comparable": {
            "tasks": [task for task, row in rows.items() if row["completions"] and _is_as_published(row)],
            "own": _own_scores(results.get("comparable")),
        },
    }


def _is_as_published(row: SummaryRow) -> bool:
    """Return True if a task's questions and scoring are the same as in the published runs."""
    return "differs" in row and row["differs"] is None


def _own_scores(row: SummaryRow | None) -> dict[str, float]:
    """Return the scores of a summary row by the names that the page shows: `as published` and `strict`."""
    scores: dict[str, float] = {}
    if row is not None and "library_score" in row:
        scores["as published"] = row["library_score"]
    if row is not None and "mean_score" in row:
        scores["strict"] = row["mean_score"]
    return scores


def encode(data: PageData) -> bytes:
    """Return the page's data as JSON in ASCII."""
    rest = json.dumps({key: value for key, value in data.items() if key != "groups"}, allow_nan=False)
    return f'{rest[:-1]}, "groups": [{", ".join(data["groups"])}]}}'.encode("ascii")


def _encode_group(run: int, group: DumpedGroup, program: str) -> dict[str, object]:
    return {
        "run": run,
        "task": group.item_id,
        "seed": group.seed,
        "reference": group.reference,
        "item": group.item,
        "size": group.dataset_size,
        "time": group.time,
        "step": group.step,
        "index": group.index,
        "split": group.split,
        "level": group.level,
        "expected": group.expected_answer,
        "library": group.library_answer,
        "failed": group.failed,
        "params": json.dumps(group.params),
        "thinking": None if group.thinking_formats is None else ", ".join(group.thinking_formats) or "none",
        "marks": format_marks(TAGS if group.thinking_formats is None else named_thinking(group.thinking_formats)),
        "command": _command(group, program),
        "messages": encode_messages(group.prompt),
        "rollouts": [encode_rollout(rollout, group.prompt) for rollout in group.rollouts],
    }


def format_marks(thinking: Thinking) -> list[list[str | bool]]:
    """Return [opening mark, closing mark, has channels (as in gpt-oss), ignores case] for each thinking format."""
    return [
        [thinking_format.opening, thinking_format.closing, thinking_format.channels, thinking_format.any_case]
        for thinking_format in thinking.formats
    ]


def _command(group: DumpedGroup, program: str) -> str | None:
    """Return the command that shows a group's prompt; None if the group has neither a reference nor a seed."""
    system = group.prompt[0]["content"] if group.prompt and group.prompt[0]["role"] == "system" else ""
    prompt = [] if system == SYSTEM_PROMPT else ["--system_prompt", system]
    if group.reference is not None:
        return f"{program} {shlex.join(['tasks', group.reference, '--prompt', *prompt])}"
    if group.seed is None:
        return None
    if group.dataset_size:
        dataset = f"create_dataset({group.item_id!r}, seed={group.seed}, size={group.dataset_size}, **{group.params!r})"
        code = f"import reasoning_gym; print(reasoning_gym.{dataset}[{group.item or 0}]['question'])"
        return f"PYTHONHASHSEED=0 python -c {shlex.quote(code)}"
    words = ["tasks", group.item_id, "--prompt", "--seed", str(group.seed)]
    if group.params:  # `params` include the parameters of the level, so omit --level
        words += ["--params", json.dumps(group.params)]
    elif group.level is not None:
        words += ["--level", str(group.level)]
    return f"{program} {shlex.join([*words, *prompt])}"


def make_page(data: bytes) -> str:
    """Return the page that shows `data`, which is JSON in ASCII.

    The page contains the data as base64 of gzip, so no string in the data can become markup. The page's content
    security policy allows only the page's own script and style, by their hashes, and no connections.
    """
    assets = files(__package__) / "assets"

    def read(*names: str) -> str:
        return "\n".join((assets / name).read_text(encoding="utf-8") for name in names)

    style = read("uPlot.min.css", "style.css")
    script = read("uPlot.iife.min.js", "app.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = read("index.html")
    for name, value in {
        "POLICY": policy,
        "STYLE": style,
        "SCRIPT": script,
        "DATA": base64.b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii"),
    }.items():
        page = page.replace(f"%%{name}%%", value)
    return page


def write_page(path: Path, page: str) -> None:
    """Write the page to a temporary file, then rename the file. Raises ConfigError if writing or `check_page` fails."""
    check_page(path)
    try:
        replace_file(path, [page.encode()], mode=0o666)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}", remedy="choose another file") from error


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"

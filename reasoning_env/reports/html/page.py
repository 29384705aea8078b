"""The page of `report`: what runs hold, with its data, script and style in one file."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import itertools
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...dumps.reader import DumpedGroup
from ...errors import ConfigError
from ...evaluations.folder import RESULTS
from ...library_facts import category
from ...problems.references import without_release
from ...prompts.thinking import TAGS, Thinking, named_thinking
from ...runtime.terminal import progress_bar
from ...storage.files import replace_file
from ..comparison import NO_REFERENCES, ScoredRun, compare
from ..runs import StoredRun
from .figures import PAGE_OUTCOMES, Figures
from .sample import RolloutSample, encode_messages, encode_rollout


def refuse_to_overwrite(output: Path, runs: Sequence[StoredRun]) -> None:
    """Raise ConfigError where the page would replace a file that it is made from."""
    sources = {file.resolve() for run in runs for file in (*run.files, run.path / RESULTS)}
    if output.resolve() in sources:
        raise ConfigError(f"{output} is one of the files to report on; choose another file for the page")


def collect(
    runs: Sequence[StoredRun], program: str, sample_mb: float = 16.0, *, accuracy: bool = False
) -> dict[str, Any]:
    """Read all runs once and return the page's data; its `groups` are JSON texts already.

    With `accuracy`, runs are compared by their shares of right answers, and not by mean scores.
    """
    sample = RolloutSample(int(sample_mb * 1_000_000))
    read: list[tuple[StoredRun, Figures]] = []
    for run in runs:
        number, figures = len(read), Figures(keep_problems=run.evaluation, accuracy=accuracy)
        with progress_bar(run.name, None) as advance:
            for group in run.groups():
                figures.add(group)
                if group.rollouts:
                    sample.offer(number, group, functools.partial(_encode_group, number, program=program))
                advance()
        if figures.rollouts:
            read.append((run, figures))
    tasks = sorted({task for _, figures in read for task in figures.tasks})
    categories = {task: category(task) for task in tasks}
    return {
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "notes": [
            *(line for run in runs for line in run.faults),
            *(NO_REFERENCES.format(run.path) for run, figures in read if figures.lacks_references),
        ],
        "tasks": list(categories.items()),
        "outcomes": PAGE_OUTCOMES,
        "runs": [
            {
                "name": run.name,
                "path": str(run.path),
                "evaluation": run.evaluation,
                "facts": _facts(run.results),
                "published": _beside_published(run.results),
                **figures.result(tasks, categories),
            }
            for run, figures in read
        ],
        "compared": "accuracy" if accuracy else "mean score",
        "comparisons": _comparisons(read, tasks),
        "groups": sample.groups(),
    }


def _comparisons(runs: Sequence[tuple[StoredRun, Figures]], tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Return each pair of runs that have problems in common, numbered, with what `compare` says of these."""
    scored = [ScoredRun(run.path, run.results, figures.problems, figures.lacks_references) for run, figures in runs]
    pages = []
    for (a, first), (b, second) in itertools.combinations(enumerate(scored), 2):
        if first.can_be_compared(second):
            compared = compare(first, second)
            rows = [{**asdict(task), "task": tasks.index(task.task)} for task in compared.tasks]
            pages.append(
                {
                    "a": a,
                    "b": b,
                    "overall": asdict(compared.overall),
                    "tasks": rows,
                    "settings": list(compared.settings),
                    "different": list(compared.different),
                    "unpaired": compared.unpaired,
                }
            )
    return pages


def _facts(results: Mapping[str, Any]) -> list[list[str]]:
    """Return names and values of what tells evaluations apart; nothing for a run without results."""
    if not results:
        return []
    settings = ("eval_temperature", "eval_top_p", "max_completion_tokens", "eval_seed", "eval_level")
    facts = [("state", None if results["finished"] else "not finished")]
    facts += [(name, results[name]) for name in ("model", "preset", "step", "started", "fingerprint")]
    facts += [(name, results["settings"].get(name)) for name in settings]
    facts += results["versions"].items()
    facts += [("problems not made", (results["overall"] or {}).get("not_made") or None)]
    facts += [("not as published", remark) for remark in results["remarks"]]
    return [[name, str(value)] for name, value in facts if value is not None]


def _beside_published(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return mean scores of published models and of this model on the same tasks; None without any.

    `comparable` tells of the tasks whose questions and scoring are those of the published runs.
    """
    models = [
        {"name": name, "score": row["overall"], "comparable": row.get("comparable"), "tasks": row["tasks"]}
        for name, row in results.get("published", {}).items()
    ]
    if not models:
        return None
    rows: Mapping[str, Any] = results.get("tasks", {})
    same = [task for task, row in rows.items() if row["completions"] and row.get("differs", "unknown") is None]
    return {
        "models": models,
        "own": _own_scores(results["overall"]),
        "comparable": {"tasks": same, "own": _own_scores(results.get("comparable") or {})},
    }


def _own_scores(row: Mapping[str, Any]) -> dict[str, float]:
    scores = {"as published": row.get("library_score"), "strict": row.get("mean_score")}
    return {name: score for name, score in scores.items() if score is not None}


def encode(data: dict[str, Any]) -> bytes:
    """Return the page's data as JSON in ASCII."""
    rest = json.dumps({key: value for key, value in data.items() if key != "groups"}, allow_nan=False)
    return f'{rest[:-1]}, "groups": [{", ".join(data["groups"])}]}}'.encode("ascii")


def _encode_group(run: int, group: DumpedGroup, program: str) -> dict[str, Any]:
    prompt = tuple(group.rollouts[0].conversation[:-1])
    return {
        "run": run,
        "task": group.item_id,
        "seed": group.seed,
        "reference": None if group.reference is None else without_release(group.reference),
        "index": group.index,
        "split": group.split,
        "level": group.level,
        "expected": group.expected_answer,
        "failed": group.failed,
        "params": json.dumps(group.params),
        "thinking": None if group.thinking_formats is None else ", ".join(group.thinking_formats) or "none",
        "marks": format_marks(TAGS if group.thinking_formats is None else named_thinking(group.thinking_formats)),
        "command": _command(group, program),
        "messages": encode_messages(prompt),
        "rollouts": [encode_rollout(rollout, prompt) for rollout in group.rollouts],
    }


def format_marks(thinking: Thinking) -> list[list[Any]]:
    """Return opening and closing mark of each format, and whether it has channels and is compared in any case."""
    return [
        [thinking_format.opening, thinking_format.closing, thinking_format.channels, thinking_format.any_case]
        for thinking_format in thinking.formats
    ]


def _command(group: DumpedGroup, program: str) -> str | None:
    """Return the command that shows the problem again; None where the line does not say its seed."""
    if group.seed is None:
        return None
    if group.dataset_size:
        dataset = f"create_dataset({group.item_id!r}, seed={group.seed}, size={group.dataset_size}, **{group.params!r})"
        code = f"import reasoning_gym; print(reasoning_gym.{dataset}[{group.item or 0}]['question'])"
        return f"PYTHONHASHSEED=0 python -c {shlex.quote(code)}"
    words = ["tasks", group.item_id, "--prompt", "--seed", str(group.seed)]
    if group.params:  # what the level stands for is among them
        words += ["--params", json.dumps(group.params)]
    elif group.level is not None:
        words += ["--level", str(group.level)]
    return f"{program} {shlex.join(words)}"


def make_page(data: bytes) -> str:
    """Return the page that shows `data`, which is JSON in ASCII.

    The data are in it as base64 of gzip, so no text in them can be taken for markup. The policy allows this script and
    this style by their hashes, and no connection to anywhere.
    """
    assets = files(__package__) / "assets"

    def read(*names: str) -> str:
        return "\n".join((assets / name).read_text(encoding="utf-8") for name in names)

    style, script = read("uPlot.min.css", "style.css"), read("uPlot.iife.min.js", "app.js")
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
    """Write the file beside its path, then rename it; raises ConfigError where that is not possible."""
    try:
        replace_file(path, [page.encode()], mode=0o666)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; choose another file") from error


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"

"""An evaluation's folder, `{model}-{time}`: `samples.jsonl` and `results.json`.

**samples.jsonl** has a line for each problem, in the format of dumps. A line also has `key` (task and number),
`failed` (how many completions the server never returned), `dropped` (why the problem has no rollouts, or null) and
`sent` (the parameters of the requests; `SentRequests` describes its keys). A rollout also has `correct` (True for a
score of 0.99 or more), `seconds` (until the problem's completions arrived) and, with a preset, `library_score`. A line
is written when its problem is done. Problems without a completion are written last, after all problems were tried.

**results.json** is one object, written at the start and replaced at the end. `Results` describes its keys.

Only one process at a time writes to a folder, and a finished folder never changes. An evaluation with the same model,
server, step, preset, settings and versions resumes an unfinished folder and evaluates the missing problems. A folder
without results.json counts as unfinished; its file **samples.jsonl.header** stores these six properties.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired, cast

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic cannot read the TypedDict of Python 3.11

from ..dumps.format import DumpedGroup, DumpedRollout, read_group
from ..errors import ConfigError
from ..records import OPENING_TAG
from ..runtime.text import printable
from ..settings import changed_settings
from ..settings.removed import current_settings
from ..storage.files import InUseError, KeyedFile, output_errors, read_made_with, replace_file
from ..storage.reading import read_json
from ..storage.values import Count, FreeJson, Name, Number, describe
from .summary import SentRequests, SummaryRow, merge_records, no_requests

logger = logging.getLogger(__name__)

RESULTS = "results.json"
SAMPLES = "samples.jsonl"
FORMAT = 1
DEFAULT_FOLDER = "evals"
"""Folder of evaluations if no setting names a folder."""
FOLDER_SETTING = "data_dir_to_save_evals"


class MadeWith(TypedDict):
    """The identity of an evaluation. A new evaluation resumes an unfinished evaluation that has the same identity."""

    model: Name
    server: dict[Name, Name]
    """The inference server: its `type` and `base_url`."""
    step: Count | None
    """The trainer's step; null for an evaluation outside of `serve`."""
    preset: Name | None
    """The preset's name."""
    settings: dict[Name, FreeJson]
    """The settings that decide the problems and the sampling, such as `eval_seed` and `max_completion_tokens`."""
    versions: dict[Name, Name]
    """The versions of `reasoning_gym`, `python`, this package (the key is `environment`) and the task modules."""


class PublishedMeans(TypedDict):
    """Mean scores of a published model over the evaluated tasks."""

    short: Name
    """A short name of the model."""
    overall: Number
    """Mean score over all tasks."""
    comparable: Number | None
    """Mean score over the tasks whose questions and scoring have not changed since the published runs; null if no such
    task was evaluated."""
    categories: dict[Name, Number | None]
    tasks: dict[Name, Number]


class Results(MadeWith):
    """The content of results.json."""

    format: Count
    finished: bool
    """False until every problem has been evaluated or dropped."""
    started: Name
    """Local time, in ISO 8601."""
    seconds: Number
    """Time spent on the evaluation, including the time before an interruption."""
    problems: Count
    """Planned number of problems. At the end, problems that could not be generated are subtracted."""
    fingerprint: Name | None
    """A hash of the references of all problems of the set; null until the evaluation is finished."""
    remarks: list[Name]
    """Reasons why the scores are not comparable with published scores, a sentence each."""
    sent: NotRequired[SentRequests]
    """The parameters of requests as sent, and the models that answered. Results of earlier versions lack this key."""
    overall: SummaryRow | None
    """The statistics over all tasks; null until the evaluation ends or is interrupted."""
    categories: dict[Name, SummaryRow]
    tasks: dict[Name, SummaryRow]
    comparable: NotRequired[SummaryRow]
    """With a preset: statistics over the tasks that have not changed since the published runs."""
    published: NotRequired[dict[Name, PublishedMeans]]
    """With a preset: the mean scores of each published model, by the model's name."""


_RESULTS = TypeAdapter(Results)
_MADE_WITH = TypeAdapter(MadeWith)
_SENT = TypeAdapter(SentRequests)


class EvaluationFolder:
    """A folder that this process writes to. Every method blocks, so call it in a thread.

    `samples` has the lines of samples.jsonl by (task, number in the task). `spent_s` is the time that earlier processes
    took. `header` is the part of results.json that is known from the start.
    """

    def __init__(self, path: Path, header: Mapping[str, object], spent_s: float = 0.0) -> None:
        self.path = path
        self.spent_s = spent_s
        self.samples: dict[tuple[str, int], DumpedGroup] = {}
        self.sent = no_requests()
        """The `sent` values of all samples, merged (see `SentRequests`)."""
        self._header = header
        # A thread may still be writing a result when a cancelled evaluation closes the folder.
        self._lock = threading.Lock()
        samples = path / SAMPLES
        # The identity is also saved beside new samples, so that they can be resumed without results.json.
        made_with = None if samples.exists() else {name: header[name] for name in MadeWith.__annotations__}
        self._file = KeyedFile(samples, made_with, setting=FOLDER_SETTING, on_line=self._add)

    def append(self, task: str, number: int, line: bytes) -> DumpedGroup:
        """Append a problem's line. If the line cannot be written completely, write nothing and raise OutputError."""
        key = f"{task}/{number}"
        with self._lock:
            self._file.append(key, line)
            self._add(key, line)
            return self.samples[task, number]

    def write_results(self, results: Mapping[str, object], *, finished: bool) -> Results:
        """Write a new results.json and return its content; raises OutputError if it cannot be written."""
        document = {"format": FORMAT, "finished": finished, **self._header, **results}
        kept = f"{self.path / SAMPLES} has the samples of {len(self.samples)} of {document['problems']} problems"
        with output_errors(self.path / RESULTS, kept):
            replace_file(self.path / RESULTS, [json.dumps(document, indent=1, allow_nan=False).encode()])
        return cast(Results, document)

    def close(self) -> None:
        """Unlock the folder. Remove the folder if no problem is done, because reports would show an empty run."""
        with self._lock:
            if not self.samples:
                shutil.rmtree(self.path, ignore_errors=True)
            self._file.close()

    def _add(self, key: str, line: bytes) -> None:
        """Add a line's problem to `samples`, without its long strings. Raises ValueError for an invalid line."""
        task, _, number = key.rpartition("/")
        group = read_group(line)
        rollouts = tuple(_without_texts(rollout) for rollout in group.rollouts)
        if group.sent is not None:
            self.sent = merge_records(self.sent, _SENT.validate_python(group.sent))
        kept = replace(group, rollouts=rollouts, params={}, metadata={}, expected_answer=None, sent=None)
        self.samples[task, int(number)] = kept


def _without_texts(rollout: DumpedRollout) -> DumpedRollout:
    """Drop a rollout's messages, answer and thinking, but keep the first `<answer>` tag of the thinking."""
    tag = OPENING_TAG.search(rollout.thinking)  # `outcome` looks for the tag
    return replace(rollout, conversation=(), answer=None, thinking="" if tag is None else tag[0])


def read_results(folder: Path) -> Results:
    """Return the content of results.json; raises OSError, and ValueError for an unknown format or wrong types."""
    content = read_json(folder / RESULTS)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"the file does not contain evaluation results in format {FORMAT}")
    return _RESULTS.validate_python(content)


def load_results(path: Path) -> Results:
    """Return the content of results.json. Raises ConfigError in place of the errors of `read_results`."""
    try:
        return read_results(path)
    except OSError as error:
        fault = f"{path} is not an evaluation folder: {path / RESULTS}: {describe(error)}"
        raise ConfigError(fault, remedy="name a folder that `evaluate` or `serve` wrote") from error
    except ValueError as error:
        raise ConfigError(f"{path / RESULTS} cannot be read: {describe(error)}; name another folder") from error


def open_folder(
    root: Path, made_with: MadeWith, *, problems: int, remarks: Sequence[str], resume: bool
) -> EvaluationFolder:
    """Create a folder for an evaluation or, with `resume`, open the newest unfinished folder of the same evaluation.

    `problems` is the planned number of problems. Raises ConfigError if the folder cannot be created.
    """
    made_with = cast(MadeWith, json.loads(json.dumps(made_with)))  # lists in place of tuples, as in results.json
    header = {
        **made_with,
        "problems": problems,
        "remarks": list(remarks),
        "fingerprint": None,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    try:
        if resume:
            folder = _resume_newest(root, made_with, header)
            if folder is not None:
                return folder
        return _make(root, header)
    except OSError as error:
        raise ConfigError(
            f"cannot create a folder in {root} ({error.strerror})",
            setting=FOLDER_SETTING,
            remedy="name another folder",
        ) from error


def _resume_newest(root: Path, made_with: MadeWith, header: Mapping[str, object]) -> EvaluationFolder | None:
    """Open the newest unfinished folder with the same identity. Skip folders that another process writes to.

    If there is none, log how the model's newest unfinished evaluation differs from this one, and return None.
    """
    others: list[str] = []
    for path, found in _unfinished(root):
        by_present_names = {**found, "settings": current_settings(found["settings"])}
        if changed_settings(by_present_names, made_with):
            if found.get("model") == made_with["model"]:
                changed = ", ".join(sorted(changed_settings(_flat_identity(found), _flat_identity(made_with))))
                others.append(f"{path} is an unfinished evaluation with different settings ({printable(changed)})")
            continue
        with suppress(InUseError):
            earlier = {**header, "started": found.get("started", header["started"])}
            folder = EvaluationFolder(path, earlier, spent_s=found.get("seconds", 0.0))
            logger.info("resuming the evaluation in %s; problems already done: %d", path, len(folder.samples))
            return folder
    if others:
        logger.info("%s; this evaluation starts in a new folder", others[0])
    return None


def _flat_identity(made_with: Mapping[str, Any]) -> dict[str, object]:
    """Return the identity of an evaluation as one mapping, for comparison key by key."""
    return {
        **{name: made_with[name] for name in ("model", "step", "preset")},
        **made_with["settings"],
        **{f"server {name}": value for name, value in made_with["server"].items()},
        **{f"version of {name}": version for name, version in made_with["versions"].items()},
    }


def _make(root: Path, header: Mapping[str, object]) -> EvaluationFolder:
    root.mkdir(parents=True, exist_ok=True)
    model = re.sub(r"[^\w.-]+", "_", str(header["model"]), flags=re.ASCII).strip("._-")[:80] or "model"
    name = f"{model}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 1000):
        path = root / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            path.mkdir()
            folder = EvaluationFolder(path, header)
            folder.write_results({"seconds": 0.0, "overall": None, "categories": {}, "tasks": {}}, finished=False)
            return folder
    raise FileExistsError(0, f"{name} is taken")


def _unfinished(root: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the folder and the identity (see `MadeWith`) of each unfinished evaluation, the newest first.

    Read the identity from the file results.json. Without this file, read the file samples.jsonl.header.
    """
    unfinished: list[tuple[float, Path, Mapping[str, Any]]] = []
    for path in root.glob(f"*/{SAMPLES}"):
        with suppress(OSError, ValueError):  # not an evaluation's folder, or written by another version of this program
            try:
                found: Mapping[str, Any] = read_results(path.parent)
            except FileNotFoundError:
                found = _MADE_WITH.validate_python(read_made_with(path))
            if not found.get("finished"):
                unfinished.append((path.stat().st_mtime, path.parent, found))
    for _, folder, made_with in sorted(unfinished, key=lambda each: each[0], reverse=True):
        yield folder, made_with

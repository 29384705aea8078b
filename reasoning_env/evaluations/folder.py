"""An evaluation's folder, `{model}-{time}`: `samples.jsonl`, written as results come, `results.json`.

**samples.jsonl** has a line for each problem, in the format of dumps, with these keys more: of a line, `problem` (a
hash of question and answer), `failed` (how many completions the server never gave) and `dropped` (why, or null); of a
rollout, `tokens` (of the completion, or null), `correct` (a score of 0.99 or more), `seconds` (until the problem's
completions were there) and, with a preset, `library_score`. Problems without a completion come last, once all have been
tried.

**results.json** is one object, there from the start and replaced at the end:

- `format`: 1; `finished`: false until every problem was tried; `started`: local time; `seconds`: all time spent on it
- `model`, `server` (`type` and `base_url`), `step` (the trainer's, in `serve`), `preset` (its name, or null)
- `settings`: what decides the set and the sampling, `eval_seed` and `max_completion_tokens` among it
- `fingerprint`: a hash of all problems of the set, null before the end; `problems`: how many there are, or should be
- `versions`: of `reasoning_gym`, this `environment` and `python`
- `remarks`: sentences about what keeps figures from being compared
- `overall`, `categories`, `tasks`: rows of statistics, which `summary.py` describes; null and empty before the end
- with a preset, `identical`: the row over the tasks whose questions are those of the published runs; and `published`:
  by model `overall`, `identical`, `categories` and `tasks`, each a mean score over the same tasks

A folder is never written to by two processes, and never again once it is finished. One that is not is taken up by the
same evaluation (IDENTITY), which does what is missing.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..dumps.reader import DumpedGroup, read_group
from ..errors import ConfigError, ReasoningEnvError
from ..files import LineFile, replace_file

logger = logging.getLogger(__name__)

RESULTS, SAMPLES = "results.json", "samples.jsonl"
FORMAT = 1
IDENTITY = ("format", "model", "server", "preset", "settings", "versions", "step")
"""What is the same in two starts of one evaluation."""
NAME_CHARACTERS = 80
NEEDED = {*IDENTITY, "finished", "started", "seconds", "fingerprint", "remarks", "overall"}
"""Keys of results.json that readers take for granted."""


class EvalFolder:
    """A folder that this process writes; everything here blocks, so it belongs on a thread.

    `samples` are the problems that are done, by task and index, those of earlier starts included; a torn last line of
    these is cut off. `spent_s` is the time that earlier starts took.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], lines: LineFile, spent_s: float = 0.0) -> None:
        self.path = path
        self.spent_s = spent_s
        self.samples: dict[tuple[str, int], DumpedGroup] = {}
        self._about = about
        self._lines = lines
        # A result whose evaluation was cancelled may still be on its way.
        self._lock = threading.Lock()
        for line in lines.read():
            with suppress(ValueError, RecursionError):
                place, sample = _read_sample(line)
                self.samples[place] = sample
        lines.cut()

    def append(self, line: bytes) -> DumpedGroup:
        """Write a line; raises ReasoningEnvError when that fails, and then leaves none of it."""
        place, sample = _read_sample(line)
        with self._lock:
            try:
                self._lines.append(line)
            except OSError as error:
                raise ReasoningEnvError(
                    f"{self.path / SAMPLES} cannot be written ({error.strerror}); what it holds is kept, and the same "
                    "command goes on with the rest"
                ) from error
            self.samples[place] = sample
        return sample

    def write_results(self, found: Mapping[str, Any], *, finished: bool) -> dict[str, Any]:
        """Replace results.json and return what it says now; raises ReasoningEnvError."""
        document = {"format": FORMAT, "finished": finished, **self._about, **found}
        try:
            replace_file(self.path / RESULTS, [json.dumps(document, indent=1, allow_nan=False).encode()])
        except OSError as error:
            raise ReasoningEnvError(f"{self.path / RESULTS} cannot be written ({error.strerror})") from error
        return document

    def close(self) -> None:
        """Let go of the folder; remove it if no problem is done, as it would only be in the way of reports."""
        with self._lock:
            if not self.samples:
                shutil.rmtree(self.path, ignore_errors=True)
            self._lines.close()


def _read_sample(line: bytes) -> tuple[tuple[str, int], DumpedGroup]:
    """Return a problem's task and number, and what statistics need of its line, without its texts.

    Raises ValueError for a line that is none.
    """
    group = read_group(line)
    if group.index is None:
        raise ValueError("a problem without its number in the set")
    rollouts = tuple(replace(rollout, conversation=(), answer=None, thinking="") for rollout in group.rollouts)
    kept = replace(group, rollouts=rollouts, params={}, metadata={}, expected_answer=None)
    return (group.item_id, group.index), kept


def read_results(folder: Path) -> dict[str, Any]:
    """Return what results.json says; raises OSError, and ValueError for one that is none of this format."""
    found = json.loads((folder / RESULTS).read_bytes())
    if not isinstance(found, dict) or found.get("format") != FORMAT or not found.keys() >= NEEDED:
        raise ValueError(f"no results of an evaluation in format {FORMAT}")
    return found


def open_folder(root: Path, about: Mapping[str, Any], *, resume: bool) -> EvalFolder:
    """Make the folder of an evaluation or, with `resume`, take up the newest unfinished one of the same.

    `about` is what results.json says of it from the start. Raises ConfigError where there can be no folder.
    """
    about = json.loads(json.dumps({"format": FORMAT, **about}))
    try:
        for path, found in _unfinished(root) if resume else ():
            if all(found.get(name) == about.get(name) for name in IDENTITY):
                lines = LineFile.take(path / SAMPLES)
                if lines is not None:
                    about = {**about, "started": found["started"]}
                    folder = EvalFolder(path, about, lines, spent_s=found["seconds"])
                    logger.info("going on in %s, where %d problems are done", path, len(folder.samples))
                    return folder
        return _make(root, about)
    except OSError as error:
        raise ConfigError(
            f"data_dir_to_save_evals: no folder can be made in {root} ({error.strerror}); name another one"
        ) from error


def _make(root: Path, about: Mapping[str, Any]) -> EvalFolder:
    root.mkdir(parents=True, exist_ok=True)
    model = re.sub(r"[^\w.-]+", "_", str(about["model"]), flags=re.ASCII).strip("._-")[:NAME_CHARACTERS] or "model"
    name = f"{model}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 1000):
        path = root / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            path.mkdir()
            lines = LineFile.take(path / SAMPLES)
            assert lines is not None, "nobody else knows of it yet"
            folder = EvalFolder(path, about, lines)
            folder.write_results({"seconds": 0.0, "overall": None, "categories": {}, "tasks": {}}, finished=False)
            return folder
    raise FileExistsError(0, f"{name} is taken")


def _unfinished(root: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield folders of unfinished evaluations with what their results.json says, the newest first."""
    for path in sorted(root.glob(f"*/{RESULTS}"), key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError):
            found = read_results(path.parent)
            if not found["finished"]:
                yield path.parent, found

"""An evaluation's folder, `{model}-{time}`: `samples.jsonl`, written as results come, `results.json`.

**samples.jsonl** has a line for each problem, in the format of dumps. A line has these keys more: `key` (task and
number), `failed` (how many completions the server never gave) and `dropped` (why the problem has no rollouts, or null).
A rollout has more: `correct` (a score of 0.99 or more), `seconds` (until the problem's completions were there) and,
with a preset, `library_score`. A line is written when its problem is done; problems without a completion are written
last, once all have been tried.

**results.json** is one object, there from the start and replaced at the end:

- `format`: 1; `finished`: false until every problem was tried; `started`: local time; `seconds`: all time spent on it
- `model`, `server` (`type` and `base_url`), `step` (the trainer's, in `serve`), `preset` (its name, or null)
- `settings`: what decides the set and the sampling, `eval_seed` and `max_completion_tokens` among it
- `fingerprint`: a hash of the references of all problems of the set, null before the end
- `problems`: how many problems there are, or should be
- `versions`: of `reasoning_gym`, this `environment` and `python`
- `remarks`: sentences about what keeps figures from being compared
- `overall`, `categories`, `tasks`: rows of statistics, which `summary.py` describes; null and empty before the end
- with a preset, `comparable`: the row over the tasks whose questions and scoring are those of the published runs; in
  the row of each task `differs` (`questions`, `scoring`, or null); and `published`: by model `short` (its short name),
  `overall`, `comparable`, `categories` and `tasks`, each a mean score over the same tasks

A folder is never written to by two processes, and never again once it is finished. One that is not is taken up by the
same evaluation (of the same model, server, step, preset, settings and versions), which does what is missing.
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
from typing import Any

from ..dumps.format import DumpedGroup, read_group
from ..errors import ConfigError, ReasoningEnvError
from ..storage.files import KeyedFile, replace_file

logger = logging.getLogger(__name__)

RESULTS, SAMPLES = "results.json", "samples.jsonl"
FORMAT = 1


class EvalFolder:
    """A folder that this process writes; everything here blocks, so it belongs on a thread.

    `samples` are the problems that are done, by task and index, those of earlier starts included. `spent_s` is the time
    that earlier starts took. `header` is what results.json says from the start.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], spent_s: float = 0.0) -> None:
        self.path = path
        self.spent_s = spent_s
        self.samples: dict[tuple[str, int], DumpedGroup] = {}
        self._header = header
        # A result whose evaluation was cancelled may still be on its way when the folder is closed.
        self._lock = threading.Lock()
        file = KeyedFile.take(path / SAMPLES, self._add)
        if file is None:
            raise BlockingIOError(0, "another process writes to it", str(path))
        self._file = file

    def append(self, task: str, number: int, line: bytes) -> DumpedGroup:
        """Write a problem's line; raises ReasoningEnvError when that fails, and then leaves none of it."""
        key = f"{task}/{number}"
        with self._lock:
            try:
                self._file.append(key, line)
            except OSError as error:
                raise ReasoningEnvError(
                    f"{self.path / SAMPLES} cannot be written ({error.strerror}); what it holds is kept, and the same "
                    "command goes on with the rest"
                ) from error
            self._add(key, line)
            return self.samples[task, number]

    def write_results(self, results: Mapping[str, Any], *, finished: bool) -> dict[str, Any]:
        """Replace results.json and return what it says now; raises ReasoningEnvError."""
        document = {"format": FORMAT, "finished": finished, **self._header, **results}
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
            self._file.close()

    def _add(self, key: str, line: bytes) -> None:
        """Keep what statistics need of a line, without its texts; passes over one that is no group."""
        task, _, number = key.rpartition("/")
        with suppress(ValueError, RecursionError):
            group = read_group(line)
            rollouts = tuple(replace(rollout, conversation=(), answer=None, thinking="") for rollout in group.rollouts)
            kept = replace(group, rollouts=rollouts, params={}, metadata={}, expected_answer=None)
            self.samples[task, int(number)] = kept


def read_results(folder: Path) -> dict[str, Any]:
    """Return what results.json says; raises OSError, and ValueError for one that is none of this format."""
    results = json.loads((folder / RESULTS).read_bytes())
    needed = {"model", "server", "step", "preset", "settings", "versions", "finished", "started", "seconds"}
    needed |= {"fingerprint", "remarks", "overall"}
    if not isinstance(results, dict) or results.get("format") != FORMAT or not results.keys() >= needed:
        raise ValueError(f"no results of an evaluation in format {FORMAT}")
    return results


def open_folder(
    root: Path, made_with: Mapping[str, Any], *, problems: int, remarks: Sequence[str], resume: bool
) -> EvalFolder:
    """Make the folder of an evaluation or, with `resume`, take up the newest unfinished one of the same.

    `made_with` says which evaluation it is: model, server, step, preset, settings and versions; `problems` how many it
    should have. Raises ConfigError where there can be no folder.
    """
    made_with = json.loads(json.dumps(made_with))
    header = {
        **made_with,
        "problems": problems,
        "remarks": list(remarks),
        "fingerprint": None,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    try:
        for path, results in _unfinished(root) if resume else ():
            if all(results.get(name) == value for name, value in made_with.items()):
                with suppress(BlockingIOError):
                    folder = EvalFolder(path, {**header, "started": results["started"]}, spent_s=results["seconds"])
                    logger.info("going on in %s, where %d problems are done", path, len(folder.samples))
                    return folder
        return _make(root, header)
    except OSError as error:
        raise ConfigError(
            f"data_dir_to_save_evals: no folder can be made in {root} ({error.strerror}); name another one"
        ) from error


def _make(root: Path, header: Mapping[str, Any]) -> EvalFolder:
    root.mkdir(parents=True, exist_ok=True)
    model = re.sub(r"[^\w.-]+", "_", str(header["model"]), flags=re.ASCII).strip("._-")[:80] or "model"
    name = f"{model}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 1000):
        path = root / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            path.mkdir()
            folder = EvalFolder(path, header)
            folder.write_results({"seconds": 0.0, "overall": None, "categories": {}, "tasks": {}}, finished=False)
            return folder
    raise FileExistsError(0, f"{name} is taken")


def _unfinished(root: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield folders of unfinished evaluations with what their results.json says, the newest first."""
    for path in sorted(root.glob(f"*/{RESULTS}"), key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError):
            results = read_results(path.parent)
            if not results["finished"]:
                yield path.parent, results

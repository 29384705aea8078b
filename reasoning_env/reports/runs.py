"""Find the runs in files and folders, and read their groups."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..dumps.format import DumpedGroup, is_dump
from ..dumps.reader import DumpFormatError, SeenGroups, files_in, folders_of_files, list_files, stream_groups
from ..errors import ConfigError
from ..evaluations.folder import RESULTS, SAMPLES, Results, read_results
from ..runtime.text import printable
from ..storage.files import header_path
from ..storage.values import describe


@dataclass
class StoredRun:
    """A run: its name, its files of groups and, for an evaluation, its `results`.

    `name` and `faults` contain no control characters. `faults` has a sentence for each file with unreadable parts.
    """

    name: str
    path: Path
    files: list[Path]
    results: Results | None = None
    evaluation: bool = False
    faults: list[str] = field(default_factory=list)

    @property
    def step(self) -> int | None:
        """The trainer's step of an evaluation during a training; None for any other run."""
        return None if self.results is None else self.results["step"]

    def groups(self, seen: SeenGroups) -> Iterator[DumpedGroup]:
        """Yield the readable groups, except groups in `seen`. Add unreadable parts to `faults`."""
        for file in self.files:
            try:
                yield from stream_groups(file, strict=False, on_damage=self._note_damage, seen=seen)
            except OSError as error:
                self.add_fault(file, f"cannot be read ({describe(error)})")

    def _note_damage(self, error: DumpFormatError) -> None:
        self.faults.append(str(error))

    def add_fault(self, file: Path, what: str) -> None:
        """Append `FILE: what` to `faults`."""
        self.faults.append(f"{printable(str(file))}: {what}")


def find_runs(paths: Sequence[Path]) -> list[StoredRun]:
    """Return the runs in folders and files.

    - The dumps of a folder are one run, also if `paths` lists the files one after the other.
    - Each file of groups that `process` wrote is a run, even inside a folder.
    - If a folder has no files of groups, its subfolders are read instead.
    - A file that several paths name is read once.

    Raises ConfigError for a path that cannot be read, or that contains no file of groups.
    """
    runs: list[StoredRun] = []
    files_seen: set[str] = set()
    for path in paths:
        try:
            of_path = _runs_of(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {describe(error)}", remedy="pass a readable path") from error
        if not of_path:
            raise ConfigError(
                f"{path} contains no dumps and no evaluation: it has no .jsonl or .jsonl.gz files",
                remedy="pass a folder of dumps or evaluations, or output of `process`",
            )
        for run in of_path:
            run.files = [file for file in run.files if real_path(file) not in files_seen]
            files_seen.update(map(real_path, run.files))
        of_path = [run for run in of_path if run.files or run.faults]
        if not of_path:
            continue
        last = runs[-1] if runs and runs[-1].files else None
        if last and is_dump(path) and is_dump(last.files[-1]) and path.parent == last.files[-1].parent:
            last.name, last.path = _name(path.parent), path.parent
            last.files += of_path[0].files
        else:
            runs += of_path
    return _with_distinct_names(runs)


def _runs_of(path: Path) -> list[StoredRun]:
    if path.is_dir() and (folders := folders_of_files(path)) != [path]:
        return [run for folder in folders if (run := _read_subfolder(folder)) is not None]
    if path.name in (RESULTS, SAMPLES) and (path.parent / SAMPLES).exists():
        path = path.parent
    if path.is_dir() and not (path / SAMPLES).exists():
        files = files_in(path)
        processed = [file for file in files if header_path(file).exists()]
        others = [file for file in files if file not in processed]
        runs = [_read_run(file) for file in processed]
        if others:
            runs.append(_read_run(path, others))
        return runs
    return [_read_run(path)]


def _read_subfolder(folder: Path) -> StoredRun | None:
    """Return the run in a folder; None if there are no files. For an unreadable folder, return a run without files."""
    try:
        return _read_run(folder) if files_in(folder) else None
    except OSError as error:
        run = StoredRun(_name(folder), folder, [])
        run.add_fault(folder, f"cannot be read ({describe(error)})")
        return run


def _read_run(path: Path, files: list[Path] | None = None) -> StoredRun:
    results = path / RESULTS
    evaluation = (path / SAMPLES).exists()
    if evaluation:
        files = [path / SAMPLES]
    run = StoredRun(_name(path), path, files or list_files(path), evaluation=evaluation)
    if evaluation and results.exists():
        try:
            run.results = read_results(path)
        except (OSError, ValueError) as error:
            run.add_fault(results, f"cannot be read ({describe(error)})")
    return run


def find_series(runs: Sequence[StoredRun]) -> list[list[StoredRun]]:
    """Return the evaluations of each training that has several, in the order of steps.

    The evaluations of a training are in one folder and have the same model, preset and settings. If a later
    evaluation's step is not above the training's lowest step so far, a new training begins. If a step was evaluated
    several times, only the latest evaluation of the step is returned.
    """
    series: list[dict[int, StoredRun]] = []
    last: dict[str, dict[int, StoredRun]] = {}
    for run in sorted(runs, key=lambda run: "" if run.results is None else run.results["started"]):
        if run.results is None or run.step is None or not run.results["finished"]:
            continue
        same = repr([str(run.path.parent), *(run.results[name] for name in ("model", "preset", "settings"))])
        current = last.get(same)
        if current is None or run.step <= min(current):
            current = last[same] = {}
            series.append(current)
        current[run.step] = run  # a resumed training repeats steps
    return [[run for _, run in sorted(of_training.items())] for of_training in series if len(of_training) > 1]


def real_path(path: Path) -> str:
    """Return the path without symbolic links. Circular links stay; `Path.resolve` would raise an error for them."""
    return os.path.realpath(path)


def _name(path: Path) -> str:
    return printable(os.path.basename(real_path(path)))


def _with_distinct_names(runs: list[StoredRun]) -> list[StoredRun]:
    """If runs have equal names, rename each to the end of its path, just long enough that the names differ."""
    of_name: defaultdict[str, list[StoredRun]] = defaultdict(list)
    for run in runs:
        of_name[run.name].append(run)
    for same in of_name.values():
        for run, name in zip(same, distinct_ends([run.path for run in same]), strict=True):
            run.name = name
    return runs


def distinct_ends(paths: Sequence[Path]) -> list[str]:
    """Return the end of each path, just long enough that all ends differ, without control characters."""
    parts = [Path(real_path(path)).parts for path in paths]
    longest = max(map(len, parts))
    last = next((last for last in range(1, longest) if len({each[-last:] for each in parts}) == len(parts)), longest)
    return [printable(os.path.join(*each[-last:])) for each in parts]

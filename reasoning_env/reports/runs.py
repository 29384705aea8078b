"""Find the runs in files and folders, and read their groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..dumps.chat import KEEP, chat_path
from ..dumps.format import header_path, is_dump
from ..dumps.reader import DumpedGroup, DumpFormatError, list_files, stream_groups
from ..errors import ConfigError
from ..evaluations.folder import RESULTS, SAMPLES, Results, read_results


@dataclass
class StoredRun:
    """A run: its name, its files of groups and, for an evaluation, its `results`.

    `faults` has a sentence for each file that could not be read whole.
    """

    name: str
    path: Path
    files: list[Path]
    results: Results | None = None
    evaluation: bool = False
    faults: list[str] = field(default_factory=list)

    def groups(self) -> Iterator[DumpedGroup]:
        """Yield the readable groups; after the last group `faults` is complete."""
        for file in self.files:
            damage: list[DumpFormatError] = []
            read = 0
            try:
                for group in stream_groups(file, strict=False, on_damage=damage.append):
                    read += 1
                    yield group
            except OSError as error:
                self.faults.append(f"{file}: cannot be read ({error.strerror})")
            if damage:
                what = f"lines left out: {len(damage)}"
                if not read:
                    what = "holds no groups of rollouts that this version can read"
                self.faults.append(f"{file}: {what}; line {damage[0].line}: {damage[0].problem}")


def find_runs(paths: Sequence[Path]) -> list[StoredRun]:
    """Return a run for each folder and file.

    - Dumps of one folder, in a row among `paths`, are one run.
    - Each file of `process` is a run, in a folder too. The chat data beside the file is skipped.
    - A folder without files of groups stands for its subfolders.
    - A file that several paths name is read once.

    Raises ConfigError for a path that cannot be read or leads to no file of groups.
    """
    runs: list[StoredRun] = []
    files_seen: set[Path] = set()
    for path in paths:
        try:
            of_path = _runs_of(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        if not of_path:
            raise ConfigError(f"{path} holds no dumps and no evaluation: no file is named .jsonl or .jsonl.gz")
        for run in of_path:
            run.files = [file for file in run.files if file.resolve() not in files_seen]
            files_seen.update(file.resolve() for file in run.files)
        of_path = [run for run in of_path if run.files]
        if not of_path:
            continue
        last = runs[-1] if runs else None
        if last and is_dump(path) and is_dump(last.files[-1]) and path.parent == last.files[-1].parent:
            last.name, last.path = path.parent.resolve().name, path.parent
            last.files += of_path[0].files
        else:
            runs += of_path
    return _with_distinct_names(runs)


def _runs_of(path: Path) -> list[StoredRun]:
    if path.is_dir() and not list_files(path):
        folders = sorted(folder for folder in path.iterdir() if folder.is_dir())
        return [_read_run(folder) for folder in folders if list_files(folder)]
    if path.name in (RESULTS, SAMPLES) and (path.parent / SAMPLES).exists():
        path = path.parent
    if path.is_dir() and not (path / SAMPLES).exists():
        files = list_files(path)
        processed = [file for file in files if header_path(file).exists()]
        chat = {chat_path(file, keep) for file in processed for keep in KEEP}
        others = [file for file in files if file not in processed and file not in chat]
        runs = [_read_run(file) for file in processed]
        if others:
            runs.append(_read_run(path, others))
        return runs
    return [_read_run(path)]


def _read_run(path: Path, files: list[Path] | None = None) -> StoredRun:
    results = path / RESULTS
    evaluation = (path / SAMPLES).exists()
    if evaluation:
        files = [path / SAMPLES]
    run = StoredRun(path.resolve().name, path, files or list_files(path), evaluation=evaluation)
    if evaluation and results.exists():
        try:
            run.results = read_results(path)
        except (OSError, ValueError, RecursionError) as error:
            run.faults.append(f"{results}: cannot be read ({error})")
    return run


def _with_distinct_names(runs: list[StoredRun]) -> list[StoredRun]:
    times = Counter(run.name for run in runs)
    for run in runs:
        if times[run.name] > 1:
            run.name = str(run.path)
    return runs

"""Write dumps: take groups from the event loop, and append them in order on a thread of the writer's own.

The event loop never waits for the disk. Groups that cannot be written (disk full, folder gone) wait in memory in their
order, up to `max_waiting_bytes` of text, and are written when the disk has room again. Beyond the limit the newest
group is dropped and counted.

The name of a file contains the run's uuid, and numbers of existing files are passed over. So each file has one writer,
no file is overwritten, nothing is appended behind a torn line, and no locks are needed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from sys import getsizeof

from ..metrics.stats import DumpStats
from ..records import Group
from ..runtime.retries import OutageLog, pauses
from ..storage.files import LineFile
from .format import FAILED, PASSED, DumpKind, encode_group

logger = logging.getLogger(__name__)


class NumberedFiles:
    """New files of one kind, in the order of their numbers.

    Numbers of existing files are passed over. `written` counts the lines. One thread owns the object; every thread may
    read `written`.
    """

    def __init__(self, kind: DumpKind, folder: Path, run_uuid: str) -> None:
        self.written = 0
        self._kind = kind
        self._folder = folder
        self._run_uuid = run_uuid
        self._next_number = 0
        self._file: LineFile | None = None
        self._lines = 0

    def append(self, line: bytes) -> None:
        """Write a line. Raises OSError, and then leaves nothing of the line, so that the call may be repeated."""
        if self._file is not None and not self._file.in_place():
            logger.warning(
                "%s, with %d groups, was moved, removed or cut by another process; rollouts go on in a new file",
                self._file.path,
                self._lines,
            )
            self.close()
        if self._file is None:
            self._file = self._create()
        self._file.append(line)
        self._lines += 1
        self.written += 1
        if self._lines == self._kind.groups_per_file:
            logger.debug("%s is finished, with %d groups", self._file.path, self._lines)
            self.close()

    def close(self) -> None:
        """Close the open file, if any; the next line begins a new file."""
        if self._file is not None:
            with suppress(OSError):  # the system has every line
                self._file.close()
        self._file = None
        self._lines = 0

    def _create(self) -> LineFile:
        for number in count(self._next_number):
            path = self._kind.path(self._folder, self._run_uuid, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                file = LineFile.create(path)
                self._next_number = number + 1
                return file
        raise AssertionError("numbers have no end")


class RolloutDumper:
    """Writes groups to `folder`, each as one JSON line.

    With `dump_passed`, groups with any score above `score_threshold` go to
    `reasoning_gym_environment_rollouts_{run_uuid}_{number:04d}.jsonl`, 100 a file. With `dump_failed`, groups whose
    scores are all 0 go to `reasoning_gym_environment_FAILED_rollouts_{run_uuid}_{number:04d}.jsonl`, 50 a file.

    A line has the `time` at which its group was offered, in seconds since 1970, and the trainer's `step`: what `step`
    returns at that time, None without a trainer.

    No file is created before `start`; groups that are offered earlier wait for the start. Later errors of the disk are
    logged and counted, and never raised.
    """

    def __init__(
        self,
        folder: Path,
        run_uuid: str,
        *,
        dump_passed: bool,
        dump_failed: bool,
        score_threshold: float,
        max_waiting_bytes: int = 64 * 2**20,
        step: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.folder = folder
        self._dump_passed = dump_passed
        self._dump_failed = dump_failed
        self._score_threshold = score_threshold
        self._max_waiting_bytes = max_waiting_bytes
        self._step = step
        self._changed = threading.Condition()  # guards everything down to `_closing`
        self._waiting: deque[_Waiting] = deque()  # the group that is being written is the first
        self._waiting_bytes = 0
        self._dropped = 0
        self._closing = False
        self._outage = OutageLog(logger)
        self._dropping = OutageLog(logger)
        self._thread: threading.Thread | None = None
        self._passed = NumberedFiles(PASSED, folder, run_uuid)
        self._failed = NumberedFiles(FAILED, folder, run_uuid)

    def start(self) -> None:
        """Make the folder and start the thread; a second call does nothing. Raises OSError."""
        if self._thread is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # A daemon: a disk that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="rollout-writer", daemon=True)
        self._thread.start()

    def offer(self, group: Group) -> None:
        """Take the group if its scores choose a kind of dump. Returns at once: the caller's thread encodes nothing.

        A group that is offered after `close`, or while `max_waiting_bytes` wait, is dropped and counted.
        """
        files = self._files_for(group.scores)
        if files is None:
            return
        facts = {"time": round(time.time(), 3), "step": self._step()}
        waiting = _Waiting(files, _without_tokens(group), facts, _size_bytes(group))
        with self._changed:
            room = not self._closing and self._waiting_bytes < self._max_waiting_bytes
            if room:
                self._waiting.append(waiting)
                self._waiting_bytes += waiting.size_bytes
                self._changed.notify()
            else:
                self._dropped += 1
        if room:
            self._dropping.over("rollouts are kept for dumping again")
        else:
            reason = "the dumps are closed" if self._closing else "too many wait in memory already"
            self._dropping.note(f"rollouts are dropped: {reason}")

    def stats(self) -> DumpStats:
        """Return the counts so far, from any thread. A group may briefly count as both written and waiting."""
        with self._changed:
            return DumpStats(self._passed.written, self._failed.written, len(self._waiting), self._dropped)

    def close(self, timeout_s: float = 30.0) -> None:
        """Write the waiting groups and close the files; from a coroutine: `await asyncio.to_thread(dumper.close)`.

        Waits at most `timeout_s`. Groups that cannot be written in one last try are dropped, counted and logged. A
        second call waits again where the first one timed out, and otherwise does nothing.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.error(
                "rollouts were not all written to %s within %.1f s: %d groups still wait; is the disk hanging?",
                self.folder,
                timeout_s,
                self.stats().waiting,
            )

    def _files_for(self, scores: tuple[float, ...]) -> NumberedFiles | None:
        if self._dump_passed and any(score > self._score_threshold for score in scores):
            return self._passed
        if self._dump_failed and set(scores) == {0.0}:
            return self._failed
        return None

    def _work(self) -> None:
        """Write group after group, until `close` was called and no group waits. Runs on the writer's thread."""
        while (waiting := self._next()) is not None:
            written = self._write(waiting)
            with self._changed:
                self._waiting.popleft()
                self._waiting_bytes -= waiting.size_bytes
                if not written:
                    self._dropped += 1
        self._passed.close()
        self._failed.close()
        if self._dropped:
            logger.error("%d groups of rollouts were dropped in this run", self._dropped)

    def _next(self) -> _Waiting | None:
        """Wait for the oldest group, which stays in the queue until it was written or dropped. None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting[0] if self._waiting else None

    def _write(self, waiting: _Waiting) -> bool:
        """Write a group, with retries until the disk takes the line. False for a group that must be dropped."""
        try:
            line = encode_group(waiting.group, more=waiting.facts)
        except Exception:  # a single bad group must not end the thread
            logger.exception("a group of %s cannot be written as JSON and is dropped", waiting.group.problem.task)
            return False
        for pause_s in pauses():
            closing = self._closing  # read before the try, so that one whole try follows `close`
            try:
                waiting.files.append(line)
            except OSError as error:
                self._outage.note(f"rollouts cannot be written to {self.folder} ({error}) and wait in memory")
            else:
                self._outage.over(f"rollouts are written to {self.folder} again")
                return True
            if closing:
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._closing, pause_s)
        raise AssertionError("pauses have no end")


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A group that is not written yet, the files to which the group goes, and further keys of the line."""

    files: NumberedFiles
    group: Group
    facts: Mapping[str, object]
    size_bytes: int


def _without_tokens(group: Group) -> Group:
    """Return the group without its tokens and entry, which no dump shows, and which take megabytes."""
    rollouts = tuple(replace(rollout, tokens=(), masks=(), logprobs=None) for rollout in group.rollouts)
    return replace(group, problem=replace(group.problem, entry=b""), rollouts=rollouts)


def _size_bytes(group: Group) -> int:
    """Return about how much memory the group takes without its tokens, in bytes."""
    texts: list[str | None] = [group.problem.question, group.problem.metadata_json]
    texts += (message["content"] for message in group.messages)
    for rollout in group.rollouts:
        texts += [rollout.text, rollout.verdict.answer if rollout.verdict else None]
    objects_bytes = 1024 * len(group.rollouts)  # otherwise many short texts would count for almost nothing
    return sum(map(getsizeof, texts)) + objects_bytes

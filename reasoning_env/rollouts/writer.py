"""The dumps' writer: takes groups from the event loop and writes them on one thread of its own, in order.

Groups that cannot be written (disk full, folder gone) wait in memory in their order, up to MAX_WAITING_BYTES of text
over both streams, and are tried again with every later group and every RETRY_S. Beyond the limit the newest group is
the one that is lost, and counted. A group counts as written once the operating system has its line.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ConfigError
from ..records import Group
from .files import BatchFiles
from .lines import encode_group

logger = logging.getLogger(__name__)

PASSED_GROUPS_PER_FILE = 100
FAILED_GROUPS_PER_FILE = 50
MAX_WAITING_BYTES = 64 * 2**20
RETRY_S = 5.0
CLOSE_TIMEOUT_S = 30.0
_FILE_PREFIX = "reasoning_gym_environment"
_ROLLOUT_OVERHEAD_BYTES = 1024
"""What a waiting rollout's records cost beside their text, roughly, so that short texts cannot evade the limit."""


@dataclass(frozen=True)
class DumpStats:
    """What became of the groups that were chosen for dumping: each is written, waiting or lost.

    `passed_groups` and `failed_groups` are written, `files_finished` counts files under their final name.
    """

    passed_groups: int
    failed_groups: int
    files_finished: int
    waiting: int
    lost: int


class _Stream:
    """The files of one stream and the number of groups in them."""

    def __init__(self, folder: Path, name: str, groups_per_file: int) -> None:
        self.files = BatchFiles(folder, f"{_FILE_PREFIX}_{name}", groups_per_file)
        self.written = 0


@dataclass(frozen=True)
class _Waiting:
    stream: _Stream
    group: Group
    size_bytes: int


class RolloutDumper:
    """Writes groups to `folder`, each as one JSON line, in two streams.

    With `dump_passed`, groups with any score above `score_threshold` go to
    `reasoning_gym_environment_rollouts_{run_uuid}_{batch:04d}.jsonl`, 100 a file. With `dump_failed`, groups whose
    scores are all 0 go to `reasoning_gym_environment_FAILED_rollouts_{run_uuid}_{batch:04d}.jsonl`, 50 a file. Numbers
    start at 0. A file has the suffix `.part` until it is full or `close` is called.

    With both streams off there is no folder and no thread. Raises ConfigError when the folder cannot be created or
    written to; trouble that comes later is logged and counted, and never raised.
    """

    def __init__(
        self, folder: Path, run_uuid: str, *, dump_passed: bool, dump_failed: bool, score_threshold: float
    ) -> None:
        self._folder = folder
        self._dump_passed = dump_passed
        self._dump_failed = dump_failed
        self._score_threshold = score_threshold
        self._passed = _Stream(folder, f"rollouts_{run_uuid}", PASSED_GROUPS_PER_FILE)
        self._failed = _Stream(folder, f"FAILED_rollouts_{run_uuid}", FAILED_GROUPS_PER_FILE)
        self._changed = threading.Condition()  # guards the counts and everything down to `_closing`
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._lost = 0
        self._losing = False
        self._closing = False
        self._failing = False  # the writer thread's own
        self._thread: threading.Thread | None = None
        if dump_passed or dump_failed:
            _make_folder(folder)
            # A daemon, so that a disk that hangs cannot keep the process from ending.
            self._thread = threading.Thread(target=self._work, name="rollout-writer", daemon=True)
            self._thread.start()

    def offer(self, group: Group) -> None:
        """Take the group if its scores ask for it. Returns at once: nothing is encoded or written on this thread.

        A group that comes after `close`, or while too much is waiting, is lost and counted.
        """
        for stream in self._streams_for(group.scores):
            self._enqueue(stream, group)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write what waits and finish the files; from a coroutine: `await asyncio.to_thread(dumper.close)`.

        Waits at most `timeout_s`. What cannot be written in one last try is lost, counted and logged. May be called
        again, to no effect or to wait longer.
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
                self._folder,
                timeout_s,
                self.stats().waiting,
            )

    def stats(self) -> DumpStats:
        """The counts so far; from any thread."""
        with self._changed:
            return DumpStats(
                passed_groups=self._passed.written,
                failed_groups=self._failed.written,
                files_finished=self._passed.files.finished + self._failed.files.finished,
                waiting=len(self._waiting),
                lost=self._lost,
            )

    def _streams_for(self, scores: tuple[float, ...]) -> Iterable[_Stream]:
        if self._dump_passed and any(score > self._score_threshold for score in scores):
            yield self._passed
        if self._dump_failed and set(scores) == {0.0}:
            yield self._failed

    def _enqueue(self, stream: _Stream, group: Group) -> None:
        waiting = _Waiting(stream, _without_tokens(group), _size_bytes(group))
        with self._changed:
            accepted = not self._closing and self._waiting_bytes < MAX_WAITING_BYTES
            first_loss = not accepted and not self._losing
            if accepted:
                self._waiting.append(waiting)
                self._waiting_bytes += waiting.size_bytes
                self._changed.notify()
            else:
                self._lost += 1
                self._losing = True
        if first_loss:
            logger.error(
                "rollouts are being lost: %s",
                "the dumps are closed" if self._closing else "as much as may wait in memory is waiting already",
            )

    def _work(self) -> None:
        """The writer thread: one group after the other until `close` was called and none is left."""
        while (waiting := self._oldest()) is not None:
            last_try = self._closing
            line = _encoded(waiting.group)
            if line is None:
                self._retire(waiting, written=False)
            elif self._written(waiting.stream, line):
                self._retire(waiting, written=True)
                self._finish_when_full(waiting.stream)
            elif last_try:
                self._retire(waiting, written=False)
            else:
                self._pause()
        self._finish_all()

    def _oldest(self) -> _Waiting | None:
        """The group that is next, left in the queue until it is dealt with; None at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return self._waiting[0] if self._waiting else None

    def _written(self, stream: _Stream, line: bytes) -> bool:
        try:
            stream.files.append(line)
        except OSError as error:
            self._note_failure(error)
            return False
        self._note_success()
        return True

    def _finish_when_full(self, stream: _Stream) -> None:
        if stream.files.full:
            try:
                stream.files.finish()
            except OSError as error:  # tried again before the stream's next line, and at the end
                self._note_failure(error)

    def _finish_all(self) -> None:
        for stream in (self._passed, self._failed):
            try:
                stream.files.finish()
            except OSError as error:
                gone = stream.files.release()
                with self._changed:
                    stream.written -= gone
                    self._lost += gone
                fate = "are lost with it" if gone else "stay in it"
                logger.error("%s could not be finished (%s): its groups %s", stream.files.part, error, fate)
        if self._lost:
            logger.error("%d groups of rollouts were lost in this run", self._lost)

    def _retire(self, waiting: _Waiting, *, written: bool) -> None:
        with self._changed:
            self._waiting.popleft()
            self._waiting_bytes -= waiting.size_bytes
            if written:
                waiting.stream.written += 1
            else:
                self._lost += 1
            if not self._waiting:
                self._losing = False

    def _pause(self) -> None:
        """Wait for the next group, the end or the next try."""
        with self._changed:
            if not self._closing:
                self._changed.wait(RETRY_S)

    def _note_failure(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            logger.error(
                "rollouts cannot be written to %s (%s): they wait in memory, at most %d MiB, until it has space and "
                "can be written to; then writing goes on by itself",
                self._folder,
                error,
                MAX_WAITING_BYTES // 2**20,
            )

    def _note_success(self) -> None:
        if self._failing:
            self._failing = False
            logger.info("rollouts are written to %s again; %d groups were lost so far", self._folder, self._lost)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder for rollout dumps cannot be created: {folder} ({error.strerror}); "
            "choose one that can, or switch both dumps off"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the folder for rollout dumps is not writable: {folder}; change its permissions, choose another one, "
            "or switch both dumps off"
        )


def _encoded(group: Group) -> bytes | None:
    """The group's line, or None, with an error in the log, for a group that cannot be written at all."""
    try:
        return encode_group(group)
    except Exception:  # whatever one group holds, the thread must live on for the others
        logger.exception("a group of %s cannot be written as JSON and is lost", group.problem.task)
        return None


def _without_tokens(group: Group) -> Group:
    """The group without what a dump does not show, so that one that waits does not hold megabytes of numbers."""
    rollouts = tuple(replace(rollout, tokens=(), masks=(), logprobs=None) for rollout in group.rollouts)
    return replace(group, problem=replace(group.problem, entry=b""), rollouts=rollouts)


def _size_bytes(group: Group) -> int:
    """About how much memory the group takes without its tokens."""
    texts = [group.problem.question, group.problem.metadata_json]
    texts += (message["content"] for message in group.messages)
    for rollout in group.rollouts:
        texts.append(rollout.text)
        if rollout.verdict is not None and rollout.verdict.answer is not None:
            texts.append(rollout.verdict.answer)
    return sum(map(sys.getsizeof, texts)) + _ROLLOUT_OVERHEAD_BYTES * len(group.rollouts)

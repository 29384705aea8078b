"""The dumps' writer: takes groups from the event loop and writes them, in order, on its own thread.

Groups are committed together: the thread takes all that came within COMMIT_DELAY_S, writes the lines of each kind with
one call, syncs the file, and only then are these groups settled.

Groups that cannot be written (disk full, folder gone) wait in memory in their order, up to MAX_WAITING_BYTES of text,
and are tried again every RETRY_S. Beyond the limit the newest group is dropped, and counted. Nobody waits for a disk
that refuses: from the first failure until writing works again, every group counts as settled.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from sys import getsizeof

from ..errors import ConfigError
from ..outage_log import OutageLog
from ..records import DumpStats, Group
from .files import DumpFiles
from .format import FAILED, PASSED, encode_group

logger = logging.getLogger(__name__)

MAX_WAITING_BYTES = 64 * 2**20
COMMIT_DELAY_S = 0.02
"""How long a group waits for others to share its commit; little beside the seconds that its completions take."""
ROLLOUT_OVERHEAD_BYTES = 1024
"""About what a waiting rollout costs beside its text, so that short texts cannot evade the limit."""
RETRY_S = 2.0
CLOSE_TIMEOUT_S = 30.0
PATIENCE_S = 10.0
"""How long a disk may take for a group without an error before nobody waits for it."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A group that is not on the disk yet; `settled` is done when nobody has to wait for it any longer."""

    files: DumpFiles
    group: Group
    size_bytes: int
    settled: Future[None]


class RolloutDumper:
    """Writes groups to `folder`, each as one JSON line.

    With `dump_passed`, groups with any score above `score_threshold` go to
    `reasoning_gym_environment_rollouts_{run_uuid}_{number:04d}.jsonl`, 100 a file. With `dump_failed`, groups whose
    scores are all 0 go to `reasoning_gym_environment_FAILED_rollouts_{run_uuid}_{number:04d}.jsonl`, 50 a file. Numbers
    start at 0, and those of files that exist are passed over.

    Nothing is made before `start`; groups that are offered earlier wait for it. Trouble with the disk that comes later
    is logged and counted, and never raised.
    """

    def __init__(
        self, folder: Path, run_uuid: str, *, dump_passed: bool, dump_failed: bool, score_threshold: float
    ) -> None:
        self._folder = folder
        self._dump_passed = dump_passed
        self._dump_failed = dump_failed
        self._score_threshold = score_threshold
        self._changed = threading.Condition()  # guards the counts and everything down to `_closing`
        self._waiting: deque[_Waiting] = deque()  # with those that are being written, at its front
        self._waiting_bytes = 0
        self._newest = _new_future(done=True)
        self._dropped = 0
        self._refused = False
        self._closing = False
        self._hung: Future[None] | None = None
        self._outage = OutageLog(logger)
        self._dropping = OutageLog(logger)
        self._thread: threading.Thread | None = None
        self._passed = DumpFiles(folder, PASSED, run_uuid)
        self._failed = DumpFiles(folder, FAILED, run_uuid)

    def start(self) -> None:
        """Make the folder and start the thread, unless that has happened.

        Raises ConfigError for a folder that cannot be made or written to.
        """
        if self._thread is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self._folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise ConfigError(
                f"rollouts cannot be dumped to {self._folder}: {error.strerror}; "
                "name a folder that can be made and written to (data_dumps_dir), or switch both dumps off"
            ) from error
        # A daemon, so that a disk that hangs cannot keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="rollout-writer", daemon=True)
        self._thread.start()

    def offer(self, group: Group) -> None:
        """Take the group if its scores ask for it. Returns at once: this thread encodes and writes nothing.

        A group that comes after `close`, or while too much is waiting, is dropped and counted.
        """
        files = self._files_for(group.scores)
        if files is None:
            return
        size_bytes, kept = _size_bytes(group), _without_tokens(group)
        with self._changed:
            room = not self._closing and self._waiting_bytes < MAX_WAITING_BYTES
            if room:
                self._newest = _new_future(done=self._refused)
                self._waiting.append(_Waiting(files, kept, size_bytes, self._newest))
                self._waiting_bytes += size_bytes
                if len(self._waiting) == 1:
                    self._changed.notify()
            else:
                self._dropped += 1
        if room:
            self._dropping.over("rollouts are kept for dumping again")
        else:
            reason = "the dumps are closed" if self._closing else "as much as may wait in memory waits already"
            self._dropping.note(f"rollouts are dropped: {reason}")

    def settled(self) -> Future[None]:
        """Return what is done as soon as all groups taken so far are on disk, or need not be waited for.

        It never raises and cannot be cancelled. A disk that hangs without an error leaves it open.
        """
        with self._changed:
            return self._newest

    async def wait_settled(self) -> None:
        """Wait for `settled`, at most PATIENCE_S, and not at all while the disk hangs, which is logged."""
        if self._hung is not None and not self._hung.done():
            return
        settled = self.settled()
        if settled.done() or (await asyncio.wait([asyncio.wrap_future(settled)], timeout=PATIENCE_S))[0]:
            return
        if self._hung is None or self._hung.done():
            self._hung = settled
            logger.error("rollouts were not written within %g s; groups do not wait for the disk now", PATIENCE_S)

    def stats(self) -> DumpStats:
        """Return the counts so far, from any thread; a group may briefly count as written and as waiting."""
        with self._changed:
            return DumpStats(self._passed.written, self._failed.written, len(self._waiting), self._dropped)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Write what waits and close the files; from a coroutine: `await asyncio.to_thread(dumper.close)`.

        Waits at most `timeout_s`. What cannot be written in one last try is dropped, counted and logged. May be called
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

    def _files_for(self, scores: tuple[float, ...]) -> DumpFiles | None:
        if self._dump_passed and any(score > self._score_threshold for score in scores):
            return self._passed
        if self._dump_failed and set(scores) == {0.0}:
            return self._failed
        return None

    def _work(self) -> None:
        """Write batch after batch until `close` was called and nothing waits; what the thread does."""
        while batch := self._next_batch():
            refused = [*self._write(self._passed, batch), *self._write(self._failed, batch)]
            self._conclude(batch, refused)
        self._passed.close()
        self._failed.close()
        if self._dropped:
            logger.error("%d groups of rollouts were dropped in this run", self._dropped)

    def _next_batch(self) -> Sequence[_Waiting]:
        """Return the groups that are next, left in the queue until they are dealt with; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(lambda: self._closing, RETRY_S if self._refused else COMMIT_DELAY_S)
            if self._refused:  # one is enough to find out, and may fit where several together do not
                return list(islice(self._waiting, 1))
            return list(self._waiting)

    def _write(self, files: DumpFiles, batch: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Write the groups of one kind, file by file; returns those that the disk refuses."""
        groups = [waiting for waiting in batch if waiting.files is files]
        while groups:
            part = groups[: files.room]
            lines = [line for line in (_encoded(waiting.group) for waiting in part) if line]
            try:
                files.append(lines)
            except OSError as error:
                self._outage.note(f"rollouts cannot be written to {self._folder} ({error}) and wait in memory")
                break
            del groups[: len(part)]
            with self._changed:
                self._dropped += len(part) - len(lines)
        return groups

    def _conclude(self, batch: Sequence[_Waiting], refused: Sequence[_Waiting]) -> None:
        """Take the batch out of the queue, but for refused groups that can be tried again."""
        kept = [] if self._refused and self._closing else refused
        with self._changed:
            for _ in batch:
                self._waiting.popleft()
            self._waiting.extendleft(reversed(kept))
            self._waiting_bytes += sum(one.size_bytes for one in kept) - sum(one.size_bytes for one in batch)
            self._dropped += len(refused) - len(kept)
            self._refused = bool(refused)
            settled = [*batch, *self._waiting] if refused else batch
        for waiting in settled:
            if not waiting.settled.done():
                waiting.settled.set_result(None)
        if not refused:
            self._outage.over(f"rollouts are written to {self._folder} again")


def _encoded(group: Group) -> bytes | None:
    """Return the group's line; None, with an error in the log, for a group that cannot be encoded."""
    try:
        return encode_group(group)
    except Exception:  # whatever one group holds, the thread must live on for the others
        logger.exception("a group of %s cannot be written as JSON and is dropped", group.problem.task)
        return None


def _without_tokens(group: Group) -> Group:
    """Return the group without what no dump shows, or waiting groups would hold megabytes of numbers."""
    rollouts = tuple(replace(rollout, tokens=(), masks=(), logprobs=None) for rollout in group.rollouts)
    return replace(group, problem=replace(group.problem, entry=b""), rollouts=rollouts)


def _size_bytes(group: Group) -> int:
    """About how much memory the group takes without its tokens."""
    texts: list[str | None] = [group.problem.question, group.problem.metadata_json]
    texts += (message["content"] for message in group.messages)
    for rollout in group.rollouts:
        texts += [rollout.text, rollout.verdict.answer if rollout.verdict else None]
    return sum(map(getsizeof, texts)) + ROLLOUT_OVERHEAD_BYTES * len(group.rollouts)


def _new_future(*, done: bool) -> Future[None]:
    future: Future[None] = Future()
    # Running, it cannot be cancelled: a caller that stops waiting must not take it from the others.
    future.set_running_or_notify_cancel()
    if done:
        future.set_result(None)
    return future

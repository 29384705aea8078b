"""The dumps' writer: takes groups from the event loop and writes them on one thread of its own, in order.

Groups are committed together: the thread takes all that came within COMMIT_DELAY_S, writes the lines of each kind with
one call, syncs the file, and only then completes the future of these groups.

Groups that cannot be written (disk full, folder gone) wait in memory in their order, up to MAX_WAITING_BYTES of text,
and are tried again every RETRY_S. Beyond the limit the newest group is dropped, and counted. Nobody has to wait for a
disk that refuses: from the first failure until writing works again, futures are done at once.
"""

from __future__ import annotations

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
from typing import TypedDict

from ..errors import ConfigError
from ..records import DumpStats, Group
from .files import DumpFiles
from .format import FAILED, PASSED, encode_group

logger = logging.getLogger(__name__)

MAX_WAITING_BYTES = 64 * 2**20
COMMIT_DELAY_S = 0.02
"""How long a group waits for others to share its commit; little beside the seconds that its completions take."""
WHOLE_GROUPS = 16
"""How many groups may wait with their tokens; taking those off costs more than a short wait with them."""
ROLLOUT_OVERHEAD_BYTES = 1024
"""About what a waiting rollout costs beside its text, so that short texts cannot evade the limit."""
RETRY_S = 2.0
CLOSE_TIMEOUT_S = 30.0
FREEZE_TIMEOUT_S = 1.0


class DumpState(TypedDict):
    """What a checkpoint keeps, fit for JSON: the name of the run and the number of each kind's next file."""

    run_uuid: str
    passed: int
    failed: int


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A group that is not on the disk yet; `commit` is done when nobody has to wait for it any longer."""

    files: DumpFiles
    group: Group
    size_bytes: int
    commit: Future[None]


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
        self._commit = _new_future()  # of the groups that come now
        self._newest = _complete(_new_future())
        self._dropped = 0
        self._dropping = False
        self._failing = False
        self._closing = False
        self._touching = threading.Lock()  # held by the thread while it changes a file
        self._frozen = False
        self._thread: threading.Thread | None = None
        self.resume({"run_uuid": run_uuid, "passed": 0, "failed": 0})

    def resume(self, state: DumpState) -> None:
        """Go on under the name and from the numbers that an earlier run had; only before the first `offer`."""
        self._run_uuid = state["run_uuid"]
        self._passed = DumpFiles(self._folder, PASSED, self._run_uuid, state["passed"])
        self._failed = DumpFiles(self._folder, FAILED, self._run_uuid, state["failed"])

    def state(self) -> DumpState:
        """What `resume` takes; a file that is open counts as used. From any thread."""
        return {"run_uuid": self._run_uuid, "passed": self._passed.next_number, "failed": self._failed.next_number}

    def start(self) -> None:
        """Make the folder and start the thread. Raises ConfigError for a folder that cannot be made or written to."""
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

    def offer(self, group: Group) -> Future[None] | None:
        """Take the group if its scores ask for it. Returns at once: nothing is encoded or written on this thread.

        The future, or None for a group that is not to be dumped, is done as soon as the group and those that are
        committed with it are on the disk, or have to wait in memory because the disk refuses them, or are dropped. It
        never raises and cannot be cancelled. Groups are written in order, so when one is done, all earlier ones are. A
        disk that hangs without an error leaves it open.

        A group that comes after `close`, or while too much is waiting, is dropped and counted.
        """
        files = self._files_for(group.scores)
        if files is None:
            return None
        size_bytes = _size_bytes(group)
        kept = group if len(self._waiting) < WHOLE_GROUPS else _without_tokens(group)
        with self._changed:
            if not self._closing and self._waiting_bytes < MAX_WAITING_BYTES:
                self._waiting.append(_Waiting(files, kept, size_bytes, self._commit))
                self._waiting_bytes += size_bytes
                self._newest = self._commit
                if len(self._waiting) == 1:
                    self._changed.notify()
                return self._newest
            self._dropped += 1
            first, self._dropping = not self._dropping, True
        if first:
            reason = "the dumps are closed" if self._closing else "as much as may wait in memory is waiting already"
            logger.error("rollouts are being dropped: %s", reason)
        return _complete(_new_future())

    def settled(self) -> Future[None]:
        """The future of the newest group that was taken: done when nothing is under way."""
        with self._changed:
            return self._newest

    def stats(self) -> DumpStats:
        """The counts so far, from any thread; a group may for a moment count as written and as waiting."""
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

    def freeze(self, timeout_s: float = FREEZE_TIMEOUT_S) -> None:
        """Write no further line; for a process that ends right after this, without `close`.

        Waits at most `timeout_s` for the commit that is being written, so that no line is torn.
        """
        self._frozen = True
        if self._touching.acquire(timeout=timeout_s):
            self._touching.release()

    def _files_for(self, scores: tuple[float, ...]) -> DumpFiles | None:
        if self._dump_passed and any(score > self._score_threshold for score in scores):
            return self._passed
        if self._dump_failed and set(scores) == {0.0}:
            return self._failed
        return None

    def _work(self) -> None:
        """The thread: writes batch after batch until `close` was called and nothing waits, or until `freeze`."""
        while batch := self._next_batch():
            last_try = self._closing and len(batch) == 1
            refused = [*self._write(self._passed, batch), *self._write(self._failed, batch)]
            self._conclude(batch, refused, last_try)
        self._passed.close()
        self._failed.close()
        if self._dropped:
            logger.error("%d groups of rollouts were dropped in this run", self._dropped)

    def _next_batch(self) -> Sequence[_Waiting]:
        """The groups that are next, left in the queue until they are dealt with; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(lambda: self._closing, COMMIT_DELAY_S)
            if self._frozen:
                return []
            if self._failing:  # one is enough to find out, and may fit where several together do not
                return list(islice(self._waiting, 1))
            self._commit = _new_future()
            return list(self._waiting)

    def _write(self, files: DumpFiles, batch: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Write the groups of one kind, file by file; returns those that the disk refuses."""
        groups = [waiting for waiting in batch if waiting.files is files]
        while groups:
            part = groups[: files.room]
            lines = [line for line in (_encoded(waiting.group) for waiting in part) if line]
            try:
                with self._touching:
                    if self._frozen:
                        break
                    files.append(lines)
            except OSError as error:
                self._note_failure(error)
                break
            del groups[: len(part)]
            with self._changed:
                self._dropped += len(part) - len(lines)
        return groups

    def _note_failure(self, error: OSError) -> None:
        with self._changed:
            first, self._failing = not self._failing, True
            _complete(self._commit)
        if first:
            logger.error(
                "rollouts cannot be written to %s (%s): they wait in memory, at most %d MiB, until it has space and "
                "can be written to; then writing goes on by itself",
                self._folder,
                error,
                MAX_WAITING_BYTES // 2**20,
            )

    def _conclude(self, batch: Sequence[_Waiting], refused: Sequence[_Waiting], last_try: bool) -> None:
        """Take the batch out of the queue, but for refused groups that can be tried again; pause after a refusal."""
        kept = [] if last_try else refused
        with self._changed:
            for _ in batch:
                self._waiting.popleft()
            self._waiting.extendleft(reversed(kept))
            self._waiting_bytes += sum(one.size_bytes for one in kept) - sum(one.size_bytes for one in batch)
            self._dropped += len(refused) - len(kept)
            self._dropping = self._dropping and bool(self._waiting)
            works_again = self._failing and not refused
            if works_again:
                self._failing = False
                self._commit = _new_future()
        for commit in {waiting.commit for waiting in batch}:
            _complete(commit)
        if works_again:
            logger.info("rollouts are written to %s again; %d groups were dropped so far", self._folder, self._dropped)
        if refused:
            with self._changed:
                self._changed.wait_for(lambda: self._closing, RETRY_S)


def _encoded(group: Group) -> bytes | None:
    """The group's line, or None, with an error in the log, for a group that cannot be written at all."""
    try:
        return encode_group(group)
    except Exception:  # whatever one group holds, the thread must live on for the others
        logger.exception("a group of %s cannot be written as JSON and is dropped", group.problem.task)
        return None


def _without_tokens(group: Group) -> Group:
    """The group without what no dump shows, so that one that waits for long does not hold megabytes of numbers."""
    rollouts = tuple(replace(rollout, tokens=(), masks=(), logprobs=None) for rollout in group.rollouts)
    return replace(group, problem=replace(group.problem, entry=b""), rollouts=rollouts)


def _size_bytes(group: Group) -> int:
    """About how much memory the group takes without its tokens."""
    texts: list[str | None] = [group.problem.question, group.problem.metadata_json]
    texts += (message["content"] for message in group.messages)
    for rollout in group.rollouts:
        texts += [rollout.text, rollout.verdict.answer if rollout.verdict else None]
    return sum(map(getsizeof, texts)) + ROLLOUT_OVERHEAD_BYTES * len(group.rollouts)


def _new_future() -> Future[None]:
    """A future for groups that are committed together."""
    future: Future[None] = Future()
    # Running, it cannot be cancelled: a caller that stops waiting must not take it from the others.
    future.set_running_or_notify_cancel()
    return future


def _complete(future: Future[None]) -> Future[None]:
    if not future.done():
        future.set_result(None)
    return future

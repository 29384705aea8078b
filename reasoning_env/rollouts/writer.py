"""The dumps' writer: takes groups from the event loop and writes them on one thread of its own, in order.

Groups are committed together: the thread takes all that came within COMMIT_DELAY_S, writes the lines of each stream at
once, has its file synced, and only then tells the futures. A group counts as written when it is on the disk.

Groups that cannot be written (disk full, folder gone) wait in memory in their order, up to MAX_WAITING_BYTES of text
over both streams, and are tried again every RETRY_S. Beyond the limit the newest group is the one that is lost, and
counted. Nobody has to wait for a disk that refuses: from the first failure until writing works again, futures are done
at once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path

from ..errors import ConfigError
from ..records import DumpStats, Group
from .files import BatchFiles
from .lines import encode_group
from .parts import FAILED_PREFIX, PASSED_PREFIX
from .recovery import Outcome, PartReport, recover_folder
from .state import DumpState
from .waiting import Waiting, new_commit, settle, settled_commit, size_bytes, slim

logger = logging.getLogger(__name__)

PASSED_GROUPS_PER_FILE = 100
FAILED_GROUPS_PER_FILE = 50
MAX_WAITING_BYTES = 64 * 2**20
COMMIT_DELAY_S = 0.02
"""How long a group waits for others to share its commit; little beside the seconds that its completions take."""
WHOLE_GROUPS = 16
"""How many groups may wait with their tokens; taking those off costs more than a short wait with them."""
RETRY_S = 2.0
CLOSE_TIMEOUT_S = 30.0
FREEZE_TIMEOUT_S = 1.0


class _Stream:
    """The files of one stream and the number of groups in them."""

    def __init__(self, folder: Path, prefix: str, groups_per_file: int, run_uuid: str) -> None:
        self.written = 0
        self._folder = folder
        self._prefix = prefix
        self._groups_per_file = groups_per_file
        self.start_at(run_uuid, 0)

    def start_at(self, run_uuid: str, first: int) -> None:
        """Begin with a run's file number `first`; only before the first line."""
        self.files = BatchFiles(self._folder, f"{self._prefix}_{run_uuid}", self._groups_per_file, first)


class RolloutDumper:
    """Writes groups to `folder`, each as one JSON line, in two streams.

    With `dump_passed`, groups with any score above `score_threshold` go to
    `reasoning_gym_environment_rollouts_{run_uuid}_{batch:04d}.jsonl`, 100 a file. With `dump_failed`, groups whose
    scores are all 0 go to `reasoning_gym_environment_FAILED_rollouts_{run_uuid}_{batch:04d}.jsonl`, 50 a file. Numbers
    start at 0. A file has the suffix `.part` until it is full or `close` is called; those that killed runs left in the
    folder are completed first, on the writer's thread.

    With both streams off there is no folder and no thread. Raises ConfigError when the folder cannot be created or
    written to; trouble that comes later is logged and counted, and never raised.
    """

    def __init__(
        self, folder: Path, run_uuid: str, *, dump_passed: bool, dump_failed: bool, score_threshold: float
    ) -> None:
        self._folder = folder
        self._run_uuid = run_uuid
        self._dump_passed = dump_passed
        self._dump_failed = dump_failed
        self._score_threshold = score_threshold
        self._passed = _Stream(folder, PASSED_PREFIX, PASSED_GROUPS_PER_FILE, run_uuid)
        self._failed = _Stream(folder, FAILED_PREFIX, FAILED_GROUPS_PER_FILE, run_uuid)
        self._changed = threading.Condition()  # guards the counts and everything down to `_recovered`
        self._waiting: deque[Waiting[_Stream]] = deque()
        self._waiting_bytes = 0
        self._newest = settled_commit()
        self._next_commit: Future[None] | None = None
        self._lost = 0
        self._losing = False
        self._failing = False
        self._closing = False
        self._recovered: Sequence[PartReport] = ()
        self._touching = threading.Lock()  # held by the writer's thread while it changes a file
        self._frozen = False
        self._thread: threading.Thread | None = None
        if dump_passed or dump_failed:
            _make_folder(folder)
            # A daemon, so that a disk that hangs cannot keep the process from ending.
            self._thread = threading.Thread(target=self._work, name="rollout-writer", daemon=True)
            self._thread.start()

    def state(self) -> DumpState:
        """What `resume` takes; a file that is open counts as used. From any thread."""
        return {
            "run_uuid": self._run_uuid,
            "passed": self._passed.files.next_batch,
            "failed": self._failed.files.next_batch,
        }

    def resume(self, state: DumpState) -> None:
        """Go on under the name and from the numbers that an earlier run had; only before the first `offer`.

        Numbers that were used since are passed over.
        """
        self._run_uuid = state["run_uuid"]
        self._passed.start_at(self._run_uuid, state["passed"])
        self._failed.start_at(self._run_uuid, state["failed"])

    def offer(self, group: Group) -> Future[None] | None:
        """Take the group if its scores ask for it. Returns at once: nothing is encoded or written on this thread.

        The future, or None for a group that no stream takes, is done as soon as the group and those that are committed
        with it are on the disk, or have to wait in memory because the disk refuses them, or are lost. It never raises
        and cannot be cancelled. Groups are written in order, so when one is done, all earlier ones are. A disk that
        hangs without an error leaves it open.

        A group that comes after `close`, or while too much is waiting, is lost and counted.
        """
        stream = self._stream_for(group.scores)
        if stream is None:
            return None
        return self._enqueue(stream, slim(group) if len(self._waiting) >= WHOLE_GROUPS else group, size_bytes(group))

    def settled(self) -> Future[None]:
        """The future of the newest group that a stream took: done when nothing is under way."""
        with self._changed:
            return self._newest

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

    def freeze(self, timeout_s: float = FREEZE_TIMEOUT_S) -> None:
        """Write no further line; for a process that ends right after this, without `close`.

        Waits at most `timeout_s` for the line that is being written, so that none is torn. What waits is not written.
        """
        self._frozen = True
        if self._touching.acquire(timeout=timeout_s):
            self._touching.release()

    def stats(self) -> DumpStats:
        """The counts so far; from any thread."""
        with self._changed:
            recovered = [report for report in self._recovered if report.outcome is Outcome.COMPLETED]
            return DumpStats(
                passed_groups=self._passed.written,
                failed_groups=self._failed.written,
                files_finished=self._passed.files.finished + self._failed.files.finished,
                waiting=len(self._waiting),
                dropped=self._lost,
                recovered_files=len(recovered),
                recovered_groups=sum(report.groups for report in recovered),
            )

    def _stream_for(self, scores: tuple[float, ...]) -> _Stream | None:
        if self._dump_passed and any(score > self._score_threshold for score in scores):
            return self._passed
        if self._dump_failed and set(scores) == {0.0}:
            return self._failed
        return None

    def _enqueue(self, stream: _Stream, group: Group, size: int) -> Future[None]:
        with self._changed:
            accepted = not self._closing and self._waiting_bytes < MAX_WAITING_BYTES
            first_loss = not accepted and not self._losing
            if accepted and not self._failing:
                self._newest = commit = self._next_commit = self._next_commit or new_commit()
            else:
                commit = settled_commit()
            if accepted:
                self._waiting.append(Waiting(stream, group, size, commit))
                self._waiting_bytes += size
                if len(self._waiting) == 1:
                    self._changed.notify()
            else:
                self._lost += 1
                self._losing = True
        if first_loss:
            logger.error(
                "rollouts are being lost: %s",
                "the dumps are closed" if self._closing else "as much as may wait in memory is waiting already",
            )
        return commit

    def _work(self) -> None:
        """The writer's thread: recovers, then writes batch after batch until `close` was called and nothing waits."""
        self._recover()
        while batch := self._next_batch():
            self._write(batch)
        if self._frozen:
            for stream in (self._passed, self._failed):
                stream.files.release()
        else:
            self._finish_all()

    def _recover(self) -> None:
        try:
            reports = recover_folder(self._folder)
        except (FileNotFoundError, NotADirectoryError):  # removed since: there is nothing to recover
            return
        except OSError as error:
            logger.warning("files of earlier runs in %s cannot be recovered: %s", self._folder, error)
            return
        for report in reports:
            _log_recovery(report)
        with self._changed:
            self._recovered = reports

    def _next_batch(self) -> list[Waiting[_Stream]]:
        """The groups that are next, left in the queue until they are dealt with; none at the end.

        While the disk refuses, it is one: enough to find out.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(lambda: self._closing, COMMIT_DELAY_S)
            if self._frozen:
                return []
            self._next_commit = None
            return list(islice(self._waiting, 1 if self._failing else None))

    def _write(self, batch: Sequence[Waiting[_Stream]]) -> None:
        """Commit the groups up to the first that fills a file; the others stay in the queue."""
        # What is refused together may fit alone: while the disk refuses, a batch is one group.
        last_try = self._closing and len(batch) == 1
        lines: dict[_Stream, dict[Waiting[_Stream], bytes]] = {self._passed: {}, self._failed: {}}
        lost: list[Waiting[_Stream]] = []
        for waiting in batch:
            line = _encoded(waiting.group)
            if line is None:
                lost.append(waiting)
                continue
            of_stream = lines[waiting.stream]
            of_stream[waiting] = line
            if len(of_stream) == waiting.stream.files.room:
                break
        written: list[Waiting[_Stream]] = []
        refused: list[Waiting[_Stream]] = []
        for stream, of_stream in lines.items():
            if of_stream:
                done = self._attempt(stream.files.append, *of_stream.values()) and self._attempt(stream.files.sync)
                (written if done else refused).extend(of_stream)
        self._retire(batch, written, [*lost, *refused] if last_try else lost)
        if written and not refused:
            self._note_success()
        for stream in (self._passed, self._failed):
            if stream.files.full:  # when it cannot be finished now, that is tried before its next line and at the end
                self._attempt(stream.files.finish)
        if refused and not self._closing:
            self._pause()

    def _attempt(self, action: Callable[..., None], *arguments: bytes) -> bool:
        """Do something to a file; whether it worked."""
        try:
            with self._touching:
                if self._frozen:
                    return False
                action(*arguments)
        except OSError as error:
            self._note_failure(error)
            return False
        return True

    def _retire(
        self,
        batch: Sequence[Waiting[_Stream]],
        written: Sequence[Waiting[_Stream]],
        lost: Sequence[Waiting[_Stream]],
    ) -> None:
        """Take the groups that are dealt with out of the queue, of which `batch` is the front."""
        dealt_with = {*written, *lost}
        with self._changed:
            for _ in batch:
                self._waiting.popleft()
            self._waiting.extendleft(waiting for waiting in reversed(batch) if waiting not in dealt_with)
            self._waiting_bytes -= sum(waiting.size_bytes for waiting in dealt_with)
            for waiting in written:
                waiting.stream.written += 1
            self._lost += len(lost)
            if not self._waiting:
                self._losing = False
            # Of those that share a commit the last ones may be left: they are the first in the queue.
            unsettled = self._waiting[0].commit if self._waiting else None
        for commit in {waiting.commit for waiting in dealt_with} - {unsettled}:
            settle(commit)

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
                logger.error("%s could not be finished (%s): its groups %s", stream.files.name.part, error, fate)
        if self._lost:
            logger.error("%d groups of rollouts were lost in this run", self._lost)

    def _pause(self) -> None:
        """Wait for the next try or the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, RETRY_S)

    def _note_failure(self, error: OSError) -> None:
        with self._changed:
            first = not self._failing
            self._failing = True
            self._next_commit = None
            commits = {waiting.commit for waiting in self._waiting}
        if first:
            for commit in commits:
                settle(commit)
            logger.error(
                "rollouts cannot be written to %s (%s): they wait in memory, at most %d MiB, until it has space and "
                "can be written to; then writing goes on by itself",
                self._folder,
                error,
                MAX_WAITING_BYTES // 2**20,
            )

    def _note_success(self) -> None:
        with self._changed:
            was_failing = self._failing
            self._failing = False
        if was_failing:
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


def _log_recovery(report: PartReport) -> None:
    if report.torn_bytes:
        logger.warning("%s ended in a torn line: %d bytes of it were cut off", report.part, report.torn_bytes)
    if report.outcome is Outcome.COMPLETED:
        logger.info("completed %s, which a killed run left behind, with %d groups", report.target, report.groups)
    elif report.outcome is Outcome.FAILED:
        logger.warning("%s, which a killed run left behind, cannot be completed: %s", report.part, report.problem)


def _encoded(group: Group) -> bytes | None:
    """The group's line, or None, with an error in the log, for a group that cannot be written at all."""
    try:
        return encode_group(group)
    except Exception:  # whatever one group holds, the thread must live on for the others
        logger.exception("a group of %s cannot be written as JSON and is lost", group.problem.task)
        return None

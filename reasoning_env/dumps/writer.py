"""Write dumps: receive groups on the event loop, and append them in order on a separate thread.

The event loop never waits for the disk. Groups that cannot be written (disk full, folder missing) wait in memory until
the disk works again. If more than `max_waiting_bytes` wait, new groups are dropped and counted.

Lines go to new, numbered files (`dumps/numbered_files.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from sys import getsizeof

from ..metrics.stats import DumpStats
from ..records import Group
from ..runtime.retries import OutageLog, pauses
from .format import FAILED, PASSED, encode_group
from .numbered_files import NumberedFiles

logger = logging.getLogger(__name__)


class RolloutDumper:
    """Writes groups to `folder`, each as one JSON line.

    With `dump_passed`, groups with any score above `score_threshold` go to files of the kind `format.PASSED`. With
    `dump_failed`, groups whose scores are all 0 go to files of the kind `format.FAILED`.

    A line has the `time` at which `offer` was called (seconds since 1970), and `step`, the result of `step()`.

    Groups wait in memory until `start`. Later disk errors are logged and counted.
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
        self._changed = threading.Condition()  # guards the attributes from here to `_closing`
        self._waiting: deque[_Waiting] = deque()  # the first group is the one being written
        self._waiting_bytes = 0
        self._dropped = 0
        self._closing = False
        self._outage = OutageLog(logger)
        self._dropping = OutageLog(logger)
        self._thread: threading.Thread | None = None
        self._passed = NumberedFiles(PASSED, folder, run_uuid)
        self._failed = NumberedFiles(FAILED, folder, run_uuid)

    def start(self) -> None:
        """Create the folder (raises OSError if that fails) and start the thread. A second call has no effect."""
        if self._thread is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # Use a daemon thread, so that the process can end even if a write to the disk hangs.
        self._thread = threading.Thread(target=self._write_until_closed, name="rollout-writer", daemon=True)
        self._thread.start()

    def offer(self, group: Group) -> None:
        """Queue a group whose scores qualify (see the class) for the writer's thread.

        A group offered after `close`, or while the waiting groups take too much memory, is dropped and counted.
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
            self._dropping.over("rollouts are no longer dropped")
        else:
            reason = (
                "the dump writer is closed" if self._closing else "too many rollouts wait in memory; check the disk"
            )
            self._dropping.note(f"dropped rollouts: {reason}")

    def stats(self) -> DumpStats:
        """Return the counts of written, waiting and dropped groups. Works on any thread.

        A group may briefly count as both written and waiting.
        """
        with self._changed:
            return DumpStats(self._passed.written, self._failed.written, len(self._waiting), self._dropped)

    def close(self, timeout_s: float = 30.0) -> None:
        """Write the waiting groups and close the files. In a coroutine, use `await asyncio.to_thread(dumper.close)`.

        Waits at most `timeout_s`. Groups that cannot be written in one last attempt are dropped, counted and logged. A
        second call waits again if the first call timed out, and otherwise has no effect.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.error(
                "not all rollouts were written to %s within %.1f s (groups left: %d); check whether the disk hangs",
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

    def _write_until_closed(self) -> None:
        """Write groups until `close` was called and no group waits. Runs on the writer's thread."""
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
            logger.error("groups missing in the dumps of this run: %d; see the warnings above", self._dropped)

    def _next(self) -> _Waiting | None:
        """Wait for a group. Return the oldest without removing it; None if no group waits and `close` was called."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting[0] if self._waiting else None

    def _write(self, waiting: _Waiting) -> bool:
        """Write a group; retry until the disk works or `close` is called. Return False if the group was not written."""
        try:
            line = encode_group(waiting.group, more=waiting.facts)
        except Exception:  # one invalid group must not end the thread
            logger.exception("dropped a group of %s: the group cannot be written as JSON", waiting.group.problem.task)
            return False
        for pause_s in pauses():
            closing = self._closing  # read before writing, so that one complete attempt follows `close`
            try:
                waiting.files.append(line)
            except OSError as error:
                self._outage.note(
                    f"cannot write rollouts to {self.folder} ({error}); they stay in memory for now; check the disk"
                )
            else:
                self._outage.over(f"writing rollouts to {self.folder} works again")
                return True
            if closing:
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._closing, pause_s)
        raise AssertionError("internal error: the loop that retries to write a group ended without a result")


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A group that waits to be written, the files to write to, further keys of its line (`facts`), and its size."""

    files: NumberedFiles
    group: Group
    facts: Mapping[str, object]
    size_bytes: int


def _without_tokens(group: Group) -> Group:
    """Return the group without tokens and without the problem's `entry`. Both take megabytes and are not dumped."""
    rollouts = tuple(replace(rollout, tokens=(), masks=(), logprobs=None) for rollout in group.rollouts)
    return replace(group, problem=replace(group.problem, entry=b""), rollouts=rollouts)


def _size_bytes(group: Group) -> int:
    """Return the approximate memory of the group without its tokens, in bytes."""
    texts: list[str | None] = [group.problem.question, group.problem.metadata_json]
    texts += (message["content"] for message in group.messages)
    for rollout in group.rollouts:
        texts += [rollout.text, rollout.verdict.answer if rollout.verdict else None]
    objects_bytes = 1024 * len(group.rollouts)  # the objects of a short rollout are larger than its text
    return sum(map(getsizeof, texts)) + objects_bytes

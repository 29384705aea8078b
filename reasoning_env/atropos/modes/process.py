"""The loop of `process`: as many groups under way as the server takes, written in problem order.

BaseEnv's own collects one group at a time and forgets it when it fails. Here a group that fails is tried again, and one
that fails for good is made up for by the next problem, so that as many groups come out as were asked for. At Ctrl-C and
SIGTERM the groups under way get `shutdown_grace_s`. The same command goes on behind the last line of the file, and
takes over the groups that were done by then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...concurrency import cancel_all
from ...errors import ConfigError
from ...records import Group
from ...tasks.plan import describe_run
from ...terminal import progress_bar
from ..config import RunMode
from ..problem_source import RolloutItem
from ..run import Run
from .group_file import GroupFile, OutputError, check_place, encode_line
from .shutdown import finish_in_flight

logger = logging.getLogger(__name__)

TRIES = 3
WINDOW = 4
"""How many times the groups under way may wait for a slow one before them."""
LONG_GROUP = 4000
"""Tokens of a group from which a thread encodes its line; below, a thread costs more than it saves."""
SAVE_INTERVAL_S = 2.0
DECIDING = (
    *("group_size", "temperature", "top_p", "max_token_length", "min_completion_tokens", "mask_too_long_completions"),
    *("system_prompt", "custom_thinking_prompt", "tokenizer_name", "strict_rewards", "max_answer_bytes"),
    *("lenient_answers", "include_messages", "eval_seed", "num_eval_samples_per_task", "num_eval_tasks"),
    *("eval_tasks", "eval_level", "eval_preset"),
)
"""Settings that decide what a group holds, beside those that decide the problems."""

Line = tuple[int, bytes]


async def process(env: Any, run: Run) -> None:
    """Write groups until the file holds the wanted number; raises OutputError if the disk takes no more."""
    run.mode = RunMode.PROCESS
    config = env.config
    # BaseEnv's command sets these two beside the config.
    config.group_size = getattr(env, "group_size_to_process", config.group_size)
    total = getattr(env, "n_groups_to_process", config.total_steps)
    path = check_place(config.data_path_to_save_groups)
    if total < 1:
        raise ConfigError("env.total_steps: `process` needs the number of groups that it is to write")
    # No trainer sets a limit here.
    env.max_token_len = config.max_token_length
    await env.setup()
    await env.setup_wandb()
    file = run.group_file = GroupFile(path, _made_with(env, run))
    await _in_thread(file.open)
    if file.lines:
        logger.info("%s holds %d of %d groups already", file.path, file.lines, total)
    run.backend.collector.keep(tries=TRIES)
    run.backend.source.start(0, _resumed(file))
    with progress_bar("groups", total, done=file.lines) as advance:
        await _Processing(env, run, file, total, advance).run()


def _made_with(env: Any, run: Run) -> dict[str, Any]:
    """Return what decides the content of the file."""
    config = env.config
    models = sorted({str(getattr(server.config, "model_name", "")) for server in env.server.servers})
    settings = {name: getattr(config, name) for name in DECIDING}
    return {**describe_run(config, run.backend.plan), **settings, "models": models}


def _resumed(file: GroupFile) -> dict[str, Any]:
    """Return the state of a source of problems that goes on behind the last line."""
    stream, following = file.source.get("stream", {}), file.last_index + 1
    owed = [spec for spec in stream.get("owed", ()) if spec["index"] >= following]
    return {**file.source, "stream": {**stream, "next_index": following, "owed": owed}}


class _Processing:
    """One run of the loop; `advance` moves the progress bar, with a note beside it."""

    def __init__(self, env: Any, run: Run, file: GroupFile, total: int, advance: Callable[..., None]) -> None:
        self._env = env
        self._run = run
        self._file = file
        self._total = total
        self._advance = advance
        self._groups: deque[asyncio.Task[Line | None]] = deque()
        self._under_way = 0
        self._given_up = 0
        """Groups in `_groups` that have ended without a line."""
        self._failed: asyncio.Task[Line | None] | None = None
        """A group with an error that ends the run."""
        self._changed = asyncio.Event()
        self._saved_at = 0.0

    async def run(self) -> None:
        """Write until the file has all groups; whatever ends it, lines have no gap and no group is under way."""
        await self._save()
        try:
            while self._file.lines < self._total:
                self._changed.clear()
                if self._failed is not None:
                    self._failed.result()  # raises it
                await self._begin_groups()
                await self._write_what_is_next()
                if self._file.lines < self._total:
                    await self._changed.wait()
        except OutputError:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                grace_s, inference = self._env.config.shutdown_grace_s, self._run.inference
                await finish_in_flight(self._groups, grace_s, outage_s=lambda: inference.outage_s)
            await self._write_what_is_next()
            raise
        finally:
            await cancel_all(self._groups)
            with suppress(OutputError):  # the file itself says how far it goes
                await self._save()
                await _in_thread(self._file.keep_ahead, self._finished_ahead())

    def _finished_ahead(self) -> dict[int, bytes]:
        """Return the lines that wait for one before them, by the positions of their problems."""
        ended = [group for group in self._groups if not group.cancelled() and group.exception() is None]
        lines = self._file.ahead | dict(filter(None, (group.result() for group in ended)))
        return {index: line for index, line in lines.items() if index > self._file.last_index}

    async def _begin_groups(self) -> None:
        """Begin groups until enough are under way, or as many as are missing."""
        limit = self._env.max_num_workers
        while self._under_way < limit and len(self._groups) < WINDOW * limit:
            if self._file.lines + len(self._groups) - self._given_up >= self._total:
                return
            item = await self._env.get_next_item()
            group = asyncio.create_task(self._collect(item))
            group.add_done_callback(self._note_end)
            self._groups.append(group)
            self._under_way += 1

    def _note_end(self, group: asyncio.Task[Line | None]) -> None:
        self._under_way -= 1
        self._changed.set()
        if group.cancelled():
            return
        if group.exception() is not None:
            self._failed = group
        elif group.result() is None:
            self._given_up += 1

    async def _collect(self, item: RolloutItem) -> Line | None:
        """Return a group's line, or None for one that was dropped, which is counted and logged."""
        env, collector, problem = self._env, self._run.backend.collector, item.problem
        if problem.spec.index in self._file.ahead:
            self._run.backend.source.done(problem)
            self._advance()
            return problem.spec.index, self._file.ahead[problem.spec.index]
        packed, _ = await env.collect_trajectories(item)
        if packed:
            packed = await env.postprocess_histories(packed)
        # A subclass that scores by itself keeps no group: its line has the facts of the problem alone.
        group = collector.kept.pop(problem.spec.index, Group(problem, item.prompt.messages, ()))
        if not packed:
            return None
        env.completion_lengths += [len(masks) - masks.count(-100) for masks in packed["masks"]]
        if env.config.use_wandb:
            await env.add_rollouts_for_wandb(packed, item)
        short = sum(map(len, packed["tokens"])) < LONG_GROUP
        line = encode_line(packed, group) if short else await asyncio.to_thread(encode_line, packed, group)
        total = self._run.metrics.total
        self._advance(f"mean score {total.of_rollouts(total.score):.3f}")
        return problem.spec.index, line

    async def _write_what_is_next(self) -> None:
        """Write the lines that wait for none before them."""
        ready: list[Line] = []
        while self._groups and self._groups[0].done():
            line = self._groups.popleft().result()
            if line is not None:
                ready.append(line)
            else:
                self._given_up -= 1
        if ready:
            await _in_thread(self._file.append, ready)
            self._env.curr_step = self._file.lines
        if time.monotonic() - self._saved_at >= SAVE_INTERVAL_S:
            await self._save()
            await self._env.wandb_log()

    async def _save(self) -> None:
        self._saved_at = time.monotonic()
        await _in_thread(self._file.save, self._run.backend.source.state())


async def _in_thread(work: Callable[..., None], *arguments: Any) -> None:
    """Have a thread work to its end, whatever happens to the caller: a file must not be closed meanwhile."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise

"""The command `process`: collect many groups concurrently, and write each group as soon as it is scored.

A group of a new problem replaces a failed group. After Ctrl-C or SIGTERM, groups in flight have SHUTDOWN_GRACE_S to
finish. Running the same command again adds the missing groups.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ...data.groups import write_groups
from ...data.tables import JSON_LINES, PARQUET
from ...dumps.format import read_group
from ...inference.addresses import AWAY_LIMIT_S
from ...metrics.outcomes import Tally
from ...metrics.recorder import MetricsRecorder
from ...problems.giving_up import MAX_FAILED_GROUPS
from ...problems.plan import made_with
from ...records import Group
from ...runtime.concurrency import BACKGROUND, cancel_all, in_background
from ...runtime.terminal import progress_bar
from ...runtime.text import pluralize
from ...session import ScoredGroup, Session
from ...storage.files import KeyedFile
from ..config import ReasoningGymEnvConfig, at_least, check_value
from ..environment import Environment, RolloutItem
from ..run import Run
from .group_file import check_path, encode_line, open_groups
from .mode import Mode
from .shutdown import finish_in_flight

logger = logging.getLogger(__name__)


class Process(Mode):
    """Writes groups to a file until the file has `total_steps` groups."""

    name = "process"
    away_s = AWAY_LIMIT_S
    steps = at_least(1)

    def __init__(self) -> None:
        self._file: KeyedFile | None = None
        self._total = 0
        """Final number of groups in the file."""
        self._scored: dict[int, Group] = {}
        """Scored groups that are not written yet, by the index of their problem."""
        self._scores = Tally()

    def defaults(self, config: ReasoningGymEnvConfig, name: str | None) -> dict[str, object]:
        path = config.data_path_to_save_groups or f"data/{name or 'groups'}.jsonl"
        return {
            "data_path_to_save_groups": path,
            "ensure_scores_are_not_same": False,
            "include_messages": True,
            "max_num_workers_per_node": 64,
        }

    def check_files(self, config: ReasoningGymEnvConfig) -> None:
        check_path(config.data_path_to_save_groups)

    def max_failures(self, config: ReasoningGymEnvConfig) -> int | None:
        return MAX_FAILED_GROUPS

    def drops_equal_scores(self, config: ReasoningGymEnvConfig) -> bool:
        """Return False: every scored group is written."""
        return False

    def keep(self, group: Group) -> None:
        self._scored[group.problem.spec.index] = group
        self._scores.add(*group.scores)

    @property
    def groups_path(self) -> Path | None:
        return self._file.path if self._file is not None and self._file.keys else None

    def print_summary(self, metrics: MetricsRecorder) -> None:
        """Print the table of tasks and the path of the file of groups."""
        super().print_summary(metrics)
        file = self._file
        if file is None or not file.keys:
            return
        written = len(file.keys)
        of_this_run = metrics.total.groups.total()
        if of_this_run:
            print("\nThe table covers only the groups of this run.\n" if written > of_this_run else "")
        print(f"{file.path} has {pluralize(written, 'group')}. Show them as a web page with `report {file.path}`.")
        if not of_this_run and written >= self._total:
            print("Nothing to do: the file is complete. For more groups, raise env.total_steps.")

    def close(self) -> None:
        if self._file is not None:
            BACKGROUND.submit(self._file.close).result()  # waits for the group that is being written

    async def run(self, env: Environment, run: Run) -> None:
        """Write groups until the file has `total_steps` groups.

        Raises ConfigError if the file or `total_steps` is invalid, OutputError if the disk is full, and the errors of
        the environment's hooks.
        """
        config = env.config
        # BaseEnv's command sets these two attributes in addition to the config.
        config.group_size = getattr(env, "group_size_to_process", config.group_size)
        total: Any = getattr(env, "n_groups_to_process", config.total_steps)
        self._total = total
        path = check_path(config.data_path_to_save_groups)
        check_value("env.total_steps", total, self.steps)
        # Without a trainer, only the setting `max_token_length` limits the tokens.
        env.max_token_len = config.max_token_length
        await run.lifetime.start_workers()
        models = [str(client.config.model_name) for client in run.clients]
        scored: list[ScoredGroup] = []
        learns = config.complexity_mode == "curriculum" or config.task_sampling == "adaptive"
        on_line = partial(_add_scores, scored) if learns else _ignore
        decided_by = _made_with(config, models, run.session)
        file = self._file = await asyncio.to_thread(open_groups, _lines_path(path), decided_by, on_line)
        try:
            if len(file.keys) < self._total:  # a complete file can be converted without a running server
                await self._write_missing_groups(env, run, file, scored)
        finally:
            if path.suffix == PARQUET and file.keys:
                await in_background(write_groups, file.path, file.path.with_suffix(PARQUET))

    async def _write_missing_groups(
        self, env: Environment, run: Run, file: KeyedFile, scored: Sequence[ScoredGroup]
    ) -> None:
        await env.setup()
        await env.setup_wandb()
        if file.keys:
            existing = pluralize(len(file.keys), "group")
            logger.info("%s already has %s; adding %d more", file.path, existing, self._total - len(file.keys))
        run.session.begin(done=frozenset(map(int, file.keys)), learn_from=scored)
        if sys.stderr.isatty():
            with progress_bar(self.name, self._total, done=len(file.keys)) as advance:
                await self._write_groups(env, run, file, advance)
        else:  # without a terminal, `RunReport.log_progress` logs the progress
            await self._write_groups(env, run, file, lambda note: None)

    async def _write_groups(self, env: Environment, run: Run, file: KeyedFile, advance: Callable[[str], None]) -> None:
        """Write groups until the file is complete. Afterwards, even after an error, no group is in flight.

        `advance` gets the mean score after each written group.
        """
        under_way: set[asyncio.Task[None]] = set()
        logged_at = 0.0
        try:
            while len(file.keys) < self._total:
                while len(under_way) < env.max_num_workers and len(file.keys) + len(under_way) < self._total:
                    item = await env.get_next_item()
                    under_way.add(asyncio.create_task(self._write_group(env, file, item, advance)))
                ended, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                errors = [error for group in ended if (error := group.exception()) is not None]
                if errors:
                    raise errors[0]
                env.curr_step = len(file.keys)
                if time.monotonic() - logged_at >= 2.0:
                    logged_at = time.monotonic()
                    await env.wandb_log()
        except asyncio.CancelledError:
            await finish_in_flight(under_way, outage_s=lambda: run.inference.outage_s)
            raise
        finally:
            await cancel_all(under_way)

    async def _write_group(
        self, env: Environment, file: KeyedFile, item: RolloutItem, advance: Callable[[str], None]
    ) -> None:
        """Sample a group and write it. A dropped group is counted and logged, but not written."""
        position = item.problem.spec.index
        packed, _ = await env.collect_trajectories(item)
        if packed:
            packed = await env.postprocess_histories(packed)
        # A subclass that scores groups itself does not call `keep`; the line then describes only the problem.
        group = self._scored.pop(position, Group(item.problem, item.prompt.messages, ()))
        if not packed:
            return
        env.completion_lengths += [rollout.completion_tokens or 0 for rollout in group.rollouts]
        if env.config.use_wandb:
            await env.add_rollouts_for_wandb(packed, item)
        pieces = await in_background(encode_line, packed, group)
        await in_background(file.append, str(position), *pieces)
        advance(f"mean score {self._scores.mean or 0.0:.3f}")


def _made_with(config: ReasoningGymEnvConfig, models: Sequence[str], session: Session[object]) -> dict[str, object]:
    """Return all settings and versions on which the problems and completions of the groups depend."""
    # `Affects` marks this program's own settings that affect groups. The list below has Atropos' settings.
    names = ("group_size", "max_token_length", "tokenizer_name", "custom_thinking_prompt", "include_messages")
    more = {**{name: getattr(config, name) for name in names}, **session.library.versions}
    return made_with(config, session.plan, "problems", "answers", models=sorted(set(models)), **more)


def _lines_path(path: Path) -> Path:
    """Return the file to append to: for Parquet, which cannot be appended to, a .jsonl file with the same name."""
    return path.with_suffix(JSON_LINES) if path.suffix == PARQUET else path


def _ignore(line: bytes) -> None:
    """Do nothing with a line of an earlier run: the sampler does not adapt, so it needs no earlier scores."""


def _add_scores(scored: list[ScoredGroup], line: bytes) -> None:
    """Append the scores of the group in `line` to `scored`. An invalid line has no effect."""
    with suppress(ValueError):  # a user may have edited the file
        group = read_group(line)
        scores = [rollout.judged_score for rollout in group.rollouts]
        scored.append(ScoredGroup(group.item_id, group.level, scores))

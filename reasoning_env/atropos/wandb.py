"""Use wandb: find an account, start a run, log a table of rollouts, and log metrics together with Atropos' timings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import netrc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import wandb
from atroposlib.envs.base import ScoredDataGroup

from ..records import Problem
from ..runtime.concurrency import in_background
from .config import ReasoningGymEnvConfig
from .environment import Environment

logger = logging.getLogger(__name__)


def has_account() -> bool:
    """Return True if wandb finds an API key in the environment variables or in netrc, where `wandb login` stores it."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(str(path)).authenticators(host) is not None
    return False


def go_offline_without_account() -> None:
    """Switch wandb to offline files and log a warning, if there is no account and WANDB_MODE is unset."""
    if "WANDB_MODE" not in os.environ and not has_account():
        os.environ["WANDB_MODE"] = "offline"
        os.environ.setdefault("WANDB_SILENT", "true")
        logger.warning("no wandb account is configured, so metrics stay in ./wandb; upload them with `wandb sync`")


async def start_run(
    name: str | None, run_uuid: str, project: str | None, group: str | None, config: ReasoningGymEnvConfig
) -> None:
    """Start a wandb run in a thread: the start takes a second or more."""
    await asyncio.to_thread(
        wandb.init,
        name=f"{name}-{time.strftime('%Y-%m-%d')}-{run_uuid[:6]}" if name else None,
        project=project,
        group=group,
        config=config.model_dump(mode="json"),
    )


def table_rows(
    group: ScoredDataGroup, keep: int, decode: Callable[[Sequence[int]], str], task: str, expected: str
) -> list[tuple[str, float, str, str]]:
    """Return rows (text, score, expected answer, task) of a group's first `keep` rollouts; -1 means all."""
    count = len(group["tokens"]) if keep == -1 else min(keep, len(group["tokens"]))
    return [(decode(group["tokens"][number]), group["scores"][number], expected, task) for number in range(count)]


async def keep_rollouts(
    env: Environment,
    groups: Sequence[ScoredDataGroup],
    problem: Problem | None,
    decode: Callable[[Sequence[int]], str],
) -> None:
    """Keep some rollouts of each group for the next wandb table."""
    keep, task, expected = env.config.num_rollouts_per_group_for_logging, "", ""
    if problem is not None:
        task, expected = problem.task, problem.answer or ""
    for group in groups:
        rows = await in_background(table_rows, group, keep, decode, task, expected)
        env.rollouts_for_wandb.append(rows)
    del env.rollouts_for_wandb[: -env.config.num_rollouts_to_keep or None]


def rollout_table(groups: Sequence[Sequence[tuple[object, ...]]]) -> Mapping[str, object]:
    """Return wandb's table of the kept rollouts, under the name of its metric; {} if there are no rollouts."""
    if not groups:
        return {}
    table = wandb.Table(columns=["text", "score", "expected_answer", "task"])
    for group in groups:
        for row in group:
            table.add_data(*row)
    return {"train/rollouts": table}


def length_metrics(lengths: Sequence[int], limit: int) -> dict[str, float]:
    """Return Atropos' metrics of completion lengths in tokens; `limit` is the trainer's token limit."""
    if not lengths:
        return {}
    values = np.array(lengths)
    named = {"": values.mean(), "_std": values.std(), "_max": values.max(), "_min": values.min()}
    named["_p95"] = (values > 0.95 * limit).mean()  # as in Atropos, a share of completions and no percentile
    return {f"train/completion_lengths{name}": float(value) for name, value in named.items()}


async def log_metrics(env: Environment, metrics: Mapping[str, object], clients: Sequence[Any]) -> None:
    """Log `metrics` with those of BaseEnv and of all servers in `clients`.

    Then discard the logged rollouts and completion lengths.
    """
    lengths = length_metrics(env.completion_lengths, env.max_token_len)
    collected = env.perf_stats(await env.create_rollout_table({**metrics, **lengths}))
    env.rollouts_for_wandb, env.completion_lengths = [], []
    if env.config.use_wandb:
        prefix = "" if env.wandb_prepend is None else f"{env.wandb_prepend}_"
        named = {f"{prefix}{name}": value for name, value in collected.items()}
        for number, client in enumerate(clients):
            named = await client.wandb_metrics(named, f"server_{number}")
        wandb.log(named, step=env.curr_step)
    trim_timings(clients)
    del env.task_successful[:-1]


def trim_timings(clients: Sequence[Any]) -> None:
    """Shorten each client's lists of timings to its `rolling_buffer_length`, because Atropos never shortens them."""
    for client in clients:
        for name in ("request_timings", "attempts_list", "eval_request_timings", "eval_attempts_list"):
            del getattr(client, name)[: -(client.config.rolling_buffer_length or 1)]

"""What becomes of scored groups after `collect_trajectories`: checked, written, and handed over for delivery.

As BaseEnv does it, but for one thing: BaseEnv counts tokens one by one, which holds the event loop for 13 ms where
eight completions have 32,000 tokens each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from atroposlib.envs.base import ScoredDataGroup

from ..records import Problem
from ..runtime.turns import in_turn
from .config import ReasoningGymEnvConfig
from .line import RolloutItem
from .run import Run

logger = logging.getLogger(__name__)


@dataclass
class _Sending:
    """Groups on their way to the queue: their problem, and whether they were handed over for delivery."""

    problem: Problem | None
    begun: bool = False


_SENDING: ContextVar[_Sending] = ContextVar("sending")
"""What `hand_over` sends: BaseEnv's hook between the two does not say whose groups it has."""


async def send_groups(
    env: Any,
    run: Run,
    groups: ScoredDataGroup | list[ScoredDataGroup],
    item: RolloutItem | None,
    *,
    do_send: bool,
    token_limit: int,
) -> None:
    """Check groups, write and send those that pass; where none is sent, their problem is done.

    A group with a member of `token_limit` tokens is not sent, unless that is 0.
    """
    config: ReasoningGymEnvConfig = env.config
    complete = [group for group in _as_list(groups) if is_complete(group, config)]
    to_send = [group for group in complete if is_short_enough(group, token_limit)]
    for group in to_send:
        if config.include_messages and group.get("messages") is None:
            texts = map(env.tokenizer.decode, group["tokens"])
            group["messages"] = [[{"role": "user", "content": text}] for text in texts]
        if env.jsonl_writer is not None:
            env.jsonl_writer.write(group)
    sending = _Sending(None if item is None else item.problem)
    if to_send and do_send:
        env.items_sent_this_step += len(to_send)
        token = _SENDING.set(sending)
        try:
            await env._send_scored_data_to_api(to_send if isinstance(groups, list) else to_send[0])
        finally:
            _SENDING.reset(token)
    if item is not None and not sending.begun:
        run.session.done(item.problem)
    for group in complete:
        env.completion_lengths += [await in_turn(partial(_completion_length, mask)) for mask in group["masks"]]
    if config.use_wandb:
        for group in to_send:
            await env.add_rollouts_for_wandb(group, item)


async def hand_over(run: Run, groups: ScoredDataGroup | list[ScoredDataGroup], *, most_waiting: int) -> None:
    """Give groups to the queue, whose problem is done once they have arrived; wait for that where many others wait."""
    sending = _SENDING.get(None)
    delivered = [run.queue.put(group) for group in _as_list(groups)]
    if sending is not None:
        sending.begun = True
        if sending.problem is not None:
            _end_flight(run, sending.problem, delivered)
    if run.queue.stats.waiting > most_waiting:
        await asyncio.wait(delivered)


def _end_flight(run: Run, problem: Problem, delivered: Sequence[asyncio.Future[None]]) -> None:
    """Have the problem done once all its groups were delivered, refused or dropped."""
    arrived = asyncio.gather(*delivered)
    arrived.add_done_callback(lambda done: None if done.cancelled() else run.session.done(problem))


def is_complete(group: Mapping[str, Any] | None, config: ReasoningGymEnvConfig) -> bool:
    """Tell whether a packed group has all its members and, where such groups are filtered, different scores."""
    if group is None:
        return False
    full_size = (group.get("group_overrides") or {}).get("group_size", config.group_size)
    size = len(group.get("tokens") or ())
    if size != full_size:
        logger.warning("a group of %d completions is not sent: there should be %d", size, full_size)
        return False
    if config.ensure_scores_are_not_same and len(set(group["scores"])) == 1:
        logger.debug("a group whose scores are all the same is not sent")
        return False
    return True


def is_short_enough(group: Mapping[str, Any], token_limit: int) -> bool:
    """Tell whether all members stay below the trainer's limit of tokens, if that is positive."""
    longest = max(map(len, group["tokens"]))
    if 0 < token_limit <= longest:
        logger.warning("a group with %d tokens is not sent: the trainer's limit is %d", longest, token_limit)
        return False
    return True


def _as_list(groups: ScoredDataGroup | list[ScoredDataGroup]) -> list[ScoredDataGroup]:
    return groups if isinstance(groups, list) else [groups]


def _completion_length(mask: Sequence[int]) -> int:
    return len(mask) - list(mask).count(-100)

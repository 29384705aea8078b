"""A group on its way to the disk: what a dump needs of it, what it costs in memory, and who waits for it."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ..records import Group

_ROLLOUT_OVERHEAD_BYTES = 1024
"""What a waiting rollout's records cost beside their text, roughly, so that short texts cannot evade the limit."""

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Waiting(Generic[S]):
    """A group that waits for a stream; `commit` is done when it need not be waited for any longer."""

    stream: S
    group: Group
    size_bytes: int
    commit: Future[None]


def new_commit() -> Future[None]:
    """A future that groups share which are committed together."""
    commit: Future[None] = Future()
    # Running, it cannot be cancelled: a caller that stops waiting must not take it from the others.
    commit.set_running_or_notify_cancel()
    return commit


def settled_commit() -> Future[None]:
    """A future that is done."""
    commit = new_commit()
    commit.set_result(None)
    return commit


def settle(commit: Future[None]) -> None:
    """Mark the future done; may be called again, from one thread at a time."""
    if not commit.done():
        commit.set_result(None)


def slim(group: Group) -> Group:
    """The group without what no dump shows, so that one that waits for long does not hold megabytes of numbers."""
    rollouts = tuple(replace(rollout, tokens=(), masks=(), logprobs=None) for rollout in group.rollouts)
    return replace(group, problem=replace(group.problem, entry=b""), rollouts=rollouts)


def size_bytes(group: Group) -> int:
    """About how much memory the group takes without its tokens."""
    texts = [group.problem.question, group.problem.metadata_json]
    texts += (message["content"] for message in group.messages)
    for rollout in group.rollouts:
        texts.append(rollout.text)
        if rollout.verdict is not None and rollout.verdict.answer is not None:
            texts.append(rollout.verdict.answer)
    return sum(map(sys.getsizeof, texts)) + _ROLLOUT_OVERHEAD_BYTES * len(group.rollouts)

"""Select a random sample of groups for the page, with all tasks and, if possible, all outcomes."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...dumps.format import DumpedGroup, DumpedMessages, DumpedRollout
from ...metrics.outcomes import PARTIAL, RIGHT, WRONG
from .figures import PAGE_OUTCOMES, completion_characters, known_outcome

Key = tuple[int, str]
"""The number of a run, and the name of a task."""


@dataclass
class _KeptGroups:
    """A sample of a task's groups with one outcome: the groups with the highest random numbers."""

    heap: list[tuple[float, str]] = field(default_factory=list)
    """Random number and JSON of each kept group, as a heap with the lowest number first."""
    left_out: float = -1.0
    """The random number of the last removed group. Groups with a lower random number are not added."""

    def __len__(self) -> int:
        return len(self.heap)


class RolloutSample:
    """A random sample of groups, together at most `budget` characters of JSON; all groups, if they fit.

    While the sample is too large, the task with the most characters loses a group: of the groups with the task's most
    frequent outcome, the one with the lowest random number. The number depends only on the problem, so runs with the
    same problems keep the same problems.

    The sample shows which outcomes occur, but not how often. Each task of a run keeps at least one group.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._seen: defaultdict[Key, Counter[str]] = defaultdict(Counter)
        self._kept: defaultdict[Key, defaultdict[str, _KeptGroups]] = defaultdict(lambda: defaultdict(_KeptGroups))
        self._characters: Counter[Key] = Counter()
        self._largest: list[tuple[int, Key]] = []
        """A heap of (-number of characters, task). Entries with outdated numbers are ignored."""
        self._total = 0

    def offer(self, run: int, group: DumpedGroup, encode: Callable[[DumpedGroup], Mapping[str, object]]) -> None:
        """Add the group, then shrink the sample to the budget.

        Skip the group if a group of the same task and outcome, with a higher random number, was removed before.
        """
        key = (run, group.item_id)
        outcomes = Counter(map(known_outcome, group.rollouts))
        self._seen[key].update(outcomes)
        drawn = self._kept[key][self._outcome_of_group(key, outcomes)]
        draw = _draw(group)
        if draw < drawn.left_out:
            return
        text = json.dumps(encode(group))
        heapq.heappush(drawn.heap, (draw, text))
        self._count(key, len(text))
        while self._total > self._budget and self._drop_largest():
            pass

    def groups(self) -> list[str]:
        """Return the kept groups as JSON strings, task by task. Within a task, different outcomes alternate."""
        return [text for key in sorted(self._kept) for text in self._in_order_of_outcomes(key)]

    def _outcome_of_group(self, key: Key, outcomes: Counter[str]) -> str:
        """Return the outcome under which the sample keeps the group.

        If the group has outcomes besides right, partial and wrong, return the one that is rarest in the task so far.
        Otherwise return the outcome that all rollouts share, or `mixed` if the rollouts differ.
        """
        special = outcomes.keys() - {RIGHT, PARTIAL, WRONG}
        if special:
            return min(special, key=lambda outcome: (self._seen[key][outcome], outcome))
        return next(iter(outcomes)) if len(outcomes) == 1 else "mixed"

    def _count(self, key: Key, characters: int) -> None:
        self._characters[key] += characters
        self._total += characters
        heapq.heappush(self._largest, (-self._characters[key], key))

    def _drop_largest(self) -> bool:
        """Remove a group from the largest task with several groups. Return False if every task has only one group."""
        while self._largest:
            negative, key = heapq.heappop(self._largest)
            of_task = self._kept[key]
            if -negative != self._characters[key] or sum(map(len, of_task.values())) == 1:
                continue
            most = max(of_task.values(), key=len)
            most.left_out, text = heapq.heappop(most.heap)
            self._count(key, -len(text))
            return True
        return False

    def _in_order_of_outcomes(self, key: Key) -> list[str]:
        kept = [sorted(drawn.heap, reverse=True) for _, drawn in sorted(self._kept[key].items())]
        ordered = sorted((rank, number) for number, groups in enumerate(kept) for rank in range(len(groups)))
        return [kept[number][rank][1] for rank, number in ordered]


def _draw(group: DumpedGroup) -> float:
    """Return a pseudorandom number in [0, 1) that depends only on the problem."""
    question = [message["content"] for message in group.prompt[-1:]]
    named = f"{group.item_id} {group.seed} {group.index} {question}"
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def encode_rollout(rollout: DumpedRollout, prompt: DumpedMessages) -> dict[str, object]:
    """Return a rollout as JSON values, with its messages only if they differ from the group's prompt."""
    text, cut = _shorten(rollout.completion)
    thought, thought_cut = _shorten(rollout.thinking)
    shown: dict[str, object] = {
        "text": text,
        "score": rollout.score,
        "outcome": PAGE_OUTCOMES.index(known_outcome(rollout)),
        "reason": rollout.reason,
        "right": rollout.correct,
        "answer": None if rollout.answer is None else _shorten(rollout.answer)[0],
        "finish": rollout.finish_reason,
        "verifier": rollout.judged_score,
        "library": rollout.library_score,
        "tokens": rollout.tokens,
        "characters": completion_characters(rollout),
        "thinking": [thought, thought_cut] if thought else None,
        "seconds": rollout.seconds,
        "cut": cut,
    }
    if rollout.prompt != prompt:
        shown["messages"] = encode_messages(rollout.prompt)
    return {key: value for key, value in shown.items() if value is not None}


def encode_messages(messages: DumpedMessages) -> list[list[str]]:
    return [[message["role"], _shorten(message["content"])[0]] for message in messages]


def _shorten(text: str) -> tuple[str, list[int] | None]:
    """Cut out the middle of a text of over 40,000 characters. Return the rest, and [position, length] of the gap."""
    half = 20_000
    missing = len(text) - 2 * half
    if missing <= 0:
        return text, None
    return text[:half] + text[-half:], [half, missing]

"""A random sample of groups for the page: every task and outcome, within a budget of characters."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...dumps.format import DumpedGroup, DumpedMessages, DumpedRollout
from ...metrics.outcomes import PARTIAL, RIGHT, WRONG
from .figures import PAGE_OUTCOMES, known_outcome, length_of

Key = tuple[int, str]
"""A run, by its number, and a task."""


@dataclass
class _Drawn:
    """Groups of a task with one outcome: those with the highest draws."""

    heap: list[tuple[float, str]] = field(default_factory=list)
    """Draws and encoded groups, the lowest draw first."""
    left_out: float = -1.0
    """The highest draw of a group that was left out."""

    def __len__(self) -> int:
        return len(self.heap)


class RolloutSample:
    """A random sample of groups of at most `budget` characters; all groups, if these have no more.

    Where the budget is short, the task with the most characters gives up groups first, so that small tasks stay whole.
    Within a task the most frequent outcome gives up groups first: a rare outcome (a time-out among right answers) stays
    beside frequent outcomes. The sample shows which outcomes there are, not how often they come. Every task of a run
    keeps a group at least.

    The draw of a group follows from its problem alone, so that the same files give the same sample, and runs over the
    same problems keep the same problems.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._seen: defaultdict[Key, Counter[str]] = defaultdict(Counter)
        self._kept: defaultdict[Key, defaultdict[str, _Drawn]] = defaultdict(lambda: defaultdict(_Drawn))
        self._characters: Counter[Key] = Counter()
        self._largest: list[tuple[int, Key]] = []
        """A heap of negative characters and tasks; entries whose characters have changed since are passed over."""
        self._total = 0

    def offer(self, run: int, group: DumpedGroup, encode: Callable[[DumpedGroup], Mapping[str, object]]) -> None:
        """Keep the group, encoded by `encode`, if it is drawn."""
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
        while self._total > self._budget and self._give_up():
            pass

    def groups(self) -> list[str]:
        """Return the kept groups as JSON texts: task by task, and within a task the outcomes in turn."""
        return [text for key in sorted(self._kept) for text in self._in_turn(key)]

    def _outcome_of_group(self, key: Key, outcomes: Counter[str]) -> str:
        """Return the rarest outcome of a group that is not right, partial or wrong.

        Without such an outcome return the outcome that all rollouts have, or `mixed`.
        """
        special = outcomes.keys() - {RIGHT, PARTIAL, WRONG}
        if special:
            return min(special, key=lambda outcome: (self._seen[key][outcome], outcome))
        return next(iter(outcomes)) if len(outcomes) == 1 else "mixed"

    def _count(self, key: Key, characters: int) -> None:
        self._characters[key] += characters
        self._total += characters
        heapq.heappush(self._largest, (-self._characters[key], key))

    def _give_up(self) -> bool:
        """Leave a group of the largest task out; return False where every task has a single group."""
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

    def _in_turn(self, key: Key) -> list[str]:
        kept = [sorted(drawn.heap, reverse=True) for _, drawn in sorted(self._kept[key].items())]
        ordered = sorted((rank, number) for number, groups in enumerate(kept) for rank in range(len(groups)))
        return [kept[number][rank][1] for rank, number in ordered]


def _draw(group: DumpedGroup) -> float:
    """Return a number in [0, 1) that follows from the problem."""
    question = [message["content"] for message in group.prompt[-1:]]
    named = f"{group.item_id} {group.seed} {group.index} {question}"
    digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def encode_rollout(rollout: DumpedRollout, prompt: DumpedMessages) -> dict[str, object]:
    """Return the page's record of a rollout; its messages only where they differ from the group's prompt."""
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
        "characters": length_of(rollout),
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
    """Return the text and None or, for more than 40,000 characters, its two ends and [position, length] of the gap."""
    half = 20_000
    missing = len(text) - 2 * half
    if missing <= 0:
        return text, None
    return text[:half] + text[-half:], [half, missing]

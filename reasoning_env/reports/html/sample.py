"""A random sample of groups for the page: every task and outcome, within a budget of characters."""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from ...dumps.reader import DumpedGroup, DumpedRollout
from ...metrics.outcomes import PARTIAL, RIGHT, WRONG
from .figures import PAGE_OUTCOMES, known_outcome, length_of

Key = tuple[int, str]
"""A run, by its number, and a task."""
Messages = tuple[Mapping[str, str], ...]


class RolloutSample:
    """A random sample of groups of at most `budget` characters.

    Each task of a run has the same share of the budget, and keeps at most `groups_per_outcome` groups of each outcome.
    A rare outcome (a time-out among right answers) is kept beside frequent outcomes: the sample shows which outcomes
    there are, not how often they come. The same files give the same sample.
    """

    def __init__(self, budget: int, *, groups_per_outcome: int = 24) -> None:
        self._budget = budget
        self._groups_per_outcome = groups_per_outcome
        self._random = random.Random(0)
        self._seen: defaultdict[Key, Counter[str]] = defaultdict(Counter)
        self._kept: defaultdict[Key, dict[str, list[tuple[float, str]]]] = defaultdict(dict)
        self._characters: Counter[Key] = Counter()

    def offer(self, run: int, group: DumpedGroup, encode: Callable[[DumpedGroup], Mapping[str, object]]) -> None:
        """Keep the group, encoded by `encode`, if it is drawn."""
        key = (run, group.item_id)
        outcomes = Counter(map(known_outcome, group.rollouts))
        self._seen[key].update(outcomes)
        drawn = self._random.random()
        heap = self._kept[key].setdefault(self._outcome_of_group(key, outcomes), [])
        if len(heap) == self._groups_per_outcome and drawn < heap[0][0]:
            return
        text = json.dumps(encode(group))
        heapq.heappush(heap, (drawn, text))
        self._characters[key] += len(text)
        if len(heap) > self._groups_per_outcome:
            self._characters[key] -= len(heapq.heappop(heap)[1])
        self._shrink(key)

    def groups(self) -> list[str]:
        """Return the kept groups as JSON texts: task by task, and within a task the outcomes in turn."""
        for key in self._kept:
            self._shrink(key)
        return [text for key in sorted(self._kept) for text in self._in_turn(key)]

    def _outcome_of_group(self, key: Key, outcomes: Counter[str]) -> str:
        """Return the rarest outcome of a group that is not right, partial or wrong.

        Without such an outcome return the outcome that all rollouts have, or `mixed`.
        """
        special = outcomes.keys() - {RIGHT, PARTIAL, WRONG}
        if special:
            return min(special, key=lambda outcome: (self._seen[key][outcome], outcome))
        return next(iter(outcomes)) if len(outcomes) == 1 else "mixed"

    def _shrink(self, key: Key) -> None:
        heaps = self._kept[key]
        while self._characters[key] > self._budget / len(self._kept) and sum(map(len, heaps.values())) > 1:
            largest = max(heaps, key=lambda outcome: (len(heaps[outcome]), -max(drawn for drawn, _ in heaps[outcome])))
            self._characters[key] -= len(heapq.heappop(heaps[largest])[1])
            if not heaps[largest]:
                del heaps[largest]

    def _in_turn(self, key: Key) -> list[str]:
        heaps = [sorted(heap, reverse=True) for _, heap in sorted(self._kept[key].items())]
        ordered = sorted((rank, number) for number, heap in enumerate(heaps) for rank in range(len(heap)))
        return [heaps[number][rank][1] for rank, number in ordered]


def encode_rollout(rollout: DumpedRollout, prompt: Messages) -> dict[str, object]:
    """Return the page's record of a rollout; its messages only where they differ from the group's prompt."""
    *before, completion = rollout.conversation
    text, cut = _shorten(completion["content"])
    thought, thought_cut = _shorten(rollout.thinking)
    shown: dict[str, object] = {
        "text": text,
        "score": rollout.score,
        "outcome": PAGE_OUTCOMES.index(known_outcome(rollout)),
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
    if tuple(before) != prompt:
        shown["messages"] = encode_messages(tuple(before))
    return {key: value for key, value in shown.items() if value is not None}


def encode_messages(messages: Messages) -> list[list[str]]:
    return [[message["role"], _shorten(message["content"])[0]] for message in messages]


def _shorten(text: str) -> tuple[str, list[int] | None]:
    """Return the text and None or, for more than 40,000 characters, its two ends and [position, length] of the gap."""
    half = 20_000
    missing = len(text) - 2 * half
    if missing <= 0:
        return text, None
    return text[:half] + text[-half:], [half, missing]

"""The hostile corpus as groups of completions, with the verdicts of a session here.

Every way to judge must give the same verdicts. `--whole-corpus` takes every answer to every task, else each task gets
one answer in `ONE_IN`, other ones for each task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from reasoning_env import ReasoningSettings, Session, Verdict
from reasoning_env.library_facts import FACTS

from .workers.hostile import hostile_answers, ordinary_answer
from .workers.support import make
from .workers.traps import Traps

SETTINGS = ReasoningSettings(num_generators=1, num_verifiers=2, worker_niceness=0, scoring_deadline_s=60.0)
ONE_IN = 40
GROUP_SIZE = 32

Outcome = tuple[float, str]


@dataclass(frozen=True)
class Group:
    """A problem by reference, completions of it, and what a session gives for them."""

    reference: str
    completions: Sequence[str]
    expected: Sequence[Outcome]


def outcomes(verdicts: Sequence[Verdict | None]) -> list[Outcome]:
    return [(-1.0, "fault") if verdict is None else (verdict.score, verdict.reason.value) for verdict in verdicts]


@contextmanager
def hostile_groups(config: Any) -> Iterator[tuple[list[Group], Traps]]:
    """Judge the corpus with a session; the traps stay armed until the end."""
    traps = Traps()
    try:
        yield asyncio.run(_judged(traps, whole=bool(config.getoption("--whole-corpus")))), traps
    finally:
        traps.close()


async def _judged(traps: Traps, *, whole: bool) -> list[Group]:
    session = Session(SETTINGS)
    await session.start()
    try:
        found: list[Group] = []
        for position, task in enumerate(sorted(FACTS.keys() - {"composite"})):
            problem = await make(session.pool, task)
            hostile = [one.answer for one in hostile_answers(problem, traps)]
            chosen = hostile if whole else hostile[position % ONE_IN :: ONE_IN]
            texts = [f"<answer>{answer}</answer>" for answer in (ordinary_answer(problem), *chosen)]
            for start in range(0, len(texts), GROUP_SIZE):
                group = texts[start : start + GROUP_SIZE]
                verdicts = await session.judge(problem, group)
                found.append(Group(problem.reference, group, outcomes(verdicts)))
        return found
    finally:
        await session.close()


def differences(groups: Sequence[Group], judged: Sequence[Sequence[Outcome]]) -> list[str]:
    """What came out otherwise than in the session, a line each."""
    return [
        f"{group.reference[:60]}: {text[:60]!r}: {came} in place of {expected}"
        for group, found in zip(groups, judged, strict=True)
        for text, came, expected in zip(group.completions, found, group.expected, strict=True)
        if came != expected
    ]

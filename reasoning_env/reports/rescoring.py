"""Judge answers of dumps, process files and evaluation samples again, and tally what changes.

The problem of each line is made again from its task, seed and parameters. One whose question is not in the stored
prompt any more is another problem: its answers are left out, and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from ..concurrency import map_concurrently
from ..dumps.reader import DumpedGroup, DumpedRollout
from ..errors import GenerationError, ScoringError
from ..evaluations.samples import outcome, score_of
from ..library_facts import COMPOSITE
from ..problems import Generator
from ..records import Problem, ProblemSpec, Split, Verdict
from ..rewards import AnswerScorer, score_texts

GROUPS_AT_ONCE = 8
GROUPS_IN_MEMORY = 256
SAME = 1e-6
"""Scores that differ by less are equal: a release may add up in another order."""
EXAMPLES_KEPT = 10


@dataclass(frozen=True)
class Judged:
    """One judgement of an answer; `reason` is None where a file does not tell it."""

    score: float
    reason: str | None

    @property
    def outcome(self) -> str:
        """The reason in a word, which for a scored answer says how right it is."""
        return outcome(self.score, self.reason, None)


@dataclass(frozen=True)
class Change:
    """An answer that is judged differently now."""

    seed: int
    answer: str
    expected: str | None
    before: Judged
    after: Judged


@dataclass
class TaskTally:
    """Sums over a task's rollouts; `outcomes` counts changed ones by their outcomes before and after."""

    rollouts: int = 0
    before: float = 0.0
    after: float = 0.0
    higher: int = 0
    lower: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: list[Change] = field(default_factory=list)

    @property
    def changed(self) -> int:
        return self.outcomes.total()

    @property
    def change(self) -> float:
        """The mean score now less the one before."""
        return (self.after - self.before) / self.rollouts

    def add(self, change: Change) -> None:
        """Count one rollout, whether or not it changed."""
        before, after = change.before, change.after
        self.rollouts += 1
        self.before += before.score
        self.after += after.score
        difference = after.score - before.score
        if abs(difference) <= SAME and before.reason in (None, after.reason):
            return
        self.higher += difference > SAME
        self.lower += difference < -SAME
        self.outcomes[before.outcome, after.outcome] += 1
        if len(self.examples) < EXAMPLES_KEPT:
            self.examples.append(change)


@dataclass
class Rescoring:
    """What was judged again, by task, and what was left out, by reason, with each reason's first case."""

    problems: int = 0
    tasks: dict[str, TaskTally] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    first_left_out: dict[str, str] = field(default_factory=dict)

    @property
    def rollouts(self) -> int:
        return sum(tally.rollouts for tally in self.tasks.values())

    @property
    def changed(self) -> int:
        return sum(tally.changed for tally in self.tasks.values())

    def leave_out(self, reason: str, group: DumpedGroup, detail: str = "") -> None:
        self.left_out[reason] += 1
        self.first_left_out.setdefault(reason, f"{group.item_id}, seed {group.seed}{detail}")


async def rescore(
    groups: Iterable[DumpedGroup],
    generator: Generator,
    verifier: AnswerScorer,
    *,
    max_answer_bytes: int,
    deadline_s: float,
    on_done: Callable[[], None] = lambda: None,
) -> Rescoring:
    """Judge all rollouts again; `deadline_s` is for making a problem. Raises WorkerError without workers."""
    result = Rescoring()

    async def judge(group: DumpedGroup) -> None:
        problem = await _make_again(group, generator, deadline_s, result)
        if problem is None:
            return
        texts = [rollout.conversation[-1]["content"] for rollout in group.rollouts]
        try:
            verdicts = await score_texts(verifier, problem, texts, max_answer_bytes)
        except ScoringError as error:
            result.leave_out("could not be judged", group, f": {error}")
            return
        result.problems += 1
        tally = result.tasks.setdefault(group.item_id, TaskTally())
        for rollout, verdict in zip(group.rollouts, verdicts, strict=True):
            tally.add(_compare(group, problem, rollout, verdict))

    remaining: Iterator[DumpedGroup] = iter(groups)
    while chunk := await asyncio.to_thread(lambda: list(islice(remaining, GROUPS_IN_MEMORY))):
        await map_concurrently(judge, chunk, at_once=GROUPS_AT_ONCE, on_done=on_done)
    return result


async def _make_again(group: DumpedGroup, generator: Generator, deadline_s: float, result: Rescoring) -> Problem | None:
    """Return the problem of a line, or None where that cannot be had, which is counted."""
    if group.seed is None:
        result.leave_out("name no seed", group)
        return None
    # The parameters that made the problem say everything but a composite's level, which its members follow.
    level = group.level if group.item_id == COMPOSITE else None
    spec = ProblemSpec(
        *(group.item_id, group.seed, Split.TRAIN, group.index or 0),
        params=group.params,
        level=level,
        item=group.item or 0,
        dataset_size=group.dataset_size or 1,
        as_is=True,
    )
    try:
        problem = await generator.generate(spec, deadline_s)
    except GenerationError as error:
        result.leave_out("could not be made again", group, f": {error}")
        return None
    prompts = [message["content"] for rollout in group.rollouts[:1] for message in rollout.conversation[:-1]]
    if not any(problem.question in prompt for prompt in prompts):
        result.leave_out("have another question now", group)
        return None
    return problem


def _compare(group: DumpedGroup, problem: Problem, rollout: DumpedRollout, verdict: Verdict) -> Change:
    before, after = Judged(score_of(rollout), rollout.reason), Judged(verdict.score, verdict.reason.value)
    answer = verdict.answer or rollout.answer or rollout.conversation[-1]["content"]
    return Change(problem.spec.seed, answer, problem.answer, before, after)

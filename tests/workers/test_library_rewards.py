"""With `rewards: library`, problems and scores equal those of direct library calls in another process."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reasoning_env import Session
from reasoning_env.problems.plan import composite_params
from reasoning_env.problems.references import Reference
from reasoning_env.records import Problem, ProblemRequest, ProblemSpec, Reason, Split, Verdict
from reasoning_env.tasks import TASKS
from tests.waiting import PATIENCE_S
from tests.workers.direct_calls import call_library

COMPOSED = ("chain_sum", "composite", "maze", "number_sorting")
ALL = sorted(TASKS)
NONSENSE = ("0", "certainly not this", "1, 2")
"""Wrong answers to which some verifiers of the library give a score, and for which others raise."""


@dataclass(frozen=True)
class Compared:
    """A problem of a session, the verdicts on the answers `said`, and the library's own entry and scores."""

    problem: Problem
    said: list[str]
    verdicts: list[Verdict]
    entry: dict[str, Any]
    scores: list[float]

    @property
    def name(self) -> tuple[str, int]:
        return self.problem.task, self.problem.spec.seed


async def compare(folder: Path, seeds: range, tasks: Sequence[str] = ALL) -> list[Compared]:
    """Generate a problem of each task for each seed, score the reference answer and NONSENSE, and call the library
    directly.
    """
    params = composite_params(COMPOSED, ALL)
    async with Session(tasks=ALL, rewards="library", scoring_deadline_s=PATIENCE_S) as session:

        async def judged(task: str, seed: int) -> tuple[Problem, list[str], list[Verdict]]:
            spec = ProblemSpec(ProblemRequest(task, seed, params.get(task, {})), Split.TRAIN, 0)
            problem = await session.pool.generate(spec, PATIENCE_S)
            said = [*NONSENSE] if problem.answer is None else [problem.answer.strip() or "x", *NONSENSE]
            return problem, said, await session.judge(problem, [f"It is <answer>{answer}</answer>" for answer in said])

        found = await asyncio.gather(*(judged(task, seed) for seed in seeds for task in tasks))
    calls = [(problem.task, problem.spec.seed, dict(problem.params), said) for problem, said, _ in found]
    direct = call_library(folder, calls, tagged=False)
    return [
        Compared(problem, said, verdicts, pickle.loads(entry), [score or 0.0 for score in scores])
        for (problem, said, verdicts), (entry, scores) in zip(found, direct, strict=True)
    ]


def check(compared: list[Compared]) -> None:
    assert [one.name for one in compared if one.problem.question != one.entry["question"]] == []
    answers = [(one.name, one.problem.answer, one.entry["answer"]) for one in compared]
    assert [name for name, ours, own in answers if ours != (None if own is None else str(own))] == []
    scored = [(one.name, [verdict.score for verdict in one.verdicts], one.scores) for one in compared]
    assert [(name, ours, own) for name, ours, own in scored if ours != pytest.approx(own)] == []


async def test_library_rewards_equal_direct_library_scores_in_a_sample_of_tasks(tmp_path: Path) -> None:
    check(await compare(tmp_path, range(70_001, 70_002), ALL[::6]))


@pytest.mark.slow
async def test_library_rewards_equal_direct_library_scores_in_every_task(tmp_path: Path) -> None:
    check(await compare(tmp_path, range(71_013, 71_019)))


async def test_problem_reference_contains_the_library_rewards_setting() -> None:
    """The library's verifier of coin_flip gives the answer 0 a mean score of 0.94; strict rewards do not."""
    spec = ProblemSpec(ProblemRequest("coin_flip", 5), Split.TRAIN, 0)
    async with Session(tasks="coin_flip", rewards="library", num_verifiers=1, num_generators=1) as library:
        problem = await library.pool.generate(spec, PATIENCE_S)
        [paid] = await library.judge(problem, ["<answer>0</answer>"])
    assert Reference.parse(problem.reference).as_library
    async with Session(tasks="coin_flip", num_verifiers=1, num_generators=1) as strict:
        [by_reference] = await strict.judge(problem.reference, ["<answer>0</answer>"])
        own = await strict.pool.generate(spec, PATIENCE_S)
        [refused] = await strict.judge(own, ["<answer>0</answer>"])
    assert by_reference.score == paid.score > 0.5 > refused.score


async def test_last_of_several_answers_is_scored_with_library_rewards() -> None:
    async with Session(tasks="gcd", rewards="library", num_verifiers=1, num_generators=1) as session:
        problem = await session.next()
        texts = [f"<answer>no</answer> <answer>{problem.answer}</answer>", "no tags"]
        assert [verdict.score for verdict in await session.judge(problem, texts)] == [1.0, 0.0]


async def test_training_with_library_rewards_includes_every_task() -> None:
    async with Session(rewards="library", num_verifiers=1, num_generators=1) as session:
        assert set(session.plan.training_tasks) == set(ALL)


async def test_library_verifier_times_out_after_the_scoring_deadline() -> None:
    async with Session(
        tasks="simple_integration", rewards="library", scoring_deadline_s=0.5, num_verifiers=1, num_generators=1
    ) as session:
        problem = await session.next()
        metadata = json.loads(problem.metadata_json)
        copied = f"Integral({metadata['integrand']}, {metadata['variable']})"
        answers = [f"<answer>{answer}</answer>" for answer in ("cos(exp(1e30))", copied)]
        hanging, paid = await session.judge(problem, answers)
    assert (hanging.score, hanging.reason) == (0.0, Reason.TIMEOUT)
    assert paid.score == 1.0

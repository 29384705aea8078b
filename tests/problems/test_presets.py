"""Generate and score the published problems of presets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
import pytest_asyncio

from reasoning_env.errors import WorkerError
from reasoning_env.evaluations.published import load_published
from reasoning_env.problems.giving_up import MAX_FAILURES
from reasoning_env.problems.presets import FIRST_SEED, PRESET_SIZE, PresetSet, load_preset
from reasoning_env.records import LibraryInfo, Problem
from reasoning_env.settings import ReasoningSettings
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from tests.fake_workers import FakeWorkers, fails_where
from tests.records import make_problem, problem_of

HASHES = {
    ("rg-easy", "acre"): "ecc4635d5cd4afc2e4ddf6d7a08f0dcb",
    ("rg-easy", "gcd"): "b1ec671c63870a6570cfb47ae63690a7",
    ("rg-easy", "gsm_symbolic"): "d8145060337487ac2861c74fb9cdbfa3",
    ("rg-easy", "knights_knaves"): "2b08097170fc412227ca24a0407413d9",
    ("rg-hard", "chain_sum"): "76199fa26e16b05abfc19d01c83bb4a9",
    ("rg-hard", "needle_haystack"): "8a4948dba2b53f4a3d0a8c844a38cde3",
}
"""Hashes of the fifty published problems of each task. The test generates all of them for these tasks."""


Library = tuple[WorkerPool, LibraryInfo]
on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library() -> AsyncIterator[Library]:
    pool = WorkerPool(PoolSettings(ReasoningSettings(num_generators=1, num_verifiers=1)))
    yield pool, await pool.start()
    await pool.close()


def hash_problems(problems: Sequence[Problem]) -> str:
    """Return a hash of the questions and answers of one task, with their positions."""
    hashes = [
        [problem.task, problem.spec.index, _hash([problem.question, problem.answer])]
        for problem in sorted(problems, key=lambda problem: problem.spec.index)
    ]
    return _hash(hashes)


def _hash(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


async def make(pool: WorkerPool, preset: str, task: str, samples: int = PRESET_SIZE) -> list[Problem]:
    params = load_preset(preset).params
    return await PresetSet(
        pool, [task], params, samples_per_task=samples, eval_seed=FIRST_SEED, deadline_s=60.0
    ).problems()


@on_one_loop
@pytest.mark.parametrize(("preset", "task"), HASHES)
async def test_preset_problems_equal_the_published_problems(library: Library, preset: str, task: str) -> None:
    assert task in load_published(preset).comparable
    problems = await make(library[0], preset, task)
    assert hash_problems(problems) == HASHES[preset, task]


@on_one_loop
@pytest.mark.parametrize("task", ["acre", "arc_1d", "countdown", "game_of_life", "gsm_symbolic", "puzzle24", "rearc"])
async def test_answers_published_with_a_preset_earn_full_score(library: Library, task: str) -> None:
    for problem in await make(library[0], "rg-easy", task, samples=3):
        (verdict,) = await library[0].score(problem, [str(problem.answer)], plainly=True)
        assert verdict.score == 1.0


@on_one_loop
async def test_answer_to_a_preset_problem_gets_a_library_score_and_a_strict_score(library: Library) -> None:
    (problem,) = await make(library[0], "rg-easy", "game_of_life_halting", samples=1)
    plain, strict = [await library[0].score(problem, ["perhaps"], plainly=plainly) for plainly in (True, False)]
    assert (plain[0].score, strict[0].score) == (1.0, 0.0)


@on_one_loop
@pytest.mark.parametrize(("preset", "task", "number"), [("rg-easy", "aiw", 1), ("rg-easy", "knight_swap", 10)])
async def test_wrong_published_answer_gets_full_score_only_with_plain_rewards(
    library: Library, preset: str, task: str, number: int
) -> None:
    problem = (await make(library[0], preset, task, samples=number + 1))[number]
    answers = [str(problem.answer), str(problem.library_answer)]
    for plainly, scores in ((False, [1.0, 0.0]), (True, [0.0, 1.0])):
        verdicts = await library[0].score(problem, answers, plainly=plainly)
        assert [float(verdict.score == 1.0) for verdict in verdicts] == scores


@on_one_loop
async def test_preset_uses_the_system_prompt_of_reasoning_gym(library: Library) -> None:
    assert library[1].system_prompt.count("<answer>") == 1


@pytest.mark.parametrize(("works_at", "made"), [({0}, 1), (set(range(0, PRESET_SIZE, 3)), 17)])
async def test_preset_gives_up_a_task_after_repeated_generation_failures(works_at: set[int], made: int) -> None:
    workers = FakeWorkers(fails_where(lambda spec: spec.index not in works_at))
    failing = PresetSet(
        workers, ["knight_swap"], {}, samples_per_task=PRESET_SIZE, eval_seed=FIRST_SEED, deadline_s=1.0
    )
    assert len(await failing.problems()) == made
    assert len(workers.specs) == (PRESET_SIZE if made > 1 else made + MAX_FAILURES)


async def test_preset_problem_stays_the_same_if_a_worker_is_killed() -> None:
    workers = FakeWorkers(Mock(side_effect=[WorkerError("killed by another process"), make_problem("gcd")]))
    preset = PresetSet(workers, ["gcd"], {}, samples_per_task=1, eval_seed=FIRST_SEED, deadline_s=60.0)
    assert len(await preset.problems()) == 1
    assert len({spec.seed for spec in workers.specs}) == 1


async def test_training_excludes_preset_questions_even_in_tasks_with_many_questions() -> None:
    """Training may sample the seeds that a preset uses."""
    workers = FakeWorkers(lambda spec: problem_of(spec, f"question {spec.seed}"))
    preset = PresetSet(workers, ["count_bits"], {}, samples_per_task=2, eval_seed=FIRST_SEED, deadline_s=60.0)
    question = (await preset.problems())[0].question
    assert await preset.has_question(make_problem("count_bits", question=question))


async def test_preset_stream_skips_problems_that_are_already_done() -> None:
    workers = FakeWorkers(lambda spec: problem_of(spec, f"question {spec.seed}"))
    preset = PresetSet(workers, ["gcd"], {}, samples_per_task=5, eval_seed=FIRST_SEED, deadline_s=60.0)
    done = {("gcd", number) for number in range(4)}
    assert [problem.spec.index async for problem in preset.stream(done=done)] == [4]
    assert [spec.index for spec in workers.specs] == [4]

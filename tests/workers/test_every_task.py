"""Compare the problems and scores of real workers with direct calls of the library, for every task.

One generator and one verifier worker process all problems, level after level, so that state which one problem leaves
behind would change a later problem.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reasoning_env.problems.plan import composite_params
from reasoning_env.problems.references import Reference
from reasoning_env.records import Problem, ProblemRequest, ProblemSpec, Reason, Split, Verdict
from reasoning_env.rewards import extract_answer
from reasoning_env.seeds import hash_fraction
from reasoning_env.settings import SYSTEM_PROMPT
from reasoning_env.tasks import TASKS, find_task
from reasoning_env.workers.levels import DifficultyMap
from tests.waiting import PATIENCE_S
from tests.workers.direct_calls import call_library

from .support import COMPOSITE, OVERRIDES, SCORED_BY_CONFIG, running_pool

pytestmark = pytest.mark.slow

MAX_QUESTION = 20_000
WRONG_ANSWER = "certainly not this"
EXAMPLE_ANSWER = extract_answer(SYSTEM_PROMPT.rpartition("\n\n")[2], 100).answer or ""
SEEDS = (17, 3_000_002_002)
"""Two seeds, below and above 2**31. Problems of the second come from cached datasets and are compared."""
COMPOSED = ("chain_sum", "composite", "leg_counting", "maze", "number_sorting", "word_ladder")
"""Members of `composite`, with default parameters. Some need a new dataset for each seed, and one is slow."""
COMPUTES_FROM_PARAMS = ("count_primes", "emoji_mystery", "manipulate_matrix", "rush_hour", "spell_backward")
"""Tasks whose constructor prepares data from its parameters for later generation."""
ALTERNATING = sorted(
    {*OVERRIDES, *SCORED_BY_CONFIG, *COMPUTES_FROM_PARAMS, "countdown", "list_functions"} - {"word_ladder"}
)
"""Tasks with special generation or scoring, which alternate with other tasks.

`word_ladder` is excluded because it is slow.
"""


@dataclass(frozen=True)
class Served:
    """A problem from the workers with its verdicts, and the results of a direct library call.

    `oracle` and `example` are the verdicts on the reference answer and on the answer in the default prompt. `plain` has
    verdicts of the library's own verifiers, in the order of `direct_scores`; it may be empty. `direct` is the library's
    entry; None without a direct call. `remade` is the question of the problem generated from this problem's reference;
    None if no problem was generated.
    """

    problem: Problem
    oracle: Verdict | None
    example: Verdict
    plain: list[Verdict]
    direct: Any = None
    remade: str | None = None
    direct_scores: list[float | None] = field(default_factory=list)

    @property
    def name(self) -> tuple[str, int, float | None]:
        return self.problem.task, self.problem.spec.seed, self.problem.spec.level


def _specs() -> Iterator[ProblemSpec]:
    """Yield specs with the default parameters of every task, then level after level, each with a new seed."""
    defaults = composite_params(COMPOSED, sorted(TASKS))
    for seed in SEEDS:
        for task in sorted(TASKS):
            yield ProblemSpec(ProblemRequest(task, seed, defaults.get(task, {})), Split.TRAIN, 0)
    seed = 90_000
    for round_, level in enumerate((1.0, 0.0, None, 1.0)):
        wanted: list[tuple[str, Mapping[str, Any]]] = [("composite", COMPOSITE)] * 3
        wanted += [(task, {}) for task in (sorted(TASKS.keys() - {"composite"}) if round_ < 2 else ALTERNATING)]
        if round_ < 2:
            wanted += OVERRIDES.items()
        for task, params in wanted:
            seed += 37
            yield ProblemSpec(ProblemRequest(task, seed, params, level), Split.TRAIN, 0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, difficulty: DifficultyMap) -> list[Served]:
    served = asyncio.run(_through_workers())
    calls = [
        (one.problem.task, one.problem.spec.seed, _params(one.problem, difficulty), _plain_answers(one.problem))
        for one in served
        if _is_compared(one.problem.spec)
    ]
    direct = iter(call_library(tmp_path_factory.mktemp("direct"), calls))

    def beside_direct_call(one: Served) -> Served:
        if not _is_compared(one.problem.spec):
            return one
        entry, scores = next(direct)
        return replace(one, direct=pickle.loads(entry), direct_scores=scores)

    return list(map(beside_direct_call, served))


def _is_compared(spec: ProblemSpec) -> bool:
    """Return True if the test compares the problem of this spec with a direct call of the library.

    Problems at a level are compared only for tasks with special generation.
    """
    return spec.task in (*ALTERNATING, "composite") or (spec.level is None and spec.seed != SEEDS[0])


async def _through_workers() -> list[Served]:
    async with running_pool(None) as pool, running_pool(None, rewards="plain") as plain:

        async def serve(spec: ProblemSpec) -> Served:
            problem = await pool.generate(spec, PATIENCE_S)
            scorable = problem.answer is not None
            oracle = (await pool.score(problem, [str(problem.answer)]))[0] if scorable else None
            [example] = await pool.score(problem, [EXAMPLE_ANSWER])
            asked = _plain_answers(problem)
            remade = None
            if _is_compared(spec):
                remade = (await pool.generate(Reference.parse(problem.reference).spec(), PATIENCE_S)).question
            plainly = await plain.score(problem, asked) if asked else []
            return Served(problem, oracle, example, plainly, remade=remade)

        return list(await asyncio.gather(*map(serve, _specs())))


def _plain_answers(problem: Problem) -> list[str]:
    if problem.spec.level is not None or not _is_compared(problem.spec):
        return []
    return [WRONG_ANSWER] if problem.answer is None else [WRONG_ANSWER, problem.answer]


def _params(problem: Problem, difficulty: DifficultyMap) -> dict[str, Any]:
    """Return the problem's parameters. For composite, include the parameters of its members at the level."""
    if problem.task != "composite" or problem.spec.level is None:
        return dict(problem.params)
    return dict(difficulty.parameters("composite", problem.spec.level, problem.spec.params).params)


# ------------------------------------------------------------------ generated problems


def test_worker_makes_the_same_problems_as_a_direct_library_call(served: list[Served]) -> None:
    called = [one for one in served if one.direct is not None]
    assert {one.problem.task for one in called} == TASKS.keys()
    compared = [one for one in called if not _is_corrected(one.problem)]
    assert [one.name for one in compared if pickle.loads(one.problem.entry) != one.direct] == []
    assert [one.name for one in compared if one.problem.question != one.direct["question"]] == []
    answers = [(one.problem.answer, one.direct["answer"]) for one in compared]
    assert all(answer == (None if direct is None else str(direct)) for answer, direct in answers)


def test_metadata_of_a_corrected_problem_contains_the_uncorrected_library_answer(served: list[Served]) -> None:
    corrected = [one for one in served if one.direct is not None and _is_corrected(one.problem)]
    assert corrected
    for one in corrected:
        metadata = json.loads(one.problem.metadata_json)
        library_answer = metadata.get("library_answer", one.problem.answer)
        assert library_answer == one.direct["answer"]
        assert (one.problem.question != one.direct["question"]) is metadata.get("clarified", False)


def _is_corrected(problem: Problem) -> bool:
    """Return True if the served answer or question differs from the library's."""
    return bool({"library_answer", "clarified"} & json.loads(problem.metadata_json).keys())


def test_different_seeds_give_different_problems(served: list[Served]) -> None:
    number = len(TASKS)
    first, second = ([one.problem for one in served[start : start + number]] for start in (0, number))
    assert [one.task for one, other in zip(first, second, strict=True) if one.entry == other.entry] == []


def test_generated_problems_have_the_requested_params(served: list[Served], difficulty: DifficultyMap) -> None:
    for one in served:
        problem, asked, overrides = one.problem, one.problem.spec.level, dict(one.problem.spec.params)
        if problem.task == "composite":
            member = one.direct["metadata"]["source_dataset"]
            assert problem.level == (None if member == "acre" else asked)
            continue
        served = find_task(problem.task).served_params
        if asked is None:
            assert (problem.params, problem.level) == ({**served, **overrides}, None)
        else:
            draw = hash_fraction("level", problem.spec.seed)
            resolved = difficulty.parameters(problem.task, asked, overrides, draw=draw)
            assert (problem.params, problem.level) == ({**served, **resolved.params}, resolved.level)
            # Only the user's parameters may change the level of a problem.
            assert problem.level == asked or overrides or not difficulty.adjustable(problem.task)


def test_problems_made_again_from_problem_references_are_the_same(served: list[Served]) -> None:
    remade = [one for one in served if one.remade is not None]
    assert {one.problem.task for one in remade} == TASKS.keys()
    assert [one.name for one in remade if one.remade != one.problem.question] == []


def test_questions_stay_below_a_length_limit(served: list[Served]) -> None:
    assert [one.name for one in served if one.problem.spec.level and len(one.problem.question) > MAX_QUESTION] == []


# ------------------------------------------------------------------ scores


def test_reference_answers_get_full_score(served: list[Served]) -> None:
    scored = [one for one in served if one.oracle]
    wrong = [one for one in scored if (one.oracle.score, one.oracle.reason) != (1.0, Reason.SCORED)]
    assert [one.name for one in wrong] == []
    assert len(scored) > 0.85 * len(served)


def test_submitting_the_example_answer_of_the_prompt_earns_at_most_0_35(served: list[Served]) -> None:
    assert EXAMPLE_ANSWER
    assert [one.name for one in served if one.example.score > 0.35] == []


def test_plain_rewards_of_a_worker_equal_direct_library_scores(served: list[Served]) -> None:
    scored = [one for one in served if one.plain]
    assert {one.problem.task for one in scored} == TASKS.keys()
    compared = [one for one in scored if not _is_corrected(one.problem)]
    assert [one.name for one in compared if list(map(_score, one.plain)) != one.direct_scores] == []


def _score(verdict: Verdict) -> float | None:
    """Return the score; None if the verifier failed, in which case the verdict must be 0."""
    if verdict.reason is Reason.VERIFIER_ERROR:
        assert verdict.score == 0.0
        return None
    assert verdict.reason is Reason.SCORED
    return verdict.score

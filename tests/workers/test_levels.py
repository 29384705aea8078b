"""Problems at levels of difficulty through real workers, beside a direct call of the library in a process of its own.

One generator and one verifier worker serve everything, level after level, so that whatever a level leaves behind meets
the next one.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env.errors import GenerationError, WorkerError
from reasoning_env.library_facts import FACTS, KNOWN_TASKS, Rebuild
from reasoning_env.records import Problem, ProblemSpec, Reason, Split, Verdict
from reasoning_env.workers.difficulty import Difficulty
from reasoning_env.workers.pool import PoolSettings, WorkerPool

from .support import running_pool, spec, until

on_one_loop = pytest.mark.asyncio(loop_scope="module")
"""For tests that share the worker processes."""
DEADLINE_S = 60.0
ALL_TASKS = sorted(KNOWN_TASKS - {"composite"})
REBUILT_FOR_EACH_LEVEL = {task for task, known in FACTS.items() if known.rebuild is Rebuild.FOR_EACH_LEVEL}
REBUILT_FOR_EACH_SEED = {task for task, known in FACTS.items() if known.rebuild is Rebuild.FOR_EACH_SEED}
JUDGED_BY_CONFIG = ("decimal_arithmetic", "puzzle24", "time_intervals", "word_ladder")
ALTERNATING = sorted(
    {"arc_1d", "chain_sum", "countdown", "gcd", "knights_knaves", "maze", "number_sorting", "pool_matrix"}
    | {*JUDGED_BY_CONFIG, "letter_counting", "shortest_path", "spiral_matrix", "list_functions"}
    | REBUILT_FOR_EACH_LEVEL
)
OVERRIDES: dict[str, dict[str, Any]] = {
    "caesar_cipher": {"max_rotation": 24},
    "calendar_arithmetic": {"offset_upper_bound": 40},
    "chain_sum": {"min_digits": 1, "allow_negation": True},
    "codeio": {"input_prediction_probability": 1.0},
    "decimal_arithmetic": {"max_num_decimal_places": 8},
    "letter_counting": {"max_words": 40},
    "puzzle24": {"operators": ["+", "*", "-"]},
    "time_intervals": {"task_types": ["date"], "max_date_difference_days": 20},
    "word_ladder": {"max_word_length": 5},
    "word_sorting": {"max_words": 12},
}
MEMBERS = [{"name": name, "config": dict(OVERRIDES.get(name, {}))} for name in ("acre", "chain_sum", "time_intervals")]
COMPOSITE = {"datasets": [*MEMBERS, {"name": "puzzle24", "weight": 2.0}]}
DIRECT_CALLS = """
import decimal, pickle, random, sys
import numpy
import reasoning_gym
from reasoning_gym.composite import DatasetSpec

REBUILT_FOR_EACH_LEVEL = {task for task, known in FACTS.items() if known.rebuild is Rebuild.FOR_EACH_LEVEL}

REBUILT_FOR_EACH_SEED = {task for task, known in FACTS.items() if known.rebuild is Rebuild.FOR_EACH_SEED}

def call(task, seed, params):
    # As the workers do, for what draws from the global generators: list_functions and some programs of codeio.
    random.seed(seed)
    numpy.random.seed(seed)
    decimal.setcontext(decimal.DefaultContext.copy())
    if task == "composite":
        members = params["datasets"]
        params = {"datasets": [DatasetSpec(m["name"], m.get("weight", 1.0), m.get("config", {})) for m in members]}
    return pickle.dumps(reasoning_gym.create_dataset(task, seed=seed, size=1, **params)[0])

wanted, results = sys.argv[1:]
with open(wanted, "rb") as file:
    calls = pickle.load(file)
made = [call(*one) for one in calls]
with open(results, "wb") as file:
    pickle.dump(made, file)
"""


@dataclass(frozen=True)
class Case:
    """One problem to make: a task at a level with what the user sets."""

    task: str
    seed: int
    level: float | None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> ProblemSpec:
        return ProblemSpec(self.task, self.seed, Split.TRAIN, 0, params=self.params, level=self.level)


@dataclass(frozen=True)
class Outcome:
    """What the workers made of a case, the verdict on the library's own answer, and the direct call's entry."""

    problem: Problem
    oracle: Verdict | None
    direct: Any


def _cases() -> list[Case]:
    """Level after level, each for all tasks before the next, with a seed of its own for each problem."""
    wanted: list[tuple[str, float | None, Mapping[str, Any]]] = []
    for level in (0.0, 1.0):
        wanted += [(task, level, {}) for task in ALL_TASKS if task not in ALTERNATING]
    for level in (1.0, 0.0, None, 0.5, 1.0):
        for task in ALTERNATING:
            wanted.append((task, level, {}))
            if task in OVERRIDES:
                wanted.append((task, level, OVERRIDES[task]))
        wanted += [("composite", level, COMPOSITE)] * 3
    return [Case(task, 90_000 + 37 * number, level, params) for number, (task, level, params) in enumerate(wanted)]


@cache
def _library() -> Difficulty:
    return Difficulty.from_factory(importlib.import_module("reasoning_gym.factory"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real_pool() -> AsyncIterator[WorkerPool]:
    """One generator and one verifier worker over the installed library, for all tests."""
    pool = WorkerPool(PoolSettings(generators=1, verifiers=1, niceness=0, scoring_deadline_s=DEADLINE_S))
    try:
        await pool.start()
        yield pool
    finally:
        await pool.close()


async def _make_and_score(pool: WorkerPool, case: Case) -> tuple[Problem, Verdict | None]:
    problem = await pool.generate(case.spec, DEADLINE_S)
    if problem.answer is None or problem.flaw is not None:
        return problem, None
    (verdict,) = await pool.score(problem, [problem.answer])
    return problem, verdict


def _call_directly(folder: Path, problems: list[Problem]) -> list[Any]:
    """The entries that the library makes of the problems' own parameters in fresh processes, one for each core."""
    calls = [(problem.task, problem.spec.seed, _params(problem)) for problem in problems]
    halves = [calls[::2], calls[1::2]]
    running = []
    for number, half in enumerate(halves):
        files = [folder / f"wanted{number}", folder / f"results{number}"]
        files[0].write_bytes(pickle.dumps(half))
        running.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", DIRECT_CALLS, *map(str, files)],
                env={**os.environ, "PYTHONHASHSEED": "0"},
                cwd=folder,
                stdout=subprocess.DEVNULL,
            )
        )
    try:
        assert [process.wait(timeout=100) for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
            process.wait()
    entries: list[Any] = [None] * len(calls)
    for number in range(2):
        results = pickle.loads((folder / f"results{number}").read_bytes())
        entries[number::2] = [pickle.loads(entry) for entry in results]
    return entries


def _params(problem: Problem) -> dict[str, Any]:
    """The problem's parameters; those of a composite with what the level makes of its members."""
    asked = problem.spec.level
    if problem.task != "composite" or asked is None:
        return dict(problem.params)
    return dict(_library().parameters("composite", asked, problem.spec.params).params)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(real_pool: WorkerPool, tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    made = await asyncio.gather(*(_make_and_score(real_pool, case) for case in _cases()))
    direct = _call_directly(tmp_path_factory.mktemp("direct"), [problem for problem, _ in made])
    return [Outcome(problem, verdict, entry) for (problem, verdict), entry in zip(made, direct, strict=True)]


def _named(outcomes: list[Outcome]) -> list[tuple[str, float | None, Any]]:
    return [(outcome.problem.task, outcome.problem.spec.level, outcome.problem.spec.params) for outcome in outcomes]


# ---------------------------------------------------------------------------- what is made


@pytest.mark.slow
def test_items_are_those_of_a_direct_call_with_the_params_of_the_problem(outcomes: list[Outcome]) -> None:
    different = [outcome for outcome in outcomes if pickle.loads(outcome.problem.entry) != outcome.direct]
    assert _named(different) == []
    assert {problem.task for problem in (outcome.problem for outcome in outcomes)} == KNOWN_TASKS


@pytest.mark.slow
def test_problems_hold_the_params_of_their_level_with_those_of_the_user_over_them(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        problem, asked = outcome.problem, outcome.problem.spec.level
        if problem.task != "composite":
            wanted = dict(problem.spec.params)
            params = wanted if asked is None else _library().parameters(problem.task, asked, wanted).params
            assert problem.params == params


@pytest.mark.slow
def test_problems_say_the_level_they_stand_for(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        problem = outcome.problem
        if problem.task != "composite":
            asked, wanted = problem.spec.level, dict(problem.spec.params)
            level = None if asked is None else _library().parameters(problem.task, asked, wanted).level
            assert problem.level == level
            # Only what the user sets may move a problem away from the level that was asked for.
            assert level == asked or wanted or problem.task in REBUILT_FOR_EACH_SEED


@pytest.mark.slow
def test_library_s_own_answers_are_right_at_every_level(outcomes: list[Outcome]) -> None:
    judged = [outcome for outcome in outcomes if outcome.oracle is not None]
    assert _named([outcome for outcome in judged if outcome.oracle and outcome.oracle.score < 1.0]) == []
    expected = {*JUDGED_BY_CONFIG, *REBUILT_FOR_EACH_LEVEL, "composite"} - {"rush_hour"}  # which has no answer to show
    assert {outcome.problem.task for outcome in judged} >= expected


@pytest.mark.slow
def test_member_of_a_composite_has_the_level_and_one_without_levels_has_none(outcomes: list[Outcome]) -> None:
    seen = set()
    for outcome in outcomes:
        problem = outcome.problem
        if problem.task == "composite":
            member = outcome.direct["metadata"]["source_dataset"]
            assert problem.level == (None if member == "acre" else problem.spec.level)
            seen.add(member)
    assert seen == {"acre", "chain_sum", "puzzle24", "time_intervals"}


# ---------------------------------------------------------------------------- which level is used


@on_one_loop
async def test_level_between_two_steps_is_that_of_the_nearest(real_pool: WorkerPool) -> None:
    problems = [await real_pool.generate(Case("chain_sum", 1, level).spec, DEADLINE_S) for level in (0.3, 0.3125)]
    assert [problem.level for problem in problems] == [0.3125, 0.3125]
    assert [problem.spec.level for problem in problems] == [0.3, 0.3125]
    assert problems[0].question == problems[1].question


@on_one_loop
async def test_level_that_the_user_s_params_refuse_gives_way(real_pool: WorkerPool) -> None:
    problem, verdict = await _make_and_score(real_pool, Case("chain_sum", 1, 0.0, {"min_terms": 7}))
    assert problem.level == 0.5
    assert (problem.params["min_terms"], problem.params["max_terms"]) == (7, 7)
    assert verdict is not None
    assert verdict.score == 1.0


@on_one_loop
async def test_params_that_no_level_goes_with_fail_by_name(real_pool: WorkerPool) -> None:
    with pytest.raises(GenerationError, match=r'chain_sum: no level works with \{"min_terms": 99\}'):
        await real_pool.generate(Case("chain_sum", 1, 0.5, {"min_terms": 99}).spec, DEADLINE_S)


@on_one_loop
async def test_judge_uses_the_level_that_the_problem_has_not_the_one_that_was_asked_for(
    real_pool: WorkerPool,
) -> None:
    asked = Case("decimal_arithmetic", 3, 0.0)
    problem, _ = await _make_and_score(real_pool, asked)
    near = str(float(problem.answer or "") + 0.00005)  # within the tolerance of 4 decimal places, not of 8
    harder = replace(problem, level=1.0)
    verdicts = [(await real_pool.score(one, [near]))[0].score for one in (problem, harder, problem)]
    assert verdicts == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("level", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("task", JUDGED_BY_CONFIG)
@on_one_loop
async def test_judges_follow_the_params_of_the_user(real_pool: WorkerPool, task: str, level: float | None) -> None:
    await _make_and_score(real_pool, Case(task, 0, None))
    for seed in range(3):
        _, verdict = await _make_and_score(real_pool, Case(task, seed, level, OVERRIDES[task]))
        assert verdict is not None
        assert (verdict.score, verdict.reason) == (1.0, Reason.SCORED)


# ---------------------------------------------------------------------------- what is the same each time


@on_one_loop
async def test_precision_of_one_task_does_not_round_the_numbers_of_another(real_pool: WorkerPool) -> None:
    made = []
    for precision in (5, 28):
        before = Case("decimal_arithmetic", 1, None, {"precision": precision})
        await real_pool.generate(before.spec, DEADLINE_S)
        made.append(await real_pool.generate(Case("decimal_chain_sum", 5, 1.0).spec, DEADLINE_S))
    assert made[0].question == made[1].question
    assert made[0].answer == made[1].answer


@on_one_loop
async def test_item_that_draws_from_numpy_is_the_same_each_time(real_pool: WorkerPool) -> None:
    case = Case("codeio", 585_942_654, None, {"input_prediction_probability": 0.5})
    first, second = [await real_pool.generate(case.spec, DEADLINE_S) for _ in range(2)]
    assert first.entry == second.entry


# ---------------------------------------------------------------------------- checks before a run


FAULTS: list[tuple[str, dict[str, Any], float | None, str]] = [
    ("gcd", {"max_valu": 3}, None, "gcd: there is no parameter 'max_valu'; there is max_value, "),
    ("gcd", {"seed": 3}, None, "gcd: seed cannot be set: every problem gets its own"),
    ("gcd", {"size": 3}, 0.5, "gcd: size cannot be set: every problem gets its own"),
    ("gcd", {"min_value": 0}, None, 'gcd: the library refuses {"min_value": 0} (AssertionError: min_value must be '),
    ("gcd", {"min_value": "a"}, None, 'gcd: the library refuses {"min_value": "a"} (TypeError: '),
    ("gcd", {"max_value": 10}, 0.5, 'gcd: the library refuses {"max_value": 10} (ValueError: gcd: no level works '),
    ("composite", {"datasets": [{"name": "gdc"}]}, None, "composite: there is no task 'gdc'; there is gcd"),
    ("composite", {"datasets": [{"name": "gcd", "config": {"a": 1}}]}, 0.5, "composite: gcd: there is no parameter"),
    ("composite", {}, None, "composite: datasets must list at least one member"),
]


@on_one_loop
async def test_faults_are_told_one_for_each_task_in_order(real_pool: WorkerPool) -> None:
    found = await real_pool.check([(task, params, level) for task, params, level, _ in FAULTS])
    assert len(found) == len(FAULTS)
    for fault, (*_, message) in zip(found, FAULTS, strict=True):
        assert fault.startswith(message)


@on_one_loop
async def test_nothing_is_found_where_nothing_is_wrong(real_pool: WorkerPool) -> None:
    fine: list[tuple[str, Mapping[str, Any], float | None]] = [
        (task, params, level) for task, params in OVERRIDES.items() for level in (None, 0.0, 1.0)
    ]
    assert await real_pool.check([*fine, ("composite", COMPOSITE, 0.5), ("gcd", {"max_value": 10}, None)]) == []
    assert await real_pool.check([]) == []


@on_one_loop
async def test_checking_leaves_no_worker_behind(real_pool: WorkerPool) -> None:
    for _ in range(3):
        await real_pool.check([("gcd", {"seed": 3}, None)])
    await until(lambda: len(real_pool.worker_pids) == 2)


@on_one_loop
async def test_what_cannot_be_sent_to_a_worker_is_an_error_that_says_so(real_pool: WorkerPool) -> None:
    with pytest.raises(WorkerError, match=r"parameters cannot be checked \(TypeError: .*not JSON serializable"):
        await real_pool.check([("gcd", {"max_value": {1, 2}}, None)])


# ---------------------------------------------------------------------------- a library without curricula


async def test_library_without_curricula_has_nothing_to_adjust(fake_library: Path) -> None:
    pool = WorkerPool(PoolSettings(generators=1, verifiers=1, checkout=fake_library, sandbox_verifiers=False))
    try:
        info = await pool.start()
    finally:
        await pool.close()
    assert info.adjustable == frozenset()


async def test_level_changes_nothing_in_a_library_without_curricula(fake_library: Path) -> None:
    async with running_pool(fake_library) as pool:
        problem = await pool.generate(replace(spec(width=3), level=0.5), DEADLINE_S)
        (verdict,) = await pool.score(problem, [str(problem.answer)])
        assert (problem.params, problem.level, problem.metadata_json) == ({"width": 3}, None, '{"width": 3}')
        assert verdict.score == 1.0


async def test_config_that_says_nothing_of_its_fields_is_asked_by_building_it(fake_library: Path) -> None:
    async with running_pool(fake_library) as pool:
        assert await pool.check([("ok", {"width": 3}, None), ("ok", {"width": 3}, 0.5)]) == []
        [fault] = await pool.check([("ok", {"self": 3}, None)])
    assert fault.startswith('ok: the library refuses {"self": 3} (TypeError')

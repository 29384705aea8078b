"""Entries that must not be served: found where an independent computation finds them, nowhere else, and passed by."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import pytest
import reasoning_gym
import sympy
from reasoning_gym.logic.propositional_logic import Expression

from reasoning_env.errors import GenerationError
from reasoning_env.evaluation import EVAL_DRAWS, EvaluationSet
from reasoning_env.library_facts import KNOWN_TASKS
from reasoning_env.problems import ProblemStream
from reasoning_env.records import Problem, ProblemSpec
from reasoning_env.tasks.parameters import SpecRules
from reasoning_env.tasks.sampling import UniformSampler
from reasoning_env.verifiers import find_flaw
from reasoning_env.workers.pool import WorkerPool

SLOW = frozenset({"codeio", "composite", "futoshiki", "knight_swap", "sokoban", "zebra_puzzles"})
"""Tasks whose items take long to make, cannot be made from defaults, or run code of their own to be made."""
TASKS_WITH_FLAWS = frozenset({"intermediate_integration", "propositional_logic"})


@cache
def _entries(task: str, count: int) -> list[dict[str, Any]]:
    dataset = reasoning_gym.create_dataset(task, seed=60_000, size=count)
    return [dataset[number] for number in range(count)]


# ------------------------------------------------------------------ what is flawed


def test_integrals_are_flawed_exactly_where_the_oracle_holds_one() -> None:
    entries = _entries("intermediate_integration", 70)
    unsolved = [sympy.sympify(entry["answer"]).has(sympy.Integral) for entry in entries]
    assert [find_flaw("intermediate_integration", entry) is not None for entry in entries] == unsolved
    assert 2 <= sum(unsolved) <= 40


def test_premises_are_flawed_exactly_where_no_assignment_makes_them_all_true() -> None:
    entries = _entries("propositional_logic", 300)
    contradictory = [not _can_be_true(entry["metadata"]) for entry in entries]
    assert [find_flaw("propositional_logic", entry) is not None for entry in entries] == contradictory
    assert 20 <= sum(contradictory) <= 150


def _can_be_true(metadata: Mapping[str, Any]) -> bool:
    """By the library's own truth tables, line by line."""
    names = metadata["variables"]
    premises = [Expression.from_string(premise) for premise in metadata["premises"]]
    return any(
        all(premise.evaluate(dict(zip(names, values, strict=True))) for premise in premises)
        for values in itertools.product((False, True), repeat=len(names))
    )


@pytest.mark.parametrize(
    ("premises", "flawed"),
    [
        (["P", "¬P"], True),
        (["(P ∧ ¬P)"], True),
        (["(P ↔ Q)", "P", "¬Q"], True),
        (["(P → Q)", "(Q → R)", "P", "¬R"], True),
        (["((P ∨ Q) ∧ (¬P ∧ ¬Q))"], True),
        (["¬(S ∨ ¬S)"], True),
        (["P"], False),
        (["(P → ¬P)"], False),
        (["(P ∨ ¬P)"], False),
        (["(P ∨ Q)", "¬P"], False),
        (["¬¬¬P", "(P ∨ (Q ∨ (R ∨ S)))"], False),
    ],
)
def test_premises_contradict_each_other(premises: list[str], flawed: bool) -> None:
    entry = {"answer": None, "metadata": {"premises": premises}}
    assert (find_flaw("propositional_logic", entry) is not None) is flawed


def test_flaw_says_what_it_is() -> None:
    integral = find_flaw("intermediate_integration", {"answer": "2*Integral(x, x) + C", "metadata": {}})
    premises = find_flaw("propositional_logic", {"answer": None, "metadata": {"premises": ["P", "¬P"]}})
    assert integral is not None and "integral" in integral
    assert premises is not None and "contradict" in premises


@pytest.mark.parametrize("task", sorted(KNOWN_TASKS - SLOW - TASKS_WITH_FLAWS))
def test_other_tasks_have_no_flawed_entries(task: str) -> None:
    assert [find_flaw(task, entry) for entry in _entries(task, 3)] == [None] * 3


# ------------------------------------------------------------------ the stream


class Generator:
    """Makes every problem at once; those that `is_flawed` picks out have a flaw."""

    def __init__(self, is_flawed: Callable[[ProblemSpec], bool]) -> None:
        self._is_flawed = is_flawed
        self.specs: list[ProblemSpec] = []

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        self.specs.append(spec)
        await asyncio.sleep(0)
        flaw = "contradicts itself" if self._is_flawed(spec) else None
        return Problem(spec, "question", "answer", "{}", b"", flaw=flaw)


def _odd_seed(spec: ProblemSpec) -> bool:
    return spec.seed % 2 == 1


async def _serve(generator: Generator, count: int, tasks: Sequence[str] = ("a", "b", "c")) -> tuple[list[Problem], Any]:
    """The first problems of a stream, and its counts when they were served."""
    sampler = UniformSampler(tasks, tasks, SpecRules(5))
    stream = ProblemStream(generator, sampler, depth=4, deadline_s=5.0, quarantine_after=3)
    try:
        return [await stream.next() for _ in range(count)], stream.stats
    finally:
        await stream.close()


async def test_stream_serves_no_flawed_problem() -> None:
    problems, _ = await _serve(Generator(_odd_seed), 200)
    assert [problem.flaw for problem in problems] == [None] * 200


async def test_every_position_of_the_stream_is_served_in_order_in_spite_of_flaws() -> None:
    problems, _ = await _serve(Generator(_odd_seed), 200)
    assert [problem.spec.index for problem in problems] == list(range(200))


async def test_flawed_problem_is_replaced_by_another_of_its_task() -> None:
    flawless, _ = await _serve(Generator(lambda spec: False), 200)
    problems, _ = await _serve(Generator(_odd_seed), 200)
    assert [problem.task for problem in problems] == [problem.task for problem in flawless]


async def test_problems_without_flaw_are_what_they_would_have_been() -> None:
    flawless, _ = await _serve(Generator(lambda spec: False), 200)
    problems, _ = await _serve(Generator(_odd_seed), 200)
    pairs = [pair for pair in zip(problems, flawless, strict=True) if pair[1].spec.seed % 2 == 0]
    assert len(pairs) > 50
    assert all(problem == undisturbed for problem, undisturbed in pairs)


async def test_flaws_are_counted_apart_from_failures() -> None:
    generator = Generator(_odd_seed)
    problems, stats = await _serve(generator, 200)
    before = [spec for spec in generator.specs if spec.index < len(problems)]
    assert len(before) - len(problems) <= stats.flawed <= sum(map(_odd_seed, generator.specs))
    assert stats.failures == 0


async def test_position_that_stays_flawed_goes_to_another_draw() -> None:
    generator = Generator(lambda spec: spec.task == "b")
    problems, stats = await _serve(generator, 30)
    assert {problem.task for problem in problems} == {"a", "c"}
    assert stats.failures > 0


# ------------------------------------------------------------------ the evaluation set


async def _evaluate(generator: Generator, samples: int = 40) -> list[Problem]:
    return await EvaluationSet(
        cast(WorkerPool, generator), ["a", "b"], {}, samples_per_task=samples, eval_seed=3, deadline_s=5.0
    ).problems()


async def test_evaluation_set_holds_no_flawed_problem() -> None:
    assert [problem.flaw for problem in await _evaluate(Generator(_odd_seed))] == [None] * 80


async def test_evaluation_set_is_whole_in_spite_of_flaws() -> None:
    wanted = [(task, number) for task in ("a", "b") for number in range(40)]
    assert [(problem.task, problem.spec.index) for problem in await _evaluate(Generator(_odd_seed))] == wanted


async def test_samples_without_flaw_are_what_they_would_have_been() -> None:
    flawless, problems = await _evaluate(Generator(lambda spec: False)), await _evaluate(Generator(_odd_seed))
    pairs = [pair for pair in zip(problems, flawless, strict=True) if pair[1].spec.seed % 2 == 0]
    assert len(pairs) > 20
    assert all(problem == undisturbed for problem, undisturbed in pairs)


async def test_sample_that_stays_flawed_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    generator = Generator(lambda spec: spec.task == "b")
    assert {problem.task for problem in await _evaluate(generator, samples=1)} == {"a"}
    assert sum(spec.task == "b" for spec in generator.specs) == EVAL_DRAWS
    assert caplog.messages == [f"evaluation sample 0 of b is left out after {EVAL_DRAWS} draws"]


async def test_flaws_of_a_sample_do_not_count_as_its_failures() -> None:
    class Unlucky(Generator):
        async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
            if spec.attempt in (20, 30):
                raise GenerationError("no luck")
            return await super().generate(spec, deadline_s)

    problems = await _evaluate(Unlucky(lambda spec: spec.attempt < 40), samples=1)
    assert [problem.spec.attempt for problem in problems] == [40, 40]

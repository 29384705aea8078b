from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError, WorkerError
from reasoning_env.evaluation import question_key
from reasoning_env.problems import MAX_FLAWED
from reasoning_env.records import Problem, ProblemSpec
from reasoning_env.reports.contamination import (
    BUDGET_S,
    MAX_FAILURES,
    TaskContamination,
    TaskSampler,
    format_report,
    measure_tasks,
)

Ask = Callable[[ProblemSpec], str]


class FakeGenerator:
    """Asks what `ask` makes of a spec; it may raise, and a question that begins with "flawed" is flawed."""

    def __init__(self, ask: Ask, generation_s: float = 0.001) -> None:
        self.specs: list[ProblemSpec] = []
        self._ask = ask
        self._generation_s = generation_s

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        await asyncio.sleep(0)
        self.specs.append(spec)
        question = self._ask(spec)
        return Problem(
            *(spec, question, "1", "{}", b"", self._generation_s),
            flaw="no answer is right" if question.startswith("flawed") else None,
        )


class FakeSet:
    """An evaluation set of questions by task; runs draw again what it asks of the same task."""

    def __init__(self, questions: Mapping[str, Sequence[str]]) -> None:
        self._questions = questions

    async def problems(self) -> list[Problem]:
        return [
            Problem(TaskSampler(task, {}, 1).draw(0, 0), question, "1", "{}", b"")
            for task, questions in self._questions.items()
            for question in questions
        ]

    async def asks(self, problem: Problem) -> bool:
        return problem.question in self._questions.get(problem.task, ())


async def _measure(
    ask: Ask, evaluated: Sequence[str] = (), *, items: int = 10, generation_s: float = 0.001
) -> tuple[TaskContamination, FakeGenerator]:
    generator = FakeGenerator(ask, generation_s)
    (contamination,) = await measure_tasks(
        generator, {"gcd": TaskSampler("gcd", {}, 42)}, FakeSet({"gcd": evaluated}), items=items
    )
    return contamination, generator


# ------------------------------------------------------------------ keys


@given(st.lists(st.text(min_size=1).filter(lambda word: not any(map(str.isspace, word))), min_size=1))
def test_white_space_does_not_change_the_key(words: list[str]) -> None:
    assert question_key(" ".join(words)) == question_key("\n" + " \t".join(words) + "  \n")


@given(st.text(), st.text())
def test_different_words_have_different_keys(one: str, other: str) -> None:
    assert (question_key(one) == question_key(other)) == (one.split() == other.split())


def test_a_key_does_not_run_words_together() -> None:
    assert question_key("sort 1 23") != question_key("sort 12 3")


def test_a_key_is_there_for_text_that_is_no_unicode() -> None:
    assert question_key("\ud800") != question_key("\udfff")


# ------------------------------------------------------------------ measuring a task


async def test_questions_that_are_not_evaluated_are_served_as_drawn() -> None:
    contamination, generator = await _measure(lambda spec: f"question {spec.index}", ["another"])
    assert contamination == TaskContamination("gcd", evaluated=1, items=10, questions=10, drawn=0, served=0)
    assert [(spec.index, spec.attempt) for spec in generator.specs] == [(index, 0) for index in range(10)]


async def test_an_evaluated_question_counts_as_drawn_and_is_drawn_again() -> None:
    contamination, generator = await _measure(
        lambda spec: "seen" if spec.index == 3 and spec.attempt < 2 else str(spec), ["seen"]
    )
    assert (contamination.drawn, contamination.served) == (1, 0)
    assert [spec.attempt for spec in generator.specs if spec.index == 3] == [0, 1, 2]
    assert len({spec.seed for spec in generator.specs}) == len(generator.specs)


async def test_a_task_that_asks_nothing_else_serves_it_in_the_end() -> None:
    contamination, generator = await _measure(lambda spec: "seen", ["seen"], items=2)
    assert contamination == TaskContamination("gcd", evaluated=1, items=2, questions=1, drawn=2, served=2)
    assert len(generator.specs) == 2 * MAX_FLAWED


async def test_flawed_problems_are_drawn_again_and_do_not_count() -> None:
    contamination, _ = await _measure(
        lambda spec: ["flawed", "flawed", "seen"][spec.attempt] if spec.attempt < 3 else "new", ["seen"]
    )
    assert contamination == TaskContamination("gcd", evaluated=1, items=10, questions=1, drawn=10, served=0)


async def test_a_task_of_flawed_problems_only_ends() -> None:
    contamination, generator = await _measure(lambda spec: "flawed", items=3)
    assert contamination.items == 0
    assert len(generator.specs) == MAX_FLAWED


async def test_a_failure_is_drawn_again_and_told() -> None:
    def ask(spec: ProblemSpec) -> str:
        if spec.attempt < MAX_FAILURES - 1:
            raise GenerationError("no such puzzle")
        return str(spec)

    contamination, _ = await _measure(ask, items=4)
    assert contamination.items == 4
    assert contamination.failures == ("no such puzzle",) * (4 * (MAX_FAILURES - 1))


async def test_a_task_that_keeps_failing_is_left_with_the_items_it_has() -> None:
    def ask(spec: ProblemSpec) -> str:
        if spec.index == 2:
            raise GenerationError("no such puzzle")
        return str(spec)

    contamination, generator = await _measure(ask)
    assert contamination.items == 2
    assert contamination.failures == ("no such puzzle",) * MAX_FAILURES
    assert len(generator.specs) == 2 + MAX_FAILURES


async def test_a_slow_task_gets_as_many_items_as_fit_into_its_time() -> None:
    contamination, _ = await _measure(str, items=100, generation_s=BUDGET_S / 4)
    assert contamination.items == 4


# ------------------------------------------------------------------ measuring several


async def test_a_question_counts_whichever_task_asks_it_in_the_evaluation() -> None:
    evaluation_set = FakeSet({"composite": ["question  2", "another"], "gcd": ["question 1"]})
    generator = FakeGenerator(lambda spec: f"question {spec.index}" if spec.attempt == 0 else str(spec))
    samplers = {task: TaskSampler(task, {}, 42) for task in ("composite", "gcd", "lcm")}
    contaminations = await measure_tasks(generator, samplers, evaluation_set, items=4)
    # What a run does not draw again, here because another task is asked it, is seen to be served.
    assert [(one.task, one.evaluated, one.drawn, one.served) for one in contaminations] == [
        ("composite", 2, 2, 2),
        ("gcd", 1, 2, 1),
        ("lcm", 0, 2, 2),
    ]


async def test_lost_workers_end_the_measurement() -> None:
    def ask(spec: ProblemSpec) -> str:
        raise WorkerError("no workers any more")

    with pytest.raises(WorkerError, match="no workers any more"):
        await measure_tasks(FakeGenerator(ask), {"gcd": TaskSampler("gcd", {}, 42)}, FakeSet({}), items=4)


def test_a_sampler_draws_as_a_run_does_with_the_parameters_of_the_task() -> None:
    sampler = TaskSampler("composite", {"datasets": [{"name": "gcd"}]}, 42)
    first = sampler.draw(3, 0)
    again = sampler.redraw(first)
    assert (first.task, first.index, first.attempt, again.attempt) == ("composite", 3, 0, 1)
    assert first.params == again.params == {"datasets": [{"name": "gcd"}]}
    assert len({first.seed, again.seed, sampler.draw(4, 0).seed, TaskSampler("composite", {}, 43).draw(3, 0).seed}) == 4


# ------------------------------------------------------------------ the report


def test_rows_stand_by_their_share_and_the_last_line_names_what_is_left() -> None:
    contaminations = [
        TaskContamination("gcd", 5, 2000, 1990, 0, 0),
        TaskContamination("lcm", 5, 2000, 1990, 1, 0),
        TaskContamination("coin_flip", 5, 2000, 3, 1990, 1500),
    ]
    lines = format_report(contaminations, items=2000)
    assert [line.split() for line in lines[:4]] == [
        ["TASK", "EVALUATED", "ITEMS", "QUESTIONS", "DRAWN", "SERVED"],
        ["coin_flip", "5", "2000", "3", "99.50", "%", "75.00", "%"],
        ["lcm", "5", "2000", "1990", "0.05", "%", "0"],
        ["gcd", "5", "2000", "1990", "0", "0"],
    ]
    assert lines[-1] == "2 of 3 tasks draw questions of the evaluation set; a run serves some of: coin_flip"


def test_it_says_when_a_run_serves_none_of_them() -> None:
    lines = format_report([TaskContamination("lcm", 5, 2000, 1990, 1, 0)], items=2000)
    assert lines[-1] == "1 of 1 tasks draw questions of the evaluation set; a run serves none of them"


def test_tasks_with_fewer_items_are_told_with_their_failures() -> None:
    contaminations = [
        TaskContamination("knight_swap", 5, 31, 31, 0, 0),
        TaskContamination("maze", 0, 0, 0, 0, 0, ("maze, seed 1: no such puzzle",) * 3),
    ]
    lines = format_report(contaminations, items=2000)
    assert ["maze", "0", "0", "0", "-", "-"] in [line.split() for line in lines]
    assert "maze: 3 problems failed, the first: maze, seed 1: no such puzzle" in lines
    assert f"2 tasks have fewer than 2000 items: each is given {BUDGET_S:g} s of a process" in lines

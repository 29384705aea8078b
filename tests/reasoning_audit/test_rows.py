"""Rows as the problems of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reasoning_audit.rows import FORMS, MAX_ROWS, CompletionForm, RowWorkers, choose_form, row_problems
from reasoning_env.errors import GenerationError
from reasoning_env.records import Problem, Reason, Verdict
from tests.fake_workers import FakeWorkers
from tests.records import make_spec

BOX = CompletionForm("\\boxed{", "}")


def _problems(*rows: Mapping[str, Any]) -> list[Problem]:
    return row_problems(rows, Path("rows.jsonl"), "mine:score", "answer")


@pytest.mark.parametrize(
    ("row", "question"),
    [
        ({"question": "Why?", "prompt": "no"}, "Why?"),
        ({"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How?"}]}, "How?"),
        ({"prompt": []}, ""),
    ],
)
def test_question_of_a_row(row: dict[str, Any], question: str) -> None:
    assert _problems({**row, "answer": 7})[0].question == question


def test_row_is_a_problem() -> None:
    problem = _problems({"answer": 1}, {"answer": 2.5})[1]
    assert (problem.task, problem.answer, problem.reference) == ("mine:score", "2.5", "rows.jsonl:2")
    assert problem.entry == b'{"answer": 2.5}'


def test_many_rows() -> None:
    assert len(_problems(*[{"answer": 1}] * (MAX_ROWS + 5))) == MAX_ROWS


@pytest.mark.asyncio
@pytest.mark.parametrize("form", FORMS)
async def test_form_is_found(form: CompletionForm) -> None:
    def verify(problem: Problem, completion: str) -> Verdict:
        return Verdict(float(completion == form.completion(problem.answer or "")), Reason.SCORED, completion)

    assert await choose_form(FakeWorkers(verify=verify), _problems({"answer": "1"}, {"answer": "2"})) == form


@pytest.mark.asyncio
async def test_answers_are_scored_in_the_form() -> None:
    problems = _problems({"answer": "1"})
    pool = FakeWorkers()
    [verdict] = await RowWorkers(pool, problems, BOX).score(problems[0], ["5"])
    assert (pool.asked[0][1], verdict.answer) == (["\\boxed{5}"], "5")


@pytest.mark.asyncio
async def test_rows_end() -> None:
    workers = RowWorkers(FakeWorkers(), _problems({"answer": "1"}), BOX)
    assert (await workers.generate(make_spec(index=0), 1.0)).answer == "1"
    with pytest.raises(GenerationError, match="no more rows"):
        await workers.generate(make_spec(index=1), 1.0)

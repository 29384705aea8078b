"""Honest forms of every task's answers through real workers: right ones are right, and no wrong one becomes so."""

from __future__ import annotations

import asyncio

import pytest

from reasoning_env.library_facts import KNOWN_TASKS, facts
from reasoning_env.records import ProblemSpec, Split
from reasoning_env.reports.verifier_probes import perturb, reference_answer
from reasoning_env.workers.pool import WorkerPool
from tests.waiting import PATIENCE_S

from .hostile import TABLES
from .support import running_pool

pytestmark = pytest.mark.slow

TASKS = sorted(KNOWN_TASKS - {"composite", "boxnet", "rush_hour"})
"""All that tell a right answer."""
FORMS = ("```\n{}\n```", "\\boxed{{{}}}", "**{}**", "`{}`", "**\\boxed{{{}}}**", "{}.", "{} \r\n")
WRONG = [text for name in ("text", "poison", "own names") for text in TABLES[name].values() if len(text) < 2000][::6]


def _forms(answer: str) -> list[str]:
    return [form.format(answer) for form in FORMS]


async def _scores(task: str, lenient: WorkerPool, strict: WorkerPool) -> tuple[list[str], list[str]]:
    """The honest forms of a task's right answer that are not paid, and the wrong answers that leniency makes right."""
    problem = await lenient.generate(ProblemSpec(task, 0, Split.TRAIN, 0), PATIENCE_S)
    right = str(reference_answer(problem))
    forms = [form for form in _forms(right) if not (form.endswith(".") and facts(task).ends_in_full_stop)]
    unpaid = [verdict.answer for verdict in await lenient.score(problem, forms) if not verdict.correct]
    wrong = perturb(right)
    others = [text for text in WRONG if text.casefold() != right.casefold()]
    bare = [*([wrong] if not (await strict.score(problem, [wrong]))[0].correct else []), *others]
    tried = [*bare, *(form for text in bare[:3] for form in _forms(text))]
    read, plain = await lenient.score(problem, tried), await strict.score(problem, tried)
    opened = [one.answer for one, other in zip(read, plain, strict=True) if one.correct and not other.correct]
    return [f"{task}: {text}" for text in unpaid], [f"{task}: {text}" for text in opened]


async def test_honest_forms_of_right_answers_are_right_and_no_wrong_answer_becomes_right() -> None:
    unpaid, opened = [], []
    async with running_pool(None) as lenient, running_pool(None, generators=0, lenient_answers=False) as strict:
        for more_unpaid, more_opened in await asyncio.gather(*(_scores(task, lenient, strict) for task in TASKS)):
            unpaid += more_unpaid
            opened += more_opened
    assert opened == []
    assert unpaid == []

"""Find a problem of the library that shows each defect of the tables: the first seed whose problem has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from ..errors import GenerationError
from ..records import Problem, ProblemRequest, ProblemSpec, Split
from ..reports.defects import CLARIFIED, REFUSED, WRONG_ANSWER, DefectExample
from ..session import Session
from ..verifiers.clarifications import CLARIFICATIONS
from ..verifiers.flaws import REJECTED, Cause
from ..verifiers.right_answers import RIGHT_ANSWERS

TRIED_SEEDS = 1200
"""Seeds that are tried for a task. The rarest defect, an accent in `caesar_cipher`, shows at seed 1,113; 4,000 seeds
show no defect more."""


async def find_examples(session: Session[Problem]) -> list[DefectExample]:
    """Return an example for each task and kind of defect in the tables, as far as the first seeds show one."""
    async with session:
        found = await asyncio.gather(*(_examples_of(session, task) for task in sorted(session.plan.tasks)))
    return [example for examples in found for example in examples]


async def _examples_of(session: Session[Problem], task: str) -> Sequence[DefectExample]:
    wanted = _kinds(task)
    found: dict[str, DefectExample] = {}
    for seed in range(TRIED_SEEDS):
        if found.keys() == wanted:
            break
        try:
            problem = await session.make(task, seed)
            served = await _served(session, task, seed) if REFUSED in wanted - found.keys() else problem
        except GenerationError:
            continue
        metadata = json.loads(problem.metadata_json)
        shown: dict[str, tuple[str | None, str | None]] = {}
        if "library_answer" in metadata:
            shown[WRONG_ANSWER] = str(metadata["library_answer"]), problem.answer
        if metadata.get("clarified"):
            shown[CLARIFIED] = problem.answer, None
        if served.flawed.keys() == {Cause.WRONG}:
            shown[REFUSED] = problem.answer, None
        for kind in wanted & shown.keys() - found.keys():
            library_answer, right = shown[kind]
            found[kind] = DefectExample(task=task, kind=kind, seed=seed, library_answer=library_answer, served=right)
    return [found[kind] for kind in sorted(found)]


def _kinds(task: str) -> set[str]:
    """Return the kinds of defects that the tables know of a task."""
    kinds = set()
    if task in RIGHT_ANSWERS:
        kinds.add(WRONG_ANSWER)
    if any(rule.cause is Cause.WRONG for rule in REJECTED.get(task, ())):
        kinds.add(REFUSED)
    if task in CLARIFICATIONS:
        kinds.add(CLARIFIED)
    return kinds


async def _served(session: Session[Problem], task: str, seed: int) -> Problem:
    """Return the problem that training serves for a seed, with what was rejected before."""
    request = ProblemRequest(task, seed, session.plan.all_params.get(task, {}))
    return await session.pool.generate(
        ProblemSpec(request, Split.TRAIN, 0), session.settings.eval_generation_deadline_s
    )

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from reasoning_env.errors import GenerationError, ScoringError, WorkerError
from reasoning_env.records import Problem, ProblemSpec, Reason, Split, Verdict
from reasoning_env.reports.probes import CONSTANTS, NEIGHBOUR, ORACLE, PERTURBED, ROLES, Role
from reasoning_env.reports.probing import GENERATION_FAILURES, TASKS_AT_ONCE, Tally, TaskAudit, audit_task, audit_tasks

ITEMS = 20
ZERO, ONE = "0", "1"


def _tally(*scores: float) -> Tally:
    tally = Tally()
    for score in scores:
        tally.add(Verdict(score, Reason.SCORED), seed=0)
    return tally


def _audit(**scores: Sequence[float]) -> TaskAudit:
    kinds = {"zero": ZERO, "one": ONE}
    return TaskAudit("gcd", ITEMS, {kinds[name]: _tally(*values) for name, values in scores.items()})


# ------------------------------------------------------------------ what fails


@pytest.mark.parametrize(
    ("scores", "offends"),
    [
        ([0.5] * 11 + [0.0] * 9, True),
        ([0.5] * 10 + [0.0] * 10, False),
        ([1.0] * 10 + [0.49] * 10, False),
        ([0.49] * 20, False),
        ([1.0] * 20, True),
        ([0.0] * 20, False),
    ],
)
def test_half_the_score_on_more_than_half_of_the_items_is_an_offence(scores: list[float], offends: bool) -> None:
    assert _audit(zero=scores).offences == ([ZERO] if offends else [])


def test_items_that_a_kind_was_left_out_of_count_as_not_paid() -> None:
    audit = _audit(zero=[1.0] * 10)
    assert audit.share(ZERO) == 0.5
    assert audit.offences == []


@pytest.mark.parametrize("kind", ROLES)
def test_only_meaningless_kinds_offend(kind: str) -> None:
    audit = TaskAudit("gcd", 1, {kind: _tally(1.0)})
    assert bool(audit.offences) is bool(audit.worst) is (ROLES[kind] is Role.DEGENERATE)


def test_worst_kind_is_paid_for_most_often_and_then_best() -> None:
    assert _audit(zero=[0.5, 0.5, 0.0], one=[1.0, 0.4, 0.4]).worst == ZERO
    assert _audit(zero=[0.5, 0.5, 0.0], one=[0.5, 0.6, 0.0]).worst == ONE
    assert _audit(zero=[0.5] * 12, one=[1.0] * 11).offences == [ZERO, ONE]


def test_kind_that_earns_nothing_is_not_the_worst() -> None:
    assert _audit(zero=[0.0] * 20).worst is None


# ------------------------------------------------------------------ one task

Verifier = Callable[[Problem, str], Verdict]


def _exact(problem: Problem, answer: str) -> Verdict:
    return Verdict(float(answer == problem.answer), Reason.SCORED, answer, 0.001)


class FakeWorkers:
    """In place of processes: each problem's answer is its seed; `score` asks a function."""

    def __init__(self, verifier: Verifier = _exact, fails: Callable[[ProblemSpec], bool] = lambda spec: False) -> None:
        self._verifier = verifier
        self._fails = fails
        self.specs: list[ProblemSpec] = []

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        self.specs.append(spec)
        await asyncio.sleep(0)
        if self._fails(spec):
            raise GenerationError(f"{spec.task}, seed {spec.seed}: no such puzzle")
        return Problem(spec, "What?", str(spec.seed), "{}", b"")

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        await asyncio.sleep(0)
        return [self._verifier(problem, answer) for answer in answers]


def _specs(count: int = 4) -> list[ProblemSpec]:
    return [ProblemSpec("gcd", 100 + number, Split.EVAL, number) for number in range(count)]


async def test_exact_verifier_pays_for_the_oracle_alone() -> None:
    audit = await audit_task(FakeWorkers(), "gcd", _specs())
    assert audit.items == 4
    assert {kind: tally.mean for kind, tally in audit.tallies.items() if tally.mean} == {ORACLE: 1.0}
    assert audit.tallies[NEIGHBOUR].scores == [0.0] * 4
    assert audit.worst is None


async def test_verifier_that_pays_for_everything_offends_with_every_meaningless_kind() -> None:
    audit = await audit_task(FakeWorkers(lambda problem, answer: Verdict(1.0, Reason.SCORED)), "gcd", _specs())
    assert set(CONSTANTS) < set(audit.offences)
    assert set(audit.offences) == {kind for kind in audit.tallies if ROLES[kind] is Role.DEGENERATE}


async def test_verifier_that_pays_for_one_text_offends_with_its_kind() -> None:
    audit = await audit_task(
        FakeWorkers(lambda problem, answer: Verdict(float(answer == "nan"), Reason.SCORED, answer)), "gcd", _specs()
    )
    assert "nan" in audit.offences
    assert not set(CONSTANTS) - {"nan"} & set(audit.offences)


async def test_best_verdict_is_kept_with_its_seed() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        return Verdict(0.5 if problem.spec.seed == 102 else 0.25, Reason.SCORED, answer)

    tally = (await audit_task(FakeWorkers(verifier), "gcd", _specs())).tallies[PERTURBED]
    assert tally.best is not None
    assert (tally.best.score, tally.best.answer, tally.best_seed) == (0.5, "103", 102)


async def test_failures_of_the_verifier_are_counted_by_reason() -> None:
    reasons = {"nan": Reason.VERIFIER_ERROR, "[]": Reason.TIMEOUT, "{}": Reason.CRASH, "a": Reason.SCORED}

    def verifier(problem: Problem, answer: str) -> Verdict:
        return Verdict(0.0, reasons.get(answer, Reason.SCORED), answer, 5.0 if answer == "[]" else 0.001)

    audit = await audit_task(FakeWorkers(verifier), "gcd", _specs(3))
    # Once as itself, and once as the answer's layout filled with nothing.
    assert audit.escaped == {Reason.VERIFIER_ERROR: 6, Reason.TIMEOUT: 3, Reason.CRASH: 3}
    assert audit.slowest_s == 5.0


async def test_problems_that_cannot_be_generated_are_told_and_left_out() -> None:
    audit = await audit_task(FakeWorkers(fails=lambda spec: spec.seed == 101), "gcd", _specs())
    assert audit.items == 3
    assert audit.failures == ("gcd, seed 101: no such puzzle",)
    assert len(audit.tallies[ORACLE].scores) == 3


async def test_task_that_keeps_failing_is_not_tried_to_the_end() -> None:
    workers = FakeWorkers(fails=lambda spec: True)
    audit = await audit_task(workers, "gcd", _specs(10))
    assert len(workers.specs) == len(audit.failures) == GENERATION_FAILURES
    assert (audit.items, audit.tallies, audit.worst, audit.slowest_s) == (0, {}, None, 0.0)


async def test_problems_that_cannot_be_scored_are_told_and_left_out() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        if problem.spec.seed == 101:
            raise ScoringError("the verifier worker cannot score")
        return _exact(problem, answer)

    audit = await audit_task(FakeWorkers(verifier), "gcd", _specs())
    assert audit.items == 3
    assert audit.failures == ("the verifier worker cannot score",)


# ------------------------------------------------------------------ all tasks


async def _audit_all(
    workers: FakeWorkers, tasks: Sequence[str], params: Mapping[str, Mapping[str, Any]] | None = None, seed: int = 42
) -> list[TaskAudit]:
    return await audit_tasks(workers, tasks, params or {}, items=3, seed=seed)


async def test_results_come_in_the_order_of_the_tasks() -> None:
    tasks = [f"task_{number}" for number in range(3 * TASKS_AT_ONCE)]
    audits = await _audit_all(FakeWorkers(fails=lambda spec: spec.task == "task_0"), tasks)
    assert [audit.task for audit in audits] == tasks
    assert [audit.items for audit in audits] == [0] + [3] * (len(tasks) - 1)


async def test_seed_decides_which_problems_are_drawn() -> None:
    drawn = []
    for seed in (42, 42, 43):
        workers = FakeWorkers()
        await _audit_all(workers, ["gcd", "lcm"], seed=seed)
        drawn.append({(spec.task, spec.seed) for spec in workers.specs})
    assert drawn[0] == drawn[1]
    assert not drawn[0] & drawn[2]
    assert len(drawn[0]) == 6


async def test_parameters_reach_their_task_alone() -> None:
    workers = FakeWorkers()
    await _audit_all(workers, ["composite", "gcd"], {"composite": {"datasets": []}})
    assert {(spec.task, tuple(spec.params)) for spec in workers.specs} == {("composite", ("datasets",)), ("gcd", ())}


async def test_few_tasks_are_under_way_at_a_time() -> None:
    under_way: set[str] = set()
    most = 0

    class Watched(FakeWorkers):
        async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
            nonlocal most
            under_way.add(spec.task)
            most = max(most, len(under_way))
            return await super().generate(spec, deadline_s)

        async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
            if problem.spec.index == 2:
                under_way.discard(problem.task)
            return await super().score(problem, answers)

    await _audit_all(Watched(), [f"task_{number}" for number in range(4 * TASKS_AT_ONCE)])
    assert most == TASKS_AT_ONCE


async def test_end_of_the_workers_ends_the_audit_and_leaves_nothing_running() -> None:
    before = asyncio.all_tasks()

    class Gone(FakeWorkers):
        async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
            if problem.task == "gcd":
                raise WorkerError("the worker pool is closed")
            await asyncio.Event().wait()
            return []

    with pytest.raises(WorkerError, match="closed"):
        await _audit_all(Gone(), ["gcd", "lcm"])
    assert asyncio.all_tasks() == before

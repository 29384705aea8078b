"""Score a task's probes, and confirm faults on further problems."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from reasoning_audit.probes import Probe, perturb
from reasoning_audit.scores import AuditTarget, ProbeTally, TaskAudit, audit_task
from reasoning_env.errors import ScoringError
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict
from reasoning_env.seeds import hash_int
from tests.fake_workers import FakeWorkers, fails_where, is_the_answer, no_luck
from tests.records import make_spec, problem_of

# ------------------------------------------------------------------ faults

ITEMS = 20
SHORTCUT = "0"


def _audit(options: int = 0, **scores: Sequence[float]) -> TaskAudit:
    tallies: dict[str, ProbeTally] = {}
    for kind, name in (
        (SHORTCUT, "shortcut"),
        (Probe.ORACLE, "oracle"),
        (Probe.PERTURBED, "perturbed"),
        (Probe.BEST_CONSTANT, "constant"),
    ):
        for score in scores.get(name, ()):
            tallies.setdefault(kind, ProbeTally()).add(Verdict(score, Reason.SCORED), problem_of(make_spec("gcd")))
    return TaskAudit("gcd", None, ITEMS, tallies, options)


@pytest.mark.parametrize(("options", "bound"), [(0, 0.35), (2, 0.5 + 0.15), (3, 1 / 3 + 0.15), (9, 0.35)])
def test_bound_on_shortcut_scores_depends_on_the_number_of_answer_options(options: int, bound: float) -> None:
    below, above = ([bound + step] * ITEMS for step in (-0.01, 0.01))
    assert _audit(options, shortcut=below).faults == {}
    assert set(_audit(options, shortcut=above).faults) == {SHORTCUT}


def test_missing_shortcut_answer_counts_as_0_in_the_mean_score() -> None:
    assert _audit(shortcut=[1.0] * 5).mean(SHORTCUT) == 0.25
    assert _audit(constant=[1.0] * 5).mean(Probe.BEST_CONSTANT) == 1.0


@pytest.mark.parametrize(
    ("oracle", "perturbed", "fault"),
    [
        ([1.0] * 19 + [0.5], [0.0] * 20, None),
        ([0.9] * 20, [0.0] * 20, Probe.ORACLE),
        ([0.96] * 20, [0.97] * 20, Probe.PERTURBED),
    ],
)
def test_low_score_of_right_answers_or_high_score_of_changed_answers_is_a_fault(
    oracle: list[float], perturbed: list[float], fault: str | None
) -> None:
    assert list(_audit(oracle=oracle, perturbed=perturbed).faults) == ([fault] if fault else [])


# ------------------------------------------------------------------ probing


def _made(spec: ProblemSpec, answers: str = "abcdefghijkl") -> Problem:
    return problem_of(spec, answer=answers[spec.index % 12] * 3, flawed={"easy": spec.index})


def _pays_everything(problem: Problem, answer: str) -> Verdict:
    return Verdict(1.0, Reason.SCORED)


async def _probe(workers: FakeWorkers, items: int = 4, level: float | None = None) -> TaskAudit:
    return await audit_task(workers, AuditTarget("gcd", level), items)


async def test_best_constant_answer_is_scored_on_problems_not_used_to_choose_it() -> None:
    audit = await _probe(FakeWorkers(partial(_made, answers="aabcdeafghij")), items=12)
    assert audit.tallies[Probe.BEST_CONSTANT].scores == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("paid_until", "items", "at_fault"),
    [(0, 4, False), (4, 8, False), (12, 32, False), (44, 128, False), (172, 128, True)],
)
async def test_audit_confirms_a_suspected_fault_on_more_problems(paid_until: int, items: int, at_fault: bool) -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        paid = problem.spec.index < paid_until or answer == problem.answer
        return Verdict(float(paid), Reason.SCORED)

    audit = await _probe(FakeWorkers(_made, verifier), items=4)
    assert (audit.items, bool(audit.faults)) == (items, at_fault)


async def test_audit_of_a_task_left_out_of_training_ends_after_the_second_round() -> None:
    workers = FakeWorkers(_made, _pays_everything)
    assert (await audit_task(workers, AuditTarget("tsumego"), 4)).items == 8


async def test_audit_counts_flawed_problems_that_were_rejected() -> None:
    workers = FakeWorkers(_made)
    audit = await _probe(workers, items=4, level=0.5)
    assert (audit.items, audit.flawed) == (4, {"easy": 0 + 1 + 2 + 3})
    assert {spec.level for spec in workers.specs} == {0.5}


async def test_audit_reports_the_wrong_answer_with_the_highest_score() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        earned = {str(problem.answer): 1.0, perturb(str(problem.answer)): 0.5 if problem.spec.index == 2 else 0.25}
        return Verdict(earned.get(answer, 0.0), Reason.SCORED, answer)

    workers = FakeWorkers(_made, verifier)
    tally = (await _probe(workers)).tallies[Probe.PERTURBED]
    assert tally.best is not None
    best = tally.best
    assert (best.verdict.score, best.verdict.answer, best.problem.spec) == (0.5, "ccd", workers.specs[2])


async def test_audit_counts_verifier_failures_by_reason() -> None:
    reasons = {"inf": Reason.VERIFIER_ERROR, "[]": Reason.TIMEOUT, "{}": Reason.CRASH}

    def verifier(problem: Problem, answer: str) -> Verdict:
        right = float(answer == problem.answer)
        return Verdict(right, reasons.get(answer, Reason.SCORED), answer)

    audit = await _probe(FakeWorkers(_made, verifier), items=3)
    failed = {kind: tally.reasons for kind, tally in audit.tallies.items() if kind in reasons}
    assert failed == {kind: {reason: 3} for kind, reason in reasons.items()}


async def test_audit_reports_generation_and_scoring_failures() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        if problem.spec.index == 2:
            raise ScoringError("the verifier worker cannot score")
        return is_the_answer(problem, answer)

    audit = await _probe(FakeWorkers(fails_where(lambda spec: spec.index == 1, _made), verifier))
    assert (audit.items, len(audit.tallies[Probe.ORACLE].scores)) == (2, 2)
    assert audit.failures == ("gcd, position 1: no luck", "the verifier worker cannot score")


async def test_audit_stops_generating_problems_of_a_task_after_3_failures() -> None:
    workers = FakeWorkers(no_luck)
    audit = await _probe(workers, items=10)
    assert len(workers.specs) == len(audit.failures) == 3
    assert (audit.items, audit.tallies, audit.worst) == (0, {}, None)


async def test_audit_uses_160_problems_if_a_decision_tree_predicts_answers() -> None:
    """A tree's score on 40 problems is mostly chance, so a finding needs 160 problems."""

    def made(spec: ProblemSpec) -> Problem:
        many = hash_int("split", spec.index) % 100 < 30
        option = "a" if many else "bcd"[hash_int("other", spec.index) % 3]
        return problem_of(spec, f"{spec.index} " + ("and and" if many else "and"), option)

    audit = await audit_task(FakeWorkers(made), AuditTarget("zebra_puzzles"), 5)
    assert audit.items == 160
    assert Probe.BEST_TREE in audit.faults

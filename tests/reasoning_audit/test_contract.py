"""Check the contract of verifiers. Functions replace the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from reasoning_audit.contract import ContractCheck, WatchedPools, with_negative_number
from reasoning_audit.findings import Defect, Finding, Reporter, merge
from reasoning_audit.reproduction import Reproduction
from reasoning_audit.scores import ProbedAnswer
from reasoning_audit.watch import Watched
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict
from tests.fake_workers import FakeWorkers
from tests.records import make_spec, problem_of

Score = Callable[[str], float]


def _problem(spec: ProblemSpec) -> Problem:
    return problem_of(spec, f"Question of {spec.seed}", "42")


def _is_right(answer: str) -> float:
    return float(answer == "42")


def _watched(score: Score, _problem: Problem, answer: str, **parts: float) -> Verdict:
    raw = score(answer)
    seen = {Watched.RAW: raw, Watched.AGAIN: raw, **parts}
    return Verdict(min(1.0, max(0.0, raw)), Reason.SCORED, answer, own_parts=seen)


def _workers(
    score: Score = _is_right, make: Callable[[ProblemSpec], Problem] = _problem, **parts: float
) -> FakeWorkers:
    return FakeWorkers(make, partial(_watched, score, **parts))


async def _findings(
    first: FakeWorkers,
    other: FakeWorkers | None = None,
    *,
    attacks: bool = False,
    failed: Sequence[ProbedAnswer] = (),
) -> list[Finding]:
    pools = WatchedPools(first, other or first)
    check = ContractCheck(pools, Reporter("gcd", None, Reproduction("again"), is_watched=True))
    return merge(await check.run([_problem(make_spec("gcd", seed=3))], failed, attacks=attacks))


def _names(findings: list[Finding]) -> list[Defect]:
    return [finding.defect for finding in findings]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("parts", "defect"),
    [
        ({Watched.FAILED: 1.0}, Defect.VERIFIER_FAILS),
        ({Watched.NO_NUMBER: 1.0}, Defect.SCORE_OUT_OF_RANGE),
    ],
)
async def test_audit_reports_verifier_failures_as_defects(parts: dict[str, float], defect: Defect) -> None:
    assert _names(await _findings(_workers(**parts), attacks=True)) == [defect]


@pytest.mark.asyncio
@pytest.mark.parametrize(("of_long", "defect"), [(5.0, Defect.SCORE_OUT_OF_RANGE), (0.0, Defect.VERIFIER_FAILS)])
async def test_audit_scores_an_answer_again_before_reporting_a_verifier_error(of_long: float, defect: Defect) -> None:
    failed = ProbedAnswer(Verdict(0.0, Reason.VERIFIER_ERROR, "long"), _problem(make_spec("gcd", seed=9)))
    workers = _workers(lambda answer: of_long if answer == "long" else _is_right(answer))
    [finding] = await _findings(workers, failed=[failed])
    assert (finding.defect, finding.answer) == (defect, "long")


@pytest.mark.asyncio
async def test_audit_finds_problems_that_differ_between_processes() -> None:
    strange = _workers(make=lambda spec: replace(_problem(spec), question="Another?"))
    assert _names(await _findings(_workers(), strange)) == [Defect.PROCESSES_DIFFER]


@pytest.mark.asyncio
@pytest.mark.parametrize(("pays_both", "defects"), [(False, [Defect.CONTRADICTS_QUESTION]), (True, [])])
async def test_audit_finds_equal_questions_with_different_reference_answers(
    pays_both: bool, defects: list[Defect]
) -> None:
    problems = [problem_of(make_spec("gcd", seed=seed), "Who?", ("Ann", "Bob")[seed % 2]) for seed in range(4)]

    def verify(problem: Problem, answer: str) -> Verdict:
        right = ("Ann", "Bob") if pays_both else (problem.answer,)
        return _watched(lambda answer: float(answer in right), problem, answer)

    workers = FakeWorkers(lambda spec: problems[spec.seed], verify)
    check = ContractCheck(WatchedPools(workers, workers), Reporter("gcd", None, Reproduction("again"), is_watched=True))
    assert _names(merge(await check.run(problems, attacks=False))) == defects


@pytest.mark.asyncio
async def test_audit_stops_scoring_attack_answers_after_one_of_them_times_out() -> None:
    def verify(problem: Problem, answer: str) -> Verdict:
        return _watched(_is_right, problem, answer) if len(answer) < 5 else Verdict(0.0, Reason.TIMEOUT, answer)

    first = FakeWorkers(_problem, verify)
    [finding] = await _findings(first, attacks=True)
    assert finding.defect is Defect.TOO_SLOW
    assert sum(len(answers) == 1 and len(answers[0]) > 40 for _, answers in first.asked) <= 2


@pytest.mark.parametrize(
    ("answer", "changed"), [("4 4 3", "-40 4 3"), ("[0, 7]", "[0, -70]"), ("-2", "-2"), ("1.5", "1.5"), ("a7b", "a7b")]
)
def test_attack_replaces_a_number_in_the_answer_by_a_negative_number(answer: str, changed: str) -> None:
    assert with_negative_number(answer) == changed


@pytest.mark.asyncio
async def test_audit_finds_an_unbounded_negative_score() -> None:
    def ratio(answer: str) -> float:
        number = int(answer) if answer.lstrip("-").isdigit() else 0
        return min(number, 42) / 42

    [finding] = await _findings(_workers(ratio))
    assert (finding.defect, finding.answer) == (Defect.SCORE_OUT_OF_RANGE, "-420")

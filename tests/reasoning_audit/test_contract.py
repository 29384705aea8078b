"""The checks of a verifier's contract, over workers that are functions: what the planted defects do not show."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from reasoning_audit.contract import ContractCheck, WatchedPools, with_negative_number, wrong_cells
from reasoning_audit.findings import Defect, Finding, Reporter, merge
from reasoning_audit.reproduction import Reproduction
from reasoning_audit.scores import ProbedAnswer
from reasoning_audit.watch import Watched
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict
from tests.fake_workers import FakeWorkers
from tests.records import make_spec, problem_of

GRID = "1 2 3\n4 5 6\n7 8 9"
Score = Callable[[str], float]


def _problem(spec: ProblemSpec, answer: str = "42") -> Problem:
    return problem_of(spec, f"Question of {spec.seed}", answer)


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
    third: FakeWorkers | None = None,
    *,
    attacks: bool = False,
    answer: str = "42",
    failed: Sequence[ProbedAnswer] = (),
    **fields: Any,
) -> list[Finding]:
    async def start_third() -> FakeWorkers:
        return third or first

    pools = WatchedPools(first, other or first, start_third)
    check = ContractCheck(pools, Reporter("gcd", None, Reproduction("again"), is_watched=True), **fields)
    return merge(await check.run([_problem(make_spec("gcd", seed=3), answer)], failed, attacks=attacks))


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
async def test_parts_that_show_a_defect(parts: dict[str, float], defect: Defect) -> None:
    assert _names(await _findings(_workers(**parts), attacks=True)) == [defect]


@pytest.mark.asyncio
@pytest.mark.parametrize(("of_long", "defect"), [(5.0, Defect.SCORE_OUT_OF_RANGE), (0.0, Defect.VERIFIER_FAILS)])
async def test_errors_are_looked_at_again(of_long: float, defect: Defect) -> None:
    failed = ProbedAnswer(Verdict(0.0, Reason.VERIFIER_ERROR, "long"), _problem(make_spec("gcd", seed=9)))
    workers = _workers(lambda answer: of_long if answer == "long" else _is_right(answer))
    [finding] = await _findings(workers, failed=[failed])
    assert (finding.defect, finding.answer) == (defect, "long")


@pytest.mark.asyncio
async def test_hash_seed_or_process() -> None:
    ordinary, strange = _workers(), _workers(lambda answer: 0.9 * _is_right(answer))
    assert _names(await _findings(ordinary, strange)) == [Defect.HASH_SEEDS_DIFFER]
    assert _names(await _findings(ordinary, strange, strange)) == [Defect.PROCESSES_DIFFER]
    assert await _findings(ordinary, strange, is_isolated=True) == []


@pytest.mark.asyncio
async def test_generation_differs() -> None:
    strange = _workers(make=lambda spec: replace(_problem(spec), question="Another?"))
    assert _names(await _findings(_workers(), strange)) == [Defect.HASH_SEEDS_DIFFER]
    assert _names(await _findings(strange, strange)) == [Defect.PROCESSES_DIFFER]
    assert await _findings(_workers(), strange, is_isolated=True) == []


@pytest.mark.asyncio
async def test_lost_in_json() -> None:
    def verify(problem: Problem, answer: str) -> Verdict:
        return _watched(lambda _: float(problem.entry != b"json"), problem, answer)

    first = FakeWorkers(lambda spec: replace(_problem(spec), entry=b"json"), verify)
    assert _names(await _findings(first)) == [Defect.GOLD_LOST_IN_JSON]
    assert await _findings(first, is_isolated=True) == []


@pytest.mark.asyncio
async def test_attacks_stop_at_a_killed_worker() -> None:
    def verify(problem: Problem, answer: str) -> Verdict:
        return _watched(_is_right, problem, answer) if len(answer) < 5 else Verdict(0.0, Reason.TIMEOUT, answer)

    first = FakeWorkers(_problem, verify)
    [finding] = await _findings(first, attacks=True)
    assert finding.defect is Defect.TOO_SLOW
    assert sum(len(answers) == 1 and len(answers[0]) > 40 for _, answers in first.asked) <= 2


@pytest.mark.asyncio
async def test_refused_form_has_no_cells() -> None:
    def score(answer: str) -> float:
        wrong = sum(map(str.__ne__, answer.split(), GRID.split()))
        return {0: 1.0, 1: 0.0, 2: 0.3, 4: 0.0}.get(wrong, 0.1)

    assert await _findings(_workers(score, partial(_problem, answer=GRID)), answer=GRID) == []


@pytest.mark.parametrize(
    ("answer", "changed"), [("4 4 3", "-40 4 3"), ("[0, 7]", "[0, -70]"), ("-2", "-2"), ("1.5", "1.5"), ("a7b", "a7b")]
)
def test_negative_number(answer: str, changed: str) -> None:
    assert with_negative_number(answer) == changed


@pytest.mark.asyncio
async def test_ratio_of_a_negative_number() -> None:
    def ratio(answer: str) -> float:
        number = int(answer) if answer.lstrip("-").isdigit() else 0
        return min(number, 42) / 42

    [finding] = await _findings(_workers(ratio))
    assert (finding.defect, finding.answer) == (Defect.SCORE_OUT_OF_RANGE, "-420")


@pytest.mark.parametrize("answer", [GRID, "[[1, 2], [3, 4]]", "[10, 20, 30, 40, 50]", "[1, 2]", '["a", "b", "c", "d"]'])
def test_wrong_cells_grow(answer: str) -> None:
    chain = wrong_cells(answer)
    same = [{n for n, pair in enumerate(zip(answer, text, strict=True)) if pair[0] == pair[1]} for text in chain]
    assert all(later < earlier for earlier, later in itertools.pairwise(same))


@pytest.mark.parametrize("answer", ["42", "a b c d e", "[7]", "[7, 7, 7, 7]", "1 2\n3", ""])
def test_no_cells(answer: str) -> None:
    assert wrong_cells(answer) == []

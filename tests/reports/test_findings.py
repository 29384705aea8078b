"""Findings: their order, their count, and the commands that show them again."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from reasoning_env.reports.findings import (
    MEANINGS,
    Defect,
    Finding,
    Severity,
    count_by_severity,
    is_at_least,
    library_line,
    score_command_line,
    worst_first,
)
from tests.records import make_spec, problem_of


def finding(defect: Defect = Defect.COPY_PAID, severity: Severity = Severity.HIGH, **fields: Any) -> Finding:
    return Finding(defect, **{"task": "gcd", "level": None, "detail": "seen", "severity": severity, **fields})


def test_every_defect_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Defect)


def test_order_of_severity() -> None:
    given = [finding(severity=severity) for severity in (Severity.LOW, Severity.HIGH, Severity.MEDIUM)]
    assert [one.severity for one in worst_first(given)] == [Severity.HIGH, Severity.MEDIUM, Severity.LOW]
    assert count_by_severity(given[:2]) == {Severity.HIGH: 1, Severity.MEDIUM: 0, Severity.LOW: 1}


@pytest.mark.parametrize(
    ("severity", "limit", "counts"),
    [(Severity.LOW, Severity.HIGH, False), (Severity.HIGH, Severity.MEDIUM, True), (Severity.LOW, Severity.LOW, True)],
)
def test_severity_at_least(severity: Severity, limit: Severity, counts: bool) -> None:
    assert is_at_least([finding(severity=severity)], limit) is counts


def test_command_of_score() -> None:
    reproduce = score_command_line("program", ["--plain"], {"size": 2})
    words = shlex.split(reproduce(problem_of(make_spec("maze", seed=9, level=0.5)), "it's\n4"))
    assert words[:4] == ["program", "score", "maze", "<answer>it's\n4</answer>"]
    assert words[4:] == ["--seed", "9", "--level", "0.5", "--params", '{"size": 2}', "--plain"]


def test_command_of_the_library() -> None:
    problem = problem_of(make_spec("maze", seed=9, params={"min_size": 2}))
    *_, code = shlex.split(library_line(problem, "4'"))
    asked = "reasoning_gym.create_dataset('maze', min_size=2, seed=9, size=1)"
    assert code == f'import reasoning_gym; d = {asked}; print(d.score_answer("4\'", d[0]))'

"""Findings: their order, their count, and the commands that show them again."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest

from reasoning_audit.findings import (
    MEANINGS,
    Defect,
    Finding,
    Severity,
    count_by_severity,
    is_at_least,
    library_commands,
    merge,
    own_commands,
    shell_word,
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
    commands = own_commands("program", ["--plain"], {"size": 2}, "program audit")
    words = shlex.split(commands.score(problem_of(make_spec("maze", seed=9, level=0.5)), "it's 4"))
    assert words[:4] == ["program", "score", "maze", "<answer>it's 4</answer>"]
    assert words[4:] == ["--seed", "9", "--level", "0.5", "--params", '{"size": 2}', "--plain"]


def test_command_of_the_library() -> None:
    problem = problem_of(make_spec("maze", seed=9, params={"min_size": 2}))
    *_, code = shlex.split(library_commands("").score(problem, "4'"))
    asked = "reasoning_gym.create_dataset('maze', min_size=2, seed=9, size=1)"
    assert code == f'import json, reasoning_gym; d = {asked}; print(d.score_answer("4\'", d[0]))'


@pytest.mark.parametrize(
    ("defect", "answer", "shown"),
    [
        (Defect.TEXT_EXECUTED, "4", "score_answer('4', d[0])"),
        (Defect.GOLD_LOST_IN_JSON, "4", "e = json.loads(json.dumps(d[0], default=str))"),
        (Defect.HASH_SEEDS_DIFFER, "", "for s in 0 1; do PYTHONHASHSEED=$s"),
        (Defect.HASH_SEEDS_DIFFER, "4", "the audit"),
        (Defect.CALLS_DIFFER, "4", "the audit"),
    ],
)
def test_command_for_a_defect(defect: Defect, answer: str, shown: str) -> None:
    problem = problem_of(make_spec("maze"))
    assert shown in library_commands("the audit").of(defect, problem, answer)
    assert own_commands("program", [], {}, "the audit").of(defect, problem, answer) == "the audit"


@pytest.mark.parametrize("text", ["4", "a 'b'", 'a "b"', "$HOME 'x'", "1 2\n3 4\\", "\u2705\t'", ""])
def test_word_of_a_shell(text: str) -> None:
    printed = subprocess.run(["bash", "-c", f"printf %s {shell_word(text)}"], capture_output=True, check=True)
    assert printed.stdout.decode() == text
    assert "\n" not in shell_word(text)


def test_levels_are_merged() -> None:
    given = [finding(level=level, score=score) for level, score in ((None, 0.5), (0.0, 0.9), (1.0, 0.4))]
    [merged] = merge([*given])
    assert (merged.level, merged.detail) == (0.0, "seen; also at the defaults, level 1")
    assert len(merge([*given, finding(task="maze"), finding(Defect.LAYOUT_PAID)])) == 3


@pytest.mark.parametrize("answer", [" ", "<answer>4</answer>", "4" * 2_001])
def test_answer_that_no_completion_states(answer: str) -> None:
    commands = own_commands("program", [], {}, "the audit")
    assert commands.score(problem_of(make_spec("maze")), answer) == "the audit"

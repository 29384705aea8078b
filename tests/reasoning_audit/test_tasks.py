"""What the audits of a task's levels show together."""

from __future__ import annotations

import pytest

from reasoning_audit.tasks import same_questions
from tests.records import make_spec, problem_of


@pytest.mark.parametrize(
    ("by_level", "same"),
    [
        ({0.0: "abc", 1.0: "abc"}, True),
        ({0.0: "abc", 0.5: "abc", 1.0: "abd"}, False),
        ({0.0: "ab", 1.0: "ab"}, False),
        ({1.0: "abc"}, False),
    ],
)
def test_level_changes_nothing(by_level: dict[float, str], same: bool) -> None:
    problems = {
        level: [problem_of(make_spec("gcd"), question, "7") for question in texts] for level, texts in by_level.items()
    }
    assert same_questions(problems) is same

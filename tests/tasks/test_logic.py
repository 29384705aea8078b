"""Decide whether statements about classes follow from premises."""

from __future__ import annotations

import pytest

from reasoning_env.tasks.logic import follows_from_classes


@pytest.mark.parametrize(
    ("premises", "conclusion", "follows", "follows_if_empty"),
    [
        (["All A are B", "All B are C"], "All A are C", True, True),
        (["All A are B", "No B are C"], "No A are C", True, True),
        (["Some A are B", "All B are C"], "Some A are C", True, True),
        (["Some A are not B", "All C are B"], "Some A are not C", True, True),
        (["All A are B", "All B are C"], "Some A are C", True, False),
        (["All A are B", "Some B are C"], "Some A are C", False, False),
        (["All A are B"], "All B are A", False, False),
    ],
)
def test_syllogism_validity_depends_on_whether_classes_may_be_empty(
    premises: list[str], conclusion: str, follows: bool, follows_if_empty: bool
) -> None:
    assert follows_from_classes(premises, conclusion, may_be_empty=False) is follows
    assert follows_from_classes(premises, conclusion, may_be_empty=True) is follows_if_empty

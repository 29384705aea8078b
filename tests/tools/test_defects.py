"""The page of defects: made from saved findings and from the tables of the code."""

from __future__ import annotations

import re
from pathlib import Path

from reasoning_audit.findings import Defect
from tools.defects import FINDINGS, HELD, defects_page, read_runs

ROOT = Path(__file__).parents[2]


def test_page_has_not_drifted() -> None:
    assert FINDINGS.with_suffix(".md").read_text() == defects_page(read_runs(FINDINGS))


def test_every_defect_is_held_by_a_test() -> None:
    assert set(HELD) == set(Defect)
    page = (ROOT / "docs" / "defects.md").read_text()
    named = set(re.findall(r"`(tests/[^`]*)`", page)) | {held.test for held in HELD.values()}
    missing = []
    for test in named:
        path, _, name = test.partition("::")
        if f"def {name}(" not in (ROOT / path).read_text():
            missing.append(test)
    assert missing == []

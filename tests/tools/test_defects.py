"""Generate the page of defects from saved audit findings and from the declarations of tasks."""

from __future__ import annotations

import re
from pathlib import Path

from reasoning_audit.findings import Defect
from tools.defects import FINDINGS, FIXES, defects_page, read_runs

ROOT = Path(__file__).parents[2]


def test_defects_page_is_up_to_date() -> None:
    assert FINDINGS.with_suffix(".md").read_text() == defects_page(read_runs(FINDINGS))


def test_every_defect_has_a_regression_test() -> None:
    assert set(FIXES) == set(Defect)
    page = (ROOT / "docs" / "defects.md").read_text()
    named = set(re.findall(r"`(tests/[^`]*)`", page)) | {fix.test for fix in FIXES.values()}
    missing = []
    for test in named:
        path, _, name = test.partition("::")
        if f"def {name}(" not in (ROOT / path).read_text():
            missing.append(test)
    assert missing == []

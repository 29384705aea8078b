"""Fixtures of the demo's tests."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests import process_table as table_of_processes


@pytest.fixture
def process_table() -> ModuleType:
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    return table_of_processes

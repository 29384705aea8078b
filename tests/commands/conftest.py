from __future__ import annotations

from pathlib import Path

import pytest

from tests.small_library import write_small_library


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that contains a checkout of a small library."""
    return write_small_library(tmp_path)

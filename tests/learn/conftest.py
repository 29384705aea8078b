"""A model with a few thousand parameters. Tests that use the model are skipped without PyTorch."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def tiny() -> tuple[Any, Any]:
    pytest.importorskip("torch", reason="needs PyTorch (the extra `learn`)")
    from learn.model import build

    return build(1, width=16, layers=1)

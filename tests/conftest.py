"""For every test: no request leaves this machine, and no verdict of hypothesis depends on how fast the machine is.

The longest files go first, so that no core waits at the end.
"""

from __future__ import annotations

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from hypothesis import HealthCheck, settings

from testing import TOKENIZER

settings.register_profile("any_speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_speed")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "give every hostile answer to every task, which takes minutes, and print the figures"
    parser.addoption("--whole-corpus", action="store_true", help=help_text)


LONGEST = ("test_resume.py", "test_instances.py", "test_dumps_after_kill.py", "test_faults_")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the files of LONGEST to the front, in this order."""

    def rank(item: pytest.Item) -> int:
        return next((place for place, name in enumerate(LONGEST) if item.path.name.startswith(name)), len(LONGEST))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(TOKENIZER)

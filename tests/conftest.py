"""For every test: no request ever leaves this machine. The longest go first, so that no core waits at the end."""

from __future__ import annotations

import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest

from testing import TOKENIZER

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

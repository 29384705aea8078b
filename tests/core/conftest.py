from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.fake_run_api import FakeRunApi, fake_run_api

TOKENIZER_FOLDER = Path(__file__).parents[2] / "demo" / "tokenizer"


@pytest.fixture
async def api() -> AsyncIterator[FakeRunApi]:
    async with fake_run_api() as api:
        yield api


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(TOKENIZER_FOLDER)

from __future__ import annotations

from typing import Any

import pytest
import transformers

from testing import TOKENIZER


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(TOKENIZER)

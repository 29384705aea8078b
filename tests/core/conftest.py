from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

TOKENIZER_FOLDER = Path(__file__).parents[2] / "demo" / "tokenizer"


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(TOKENIZER_FOLDER)

"""The tokenizer, folders of models, and the mistakes that the warm start teaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch (the extra `learn`)")

from learn.errors import LearnError
from learn.model import load, prompt_tokens, save
from learn.warm_start import with_mistake

QUESTION = "Spell this word backward (example: sun -> nus): Chess!"


def test_saved_model_loads(tiny: tuple[Any, Any], tmp_path: Path) -> None:
    save(*tiny, tmp_path)
    _, tokenizer = load(tmp_path)
    assert prompt_tokens(tokenizer, QUESTION) == prompt_tokens(tiny[1], QUESTION)
    assert tokenizer.decode(prompt_tokens(tokenizer, QUESTION)).endswith(f"<|user|>{QUESTION}<|end|><|assistant|>")


def test_answer_has_token_per_character(tiny: tuple[Any, Any]) -> None:
    assert len(tiny[1].encode("<answer>-12\nab</answer>", add_special_tokens=False)) == 8


def test_missing_chat_template_is_reported(tiny: tuple[Any, Any], tmp_path: Path) -> None:
    save(*tiny, tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(LearnError, match=str(tmp_path)):
        load(tmp_path)


def test_missing_model_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LearnError, match=str(tmp_path)):
        load(tmp_path)


@pytest.mark.parametrize(
    ("answer", "spoilt"),
    [("ssehc", "ssech"), ("1 2 3", "1 3 2"), ("['7.0', '3.0']", "['3.0', '7.0']")],
)
def test_spoilt_answers(answer: str, spoilt: str) -> None:
    assert with_mistake(answer) == spoilt

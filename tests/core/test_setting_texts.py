from __future__ import annotations

import pytest
from pydantic import BaseModel, Field

from reasoning_env.setting_texts import default_text, range_text
from reasoning_env.settings import ReasoningSettings


class Settings(BaseModel):
    nothing: str | None = None
    empty: list[str] = Field(default_factory=list)
    zero: int = Field(default=0, ge=0)
    share: float = Field(default=0.5, gt=0.0, lt=1.0)


@pytest.mark.parametrize(
    ("name", "default", "limits"),
    [("nothing", "none", ""), ("empty", "empty", ""), ("zero", "0", "≥ 0"), ("share", "0.5", "> 0.0, < 1.0")],
)
def test_default_and_range_are_those_of_the_field(name: str, default: str, limits: str) -> None:
    field = Settings.model_fields[name]
    assert (default_text(field), range_text(field)) == (default, limits)


def test_long_default_is_named() -> None:
    assert default_text(ReasoningSettings.model_fields["system_prompt"]) == "a text"

from __future__ import annotations

import re

from pydantic import BaseModel, Field

from reasoning_env.atropos.settings_table import settings_table
from reasoning_env.settings import ReasoningSettings


class Settings(ReasoningSettings):
    group_size: int = Field(default=4, description="Rollouts of one problem | a group.")
    nothing: str | None = Field(default=None, description="Nothing.")


def _rows(config_cls: type[BaseModel]) -> dict[str, list[str]]:
    """The cells after the name, by name."""
    lines = [line for line in settings_table(config_cls).splitlines() if line.startswith("| `")]
    cells = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_every_setting_has_a_row_with_its_description() -> None:
    rows = _rows(Settings)
    assert list(rows) == list(Settings.model_fields)
    assert rows["seed"][-1] == ReasoningSettings.model_fields["seed"].description


def test_own_settings_come_before_those_of_others() -> None:
    table = settings_table(Settings)
    assert table.index("`seed`") < table.index("Atropos' settings") < table.index("`group_size`")


def test_range_is_that_of_the_field() -> None:
    assert _rows(Settings)["top_p"][:2] == ["`1.0`", "> 0.0, ≤ 1.0"]


def test_range_of_a_base_setting_is_that_which_is_checked() -> None:
    assert _rows(Settings)["group_size"][:2] == ["`4`", "at least 1"]


def test_bar_in_a_description_does_not_begin_a_column() -> None:
    assert "Rollouts of one problem \\| a group." in settings_table(Settings)


def test_empty_and_long_defaults_are_named() -> None:
    rows = _rows(Settings)
    assert (rows["tasks"][0], rows["nothing"][0], rows["system_prompt"][0]) == ("empty", "none", "a text")

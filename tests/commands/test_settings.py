from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from reasoning_env.commands.settings import ATROPOS_SETTINGS, settings_command
from reasoning_env.errors import ConfigError
from reasoning_env.settings import ReasoningSettings

Show = Callable[..., str]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    def show(*argv: str) -> str:
        assert settings_command(argv) == 0
        return capsys.readouterr().out

    return show


def _names(output: str) -> list[str]:
    return [row["setting"] for rows in json.loads(output).values() for row in rows]


def test_every_setting_is_listed_own_ones_first(show: Show) -> None:
    others = [row[0] for rows in json.loads(ATROPOS_SETTINGS.read_text()).values() for row in rows]
    assert _names(show("--json")) == [*ReasoningSettings.model_fields, *others]
    assert all(f"\n{name} " in show() for name in ("seed", "group_size", "base_url"))


@pytest.mark.parametrize("word", ["Group_Size", "eval_seed", "base_url"])
def test_words_search_names_and_meanings(show: Show, word: str) -> None:
    found = _names(show(word, "--json"))
    assert word.lower() in found
    assert len(found) < len(_names(show("--json")))


@pytest.mark.parametrize(("words", "told"), [(["scored", "below"], "scored .*below"), (["group_sise"], "group_size")])
def test_words_that_are_nowhere_are_answered_with_the_nearest_name(words: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        settings_command(words)


def test_markdown_has_one_line_of_four_cells_for_each_setting(show: Show) -> None:
    lines = [line for line in show("--markdown").splitlines() if line.startswith("| `")]
    assert len(lines) == len(_names(show("--json")))
    assert {len(re.split(r" (?<!\\)\| ", line.removesuffix(" |"))) for line in lines} == {4}

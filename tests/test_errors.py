from __future__ import annotations

import pickle

import pytest

from reasoning_env.errors import (
    ConfigError,
    InvalidReferenceError,
    ReasoningEnvError,
    SeveralConfigErrors,
    did_you_mean,
)

TYPED = {"env.seed": "--seed", "tasks": "--tasks", "hidden": ""}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("no task is left"), "no task is left"),
        (ConfigError("must be at least 1", setting="env.seed", got="0"), "env.seed: must be at least 1; got '0'"),
        (ConfigError("must be a text", got=None), "must be a text; got None"),
        (ConfigError("is a folder", setting="path", remedy="name a file"), "path: is a folder; name a file"),
        (ConfigError("no server", remedy="correct {openai.base_url}"), "no server; correct openai.base_url"),
    ],
)
def test_error_text_names_the_setting_and_the_value_and_the_remedy(error: ConfigError, text: str) -> None:
    assert str(error) == text


def test_config_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no task is left"):
        raise ConfigError("no task is left")


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("is wrong", setting="env.seed", got=1, remedy="correct {env.seed}"),
        SeveralConfigErrors([ConfigError("a", setting="tasks"), ConfigError("b")]),
        InvalidReferenceError("gcd:x", "no seed"),
    ],
)
def test_pickled_error_keeps_its_text(error: ReasoningEnvError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.describe(TYPED)) == (type(error), str(error), error.describe(TYPED))


def test_error_about_a_problem_reference_quotes_the_reference() -> None:
    assert str(InvalidReferenceError("gcd:x", "no seed")) == "reference 'gcd:x': no seed"


@pytest.mark.parametrize(("word", "hint"), [("gdc", "did you mean gcd?"), ("xyz", None)])
def test_spelling_hint_contains_a_similar_word(word: str, hint: str | None) -> None:
    assert did_you_mean(word, ["gcd", "lcm"]) == hint

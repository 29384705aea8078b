from __future__ import annotations

import json
import math
from typing import Any, Literal, get_args, get_origin

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.records import Reason
from reasoning_env.rewards import extract_answer
from reasoning_env.settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT, ReasoningSettings, changed_settings, fingerprint
from reasoning_env.settings.given import make_settings

FIELDS = ReasoningSettings.model_fields

REFUSED: dict[str, list[Any]] = {
    "tasks": [None, 7, [1]],
    "exclude_tasks": [7],
    "eval_tasks": [7],
    "task_weights": [{"gcd": "much"}, "[1, 2]", "gcd", "{gcd: 1", 7],
    "task_params": [{"gcd": 3}, "[1, 2]", "{gcd: {"],
    "system_prompt": [None, 7],
    "seed": ["x", 1.5],
    "eval_temperature": [math.nan, 2.1],
    "scoring_deadline_s": [math.inf],
    "complexity_level": ["hard"],
    "complexity_mode": ["fixed", 3],
    "sandbox_verifiers": ["perhaps", 2],
}
"""Invalid values for each kind of setting, and for settings with their own parsers.

Another test checks the bounds in docs/settings.md.
"""
FROM_TEXT: dict[str, tuple[str, Any]] = {
    "tasks": ("gsm_symbolic, chain_sum,", ["gsm_symbolic", "chain_sum"]),
    "exclude_tasks": ("games/*", ["games/*"]),
    "eval_tasks": ("games/*,gcd", ["games/*", "gcd"]),
    "task_weights": ("games/*=2, gcd=0.5", {"games/*": 2.0, "gcd": 0.5}),
    "task_params": ("{gcd: {min_value: 2}}", {"gcd": {"min_value": 2}}),
    "system_prompt": ("Think, then answer.", "Think, then answer."),
    "task_modules": ("my_tasks, examples/own_task.py", ["my_tasks", "examples/own_task.py"]),
    "checkout": ("some/folder", "some/folder"),
    "eval_temperature": ("0.5", 0.5),
    "sandbox_verifiers": ("0", False),
    "eval_level": ("0.5", 0.5),
}
COMPANIONS: dict[str, dict[str, Any]] = {"task_weights": {"task_sampling": "weighted"}}
"""Further settings that a setting needs."""


def other_value(name: str) -> Any:
    """Return a valid value other than the default: a bound or a different choice."""
    field = FIELDS[name]
    if field.annotation is bool:
        return not field.default
    kinds = [field.annotation, *get_args(field.annotation)]
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    bounds = [getattr(bound, kind) for bound in field.metadata for kind in ("ge", "le") if hasattr(bound, kind)]
    if float in kinds:
        bounds = list(map(float, bounds))
    return next(value for value in (*choices, *bounds) if value != field.default)


def test_every_setting_accepts_strings() -> None:
    """FROM_TEXT has the strings for settings that are neither a number, a choice nor a switch."""
    found = {name: FROM_TEXT.get(name) or (str(other_value(name)), other_value(name)) for name in FIELDS}
    for name, (text, value) in found.items():
        parsed = getattr(ReasoningSettings(**{**COMPANIONS.get(name, {}), name: text}), name)
        assert (parsed, type(parsed)) == (value, type(value)), name


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_error_about_an_invalid_value_names_the_setting(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: ") as refusal:
        ReasoningSettings(**{**COMPANIONS.get(name, {}), name: value})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "names"),
    [("", ()), ("all", ("all",)), ("a", ("a",)), (" a ,b", ("a", "b")), (["a", "b"], ("a", "b"))],
)
def test_tasks_setting_accepts_a_list_or_string(value: Any, names: tuple[str, ...]) -> None:
    assert ReasoningSettings(tasks=value).tasks == list(names)


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<answer>", "</answer>"])
def test_default_system_prompt_contains_each_opening_and_closing_tag_twice(tag: str) -> None:
    assert SYSTEM_PROMPT.count(tag) == 2, "once in a sentence, and once in the example"


def test_default_prompt_ends_with_an_example_reply() -> None:
    reply = SYSTEM_PROMPT.rpartition("\n\n")[2]
    thinking, answer = reply.splitlines()
    assert (thinking.startswith("<think>"), thinking.endswith("</think>")) == (True, True)
    assert extract_answer(reply, 100).answer == "Beatrice"
    assert NATIVE_SYSTEM_PROMPT.rpartition("\n\n")[2] == answer


def test_completion_that_copies_the_default_prompt_contains_no_answer() -> None:
    assert extract_answer(SYSTEM_PROMPT, 100).reason is Reason.SEVERAL_ANSWERS


@pytest.mark.parametrize("text", ["none", "None", "", "null"])
def test_string_that_means_none_sets_a_setting_to_none(text: str) -> None:
    settings = ReasoningSettings(complexity_mode=text, complexity_level=text, checkout=text)
    assert (settings.complexity_mode, settings.complexity_level, settings.checkout) == (None, None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"complexity_mode": "random", "complexity_level": 0.5},
        {"task_weights": {"gcd": 2.0}},
        {"task_weights": {"gcd": 2.0}, "task_sampling": "adaptive"},
    ],
)
def test_conflicting_settings_of_levels_or_weights_raise(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(fields))}: "):
        ReasoningSettings(**fields)


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, None),
        ({"eval_level": 0.25, "complexity_level": 0.5}, 0.25),
        ({"eval_level": "training", "complexity_level": 0.5}, 0.5),
        ({"eval_level": "training"}, None),
    ],
)
def test_eval_level_setting_sets_the_difficulty_level_of_the_evaluation(settings: Any, level: float | None) -> None:
    assert ReasoningSettings(**settings).evaluation_level == level


@pytest.mark.parametrize(
    ("what", "some"),
    [
        ("problems", {"seed", "complexity_level", "eval_seed", "rewards"}),
        ("answers", {"thinking", "rewards"}),
        ("evaluation", {"eval_temperature", "rewards", "eval_seed"}),
    ],
)
def test_settings_fingerprint_does_not_depend_on_worker_counts(what: Any, some: set[str]) -> None:
    found = fingerprint(ReasoningSettings(seed=7, eval_seed=8), what)
    assert found.keys() >= some
    assert not found.keys() & {"num_verifiers", "num_generators"}
    assert found == json.loads(json.dumps(found))


# ---------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"taks": "gcd"}, "taks: there is no such setting; did you mean tasks?"),
        ({"xyz": 1}, "xyz: there is no such setting; the command `settings` lists all settings"),
        ({"eval_temperature": "3"}, "eval_temperature: must be at most 2; got '3'"),
        ({"eval_temperature": -1}, "eval_temperature: must be at least 0; got -1"),
        ({"scoring_deadline_s": 0}, "scoring_deadline_s: must be above 0; got 0"),
        ({"seed": "x"}, "seed: must be a whole number; got 'x'"),
        ({"eval_level": "x"}, "eval_level: must be a number from 0 to 1, or `training`; got 'x'"),
        ({"rewards": "x"}, "rewards: must be one of 'strict', 'plain', 'library'; got 'x'"),
        ({"system_prompt": 7}, "system_prompt: must be a string; got 7"),
        ({"tasks": 7}, "tasks: must be a list; got 7"),
        ({"task_weights": {"gcd": "x"}}, "task_weights: entry 'gcd' must be a number; got 'x'"),
        ({"task_params": {"gcd": 3}}, "task_params: entry 'gcd' must be a mapping of names to values; got 3"),
        ({"task_sampling": "x"}, "task_sampling: must be one of 'uniform', 'weighted', 'adaptive'; got 'x'"),
        ({"task_params": "[1]"}, "task_params: must be a mapping, such as {name: value}; got '[1]'"),
        (
            {"seed": "x", "eval_seed": -1},
            "seed: must be a whole number; got 'x'; eval_seed: must be at least 0; got -1",
        ),
        (
            {"complexity_mode": "random", "complexity_level": 0.5},
            "complexity_mode: cannot be combined with a fixed level, because the mode sets the level of each problem; "
            "remove complexity_mode or complexity_level",
        ),
    ],
)
def test_invalid_settings_raise_a_one_line_error(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_settings(ReasoningSettings, values)
    assert str(error.value) == text


def test_settings_error_names_the_config_section() -> None:
    with pytest.raises(ConfigError, match=r"^env\.seed: must be a whole number"):
        make_settings(ReasoningSettings, {"seed": "x"}, "env.")


@pytest.mark.parametrize(("text", "value"), [("None", None), ("null", None), ("1e3", 1000)])
def test_optional_number_setting_accepts_strings(text: str, value: int | None) -> None:
    assert make_settings(ReasoningSettings, {"eval_repeats": text}).eval_repeats == value


@pytest.mark.parametrize(
    ("before", "changed"),
    [({"a": [1], "b": None}, []), ({"a": [1], "old": 1}, []), ({"a": [2]}, ["a"]), ({"b": 1}, ["a", "b"])],
)
def test_settings_that_differ_from_saved_settings_are_listed(before: dict[str, Any], changed: list[str]) -> None:
    assert changed_settings(before, {"a": (1,), "b": None}) == changed

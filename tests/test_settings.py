from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from reasoning_env.settings import SYSTEM_PROMPT, ReasoningSettings

REFUSED: dict[str, list[Any]] = {
    "tasks": [None, 7, [1]],
    "seed": [-1, "x", 1.5],
    "system_prompt": [None, 7],
    "temperature": [-0.1, 2.1, math.nan],
    "top_p": [0.0, 1.1, math.nan],
    "min_completion_tokens": [0],
    "mask_too_long_completions": ["perhaps", 2],
    "max_answer_bytes": [0, 10_000_001],
    "num_eval_samples_per_task": [0, 100_001],
    "eval_preset": ["rg-medium"],
    "eval_tasks": [7],
    "num_eval_tasks": [-2],
    "eval_repeats": [0, 1001],
    "eval_level": [-0.1, 1.1],
    "eval_seed": [-1],
    "exclude_tasks": [7],
    "task_weights": [{"gcd": "much"}, "[1, 2]", "gcd", "{gcd: 1", 7],
    "task_params": [{"gcd": 3}, "[1, 2]", "{gcd: {"],
    "task_sampling": ["fair"],
    "complexity_mode": ["fixed", 3],
    "complexity_level": [-0.01, 1.01, math.nan, "hard"],
    "curriculum_target_accuracy": [0.0, 0.96],
    "eval_temperature": [-0.1, 2.1],
    "eval_top_p": [0.0, 1.1],
    "num_generators": [0, 257],
    "num_verifiers": [0, 257],
    "prefetch_problems": [0, 100_001],
    "fast_generators": ["perhaps"],
    "generation_deadline_s": [0.0, 3601.0, math.nan, math.inf],
    "eval_generation_deadline_s": [0.0, 3601.0],
    "scoring_deadline_s": [0.0, 3601.0, math.nan],
    "worker_memory_mb": [511, 1_048_577],
    "worker_niceness": [-1, 20],
    "worker_start_timeout_s": [0.0, 3601.0],
    "quarantine_after_failures": [0, 1001],
    "dump_rollouts": ["perhaps"],
    "dump_failed_rollouts": ["perhaps"],
    "rollout_save_score_threshold": [-0.1, 1.1, math.nan],
    "data_dumps_dir": [7],
    "startup_timeout_s": [0.0, 86_401.0],
    "shutdown_grace_s": [-0.1, 3601.0],
    "resume_with_changes": ["perhaps"],
    "max_failed_groups_in_a_row": [0, 100_001],
    "progress_interval_s": [0.0, 86_401.0],
    "debug_logging": ["perhaps"],
    "strict_rewards": ["perhaps"],
    "lenient_answers": ["perhaps"],
    "sandbox_verifiers": ["perhaps"],
    "exclude_gameable": ["perhaps"],
    "suppress_base_env_logs": ["perhaps"],
}
FROM_TEXT: dict[str, tuple[str, Any]] = {
    "tasks": ("gsm_symbolic, chain_sum,", ["gsm_symbolic", "chain_sum"]),
    "exclude_tasks": ("games/*", ["games/*"]),
    "task_weights": ("games/*=2, gcd=0.5", {"games/*": 2.0, "gcd": 0.5}),
    "task_params": ("{gcd: {min_value: {low: 2, high: 3}}}", {"gcd": {"min_value": {"low": 2, "high": 3}}}),
    "task_sampling": ("adaptive", "adaptive"),
    "complexity_mode": ("random", "random"),
    "complexity_level": ("0.25", 0.25),
    "curriculum_target_accuracy": ("0.5", 0.5),
    "seed": ("0", 0),
    "system_prompt": ("Think, then answer.", "Think, then answer."),
    "temperature": ("0", 0.0),
    "top_p": ("0.5", 0.5),
    "min_completion_tokens": ("1", 1),
    "mask_too_long_completions": ("false", False),
    "max_answer_bytes": ("100", 100),
    "num_eval_samples_per_task": ("1", 1),
    "eval_preset": ("rg-hard", "rg-hard"),
    "eval_tasks": ("games/*,gcd", ["games/*", "gcd"]),
    "num_eval_tasks": ("3", 3),
    "eval_repeats": ("3", 3),
    "eval_level": ("0.5", 0.5),
    "eval_seed": ("1", 1),
    "eval_temperature": ("2.0", 2.0),
    "eval_top_p": ("1", 1.0),
    "num_generators": ("256", 256),
    "num_verifiers": ("1", 1),
    "prefetch_problems": ("1", 1),
    "generation_deadline_s": ("0.5", 0.5),
    "eval_generation_deadline_s": ("3600", 3600.0),
    "scoring_deadline_s": ("1e-1", 0.1),
    "worker_memory_mb": ("512", 512),
    "worker_niceness": ("0", 0),
    "worker_start_timeout_s": ("5", 5.0),
    "quarantine_after_failures": ("1", 1),
    "dump_rollouts": ("true", True),
    "dump_failed_rollouts": ("True", True),
    "rollout_save_score_threshold": ("0", 0.0),
    "data_dumps_dir": ("some/folder", "some/folder"),
    "startup_timeout_s": ("none", None),
    "shutdown_grace_s": ("0", 0.0),
    "resume_with_changes": ("true", True),
    "max_failed_groups_in_a_row": ("1", 1),
    "progress_interval_s": ("0.1", 0.1),
    "debug_logging": ("1", True),
    "strict_rewards": ("off", False),
    "lenient_answers": ("no", False),
    "sandbox_verifiers": ("off", False),
    "fast_generators": ("off", False),
    "exclude_gameable": ("no", False),
    "suppress_base_env_logs": ("0", False),
}
COMPANIONS: dict[str, dict[str, Any]] = {"task_weights": {"task_sampling": "weighted"}}
"""What a setting needs beside it."""


def test_every_setting_is_tested() -> None:
    assert set(REFUSED) == set(FROM_TEXT) == set(ReasoningSettings.model_fields)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_value_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as refusal:
        ReasoningSettings(**{**COMPANIONS.get(name, {}), name: value})
    assert {error["loc"][0] for error in refusal.value.errors()} == {name}


@pytest.mark.parametrize(("name", "text", "value"), [(name, *pair) for name, pair in FROM_TEXT.items()])
def test_text_from_the_command_line_is_parsed(name: str, text: str, value: Any) -> None:
    parsed = getattr(ReasoningSettings(**{**COMPANIONS.get(name, {}), name: text}), name)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("value", "names"),
    [("", ()), (" , ", ()), ("all", ("all",)), ("a", ("a",)), (" a ,b", ("a", "b")), (["a", "b"], ("a", "b"))],
)
def test_tasks_are_a_list_or_names_between_commas(value: Any, names: tuple[str, ...]) -> None:
    assert ReasoningSettings(tasks=value).tasks == list(names)


DEFAULTS = {
    "tasks": [],
    "dump_rollouts": False,
    "dump_failed_rollouts": False,
    "rollout_save_score_threshold": 0.7,
    "debug_logging": False,
    "suppress_base_env_logs": True,
    "seed": 42,
    "mask_too_long_completions": True,
    "max_answer_bytes": 20_000,
    "num_eval_samples_per_task": 5,
    "eval_seed": 123,
}


def test_defaults_that_users_rely_on() -> None:
    assert ReasoningSettings().model_dump(include=set(DEFAULTS)) == DEFAULTS


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<answer>", "</answer>"])
def test_default_prompt_names_each_tag_that_counts(tag: str) -> None:
    assert SYSTEM_PROMPT.count(tag) == 1


@pytest.mark.parametrize("text", ["none", "None", "", "null"])
def test_no_difficulty_can_be_said_in_text(text: str) -> None:
    settings = ReasoningSettings(complexity_mode=text, complexity_level=text)
    assert (settings.complexity_mode, settings.complexity_level) == (None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"complexity_mode": "random", "complexity_level": 0.5},
        {"task_weights": {"gcd": 2.0}},
        {"task_weights": {"gcd": 2.0}, "task_sampling": "adaptive"},
    ],
)
def test_settings_that_exclude_each_other_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        ReasoningSettings(**fields)

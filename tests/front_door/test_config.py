from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig

FIELDS = ReasoningGymEnvConfig.model_fields
NUMBERS = [name for name, field in FIELDS.items() if field.annotation in (int, float, int | None, float | None)]
FREE_NUMBERS = ("min_items_sent_before_logging",)
"""Numbers of Atropos' that may be anything: `if 0 or less, logs every time`."""

OUT_OF_RANGE = [
    # this environment's own
    ("seed", -1),
    ("temperature", -0.1),
    ("temperature", 2.1),
    ("top_p", 0.0),
    ("top_p", 1.1),
    ("min_completion_tokens", 0),
    ("max_answer_bytes", 0),
    ("max_answer_bytes", 10_000_001),
    ("num_eval_samples_per_task", 0),
    ("num_eval_samples_per_task", 100_001),
    ("num_eval_tasks", -2),
    ("eval_seed", -1),
    ("eval_temperature", -0.1),
    ("eval_temperature", 2.1),
    ("eval_top_p", 0.0),
    ("eval_top_p", 1.1),
    ("num_generators", 0),
    ("num_generators", 257),
    ("num_verifiers", 0),
    ("num_verifiers", 257),
    ("prefetch_problems", 0),
    ("prefetch_problems", 100_001),
    ("generation_deadline_s", 0.0),
    ("generation_deadline_s", 3601.0),
    ("eval_generation_deadline_s", 0.0),
    ("eval_generation_deadline_s", 3601.0),
    ("scoring_deadline_s", 0.0),
    ("scoring_deadline_s", 3601.0),
    ("worker_memory_mb", 511),
    ("worker_memory_mb", 1_048_577),
    ("worker_niceness", -1),
    ("worker_niceness", 20),
    ("worker_start_timeout_s", 0.0),
    ("worker_start_timeout_s", 3601.0),
    ("quarantine_after_failures", 0),
    ("quarantine_after_failures", 1001),
    ("complexity_level", -0.1),
    ("complexity_level", 1.1),
    ("curriculum_target_accuracy", 0.0),
    ("curriculum_target_accuracy", 1.0),
    ("rollout_save_score_threshold", -0.1),
    ("rollout_save_score_threshold", 1.1),
    ("startup_timeout_s", 0.0),
    ("startup_timeout_s", 86_401.0),
    ("shutdown_grace_s", -0.1),
    ("shutdown_grace_s", 3601.0),
    ("max_failed_groups_in_a_row", 0),
    ("max_failed_groups_in_a_row", 100_001),
    ("progress_interval_s", 0.0),
    ("progress_interval_s", 86_401.0),
    # Atropos' own
    ("group_size", 0),
    ("max_num_workers", 0),
    ("max_num_workers", -2),
    ("max_eval_workers", 0),
    ("max_num_workers_per_node", 0),
    ("steps_per_eval", -2),
    ("max_token_length", 15),
    ("eval_handling", "SOMETIMES"),
    ("eval_limit_ratio", 1.1),
    ("eval_limit_ratio", -0.1),
    ("inference_weight", -0.5),
    ("batch_size", 0),
    ("batch_size", -2),
    ("max_batches_offpolicy", 0),
    ("total_steps", 0),
    ("total_steps", -2),
    ("num_rollouts_to_keep", -1),
    ("num_rollouts_per_group_for_logging", -2),
    ("min_batch_allocation", 1.1),
    ("min_batch_allocation", -0.1),
    ("worker_timeout", 0),
    ("worker_timeout", -2),
    ("reasoning_effort", "heroic"),
    ("max_reasoning_tokens", 1023),
    ("max_reasoning_tokens", 32_001),
    ("rollout_server_url", "localhost:8000"),
    ("tokenizer_name", ""),
]
ALLOWED_WORDS = (
    "greater than",
    "less than",
    "at least",
    "between",
    "positive",
    "one of",
    "LIMIT_TRAIN",
    "a URL that",
    "name or folder",
)
"""One of these stands in every message that says what is allowed."""
WRONG_TYPE = [
    ("group_size", "many"),
    ("group_size", 2.5),
    ("temperature", "hot"),
    ("dump_rollouts", "perhaps"),
    ("tasks", 5),
    ("tasks", ["chain_sum", 5]),
    ("system_prompt", None),
    ("data_dumps_dir", 7),
    ("seed", None),
]


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ("dump_rollouts", False),
        ("dump_failed_rollouts", False),
        ("rollout_save_score_threshold", 0.7),
        ("debug_logging", False),
        ("suppress_base_env_logs", True),
        ("seed", 42),
        ("mask_too_long_completions", True),
        ("num_eval_samples_per_task", 5),
        ("eval_seed", 123),
        ("max_answer_bytes", 20_000),
        ("tasks", []),
    ],
)
def test_default(field: str, default: object) -> None:
    assert getattr(ReasoningGymEnvConfig(), field) == default


@pytest.mark.parametrize(("field", "value"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_refused_by_name_and_with_what_is_allowed(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as raised:
        ReasoningGymEnvConfig(**{field: value})
    message = str(raised.value)
    assert field in message
    assert any(words in message for words in ALLOWED_WORDS)
    assert str(value) in message


@pytest.mark.parametrize(("field", "value"), WRONG_TYPE)
def test_a_value_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        ReasoningGymEnvConfig(**{field: value})


@pytest.mark.parametrize("field", [name for name in NUMBERS if name not in FREE_NUMBERS])
@pytest.mark.parametrize("value", [-1_000_000, math.nan])
def test_no_number_is_taken_unchecked(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match=field):
        ReasoningGymEnvConfig(**{field: value})


def test_every_number_of_this_environment_has_a_case_above() -> None:
    own = {name for name in NUMBERS if name not in FREE_NUMBERS}
    assert own <= {field for field, _ in OUT_OF_RANGE}


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="group_sise"):
        ReasoningGymEnvConfig(group_sise=4)


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_every_setting_is_described(field: str) -> None:
    assert len(FIELDS[field].description or "") > 10


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("chain_sum", ["chain_sum"]),
        ("chain_sum,gcd", ["chain_sum", "gcd"]),
        (" chain_sum , gcd, ", ["chain_sum", "gcd"]),
        ("", []),
    ],
)
def test_tasks_may_be_one_text(text: str, names: list[str]) -> None:
    assert ReasoningGymEnvConfig(tasks=text).tasks == names


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [("group_size", "8", 8), ("temperature", "0.5", 0.5), ("dump_rollouts", "True", True), ("seed", "7", 7)],
)
def test_values_may_be_text_as_from_the_command_line(field: str, text: str, value: object) -> None:
    assert getattr(ReasoningGymEnvConfig(**{field: text}), field) == value


def test_the_default_config_has_every_setting_at_its_default() -> None:
    config, _ = ReasoningGymEnv.config_init()
    assert config == ReasoningGymEnvConfig()


def as_dict(**fields: Any) -> dict[str, Any]:
    return ReasoningGymEnvConfig(**fields).model_dump()


def test_a_config_survives_a_dump() -> None:
    fields = as_dict(tasks="gcd,lcm", group_size=1, seed=5)
    assert as_dict(**fields) == fields


def test_groups_of_one_turn_the_filter_off_that_would_drop_them_all() -> None:
    assert ReasoningGymEnvConfig(group_size=1).ensure_scores_are_not_same is False
    assert ReasoningGymEnvConfig(group_size=2).ensure_scores_are_not_same is True

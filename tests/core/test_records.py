from __future__ import annotations

import dataclasses
import pickle

import pytest

from reasoning_env import errors
from reasoning_env.errors import ReasoningEnvError
from reasoning_env.records import Group, Problem, ProblemSpec, Rollout, Split, TaskInfo, Verdict
from reasoning_env.signals import Interrupted

from .records import make_group, make_problem, make_rollout


@pytest.mark.parametrize("record", [Group, Problem, ProblemSpec, Rollout, TaskInfo, Verdict])
def test_records_are_frozen(record: type) -> None:
    assert dataclasses.is_dataclass(record)
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_problem_is_of_its_specs_task() -> None:
    assert make_problem("maze").task == "maze"


@pytest.mark.parametrize(("finish_reason", "truncated"), [("length", True), ("stop", False), ("abort", False)])
def test_only_the_token_budget_truncates(finish_reason: str, truncated: bool) -> None:
    assert make_rollout(finish_reason=finish_reason).truncated is truncated


def test_scores_of_a_group_are_its_rewards() -> None:
    assert make_group([make_rollout(1.0, reward=0.5), make_rollout(0.0)]).scores == (0.5, 0.0)


def test_printed_group_leaves_texts_tokens_and_entry_out() -> None:
    text = repr(make_group([make_rollout()]))
    assert "1 + 1" not in text
    assert "entry" not in text
    assert "-100" not in text


def test_splits_and_reasons_are_their_words() -> None:
    assert Split("train") is Split.TRAIN
    assert pickle.loads(pickle.dumps(Split.EVAL)) is Split.EVAL


@pytest.mark.parametrize("name", ["ConfigError", "ServerError", "GenerationError", "ScoringError", "WorkerError"])
def test_every_error_has_the_one_root(name: str) -> None:
    assert issubclass(getattr(errors, name), ReasoningEnvError)


def test_interruption_has_the_one_root() -> None:
    assert issubclass(Interrupted, ReasoningEnvError)

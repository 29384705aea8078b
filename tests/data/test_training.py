"""Select training rows or pairs from groups, and write each completion at most once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.data.training import PassRates, Selection, write_kept
from reasoning_env.dumps.format import Keep, encode_group, kept_path
from reasoning_env.dumps.reader import stream_groups
from reasoning_env.errors import ConfigError
from reasoning_env.records import Reason
from reasoning_env.storage.files import header_path
from tests.records import make_group, make_rollout
from tests.reports.lines import group, rollout, write

RIGHT = {"text": "right", "score": 1.0}
ALSO_RIGHT = {"text": "also right", "score": 1.0}
HALF = {"text": "half", "score": 0.5}
WRONG = {"text": "wrong", "score": 0.0}


def line(*rollouts: dict[str, Any], seed: int = 5) -> dict[str, Any]:
    made = [rollout(**facts) for facts in rollouts]
    for one in made:
        one["conversation"][0]["content"] = f"the question of {seed}"
    return group(*made, task="gcd", seed=seed, reference=f"gcd:train:{seed}:-:1:{'0' * 16}:{{}}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "groups.jsonl"


def kept(path: Path, *groups: dict[str, Any], keep: Keep = Keep.ALL, **how: Any) -> list[dict[str, Any]]:
    """Return the training rows that are selected from groups."""
    out, number = write_kept(write(path, *groups), Selection(keep, **how))
    rows = [json.loads(row) for row in out.read_text().splitlines()]
    assert len(rows) == number
    return rows


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["messages"][-1]["content"] for row in rows]


@pytest.mark.parametrize(
    ("made_with", "model"),
    [
        pytest.param({"models": ["a", "b"]}, "a,b", id="process"),
        pytest.param({"model": "a"}, "a", id="evaluation"),
        pytest.param({"tasks": ["gcd"]}, "", id="neither"),
    ],
)
def test_training_row_describes_its_problem_and_its_group(path: Path, made_with: object, model: str) -> None:
    header_path(path).write_text(json.dumps({"made_with": made_with}))
    [row, _] = kept(path, line(RIGHT, WRONG))
    assert row["messages"][0] == {"role": "user", "content": "the question of 5"}
    assert (row["task"], row["seed"], row["level"], row["score"]) == ("gcd", 5, -1.0, 1.0)
    assert (row["pass_rate"], row["group_size"], row["model"]) == (0.5, 2, model)


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (Keep.ALL, ["half", "right", "also right", "wrong"]),
        (Keep.CORRECT, ["right", "also right"]),
        (Keep.BEST, ["right"]),
    ],
)
def test_keep_option_selects_the_completions_that_become_training_rows(
    path: Path, keep: Keep, expected: list[str]
) -> None:
    assert texts(kept(path, line(HALF, RIGHT, ALSO_RIGHT, WRONG), keep=keep)) == expected


def test_best_completion_is_not_kept_if_all_completions_are_wrong(path: Path) -> None:
    assert kept(path, line(WRONG, WRONG), keep=Keep.BEST) == []


def test_training_pair_contains_the_best_and_the_worst_completion(path: Path) -> None:
    [pair] = kept(path, line(WRONG, RIGHT, ALSO_RIGHT), line(RIGHT, seed=6), keep=Keep.PAIRS)
    assert pair["prompt"] == [{"role": "user", "content": "the question of 5"}]
    assert [pair[name][0]["content"] for name in ("chosen", "rejected")] == ["right", "wrong"]
    assert (pair["chosen_score"], pair["rejected_score"]) == (1.0, 0.0)


def test_training_rows_come_only_from_groups_in_the_pass_rate_range(path: Path) -> None:
    rows = kept(path, line(RIGHT, ALSO_RIGHT), line(RIGHT, WRONG, seed=6), pass_rates=PassRates(0.1, 0.9))
    assert {row["seed"] for row in rows} == {6}


def test_completion_that_occurs_twice_for_a_question_becomes_one_training_row(path: Path) -> None:
    assert texts(kept(path, line(RIGHT, RIGHT), line(RIGHT, ALSO_RIGHT))) == ["right", "also right"]


def test_equal_completions_of_two_questions_both_become_training_rows(path: Path) -> None:
    assert texts(kept(path, line(RIGHT), line(RIGHT, seed=6))) == ["right", "right"]


def test_max_per_problem_limits_the_training_rows_of_each_question(path: Path) -> None:
    rows = kept(path, line(RIGHT, WRONG), line(ALSO_RIGHT), line(WRONG, seed=6), max_per_problem=2)
    assert texts(rows) == ["right", "wrong", "wrong"]


def test_all_training_rows_have_the_same_column_types(path: Path) -> None:
    groups = [
        make_group([make_rollout(0.0, Reason.NO_ANSWER)], "maze"),
        make_group([make_rollout(0.5), make_rollout(1.0)], "gcd", level=0.5),
    ]
    path.write_bytes(b"".join(map(encode_group, groups)))
    out, _ = write_kept(path, Selection(Keep.ALL))
    rows = [json.loads(row) for row in out.read_text().splitlines()]
    assert {tuple(type(value) for value in row.values()) for row in rows} == {tuple(map(type, rows[0].values()))}


def test_training_rows_file_is_not_read_as_rollout_groups(path: Path) -> None:
    header_path(path).write_text("{}")
    kept(path, line(RIGHT))
    assert len(list(stream_groups(path.parent))) == 1


def test_file_that_does_not_contain_training_rows_is_not_overwritten(path: Path) -> None:
    kept_path(path, Keep.ALL).write_text('{"question": "mine"}\n')
    with pytest.raises(ConfigError, match="does not contain training rows"):
        kept(path, line(RIGHT))
    assert "mine" in kept_path(path, Keep.ALL).read_text()


def test_training_rows_of_an_earlier_call_are_overwritten(path: Path) -> None:
    for rollouts in ([RIGHT], [RIGHT, WRONG]):
        rows = kept(path, line(*rollouts))
    assert texts(rows) == ["right", "wrong"]

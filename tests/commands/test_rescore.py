from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.commands.rescore import rescore_command
from reasoning_env.errors import ConfigError
from tests.reports.lines import group, rollout, write
from tests.small_library import write_small_library

Dump = Callable[..., Path]
Rescore = Callable[..., dict[str, Any]]


def question(seed: int) -> str:
    """What the small library asks."""
    return f"First line of {seed}.\n" + "More of it. " * 30


def line(task: str, seed: int | None, rollouts: list[dict[str, Any]], asked: str | None = None) -> dict[str, Any]:
    """One line of a dump, of rollouts to what the small library asks unless told otherwise."""
    made = [rollout(**facts) for facts in rollouts]
    for one in made:
        one["conversation"][0]["content"] = "Think. " + (question(seed or 0) if asked is None else asked)
    return group(*made, task=task, seed=seed)


RIGHT = {"text": "<answer>15</answer>", "score": 0.5, "verifier_score": 1.0}
WRONG = {"text": "<answer>6</answer>", "score": 0.0}
PAID_FOR_NOTHING = {"text": "five \x1b[31m", "score": 1.0}


@pytest.fixture
def dumped(tmp_path: Path) -> Dump:
    return partial(write, tmp_path / "dumps" / "samples.jsonl")


@pytest.fixture
def rescore(folder: Path, capsys: pytest.CaptureFixture[str]) -> Rescore:
    def rescore(*argv: object) -> dict[str, Any]:
        assert rescore_command([*map(str, argv), "--json"], folder) == 0
        return dict(json.loads(capsys.readouterr().out))

    return rescore


def test_answers_that_are_judged_as_before_are_no_change(dumped: Dump, rescore: Rescore) -> None:
    path = dumped(line("exact", 5, [RIGHT, WRONG]), line("generous", 5, [{**WRONG, "score": 1.0}]))
    result = rescore(path.parent)
    assert (result["problems"], result["rollouts"], result["changed"]) == (2, 3, 0)
    assert [row["change"] for row in result["tasks"]] == [0.0, 0.0]


def test_item_of_a_whole_dataset_is_made_again_as_that_item(dumped: Dump, rescore: Rescore) -> None:
    item = line("exact", 5, [{"text": "<answer>24</answer>", "score": 1.0}], asked=question(8))
    result = rescore(dumped({**item, "item": 3, "dataset_size": 50}))
    assert (result["rollouts"], result["changed"]) == (1, 0)


def test_changes_are_told_by_task_and_reason_with_their_answers(dumped: Dump, rescore: Rescore) -> None:
    path = dumped(
        line("exact", 5, [{**RIGHT, "verifier_score": 0.0, "reason": "timeout"}, WRONG, PAID_FOR_NOTHING]),
        line("generous", 5, [{**WRONG, "score": 1.0}]),
    )
    result = rescore(path)
    first, second = result["tasks"]
    assert first == {
        "task": "exact", "rollouts": 3, "before": pytest.approx(1 / 3), "after": pytest.approx(1 / 3),
        "change": pytest.approx(0.0), "higher": 1, "lower": 1,
    }  # fmt: skip
    assert second["task"] == "generous"
    assert {(row["before"], row["after"], row["rollouts"]) for row in result["outcomes"]} == {
        ("timeout", "right", 1),
        ("right", "no_answer", 1),
    }
    assert [(one["answer"], one["expected"], one["after"]["score"]) for one in result["examples"]] == [
        ("15", "15", 1.0),
        (PAID_FOR_NOTHING["text"], "15", 0.0),
    ]


def test_problems_that_cannot_be_had_again_are_left_out_and_counted(dumped: Dump, rescore: Rescore) -> None:
    lines = [
        line("exact", 5, [RIGHT], asked="Another question?"),
        line("exact", None, [RIGHT]),
        line("broken", 5, [RIGHT]),
    ]
    result = rescore(dumped(*lines))
    assert result["problems"] == result["rollouts"] == 0
    assert sorted(result["left_out"].values()) == [1, 1, 1]


def test_text_of_a_model_does_not_reach_the_terminal_raw(
    dumped: Dump, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rescore_command([str(dumped(line("exact", 5, [PAID_FOR_NOTHING])))], folder)
    output = capsys.readouterr().out
    assert r"five \x1b[31m" in output
    assert "\x1b" not in output


def test_what_cannot_be_read_is_one_line_and_the_rest_is_judged(
    dumped: Dump, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = dumped(line("exact", 5, [RIGHT]))
    path.write_bytes(path.read_bytes() + b"\xff\nforeign\n{")
    assert rescore_command([str(path)], folder) == 0
    captured = capsys.readouterr()
    assert "0 of 1 answers" in captured.out
    assert len(captured.err.splitlines()) == 1
    assert re.search(rf"{path}: .*\b3\b.*\b2\b", captured.err)


@pytest.mark.parametrize("name", ["missing", "dumps"])
def test_path_with_nothing_to_judge_is_refused(dumped: Dump, folder: Path, name: str) -> None:
    path = dumped().parent.parent / name
    with pytest.raises(ConfigError, match=name):
        rescore_command([str(path)], folder)


def test_another_release_is_used_where_it_is_named(dumped: Dump, rescore: Rescore, tmp_path: Path) -> None:
    other = write_small_library(tmp_path / "other") / "reasoning-gym"
    package = other / "reasoning_gym" / "__init__.py"
    package.write_text(package.read_text().replace('"9.9"', '"10.0"').replace('== entry["answer"]', '== "6"'))
    result = rescore(dumped(line("exact", 5, [RIGHT, WRONG])), "--library", other)
    assert result["library"]["version"] == "10.0"
    assert (result["tasks"][0]["higher"], result["tasks"][0]["lower"]) == (1, 1)

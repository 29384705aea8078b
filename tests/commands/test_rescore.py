from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.commands.rescore import rescore_command
from reasoning_env.errors import ConfigError
from reasoning_env.problems.references import hash_question
from tests.reports.lines import group, rollout, write

Dump = Callable[..., Path]
Rescore = Callable[..., dict[str, Any]]


def question(seed: int) -> str:
    """Return the question of a problem of the small library."""
    return f"First line of {seed}.\n" + "More of it. " * 30


def line(task: str, seed: int | None, rollouts: list[dict[str, Any]], asked: str | None = None) -> dict[str, Any]:
    """Return a line of a dump with these rollouts. The question is the small library's unless `asked` is given."""
    made = [rollout(**facts) for facts in rollouts]
    for one in made:
        one["conversation"][0]["content"] = "Think. " + (question(seed or 0) if asked is None else asked)
    reference = f"{task}:train:{seed}:-:1:{hash_question(question(seed or 0) if asked is None else asked)}:{{}}"
    return group(*made, task=task, seed=seed, reference=None if seed is None else reference)


RIGHT = {"text": "<answer>15</answer>", "score": 0.5, "verifier_score": 1.0}
WRONG = {"text": "<answer>6</answer>", "score": 0.0}
PAID_FOR_NOTHING = {"text": "five", "answer": "five \x1b[31m", "score": 1.0}


@pytest.fixture
def dumped(tmp_path: Path) -> Dump:
    return partial(write, tmp_path / "dumps" / "samples.jsonl")


@pytest.fixture
def rescore(folder: Path, capsys: pytest.CaptureFixture[str]) -> Rescore:
    def rescore(*argv: object) -> dict[str, Any]:
        assert rescore_command([*map(str, argv), "--json"], folder) == 0
        return dict(json.loads(capsys.readouterr().out))

    return rescore


def test_rescored_rollout_with_the_same_score_counts_as_unchanged(dumped: Dump, rescore: Rescore) -> None:
    path = dumped(line("exact", 5, [RIGHT, WRONG]), line("generous", 5, [{**WRONG, "score": 1.0}]))
    result = rescore(path.parent)
    assert [(row["task"], row["rollouts"], row["changed"]) for row in result["tasks"]] == [
        ("exact", 2, 0),
        ("generous", 1, 0),
    ]


def test_rollout_with_a_problem_reference_to_a_dataset_item_is_rescored(dumped: Dump, rescore: Rescore) -> None:
    item = line("exact", 5, [{"text": "<answer>24</answer>", "score": 1.0}], asked=question(8))
    result = rescore(dumped({**item, "reference": item["reference"].replace(":5:", ":5+3/50:")}))
    assert (result["tasks"][0]["rollouts"], result["changes"]) == (1, [])


def test_rollout_with_a_changed_score_is_listed_with_old_and_new_score(dumped: Dump, rescore: Rescore) -> None:
    result = rescore(dumped(line("exact", 5, [{**RIGHT, "verifier_score": 0.0}, WRONG, PAID_FOR_NOTHING])))
    assert [tuple(change.values()) for change in result["changes"]] == [
        ("exact", 5, 0.0, 1.0, "scored", "15"),
        ("exact", 5, 1.0, 0.0, "no_answer", PAID_FOR_NOTHING["answer"]),
    ]


def test_rescore_command_reports_old_and_new_mean_score_of_each_task(dumped: Dump, rescore: Rescore) -> None:
    result = rescore(dumped(line("exact", 5, [{**RIGHT, "verifier_score": 0.0}, WRONG])))
    assert result["tasks"] == [{"task": "exact", "rollouts": 2, "before": 0.0, "after": 0.5, "changed": 1}]


def test_rescore_command_leaves_out_rollouts_whose_problem_cannot_be_made_again(dumped: Dump, rescore: Rescore) -> None:
    lines = [
        line("exact", 5, [RIGHT], asked="Another question?"),
        line("exact", None, [RIGHT]),
        line("broken", 5, [RIGHT]),
    ]
    result = rescore(dumped(*lines))
    assert result["tasks"] == []
    assert {reason: facts["first_row"] for reason, facts in result["left_out"].items()} == {
        "this installation generates another question from the row's reference": 1,
        "the row has no reference": 2,
        "this installation cannot generate the problem of the row's reference": 3,
    }
    altered, _, broken = (facts["first"] for facts in result["left_out"].values())
    assert altered.startswith("this reference now gives a different question; ")
    assert altered.endswith("the reference was made by reasoning-gym 1, but 9.9 is installed")
    assert "no such puzzle" in broken


def test_rescore_command_escapes_control_characters_of_model_text(
    dumped: Dump, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rescore_command([str(dumped(line("exact", 5, [PAID_FOR_NOTHING])))], folder)
    output = capsys.readouterr().out
    assert r"five \x1b[31m" in output
    assert "\x1b" not in output


def test_rescore_command_raises_if_columns_are_given_without_an_output_file(dumped: Dump, folder: Path) -> None:
    path = dumped(line("exact", 5, [RIGHT]))
    with pytest.raises(ConfigError, match="--columns needs --out"):
        rescore_command([str(path), "--columns", "reference=gts"], folder)


@pytest.mark.parametrize("columns", ["gts", "reference=", "answer=gts"])
def test_malformed_columns_option_raises(columns: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="--columns: must be reference=NAME,completion=NAME"):
        rescore_command(["a.jsonl", "--columns", columns], folder)


def test_rescore_command_prints_how_many_training_rows_were_dropped(
    dumped: Dump, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = dumped(line("exact", 5, [{**RIGHT, "verifier_score": 1.0}, {**WRONG, "score": 1.0}]))
    out = folder / "sft.jsonl"
    assert rescore_command([str(path), "--keep", "correct", "--out", str(out)], folder) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Dropped 1 row: not correct",
        "Completions that were right and are wrong now: 1; to list them, run `rescore` without --keep and --out",
        f"Wrote 1 row to {out}",
    ]

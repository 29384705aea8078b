"""Rows to train on from groups: which completions are kept, once each, in either form."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from reasoning_env import ConfigError
from reasoning_env.commands.keep import keep_command
from tests.reports.lines import group, rollout, write

Keep = Callable[..., list[dict[str, Any]]]

RIGHT = {"text": "right", "score": 1.0}
ALSO_RIGHT = {"text": "also right", "score": 1.0}
WRONG = {"text": "wrong", "score": 0.0}


def line(*rollouts: dict[str, Any], seed: int = 5) -> dict[str, Any]:
    made = [rollout(**facts) for facts in rollouts]
    for one in made:
        one["conversation"][0]["content"] = f"the question of {seed}"
    return group(*made, task="gcd", seed=seed, reference=f"gcd:train:{seed}:-:1:{'0' * 16}:{{}}")


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    """Writes a file of groups, and returns the rows that `keep` makes of it."""

    def keep(*groups: dict[str, Any], options: str = "") -> list[dict[str, Any]]:
        path = write(tmp_path / "groups" / "samples.jsonl", *groups)
        assert keep_command([str(path), "--out", str(tmp_path / "out.jsonl"), *options.split()]) == 0
        return [json.loads(row) for row in (tmp_path / "out.jsonl").read_text().splitlines()]

    return keep


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["messages"][-1]["content"] for row in rows]


def test_row_has_facts_of_its_group(keep: Keep) -> None:
    [row, _] = keep(line(RIGHT, WRONG))
    assert row["messages"][0] == {"role": "user", "content": "the question of 5"}
    assert (row["task"], row["level"], row["score"]) == ("gcd", None, 1.0)
    assert (row["pass_rate"], row["group_size"]) == (0.5, 2)


def test_only_correct_completions(keep: Keep) -> None:
    assert texts(keep(line(RIGHT, WRONG, ALSO_RIGHT), options="--correct")) == ["right", "also right"]


def test_only_groups_with_a_pass_rate(keep: Keep) -> None:
    rows = keep(line(RIGHT, ALSO_RIGHT), line(RIGHT, WRONG, seed=6), options="--pass-rate 0.1..0.9")
    assert {row["reference"] for row in rows} == {f"gcd:train:6:-:1:{'0' * 16}:{{}}"}


def test_equal_completion_is_one_row(keep: Keep) -> None:
    assert texts(keep(line(RIGHT, RIGHT), line(RIGHT, ALSO_RIGHT))) == ["right", "also right"]


def test_equal_completions_of_two_questions(keep: Keep) -> None:
    assert texts(keep(line(RIGHT), line(RIGHT, seed=6))) == ["right", "right"]


def test_most_rows_of_a_question(keep: Keep) -> None:
    rows = keep(line(RIGHT, WRONG), line(ALSO_RIGHT), line(WRONG, seed=6), options="--max-per-problem 2")
    assert texts(rows) == ["right", "wrong", "wrong"]


def test_pairs_of_a_group(keep: Keep) -> None:
    [pair] = keep(line(WRONG, RIGHT, ALSO_RIGHT), line(RIGHT, seed=6), options="--format pairs")
    assert pair["prompt"] == [{"role": "user", "content": "the question of 5"}]
    assert [pair[name][0]["content"] for name in ("chosen", "rejected")] == ["right", "wrong"]
    assert (pair["chosen_score"], pair["rejected_score"]) == (1.0, 0.0)


def test_parquet(tmp_path: Path) -> None:
    path = write(tmp_path / "samples.jsonl", line(RIGHT))
    keep_command([str(path), "--out", str(tmp_path / "out.parquet")])
    [row] = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert row["messages"][-1]["content"] == "right"


def test_own_output_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "samples.jsonl", line(RIGHT))
    for _ in range(2):
        assert keep_command([str(tmp_path), "--out", str(tmp_path / "out.jsonl")]) == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 1


def test_damaged_lines_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "samples.jsonl", line(RIGHT))
    path.write_text("nonsense\n" + path.read_text())
    keep_command([str(path), "--out", str(tmp_path / "out.jsonl")])
    assert capsys.readouterr().out.startswith("skipped: 1 lines or files, the first: ")


def test_no_group(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_text("")
    with pytest.raises(ConfigError, match="holds no group"):
        keep_command([str(tmp_path / "samples.jsonl"), "--out", str(tmp_path / "out.jsonl")])

    assert [path.name for path in tmp_path.iterdir()] == ["samples.jsonl"]


def test_chat_data_beside_groups_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.jsonl", line(RIGHT))
    (tmp_path / "a.jsonl.header").write_text("{}")
    write(tmp_path / "a-correct.jsonl", {"messages": []})
    keep_command([str(tmp_path), "--out", str(tmp_path / "out" / "rows.jsonl")])
    assert "skipped" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"), [("missing", "cannot be read: No such"), ("a.parquet", "name the file.* a.jsonl")]
)
def test_path_that_holds_no_lines(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"PATH: .*{said}"):
        keep_command([name, "--out", "rows.jsonl"])


@pytest.mark.parametrize("options", ["--pass-rate 0.9..0.1", "--pass-rate x", "--max-per-problem 0", "--format csv"])
def test_wrong_option(tmp_path: Path, options: str) -> None:
    with pytest.raises(ConfigError, match=options.split()[0]):
        keep_command([str(tmp_path), "--out", str(tmp_path / "out.jsonl"), *options.split()])


def test_out_that_is_a_link_to_itself(keep: Keep, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").symlink_to("out.jsonl")
    assert texts(keep(line(RIGHT, WRONG), options="--correct")) == ["right"]

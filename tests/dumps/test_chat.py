from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.chat import chat_path, write_chat
from reasoning_env.dumps.format import encode_group
from reasoning_env.errors import ConfigError
from reasoning_env.records import Reason
from reasoning_env.storage.keyed_file import header_path
from tests.records import make_group, make_rollout

FORMAT_FAULT = make_rollout(0.0, Reason.NO_ANSWER)
GROUPS = [
    make_group([FORMAT_FAULT, FORMAT_FAULT], "maze"),
    make_group([make_rollout(0.5), make_rollout(1.0), make_rollout(1.0), FORMAT_FAULT], "gcd", level=0.5),
]


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    path = tmp_path / "groups.jsonl"
    path.write_bytes(b"".join(map(encode_group, GROUPS)))
    return path


def load(path: Path, cache: Path) -> Any:
    from datasets import load_dataset

    return load_dataset("json", data_files=str(path), split="train", cache_dir=str(cache))


@pytest.mark.parametrize(("keep", "scores"), [("best", [1.0]), ("correct", [1.0, 1.0]), ("all", [0, 0, 0.5, 1, 1, 0])])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_loaded_by_datasets(groups: Path, tmp_path: Path, keep: str, scores: list[float]) -> None:
    assert write_chat(groups, keep) == len(scores)
    rows = load(chat_path(groups, keep), tmp_path / "cache")
    assert list(rows["score"]) == scores
    assert rows[-1]["messages"][-1] == {"role": "assistant", "content": "<answer>2</answer>"}
    assert {row["messages"][0]["role"] for row in rows} == {"user"}
    assert (rows[-1]["task"], rows[-1]["seed"], rows[-1]["level"]) == ("gcd", 7, 0.5)
    assert set(rows["reason"]) <= {"scored", "no_answer"}


def test_columns_have_one_type(groups: Path) -> None:
    write_chat(groups, "all")
    rows = [json.loads(line) for line in chat_path(groups, "all").read_text().splitlines()]
    assert {tuple(type(value) for value in row.values()) for row in rows} == {tuple(map(type, rows[0].values()))}


def test_facts_of_group(groups: Path) -> None:
    header_path(groups).write_text('{"made_with": {"models": ["a", "b"]}}')
    write_chat(groups, "best")
    [row] = [json.loads(line) for line in chat_path(groups, "best").read_text().splitlines()]
    assert (row["pass_rate"], row["group_size"], row["model"]) == (0.5, 4, "a,b")
    assert (row["reference"], json.loads(row["params"])) == (GROUPS[1].problem.reference, GROUPS[1].problem.params)


def test_other_data_is_not_replaced(groups: Path) -> None:
    chat_path(groups, "all").write_text('{"question": "mine"}\n')
    with pytest.raises(ConfigError, match="holds no chat data"):
        write_chat(groups, "all")
    assert "mine" in chat_path(groups, "all").read_text()


def test_chat_data_is_replaced(groups: Path) -> None:
    write_chat(groups, "all")
    assert write_chat(groups, "all") == 6

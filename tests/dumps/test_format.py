from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.format import FAILED, PASSED, DumpKind, encode_group, is_dump, is_torn
from reasoning_env.dumps.reader import read_group

from .groups import PROMPT, make_group


def _document(line: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    document = json.loads(line, parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_line_has_the_documented_keys_and_values_and_reads_back() -> None:
    rollout = {
        "conversation": [*PROMPT, {"role": "assistant", "content": "two"}],
        "score": 0.25,
        "reason": "scored",
        "answer": "2",
        "finish_reason": "stop",
        "verifier_score": 1.0,
        "tokens": 5,
    }
    group = make_group((0.25,), text="two")
    line = encode_group(replace(group, rollouts=tuple(replace(each, token_count=5) for each in group.rollouts)))
    document = _document(line)
    assert document == {
        "item_id": "chain_sum",
        "rollouts": [rollout],
        "seed": 7,
        "index": 0,
        "split": "train",
        "params": {},
        "level": 0.25,
        "expected_answer": "2",
        "metadata": {"difficulty": 1},
        "reference": "chain_sum:train:7:0.25:1:e265702b26f3ffa7:{}",
    }
    read = json.loads(json.dumps(asdict(read_group(line))))
    assert {name: read["rollouts"][0][name] for name in rollout} == rollout
    assert {name: read[name] for name in document} == {**document, "rollouts": read["rollouts"]}


def test_thinking_stands_beside_the_conversation() -> None:
    group = make_group()
    document = _document(encode_group(replace(group, rollouts=(replace(group.rollouts[0], thinking="hm\ud800"),))))
    assert document["rollouts"][0]["thinking"] == "hm\ud800"


def test_what_json_lacks_is_written_as_text_or_as_what_it_has() -> None:
    params = {"low": float("-inf"), "ops": ("+", "-"), "set": frozenset({1}), "table": {(1, 2): 3}, "number": 1 + 2j}
    group = make_group(metadata_json='{"ratio": NaN, "big": 1e999, "fine": 0.5}')
    document = _document(encode_group(replace(group, problem=replace(group.problem, params=params))))
    written = {"low": "-inf", "ops": ["+", "-"], "set": [1], "table": {"(1, 2)": 3}, "number": "(1+2j)"}
    assert document["params"] == written
    assert document["metadata"] == {"ratio": "nan", "big": "inf", "fine": 0.5}


@pytest.mark.parametrize(
    ("line", "torn"),
    [
        (b'{"item_id"', True),
        (b"{}", False),  # as editors leave a last line
        (b"{}\n", False),
        (b"no group of ours\n", False),
        (b"\0" * 5_000, True),
        (b"\0" * 50 + b'"score": 1}\n', True),
        (b"[" * 100_000, True),
    ],
)
def test_line_is_torn_when_its_end_or_a_part_of_it_was_not_written(line: bytes, torn: bool) -> None:
    assert is_torn(line) is torn


@pytest.mark.parametrize("kind", [PASSED, FAILED])
@pytest.mark.parametrize("number", [0, 9999, 12345])
def test_names_of_dumps_are_known_again_and_others_are_none(kind: DumpKind, number: int) -> None:
    path = kind.path(Path("folder"), "a_1.b", number)
    assert is_dump(path)
    others = [path.with_suffix(f".jsonl{suffix}") for suffix in (".gz", ".part", ".bak")]
    assert not any(map(is_dump, [*others, Path("x_0000.jsonl")]))

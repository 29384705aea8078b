from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.format import FAILED, PASSED, DumpKind, encode_group, is_dump, read_group

from .groups import PROMPT, make_group


def _document(line: bytes) -> dict[str, Any]:
    def fail(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    document = json.loads(line, parse_constant=fail)
    assert isinstance(document, dict)
    return document


ROLLOUT = {
    "conversation": [*PROMPT, {"role": "assistant", "content": "two"}],
    "score": 0.25,
    "reason": "scored",
    "answer": "2",
    "finish_reason": "stop",
    "verifier_score": 1.0,
    "tokens": 5,
}


@pytest.fixture
def line() -> bytes:
    group = make_group((0.25,), text="two")
    return encode_group(replace(group, rollouts=tuple(replace(rollout, token_count=5) for rollout in group.rollouts)))


def test_dump_line_has_the_documented_keys(line: bytes) -> None:
    assert _document(line) == {
        "item_id": "chain_sum",
        "rollouts": [ROLLOUT],
        "seed": 7,
        "index": 0,
        "split": "train",
        "params": {},
        "level": 0.25,
        "expected_answer": "2",
        "metadata": {"difficulty": 1},
        "reference": "chain_sum:train:7:0.25:1:e265702b26f3ffa7:{}",
    }


def test_reading_a_dump_line_returns_the_group_that_was_encoded(line: bytes) -> None:
    document = _document(line)
    read = json.loads(json.dumps(asdict(read_group(line))))
    assert {name: read["rollouts"][0][name] for name in ROLLOUT} == ROLLOUT
    assert {name: read[name] for name in document} == {**document, "rollouts": read["rollouts"]}


def test_dump_has_both_the_corrected_answer_and_the_library_answer() -> None:
    document = _document(line := encode_group(make_group(metadata_json='{"library_answer": "3"}')))
    assert (document["expected_answer"], document["library_answer"]) == ("2", "3")
    assert read_group(line).library_answer == "3"


def test_rollout_without_a_verdict_is_written_with_null_fields() -> None:
    [rollout] = _document(encode_group(make_group((0.5,), verdict=False)))["rollouts"]
    assert rollout["score"] == 0.5
    assert rollout["reason"] is rollout["answer"] is rollout["verifier_score"] is None


def test_dump_stores_thinking_and_completion_separately() -> None:
    group = make_group()
    document = _document(encode_group(replace(group, rollouts=(replace(group.rollouts[0], thinking="hm\ud800"),))))
    assert document["rollouts"][0]["thinking"] == "hm\ud800"


def test_dump_stores_the_formatting_removed_from_an_answer() -> None:
    group = make_group()
    verdict = replace(group.rollouts[0].verdict, frames=("label", "code"))
    line = encode_group(replace(group, rollouts=(replace(group.rollouts[0], verdict=verdict),)))
    assert _document(line)["rollouts"][0]["frames"] == ["label", "code"]
    assert read_group(line).rollouts[0].frames == ("label", "code")


def test_values_that_json_cannot_represent_become_strings_in_a_dump() -> None:
    params = {"low": float("-inf"), "ops": ("+", "-"), "set": frozenset({1}), "table": {(1, 2): 3}, "number": 1 + 2j}
    group = make_group(metadata_json='{"ratio": NaN, "big": 1e999, "fine": 0.5}')
    document = _document(encode_group(replace(group, problem=replace(group.problem, params=params))))
    written = {"low": "-inf", "ops": ["+", "-"], "set": [1], "table": {"(1, 2)": 3}, "number": "(1+2j)"}
    assert document["params"] == written
    assert document["metadata"] == {"ratio": "nan", "big": "inf", "fine": 0.5}


@pytest.mark.parametrize("kind", [PASSED, FAILED])
@pytest.mark.parametrize("number", [0, 9999, 12345])
def test_file_names_of_dumps_are_recognised(kind: DumpKind, number: int) -> None:
    assert is_dump(kind.path(Path("folder"), "a_1.b", number))


@pytest.mark.parametrize("suffix", [".gz", ".part", ".bak"])
def test_file_with_another_name_or_suffix_is_not_a_dump(suffix: str) -> None:
    assert not is_dump(PASSED.path(Path("folder"), "a_1.b", 0).with_suffix(f".jsonl{suffix}"))
    assert not is_dump(Path(f"x_0000.jsonl{suffix}"))
    assert not is_dump(Path("x_0000.jsonl"))

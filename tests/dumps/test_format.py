from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.format import FAILED, PASSED, encode_group, is_dump, is_torn

from .groups import PROMPT, make_group


def _document(line: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    document = json.loads(line, parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_line_has_the_documented_keys_and_values() -> None:
    rollout = {
        "conversation": [*PROMPT, {"role": "assistant", "content": "two"}],
        "score": 0.25,
        "reason": "scored",
        "answer": "2",
        "finish_reason": "stop",
        "verifier_score": 1.0,
    }
    document = _document(encode_group(make_group((0.25,), text="two")))
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
    }


def test_thinking_stands_beside_the_conversation() -> None:
    group = make_group()
    document = _document(encode_group(replace(group, rollouts=(replace(group.rollouts[0], thinking="hm\ud800"),))))
    assert document["rollouts"][0]["thinking"] == "hm\ud800"


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",
        "\udfff\ud800",
        "nul \x00 and bell \x07",
        "line\nfeed\r\n\u2028\u2029\x85\x0b\x0c",
        '"}]}\n{"item_id": "forged"',
        "\\ud800 \\n \\",
        "😀 é",
        "",
    ],
)
def test_hostile_text_stays_on_one_line_and_reads_back_unchanged(text: str) -> None:
    line = encode_group(make_group((1.0,), text=text))
    assert line.isascii()
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert not is_torn(line)
    assert _document(line)["rollouts"][0]["conversation"][-1]["content"] == text


def test_numbers_that_json_lacks_are_written_as_text() -> None:
    group = make_group(params={"low": float("-inf")}, metadata_json='{"ratio": NaN, "big": 1e999, "fine": 0.5}')
    document = _document(encode_group(group))
    assert document["params"] == {"low": "-inf"}
    assert document["metadata"] == {"ratio": "nan", "big": "inf", "fine": 0.5}


def test_parameters_that_json_lacks_are_written_as_text() -> None:
    params = {"ops": ("+", "-"), "set": frozenset({1}), "table": {(1, 2): 3}, "number": 1 + 2j}
    document = _document(encode_group(make_group(params=params)))
    assert document["params"] == {"ops": ["+", "-"], "set": [1], "table": {"(1, 2)": 3}, "number": "(1+2j)"}


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
def test_names_of_dumps_are_known_again(kind: Any, number: int) -> None:
    assert is_dump(kind.path(Path("folder"), "a_1.b", number))


@pytest.mark.parametrize("suffix", ["", ".gz", ".part", ".bak"])
def test_other_names_are_no_dumps(suffix: str) -> None:
    assert not is_dump(Path(f"x_0000.jsonl{suffix}"))
    assert is_dump(PASSED.path(Path(), "run", 0).with_suffix(f".jsonl{suffix}")) is (suffix == "")

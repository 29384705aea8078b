from __future__ import annotations

import json
from typing import Any

import pytest

from reasoning_env.rollouts.lines import encode_group

from .groups import PROMPT, make_group


def _document(line: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    document = json.loads(line, parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_line_has_exactly_the_documented_keys() -> None:
    document = _document(encode_group(make_group()))
    assert list(document) == [
        *("item_id", "rollouts", "seed", "index", "split", "params", "level", "expected_answer", "metadata"),
    ]
    assert list(document["rollouts"][0]) == [
        *("conversation", "score", "reason", "answer", "finish_reason", "verifier_score"),
    ]


def test_item_id_is_the_task() -> None:
    assert _document(encode_group(make_group()))["item_id"] == "chain_sum"


def test_conversation_is_the_prompt_and_the_completion_in_order() -> None:
    document = _document(encode_group(make_group(text="two")))
    for rollout in document["rollouts"]:
        assert rollout["conversation"] == [*PROMPT, {"role": "assistant", "content": "two"}]


def test_score_is_the_reward_and_verifier_score_the_verdict() -> None:
    rollout = _document(encode_group(make_group((0.25,))))["rollouts"][0]
    assert (rollout["score"], rollout["verifier_score"]) == (0.25, 1.0)


def test_rollout_without_a_verdict_has_nulls() -> None:
    rollout = _document(encode_group(make_group(verdict=False)))["rollouts"][0]
    assert (rollout["reason"], rollout["answer"], rollout["verifier_score"]) == (None, None, None)


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
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
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


def test_metadata_that_is_not_json_raises_value_error() -> None:
    with pytest.raises(ValueError, match="property name"):
        encode_group(make_group(metadata_json="{"))

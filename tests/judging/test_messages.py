from __future__ import annotations

import json
import random

import pytest

from reasoning_env.judging import bodies
from reasoning_env.judging.bodies import MAX_DEPTH, TooManyValuesError, read_request
from reasoning_env.judging.messages import ScoreRequest

SIGNS = ["a", "<", '"', "\\", "\n", ",", "[", "]", "{", "}", ":", "é", "😀"]


@pytest.mark.parametrize("piece_bytes", [1, 2, 7, 65536])
def test_value_count_ignores_brackets_and_commas_in_json_strings(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """The request has five values: two completions, their list, the reference and the object."""
    monkeypatch.setattr(bodies, "PIECE_BYTES", piece_bytes)
    chance = random.Random(1)
    for _ in range(300):
        first, second = ("".join(chance.choices(SIGNS, k=chance.randrange(30))) for _ in range(2))
        for as_ascii in (True, False):
            body = json.dumps({"ref": second, "texts": [first, second]}, ensure_ascii=as_ascii).encode()
            assert read_request(body, ScoreRequest, 5).texts == [first, second]


@pytest.mark.parametrize("texts", [b'["", ""]', b"[1, 2]", b"[[], []]", b'[{"": 1}, 2]'])
def test_request_with_too_many_json_values_raises(texts: bytes) -> None:
    with pytest.raises(TooManyValuesError):
        read_request(b'{"ref": "", "texts": %b}' % texts, ScoreRequest, 4)


def test_json_values_are_counted_before_parsing() -> None:
    with pytest.raises(TooManyValuesError):
        read_request(b'{"texts": [' + b'"",' * 1000, ScoreRequest, 100)


@pytest.mark.parametrize("around", [b"[%b]", b'{"a": %b}'])
def test_json_nesting_depth_is_limited(around: bytes) -> None:
    def request(depth: int) -> bytes:
        value = b"1"
        for _ in range(depth):
            value = around % value
        return b'{"texts": [], "other": %b}' % value

    assert read_request(request(MAX_DEPTH - 1), ScoreRequest, 100).texts == []
    with pytest.raises(ValueError, match="nested more than 32 levels"):
        read_request(request(MAX_DEPTH), ScoreRequest, 100)

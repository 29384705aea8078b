from __future__ import annotations

import json
import random
from typing import Any

import pytest

from reasoning_env.runtime import json_reader
from reasoning_env.runtime.json_reader import TooManyValuesError, parse_bounded_json, read_several

SIGNS = ["a", "<", '"', "\\", "\n", "\x00", "é", "€", "😀", "\ud83d", "\ude00", "</answer>"]


def some_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 4 else 6)
    if kind == 6:
        return [some_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 7:
        return {some_text(chance): some_value(chance, depth + 1) for _ in range(chance.randrange(4))}
    return [None, True, False, chance.randrange(-99, 10**20), chance.uniform(-9, 9) ** 9, some_text(chance)][kind]


def some_text(chance: random.Random) -> str:
    return "".join(chance.choices(SIGNS, k=chance.randrange(30)))


def as_utf8(value: Any, *, as_ascii: bool) -> bytes:
    """Return the value as JSON. Half a pair of surrogates is no UTF-8, and is left out where it is not escaped."""
    return json.dumps(value, ensure_ascii=as_ascii).encode("utf-8", "ignore")


@pytest.mark.parametrize("piece_bytes", [8, 16, 65536])
def test_values_of_json(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(json_reader, "TEXT_PIECE_BYTES", piece_bytes)
    chance = random.Random(1)
    for _ in range(300):
        value = some_value(chance)
        for as_ascii in (True, False):
            body = as_utf8(value, as_ascii=as_ascii)
            assert parse_bounded_json(bytearray(body), 1000) == json.loads(body)


@pytest.mark.parametrize("piece_bytes", [8, 65536])
def test_damaged_json_is_refused(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(json_reader, "TEXT_PIECE_BYTES", piece_bytes)
    chance = random.Random(2)
    for _ in range(1000):
        raw = bytearray(as_utf8(some_value(chance), as_ascii=chance.random() < 0.5))
        raw[chance.randrange(len(raw))] = chance.choice(b'\x00 "\\[]{},:eu0\x80\xff')
        try:
            expected = json.loads(raw.decode())
        except ValueError:
            with pytest.raises(ValueError, match=r"."):
                parse_bounded_json(raw, 1000)
        else:
            assert repr(parse_bounded_json(raw, 1000)) == repr(expected)


@pytest.mark.parametrize(
    "body", [b"", b" ", b"[1] 2", b"[1,]", b"{1: 2}", b'{"a" 2}', b'"\\u12"', b'"a', b"[" * 33, b"nan"]
)
def test_other_text_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_bounded_json(body, 100)


def test_number_of_values() -> None:
    assert parse_bounded_json(b'[[], "a", {"b": 1}]', 5) == [[], "a", {"b": 1}]
    with pytest.raises(TooManyValuesError):
        parse_bounded_json(b'[[], "a", {"b": 1}]', 4)


@pytest.mark.parametrize("blanks", [0, 7, 8, 9, 16, 33])
def test_blanks_are_skipped(monkeypatch: pytest.MonkeyPatch, blanks: int) -> None:
    monkeypatch.setattr(json_reader, "TEXT_PIECE_BYTES", 8)
    space = b" " * blanks
    assert parse_bounded_json(space + b"[" + space + b"1" + space + b"]" + space, 2) == [1]


def test_number_of_values_in_all() -> None:
    assert list(read_several([b"[1]", b'{"a": 1}'], 4)) == [[1], {"a": 1}]
    with pytest.raises(TooManyValuesError):
        list(read_several([b"[1]", b'{"a": 1}'], 3))

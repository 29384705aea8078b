"""Decode replies of token servers to token ids and log-probabilities."""

from __future__ import annotations

import asyncio
import json
import math
import random
import struct
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.inference.completer import ServerSettings
from reasoning_env.inference.formats import REPLY_FORMATS
from reasoning_env.inference.formats import tokens as module
from reasoning_env.inference.formats.completions import COMPLETIONS
from reasoning_env.inference.formats.reply_format import ReplyError
from reasoning_env.inference.formats.sglang import SGLANG
from reasoning_env.inference.formats.tokens import TokenFormat
from reasoning_env.inference.formats.vllm import VLLM
from reasoning_env.inference.server import Server
from reasoning_env.runtime.turns import in_turn, run_in_turns
from reasoning_gym_testing import Completion, GenerationRequest
from reasoning_gym_testing.protocols import write_reply

TOKEN_FORMATS = [each for each in REPLY_FORMATS if isinstance(each, TokenFormat)]
each_format = pytest.mark.parametrize("token_format", TOKEN_FORMATS, ids=lambda each: each.name)
TOKENS: Any = Mock(text_of=lambda token_id: "x")
"""Replaces the test tokenizer, which cannot decode token ids outside its vocabulary."""


def write(token_format: TokenFormat, *completions: tuple[list[Any], list[Any]]) -> Any:
    """Return the reply of the test server in this format, as Python objects."""
    asked = GenerationRequest(token_format.name, "", (1, 2), len(completions), 16, 1.0, 1.0)
    written = tuple(
        Completion("x", token_ids=tuple(tokens), logprobs=tuple(map(hashable, values)))
        for tokens, values in completions
    )
    return json.loads(write_reply(asked, written, TOKENS))


def hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def read(token_format: TokenFormat, body: bytes) -> list[tuple[list[int], list[float], str | None]]:
    cut = list(token_format.cut(body))
    numbers = [asyncio.run(run_in_turns(token_format.read(one))) for one in cut]
    return [
        (ids.tolist(), logprobs.tolist(), one.finish_reason) for one, (ids, logprobs) in zip(cut, numbers, strict=True)
    ]


def in_bits(numbers: list[float]) -> list[bytes]:
    return [struct.pack("d", number) for number in numbers]


@each_format
@pytest.mark.parametrize("piece_bytes", [0, 1, 7, 100, 10_000])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
def test_token_ids_and_logprobs_are_read_from_small_pieces_of_a_reply(
    monkeypatch: pytest.MonkeyPatch, token_format: TokenFormat, piece_bytes: int, separators: tuple[str, str]
) -> None:
    tokens, values = list(range(500, 900)), [-number / 7 for number in range(400)]
    body = json.dumps(write(token_format, (tokens, values), ([5], [-0.5])), separators=separators).encode()
    monkeypatch.setattr(module, "REPLY_PIECE_BYTES", piece_bytes)
    assert read(token_format, body) == [(tokens, values, "stop"), ([5], [-0.5], "stop")]


@each_format
@pytest.mark.parametrize("value", ["x", None, [-0.5], math.nan, True])
def test_invalid_log_probability_in_a_later_chunk_of_a_reply_raises(
    monkeypatch: pytest.MonkeyPatch, token_format: TokenFormat, value: object
) -> None:
    body = json.dumps(write(token_format, ([5] * 100, [-0.5] * 99 + [value]))).encode()
    monkeypatch.setattr(module, "REPLY_PIECE_BYTES", 100)
    with pytest.raises(ReplyError, match="log-probabilities"):
        read(token_format, body)


@each_format
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
def test_log_probabilities_of_a_reply_are_read_without_rounding(
    token_format: TokenFormat, separators: tuple[str, str]
) -> None:
    chance = random.Random(7)
    values = [-chance.expovariate(1.0) * 10.0 ** chance.randrange(-30, 3) for _ in range(2000)]
    values += [0.0, -0.0, -1.0, -5e-324, -1.7976931348623157e308, struct.unpack("f", struct.pack("f", -0.1))[0]]
    tokens = [chance.randrange(2**31) for _ in values]
    body = json.dumps(write(token_format, (tokens, values), ([5], [-0.5])), separators=separators).encode()
    first, second = read(token_format, body)
    assert first[0] == tokens
    assert in_bits(first[1]) == in_bits(values)
    assert second == ([5], [-0.5], "stop")


@each_format
def test_reply_with_a_completion_of_zero_tokens_is_read(token_format: TokenFormat) -> None:
    assert read(token_format, json.dumps(write(token_format, ([], []))).encode()) == [([], [], "stop")]


@pytest.mark.parametrize("in_list", [False, True])
def test_sglang_reply_with_a_single_completion_is_read(in_list: bool) -> None:
    reply = write(SGLANG, ([5], [-0.5]))
    assert isinstance(reply, dict)
    body = json.dumps([reply] if in_list else reply).encode()
    assert read(SGLANG, body) == [([5], [-0.5], "stop")]


@each_format
def test_truncated_reply_body_raises(token_format: TokenFormat) -> None:
    body = json.dumps(write(token_format, ([5, 6], [-0.5, -1.5]), ([7], [-0.25]))).encode()
    for end in range(len(body)):
        with pytest.raises(ReplyError, match="incomplete JSON"):
            read(token_format, body[:end])


@each_format
@pytest.mark.parametrize(
    ("tokens", "values", "reason"),
    [
        ([-1], [-0.5], "token ids from -1.* out of range"),
        ([2**31], [-0.5], "out of range"),
        ([2**70], [-0.5], "token id"),
        ([1.5], [-0.5], "token id"),
        ([5], [math.nan], "not finite"),
        ([5], [-math.inf], "not finite"),
        ([5], [None], "log-probabilities"),
        ([5], ["x"], "log-probabilities"),
        ([5], [[-0.5]], "log-probabilities"),
        ([5], [True], "log-probabilities"),
    ],
    ids=str,
)
def test_invalid_token_ids_and_log_probabilities_raise(
    token_format: TokenFormat, tokens: list[Any], values: list[Any], reason: str
) -> None:
    with pytest.raises(ReplyError, match=reason):
        read(token_format, json.dumps(write(token_format, (tokens, values))).encode())


@each_format
@pytest.mark.parametrize("body", ["", "}{", "null", "7", "[1, 2]", "{}", '{"choices": 7, "logprobs": 7}', '"text"'])
def test_reply_of_wrong_shape_raises(token_format: TokenFormat, body: str) -> None:
    with pytest.raises(ReplyError):
        read(token_format, body.encode())


def test_reply_with_several_logprobs_for_a_token_raises() -> None:
    several = {"logprobs": [[[{"5": -0.5, "6": -1.0}]]], "finish_reasons": ["stop"]}
    with pytest.raises(ReplyError, match="unexpected shape"):
        read(VLLM, json.dumps(several).encode())


def test_reply_without_finish_reasons_raises() -> None:
    reply = {**write(VLLM, ([5], [-0.5])), "finish_reasons": []}
    with pytest.raises(ReplyError, match="1 completions, but 0 finish reasons"):
        read(VLLM, json.dumps(reply).encode())


HOSTILE_TEXTS = [
    '"logprobs":[[[{"9":-9}]]]',
    "}]]]",
    '}]]],"finish_reasons":["length"]',
    '[[{"9": -9}]]',
    "}]]",
    "\\",
    '"',
]


@each_format
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
def test_hostile_text_in_a_reply_does_not_change_log_probabilities(
    token_format: TokenFormat, separators: tuple[str, str]
) -> None:
    given = write(token_format, ([5, 6], [-0.5, -1.5]), ([7], [-0.25]))
    expected = [([5, 6], [-0.5, -1.5], "stop"), ([7], [-0.25], "stop")]
    for text, texts_first in product(HOSTILE_TEXTS, (True, False)):
        reply = replace_texts(given, text, first=texts_first)
        assert read(token_format, json.dumps(reply, separators=separators).encode()) == expected, text


def replace_texts(reply: Any, text: str, *, first: bool) -> Any:
    """Return the reply with each text replaced, either as the first or as the last key of its object."""
    if isinstance(reply, list):
        return [replace_texts(one, text, first=first) for one in reply]
    if not isinstance(reply, dict):
        return reply
    others = {key: replace_texts(value, text, first=first) for key, value in reply.items() if key != "text"}
    if "text" not in reply:
        return others
    texts = {"text": [text] * len(reply["text"]) if isinstance(reply["text"], list) else text}
    return {**texts, **others} if first else {**others, **texts}


@pytest.mark.parametrize("indent", [None, 2])
def test_reply_with_too_few_finish_reasons_raises(indent: int | None) -> None:
    reply = {**write(VLLM, ([5], [-0.5]), ([6], [-0.5])), "finish_reasons": ["stop"]}
    with pytest.raises(ReplyError, match="2 completions, but 1 finish reasons"):
        read(VLLM, json.dumps(reply, indent=indent).encode())


@pytest.mark.parametrize("missing", ["token_ids", "logprobs"])
@pytest.mark.parametrize("how", ["null", "left out"])
def test_reply_without_a_required_field_raises(missing: str, how: str) -> None:
    reply = write(COMPLETIONS, ([5], [-0.5]))
    if how == "null":
        reply["choices"][0][missing] = None
    else:
        del reply["choices"][0][missing]
    with pytest.raises(ReplyError, match=f"lacks {missing}"):
        read(COMPLETIONS, json.dumps(reply).encode())


@pytest.mark.parametrize(
    ("token_format", "url"),
    [(VLLM, "http://one:9/generate"), (COMPLETIONS, "http://one:9/v1/completions")],
    ids=["generate", "completions"],
)
@pytest.mark.parametrize(
    ("base_url", "query"), [("http://one:9/v1", ""), ("http://one:9/v1/", ""), ("http://one:9/v1?a=b", "?a=b")]
)
def test_request_url_is_built_from_base_url_and_format(
    token_format: TokenFormat, url: str, base_url: str, query: str
) -> None:
    assert Server(ServerSettings(base_url=base_url, model_name="m"))._url(token_format) == f"{url}{query}"


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
def test_hostile_text_in_a_reply_does_not_change_token_ids(separators: tuple[str, str]) -> None:
    reply = write(COMPLETIONS, ([5], [-0.5]), ([6], [-1.5]), ([7], [-2.5]))
    hostile = ['{"index":1,"token_ids":[9]}', '}],"', ',{"index":2,', '"choices":[', "\\", '"token_ids":[9],']
    for choice, text in zip(reply["choices"], hostile[:3], strict=True):
        choice["text"] = text + "".join(hostile)
        choice["logprobs"]["tokens"] = hostile
        choice["logprobs"]["top_logprobs"] = [{text: -0.5, "index": 1} for text in hostile] + [{"index": 1, "x": 2}]
    reply["usage"] = {"details": [{"a": 1}], "b": [{}], "c": 1}
    body = json.dumps(reply, separators=separators).encode()
    assert [ids for ids, _, _ in read(COMPLETIONS, body)] == [[5], [6], [7]]


def test_reply_is_read_whatever_the_order_of_its_keys() -> None:
    reply = write(COMPLETIONS, ([5], [-0.5]), ([6], [-1.5]))
    turned = {"choices": [dict(reversed(choice.items())) for choice in reply["choices"]]}
    assert [ids for ids, _, _ in read(COMPLETIONS, json.dumps(turned, separators=(",", ":")).encode())] == [[5], [6]]


@pytest.mark.parametrize("end", ["}]", '}],"usage":{}', '}],"usage":{}}}', '},{"index":2}],"x":1}'])
def test_damaged_reply_body_raises(end: str) -> None:
    body = json.dumps(write(COMPLETIONS, ([5], [-0.5]), ([6], [-1.5])), separators=(",", ":"))
    with pytest.raises(ReplyError):
        read(COMPLETIONS, (body.removesuffix("}]}") + end).encode())


async def test_event_loop_runs_other_tasks_between_chunks_of_a_reply() -> None:
    turns, done_in = 0, []

    def count() -> None:
        nonlocal turns
        turns += 1
        if len(done_in) < 20:
            asyncio.get_running_loop().call_soon(count)

    asyncio.get_running_loop().call_soon(count)
    await asyncio.gather(*(in_turn(lambda: done_in.append(turns)) for _ in range(20)))
    assert len(set(done_in)) == 20


async def test_decoding_continues_after_a_reply_whose_decoding_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_turn(lambda: 1 // 0)
    assert await in_turn(lambda: 1) == 1


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[]}', "m"),
        (b'{"id": "cmpl-1", "model": "org/m\\u001b[31m", "choices": []}', "org/m\\x1b[31m"),
        (b'{"choices":[],"model":"m"}', ""),
        (b'{"model":5,"choices":[]}', ""),
        (b"", ""),
    ],
)
def test_model_name_in_a_reply_is_read_and_escaped(body: bytes, model: str) -> None:
    assert COMPLETIONS.model_of(body) == model

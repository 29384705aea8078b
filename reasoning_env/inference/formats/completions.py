"""The format of POST /v1/completions with token ids, which a standard `vllm serve` supports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from .choices import read_name
from .reply_format import ReplyError
from .tokens import (
    NO_IDS,
    Body,
    Numbers,
    RawCompletion,
    TokenFormat,
    as_ids,
    decode,
    in_pieces,
    read_floats,
)


class _TokenLogprobs(msgspec.Struct):
    token_logprobs: msgspec.Raw


class _Choice(msgspec.Struct):
    token_ids: msgspec.Raw = NO_IDS
    logprobs: _TokenLogprobs | None = None
    finish_reason: str | None = None
    text: str | None = None
    error: Any = None


class _Reply(msgspec.Struct):
    choices: list[_Choice]


class _Head(msgspec.Struct):
    model: str = ""


class _PromptChoice(msgspec.Struct):
    prompt_token_ids: list[int] | None = None


class _PromptReply(msgspec.Struct):
    choices: list[_PromptChoice]


def _request(prompt: Sequence[int], model: str, options: Mapping[str, object]) -> dict[str, object]:
    return {"model": model, "prompt": list(prompt), "logprobs": 0, "return_token_ids": True, **options}


def _request_for_text(text: str, model: str) -> dict[str, object]:
    return {"model": model, "prompt": text, "max_tokens": 1, "logprobs": 0, "return_token_ids": True}


def _prompt_of(body: Body) -> list[int] | None:
    return decode(body, _PROMPT_REPLY).choices[0].prompt_token_ids


def _model_of(body: Body) -> str:
    """Return the model's name, which vLLM sends before the choices."""
    head = body[: max(0, body.find(b'"choices":'))].rstrip(b", ") + b"}"
    try:
        return read_name(_HEAD.decode(head).model)
    except msgspec.DecodeError:
        return ""


def _cut(body: Body) -> Iterator[RawCompletion]:
    """Yield the choices. Decode them one at a time if the body has vLLM's layout, else all at once.

    The body is split at the string with which each choice begins. If model text contains this string, a part is not
    valid JSON, and the whole body is decoded.
    """
    cut = 0
    try:
        for choice in _split_choices(body):
            yield _raw_of_choice(_CHOICE.decode(choice))
            cut += 1
    except msgspec.DecodeError:
        for whole_choice in decode(body, _REPLY).choices[cut:]:
            yield _raw_of_choice(whole_choice)


def _split_choices(body: Body) -> Iterator[memoryview]:
    """Yield the JSON of each choice; raises DecodeError if the body has another layout."""
    key = b'"choices":['
    head = body.find(key) + len(key)
    end = body.rfind(b'}],"') + 1
    remains = _REPLY.decode(body[:head] + body[end:])
    first = b'{"index":0,'
    if remains.choices or body[head : head + len(first)] != first:
        raise msgspec.DecodeError("another layout")
    view = memoryview(body)
    start = head
    number = 0
    while start < end:
        number += 1
        following = body.find(b',{"index":%d,' % number, start, end)
        choice_end = end if following < 0 else following
        yield view[start:choice_end]
        start = choice_end + 1


def _raw_of_choice(choice: _Choice) -> RawCompletion:
    if choice.error:
        return RawCompletion(NO_IDS, NO_IDS, choice.finish_reason, choice.error)
    if choice.token_ids == NO_IDS or choice.logprobs is None:
        missing = "token_ids" if choice.token_ids == NO_IDS else "logprobs"
        raise ReplyError(f"the reply lacks {missing}, although return_token_ids and logprobs were requested")
    return RawCompletion(choice.token_ids, choice.logprobs.token_logprobs, choice.finish_reason, text=choice.text or "")


def _read(completion: RawCompletion) -> Numbers:
    """Read two lists: token ids such as `[5, 6]`, and log-probabilities such as `[-0.25, -1.5]`. Raises ReplyError."""
    ids = []
    logprobs = []
    for piece in in_pieces(completion.ids, b","):
        try:
            ids.append(as_ids(_INTEGERS.decode(piece)))
        except msgspec.DecodeError as error:
            raise ReplyError(f"the reply has token ids that are not a list of integers ({error})") from error
        yield
    for piece in in_pieces(completion.logprobs, b","):
        logprobs.append(read_floats(piece))
        yield
    return np.concatenate(ids), np.concatenate(logprobs)


_INTEGERS = msgspec.json.Decoder(list[int])
_REPLY = msgspec.json.Decoder(_Reply)
_HEAD = msgspec.json.Decoder(_Head)
_CHOICE = msgspec.json.Decoder(_Choice)
_PROMPT_REPLY = msgspec.json.Decoder(_PromptReply)
COMPLETIONS = TokenFormat(
    name="completions",
    path="/completions",
    below_v1=True,
    note="with token ids",
    request=_request,
    cut=_cut,
    read=_read,
    request_for_text=_request_for_text,
    prompt_of=_prompt_of,
    model_of=_model_of,
)

"""What servers answer, from bytes to numbers: tokens and log-probabilities as they were sampled.

Three protocols: `/generate` of Atropos' own vLLM server, `/generate` of SGLang, and `/v1/completions` with token ids,
as an ordinary `vllm serve` has it. A reply has tens of bytes a token and may be many megabytes long. It is cut into the
bytes of each completion first, then the numbers of one completion are read at a time, each in a turn of the event loop
of its own. Log-probabilities are the floats that the server wrote, bit for bit.

Whatever does not fit its protocol is a ReplyError, which says what came; the request is then tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from mmap import mmap
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

T = TypeVar("T")
TokenIds = npt.NDArray[np.int32]
Logprobs = npt.NDArray[np.float64]
Body = bytes | bytearray | mmap
"""What a server has answered; mapped memory has `find`, but no `startswith` and no `in`."""
Numbers = Generator[None, None, tuple[TokenIds, Logprobs]]
"""Work that is done a piece at each step, and then returns the numbers of a completion."""

_NUMBERS = b"0123456789+-.eE"
_BLANKS = b" \t\r\n"
_FLOATS = msgspec.json.Decoder(list[float])
_INTEGERS = msgspec.json.Decoder(list[int])
_NOT_FINITE = (b"NaN", b"Infinity")
_NULL = msgspec.Raw(b"null")


PIECE_BYTES = 2**18
"""How much of a completion's numbers is read in one turn of the event loop, in about a millisecond."""


class Mode(StrEnum):
    """What a server's reply holds, the best first."""

    TOKENS = "tokens"
    TEXT = "text"
    CHAT = "chat"


class ReplyError(Exception):
    """A reply that does not hold what its protocol promises."""


@dataclass(frozen=True)
class RawCompletion:
    """A completion whose numbers are not read yet: `ids` is null where `logprobs` holds the token ids too."""

    ids: msgspec.Raw
    logprobs: msgspec.Raw | memoryview
    finish_reason: str | None


@dataclass(frozen=True)
class TokenProtocol:
    """How tokens are asked for, and what the reply looks like.

    `endpoint` is what messages call it. `path` is joined to the server's address, of which `/v1` is a part only where
    `below_v1`. `request` makes the body of the prompt's tokens, the model's name and the sampling options in OpenAI's
    words. `cut` takes a reply apart, and `read` the numbers of a completion, a piece at each step. `request_for_text`
    asks to go on from a text by one token, and `prompt_of` returns how the server has read it: the tokens, only their
    number, or None where the reply does not say.
    """

    endpoint: str
    path: str
    below_v1: bool
    request: Callable[[Sequence[int], str, Mapping[str, Any]], dict[str, Any]]
    cut: Callable[[Body], Iterator[RawCompletion]]
    read: Callable[[RawCompletion], Numbers]
    request_for_text: Callable[[str, str], dict[str, Any]]
    prompt_of: Callable[[Body], list[int] | int | None]

    def url(self, base_url: str) -> str:
        """Return where to ask a server; `base_url` is its address with `/v1`."""
        base = base_url.rstrip("/")
        return f"{base if self.below_v1 else base.removesuffix('/v1')}{self.path}"


# ---------------------------------------------------------------------------- /generate of Atropos' vLLM server


class _VllmReply(msgspec.Struct):
    logprobs: list[msgspec.Raw]
    finish_reasons: list[str | None]


class _VllmPrompt(msgspec.Struct):
    prompt_token_ids: list[int] | None = None


def _vllm_request(prompt: Sequence[int], _model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"prompt": {"prompt_token_ids": list(prompt)}, "logprobs": 0, **options}


def _vllm_request_for_text(text: str, _model: str) -> dict[str, Any]:
    return {"prompt": text, "logprobs": 0, "max_tokens": 1}


def _cut_vllm(body: Body) -> Iterator[RawCompletion]:
    """Take apart a completion at a time where the body looks as Atropos' server writes it, else all at once.

    To take apart eight completions of 32,000 tokens at once holds the event loop for 13 ms.
    """
    cut = 0
    try:
        for completion in _split_vllm(body):
            yield completion
            cut += 1
    except msgspec.DecodeError:
        reply = _decode(body, _VLLM_REPLY)
        if len(reply.logprobs) != len(reply.finish_reasons):
            numbers = f"{len(reply.logprobs)} completions with {len(reply.finish_reasons)} finish reasons"
            raise ReplyError(numbers) from None
        for raw, reason in list(zip(reply.logprobs, reply.finish_reasons, strict=True))[cut:]:
            yield RawCompletion(_NULL, raw, reason)


def _split_vllm(body: Body) -> Iterator[RawCompletion]:
    """Yield the completions; raises DecodeError where the body has another layout.

    What lies between the brackets of `logprobs` is nothing but completions with commas between them, each of which is
    checked when it is read; what remains is checked here. So no text of a model is taken for numbers.
    """
    key = b'"logprobs":'  # in a text, its quotes would be escaped
    piece_end = body.find(b"[", body.find(key) + len(key)) + 1
    end = body.rfind(b"}]]]") + len(b"}]]")
    remains = _VLLM_REPLY.decode(body[:piece_end] + body[end:])
    view, separator = memoryview(body), b""
    for reason in remains.finish_reasons:
        start = piece_end + len(separator)
        piece_end = body.find(b"}]]", start, end) + len(b"}]]")
        if piece_end < start or body[start - len(separator) : start + 3] != separator + b"[[{":
            raise msgspec.DecodeError("another layout")
        yield RawCompletion(_NULL, view[start:piece_end], reason)
        separator = b", " if body[piece_end : piece_end + 2] == b", " else b","
    if piece_end != end:
        raise msgspec.DecodeError("another layout")


def _read_vllm(completion: RawCompletion) -> Numbers:
    """Read `[[{"5": -0.25}], [{"6": -1.5}]]`."""
    ids, logprobs = [], []
    for piece in _pieces(completion.logprobs, b"}],"):
        _check_layout(piece, b'[{"":}]', piece.count(b":"), '[{"token id": log-probability}] for each token')
        flat = piece.translate(None, b'[]{}"').replace(b":", b",")
        numbers = _read_floats(b"[%b]" % flat)
        ids.append(_as_ids(numbers[0::2]))
        logprobs.append(numbers[1::2])
        yield
    return np.concatenate(ids), np.concatenate(logprobs)


# ---------------------------------------------------------------------------- /generate of SGLang


class _SglangFinish(msgspec.Struct):
    type: str = "stop"


class _SglangMeta(msgspec.Struct):
    output_token_logprobs: msgspec.Raw
    prompt_tokens: int | None = None
    finish_reason: _SglangFinish | str | None = None


class _SglangReply(msgspec.Struct):
    meta_info: _SglangMeta


def _sglang_request(prompt: Sequence[int], _model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    sampling = {"max_new_tokens" if name == "max_tokens" else name: value for name, value in options.items()}
    return {
        "input_ids": list(prompt),
        "sampling_params": sampling,
        "return_logprob": True,
        "return_text_in_logprobs": False,
    }


def _sglang_request_for_text(text: str, _model: str) -> dict[str, Any]:
    return {"text": text, "sampling_params": {"max_new_tokens": 1}, "return_logprob": True}


def _prompt_of_sglang(body: Body) -> int | None:
    reply = _decode(body, _SGLANG_REPLY)
    first = reply[0] if isinstance(reply, list) else reply
    return first.meta_info.prompt_tokens


def _cut_sglang(body: Body) -> Iterator[RawCompletion]:
    reply = _decode(body, _SGLANG_REPLY)
    for completion in reply if isinstance(reply, list) else [reply]:
        finish = completion.meta_info.finish_reason
        reason = finish.type if isinstance(finish, _SglangFinish) else finish
        yield RawCompletion(_NULL, completion.meta_info.output_token_logprobs, reason)


def _read_sglang(completion: RawCompletion) -> Numbers:
    """Read `[[-0.25, 5, null], [-1.5, 6, null]]`."""
    ids, logprobs = [], []
    for piece in _pieces(completion.logprobs, b"],"):
        _check_layout(piece, b"[,,null]", piece.count(b"n"), "[log-probability, token id, null] for each token")
        flat = piece.translate(None, b"[]" + _BLANKS).replace(b",null", b"")
        numbers = _read_floats(b"[%b]" % flat)
        ids.append(_as_ids(numbers[1::2]))
        logprobs.append(numbers[0::2])
        yield
    return np.concatenate(ids), np.concatenate(logprobs)


# ---------------------------------------------------------------------------- /v1/completions with token ids


class _TokenLogprobs(msgspec.Struct):
    token_logprobs: msgspec.Raw


class _Choice(msgspec.Struct):
    token_ids: msgspec.Raw = _NULL
    logprobs: _TokenLogprobs | None = None
    finish_reason: str | None = None


class _CompletionsReply(msgspec.Struct):
    choices: list[_Choice]


class _CompletionsPrompt(msgspec.Struct):
    choices: list[_VllmPrompt]


def _completions_request(prompt: Sequence[int], model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": model, "prompt": list(prompt), "logprobs": 0, "return_token_ids": True, **options}


def _completions_request_for_text(text: str, model: str) -> dict[str, Any]:
    return {"model": model, "prompt": text, "max_tokens": 1, "logprobs": 0, "return_token_ids": True}


def _prompt_of_completions(body: Body) -> list[int] | None:
    return _decode(body, _COMPLETIONS_PROMPT).choices[0].prompt_token_ids


def _cut_completions(body: Body) -> Iterator[RawCompletion]:
    """Take apart a choice at a time where the body looks as vLLM writes it, without blanks, else all at once.

    Choices that are found by their beginnings are whole JSON each, and so is what remains without them; so nothing is
    taken for a choice that is none, whatever a model has written.
    """
    cut = 0
    try:
        for choice in _split_choices(body):
            yield _raw_of_choice(_CHOICE.decode(choice))
            cut += 1
    except msgspec.DecodeError:
        for whole_choice in _decode(body, _COMPLETIONS_REPLY).choices[cut:]:
            yield _raw_of_choice(whole_choice)


def _split_choices(body: Body) -> Iterator[memoryview]:
    """Yield the choices' own JSON; raises DecodeError where the body has another layout."""
    key = b'"choices":['
    head = body.find(key) + len(key)
    end = body.rfind(b'}],"') + 1
    remains = _COMPLETIONS_REPLY.decode(body[:head] + body[end:])
    first = b'{"index":0,'
    if remains.choices or body[head : head + len(first)] != first:
        raise msgspec.DecodeError("another layout")
    view, start, number = memoryview(body), head, 0
    while start < end:
        number += 1
        following = body.find(b',{"index":%d,' % number, start, end)
        choice_end = end if following < 0 else following
        yield view[start:choice_end]
        start = choice_end + 1


def _raw_of_choice(choice: _Choice) -> RawCompletion:
    if choice.token_ids == _NULL or choice.logprobs is None:
        missing = "token_ids" if choice.token_ids == _NULL else "logprobs"
        raise ReplyError(f"a completion without {missing}, though return_token_ids and logprobs were asked for")
    return RawCompletion(choice.token_ids, choice.logprobs.token_logprobs, choice.finish_reason)


def _read_completions(completion: RawCompletion) -> Numbers:
    """Read `[5, 6]` and `[-0.25, -1.5]`."""
    ids, logprobs = [], []
    for piece in _pieces(completion.ids, b","):
        try:
            ids.append(_as_ids(_INTEGERS.decode(piece)))
        except msgspec.DecodeError as error:
            raise ReplyError(f"token ids that are no list of integers ({error})") from error
        yield
    for piece in _pieces(completion.logprobs, b","):
        logprobs.append(_read_floats(piece))
        yield
    return np.concatenate(ids), np.concatenate(logprobs)


# ---------------------------------------------------------------------------- what they share


_VLLM_REPLY = msgspec.json.Decoder(_VllmReply)
_SGLANG_REPLY: msgspec.json.Decoder[_SglangReply | list[_SglangReply]] = msgspec.json.Decoder(
    _SglangReply | list[_SglangReply]
)
_COMPLETIONS_REPLY = msgspec.json.Decoder(_CompletionsReply)
_CHOICE = msgspec.json.Decoder(_Choice)
_VLLM_PROMPT = msgspec.json.Decoder(_VllmPrompt)
_COMPLETIONS_PROMPT = msgspec.json.Decoder(_CompletionsPrompt)


def _decode(body: Body, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise ReplyError(f"JSON of another shape ({error})") from error
    except msgspec.DecodeError as error:
        if any(body.find(word) >= 0 for word in _NOT_FINITE):
            raise ReplyError("log-probabilities that are not finite") from error
        raise ReplyError(f"no JSON, or not all of it ({error}; {len(body)} bytes)") from error


def _pieces(raw: msgspec.Raw | memoryview, end_of_element: bytes) -> Iterator[bytes]:
    """Yield a list's JSON as lists of some thousand elements; `end_of_element` ends all but the last, with a comma."""
    whole = bytes(raw)
    start = 0
    while (end := whole.find(end_of_element, start + PIECE_BYTES)) >= 0:
        comma = end + len(end_of_element) - 1
        yield (b"[" if start else b"") + whole[start:comma] + b"]"
        start = comma + 1
    yield (b"[" if start else b"") + whole[start:]


def _check_layout(raw: bytes, element: bytes, count: int, expected: str) -> None:
    """Raise ReplyError unless `raw`, its numbers left out, is a list of `count` times `element`."""
    layout = raw.translate(None, _NUMBERS + _BLANKS)
    if layout != b"[%b]" % b",".join([element] * count):
        if any(word in raw for word in _NOT_FINITE):
            raise ReplyError("log-probabilities that are not finite")
        came = raw[:80].decode(errors="replace")
        raise ReplyError(f"log-probabilities of another shape: expected {expected}, got {came!r}")


def _read_floats(raw: bytes | msgspec.Raw | memoryview) -> Logprobs:
    try:
        return np.array(_FLOATS.decode(raw), dtype=np.float64)
    except msgspec.DecodeError as error:
        raise ReplyError(f"log-probabilities that are no list of numbers ({error})") from error


def _as_ids(numbers: Sequence[float] | Logprobs) -> TokenIds:
    """Return token ids as an array; raises ReplyError for what is no whole number from 0 to 2**31 - 1."""
    given = np.asarray(numbers)
    if not given.size:
        return np.empty(0, np.int32)
    if given.min() < 0 or given.max() > np.iinfo(np.int32).max:
        raise ReplyError(f"a token id out of range: {given.min()} to {given.max()}")
    ids = given.astype(np.int32)
    if given.dtype != np.int64 and not np.array_equal(ids, given):
        raise ReplyError("a token id that is no whole number")
    return ids


VLLM = TokenProtocol(
    endpoint="POST /generate of Atropos' vLLM server",
    path="/generate",
    below_v1=False,
    request=_vllm_request,
    cut=_cut_vllm,
    read=_read_vllm,
    request_for_text=_vllm_request_for_text,
    prompt_of=lambda body: _decode(body, _VLLM_PROMPT).prompt_token_ids,
)
SGLANG = TokenProtocol(
    endpoint="POST /generate of SGLang",
    path="/generate",
    below_v1=False,
    request=_sglang_request,
    cut=_cut_sglang,
    read=_read_sglang,
    request_for_text=_sglang_request_for_text,
    prompt_of=_prompt_of_sglang,
)
COMPLETIONS = TokenProtocol(
    endpoint="POST /v1/completions with token ids",
    path="/completions",
    below_v1=True,
    request=_completions_request,
    cut=_cut_completions,
    read=_read_completions,
    request_for_text=_completions_request_for_text,
    prompt_of=_prompt_of_completions,
)

"""The format of the endpoint POST /generate of Atropos' own vLLM server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from .reply_format import ReplyError
from .tokens import (
    NO_IDS,
    Body,
    Numbers,
    RawCompletion,
    TokenFormat,
    as_ids,
    check_layout,
    decode,
    in_pieces,
    read_floats,
)


class _Reply(msgspec.Struct):
    logprobs: list[msgspec.Raw]
    finish_reasons: list[str | None]
    text: list[str] = msgspec.field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The texts of the completions; empty strings if the reply does not have a text for each completion."""
        count = len(self.finish_reasons)
        return self.text if len(self.text) == count else [""] * count


class _PromptReply(msgspec.Struct):
    prompt_token_ids: list[int] | None = None


def _request(prompt: Sequence[int], _model: str, options: Mapping[str, object]) -> dict[str, object]:
    return {"prompt": {"prompt_token_ids": list(prompt)}, "logprobs": 0, **options}


def _request_for_text(text: str, _model: str) -> dict[str, object]:
    return {"prompt": text, "logprobs": 0, "max_tokens": 1}


def _cut(body: Body) -> Iterator[RawCompletion]:
    """Yield the completions. Decode them one at a time if the body has Atropos' layout, else all at once.

    Decoding eight completions of 32,000 tokens at once would block the event loop for 13 ms. Raises ReplyError.
    """
    cut = 0
    try:
        for completion in _split(body):
            yield completion
            cut += 1
    except msgspec.DecodeError:
        reply = decode(body, _REPLY)
        if len(reply.logprobs) != len(reply.finish_reasons):
            numbers = f"the reply has {len(reply.logprobs)} completions, but {len(reply.finish_reasons)} finish reasons"
            raise ReplyError(numbers) from None
        for raw, reason, text in list(zip(reply.logprobs, reply.finish_reasons, reply.texts, strict=True))[cut:]:
            yield RawCompletion(NO_IDS, raw, reason, text=text)


def _split(body: Body) -> Iterator[RawCompletion]:
    """Yield the completions. Raises DecodeError if the body has another layout.

    This function splits at brackets, which model text may contain too. So `_read` checks each element of `logprobs`.
    """
    key = b'"logprobs":'  # model text cannot contain this key, because JSON escapes its quotes
    piece_end = body.find(b"[", body.find(key) + len(key)) + 1
    end = body.rfind(b"}]]]") + len(b"}]]")
    remains = _REPLY.decode(body[:piece_end] + body[end:])
    view = memoryview(body)
    separator = b""
    for reason, text in zip(remains.finish_reasons, remains.texts, strict=True):
        start = piece_end + len(separator)
        piece_end = body.find(b"}]]", start, end) + len(b"}]]")
        if piece_end < start or body[start - len(separator) : start + 3] != separator + b"[[{":
            raise msgspec.DecodeError("another layout")
        yield RawCompletion(NO_IDS, view[start:piece_end], reason, text=text)
        separator = b", " if body[piece_end : piece_end + 2] == b", " else b","
    if piece_end != end:
        raise msgspec.DecodeError("another layout")


def _read(completion: RawCompletion) -> Numbers:
    """Read token ids with log-probabilities, such as `[[{"5": -0.25}], [{"6": -1.5}]]`. Raises ReplyError."""
    ids = []
    logprobs = []
    for piece in in_pieces(completion.logprobs, b"}],"):
        check_layout(piece, b'[{"":}]', piece.count(b":"), 'a list [{"ID": LOG-PROBABILITY}] for each token')
        flat = piece.translate(None, b'[]{}"').replace(b":", b",")
        numbers = read_floats(b"[%b]" % flat)
        ids.append(as_ids(numbers[0::2]))
        logprobs.append(numbers[1::2])
        yield
    return np.concatenate(ids), np.concatenate(logprobs)


_REPLY = msgspec.json.Decoder(_Reply)
_PROMPT_REPLY = msgspec.json.Decoder(_PromptReply)
VLLM = TokenFormat(
    name="vllm",
    path="/generate",
    below_v1=False,
    note="of Atropos' vLLM server",
    request=_request,
    cut=_cut,
    read=_read,
    request_for_text=_request_for_text,
    prompt_of=lambda body: decode(body, _PROMPT_REPLY).prompt_token_ids,
)

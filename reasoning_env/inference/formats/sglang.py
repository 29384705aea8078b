"""The format of SGLang's endpoint POST /generate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from .reply_format import ReplyError
from .tokens import (
    JSON_BLANKS,
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


class _Finish(msgspec.Struct):
    type: str
    status_code: int | None = None
    err_type: str | None = None
    message: str | None = None


class _Meta(msgspec.Struct):
    output_token_logprobs: msgspec.Raw = NO_IDS
    prompt_tokens: int | None = None
    finish_reason: _Finish | str | None = None


class _Reply(msgspec.Struct):
    meta_info: _Meta
    text: str | None = None


def _request(prompt: Sequence[int], _model: str, options: Mapping[str, object]) -> dict[str, object]:
    sampling = {"max_new_tokens" if name == "max_tokens" else name: value for name, value in options.items()}
    return {
        "input_ids": list(prompt),
        "sampling_params": sampling,
        "return_logprob": True,
        "return_text_in_logprobs": False,
    }


def _request_for_text(text: str, _model: str) -> dict[str, object]:
    return {"text": text, "sampling_params": {"max_new_tokens": 1}, "return_logprob": True}


def _prompt_of(body: Body) -> int | None:
    reply = decode(body, _REPLY)
    first = reply[0] if isinstance(reply, list) else reply
    return first.meta_info.prompt_tokens


def _cut(body: Body) -> Iterator[RawCompletion]:
    reply = decode(body, _REPLY)
    for completion in reply if isinstance(reply, list) else [reply]:
        finish = completion.meta_info.finish_reason
        reason = finish.type if isinstance(finish, _Finish) else finish
        error = None
        if isinstance(finish, _Finish) and finish.status_code is not None:  # only aborted requests have a status code
            error = {"message": finish.message, "type": finish.err_type, "code": finish.status_code}
        logprobs = completion.meta_info.output_token_logprobs
        if logprobs == NO_IDS and error is None:
            raise ReplyError("the reply lacks output_token_logprobs, although return_logprob was requested")
        yield RawCompletion(NO_IDS, logprobs, reason, error, completion.text or "")


def _read(completion: RawCompletion) -> Numbers:
    """Read log-probabilities with token ids, such as `[[-0.25, 5, null], [-1.5, 6, null]]`. Raises ReplyError."""
    ids = []
    logprobs = []
    for piece in in_pieces(completion.logprobs, b"],"):
        check_layout(piece, b"[,,null]", piece.count(b"n"), "[log-probability, token id, null] for each token")
        flat = piece.translate(None, b"[]" + JSON_BLANKS).replace(b",null", b"")
        numbers = read_floats(b"[%b]" % flat)
        ids.append(as_ids(numbers[1::2]))
        logprobs.append(numbers[0::2])
        yield
    return np.concatenate(ids), np.concatenate(logprobs)


_REPLY: msgspec.json.Decoder[_Reply | list[_Reply]] = msgspec.json.Decoder(_Reply | list[_Reply])
SGLANG = TokenFormat(
    name="sglang",
    path="/generate",
    below_v1=False,
    note="of SGLang",
    request=_request,
    cut=_cut,
    read=_read,
    request_for_text=_request_for_text,
    prompt_of=_prompt_of,
)

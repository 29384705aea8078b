"""What servers answer, from bytes to numbers: tokens and log-probabilities as they were sampled.

A reply has tens of bytes a token and may be many megabytes long. It is cut into the bytes of each completion first,
then the numbers of one completion are read at a time, each in a turn of the event loop of its own. Log-probabilities
are the floats that the server wrote, bit for bit. `protocols/` has a module for each way to ask; this is what they
share.

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
BLANKS = b" \t\r\n"
_FLOATS = msgspec.json.Decoder(list[float])
_NOT_FINITE = (b"NaN", b"Infinity")
NO_IDS = msgspec.Raw(b"null")
"""Stands where a protocol has token ids and log-probabilities in one."""
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


def decode(body: Body, decoder: msgspec.json.Decoder[T]) -> T:
    """Return what the decoder makes of a whole reply; raises ReplyError."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise ReplyError(f"JSON of another shape ({error})") from error
    except msgspec.DecodeError as error:
        if any(body.find(word) >= 0 for word in _NOT_FINITE):
            raise ReplyError("log-probabilities that are not finite") from error
        raise ReplyError(f"no JSON, or not all of it ({error}; {len(body)} bytes)") from error


def in_pieces(raw: msgspec.Raw | memoryview, end_of_element: bytes) -> Iterator[bytes]:
    """Yield a list's JSON as lists of some thousand elements; `end_of_element` ends all but the last, with a comma."""
    whole = bytes(raw)
    start = 0
    while (end := whole.find(end_of_element, start + PIECE_BYTES)) >= 0:
        comma = end + len(end_of_element) - 1
        yield (b"[" if start else b"") + whole[start:comma] + b"]"
        start = comma + 1
    yield (b"[" if start else b"") + whole[start:]


def check_layout(raw: bytes, element: bytes, count: int, expected: str) -> None:
    """Raise ReplyError unless `raw`, its numbers left out, is a list of `count` times `element`."""
    layout = raw.translate(None, _NUMBERS + BLANKS)
    if layout != b"[%b]" % b",".join([element] * count):
        if any(word in raw for word in _NOT_FINITE):
            raise ReplyError("log-probabilities that are not finite")
        came = raw[:80].decode(errors="replace")
        raise ReplyError(f"log-probabilities of another shape: expected {expected}, got {came!r}")


def read_floats(raw: bytes | msgspec.Raw | memoryview) -> Logprobs:
    """Return a list of numbers as an array; raises ReplyError."""
    try:
        return np.array(_FLOATS.decode(raw), dtype=np.float64)
    except msgspec.DecodeError as error:
        raise ReplyError(f"log-probabilities that are no list of numbers ({error})") from error


def as_ids(numbers: Sequence[float] | Logprobs) -> TokenIds:
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

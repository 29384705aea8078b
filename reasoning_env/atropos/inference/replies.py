"""Ask servers for sampled tokens with log-probabilities, and read the numbers from the bytes of the reply.

A reply has tens of bytes a token and may be many megabytes long. The bytes are cut into completions first. Then the
numbers of one completion are read at a time, each in its own turn of the event loop. Log-probabilities are the floats
that the server wrote, bit for bit. `protocols/` has a module for each protocol; this module has what the protocols
share.

A reply that does not fit its protocol is a ReplyError, which says what came; the request is then sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from typing import Any, TypeVar

import aiohttp
import msgspec
import numpy as np
import numpy.typing as npt
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from ...runtime.turns import in_turn, in_turns, reply_slot

T = TypeVar("T")
TokenIds = npt.NDArray[np.int32]
Logprobs = npt.NDArray[np.float64]
Body = bytes | bytearray | mmap
"""The bytes of a reply; mapped memory has `find`, but no `startswith` and no `in`."""
Numbers = Generator[None, None, tuple[TokenIds, Logprobs]]
"""Reads a piece of a completion at each step, then returns token ids and log-probabilities."""

_NUMBERS = b"0123456789+-.eE"
JSON_BLANKS = b" \t\r\n"
_FLOATS = msgspec.json.Decoder(list[float])
_NOT_FINITE = (b"NaN", b"Infinity")
NO_IDS = msgspec.Raw(b"null")
"""The token ids of a protocol whose log-probabilities contain them."""
REPLY_PIECE_BYTES = 2**18
"""Bytes of a completion that are read in one turn of the event loop, in about a millisecond."""
REPLY_STALL_S = 10.0
"""Seconds of silence after which a reply that has begun is given up; servers send a whole group at once."""

TokenReply = tuple[list[int], list[object], list[object], list[str | None]]
"""What Atropos' servers return: the prompt's tokens; the tokens, log-probabilities and finish reason of completions."""


class ReplyError(Exception):
    """A reply does not fit its protocol."""


@dataclass(frozen=True)
class RawCompletion:
    """A completion before its numbers are read. `ids` is null if `logprobs` holds the token ids too."""

    ids: msgspec.Raw
    logprobs: msgspec.Raw | memoryview
    finish_reason: str | None


@dataclass(frozen=True)
class TokenProtocol:
    """How tokens are asked for, and how a reply is read.

    - `endpoint`: what messages call the place of the requests.
    - `path`: is joined to the server's address, without the address' `/v1` unless `below_v1`.
    - `request`: makes the body from the prompt's tokens, the model's name and sampling options in OpenAI's words.
    - `cut`: takes a reply apart into completions.
    - `read`: reads the numbers of a completion, a piece at each step.
    - `request_for_text`: makes the body that asks to continue a text by one token, from the text and the model's name.
    - `prompt_of`: returns how the server has read that text: the tokens, their number, or None if the reply does not
      say.
    """

    endpoint: str
    path: str
    below_v1: bool
    request: Callable[[Sequence[int], str, Mapping[str, object]], dict[str, object]]
    cut: Callable[[Body], Iterator[RawCompletion]]
    read: Callable[[RawCompletion], Numbers]
    request_for_text: Callable[[str, str], dict[str, object]]
    prompt_of: Callable[[Body], list[int] | int | None]

    def url(self, base_url: str) -> str:
        """Return the URL of requests to a server; `base_url` is its address with `/v1`."""
        base = base_url.rstrip("/")
        return f"{base if self.below_v1 else base.removesuffix('/v1')}{self.path}"


class TokenRequests:
    """Asks in a token protocol and reads the reply here; in front of one of Atropos' classes of servers.

    `protocol` is the class' own; a class without one asks by `sample`.
    """

    protocol: TokenProtocol
    config: APIServerConfig
    tokenizer: Any

    async def _tokens_and_logprobs_completion_wrapper(self, **options: Any) -> TokenReply:
        return await self.sample(self.protocol, **options)

    async def sample(self, protocol: TokenProtocol, *, arrays: bool = False, **options: Any) -> TokenReply:
        """Ask for completions in a protocol; raises ReplyError, and what aiohttp raises.

        With `arrays`, token ids and log-probabilities are numpy's arrays. Without, they are lists, as Atropos' own code
        expects them.
        """
        prompt = options.pop("prompt", None)
        model = options.pop("model")
        tokens = options.pop("input_ids", None) or self.tokenizer.encode(prompt)
        # As in Atropos' own classes: both the chat template and the tokenizer may have written the beginning of text.
        if len(tokens) >= 2 and tokens[0] == self.tokenizer.bos_token_id == tokens[1]:
            tokens = tokens[1:]
        for name in ("max_new_tokens", "max_completion_tokens"):
            if name in options:
                options["max_tokens"] = options.pop(name)
        request = protocol.request(tokens, model, options)
        ids = []
        logprobs = []
        reasons = []
        async with self._post(protocol.url(self.config.base_url), request) as response, reply_slot():
            body = await _read_body(response)
            pieces = protocol.cut(body)
            while (completion := await in_turn(partial(next, pieces, None))) is not None:
                some_ids, some_logprobs = await in_turns(protocol.read(completion))
                ids.append(some_ids if arrays else some_ids.tolist())
                logprobs.append(some_logprobs if arrays else some_logprobs.tolist())
                reasons.append(completion.finish_reason)
        return list(tokens), ids, logprobs, reasons

    async def read_text(self, protocol: TokenProtocol, text: str) -> list[int] | int | None:
        """Return the server's tokens of a text, or only their number; None if the reply does not say."""
        request = protocol.request_for_text(text, self.config.model_name)
        async with self._post(protocol.url(self.config.base_url), request) as response:
            return protocol.prompt_of(await response.read())

    @asynccontextmanager
    async def _post(self, url: str, request: Mapping[str, object]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield a reply of JSON; raises what aiohttp raises, with the text of the server's refusal."""
        headers = {"Authorization": f"Bearer {self.config.api_key}"} if self.config.api_key else {}
        timeout = aiohttp.ClientTimeout(total=self.config.timeout)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.post(url, json=request) as response,
        ):
            if response.status < 400 and "json" in response.content_type:
                yield response
                return
            error = aiohttp.ContentTypeError if response.status < 400 else aiohttp.ClientResponseError
            said = " ".join((await response.content.read(1000)).decode(errors="replace").split())[:200]
            raise error(response.request_info, response.history, status=response.status, message=said)


async def _read_body(response: aiohttp.ClientResponse) -> Body:
    """Return the whole body; raises ReplyError if the body stops on the way, since all other replies would wait for it.

    A body of known length is read into mapped memory, which the system provides page by page: to grow an array to 9 MB,
    or to fill an array with zeros, holds the event loop for up to 39 ms.
    """
    length = None if "Content-Encoding" in response.headers else response.content_length
    body: bytearray | mmap = mmap(-1, length) if length else bytearray()
    filled = 0
    try:
        while True:
            async with asyncio.timeout(REPLY_STALL_S):
                part = await response.content.readany()
            if not part:
                return body
            if isinstance(body, mmap):
                body[filled : filled + len(part)] = part
            else:
                body += part
            filled += len(part)
    except TimeoutError as error:
        raise ReplyError(f"a reply that stopped after {filled} bytes, for {REPLY_STALL_S:g} s") from error


def decode(body: Body, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a whole reply; raises ReplyError for broken JSON, another shape and numbers that are not finite."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise ReplyError(f"JSON of another shape ({error})") from error
    except msgspec.DecodeError as error:
        if any(body.find(word) >= 0 for word in _NOT_FINITE):
            raise ReplyError("log-probabilities that are not finite") from error
        raise ReplyError(f"no JSON, or not all of it ({error}; {len(body)} bytes)") from error


def in_pieces(raw: msgspec.Raw | memoryview, end_of_element: bytes) -> Iterator[bytes]:
    """Yield the JSON of a list as lists of some thousand elements.

    `end_of_element` is the end of each element but the last, with its comma.
    """
    whole = bytes(raw)
    start = 0
    while (end := whole.find(end_of_element, start + REPLY_PIECE_BYTES)) >= 0:
        comma = end + len(end_of_element) - 1
        yield (b"[" if start else b"") + whole[start:comma] + b"]"
        start = comma + 1
    yield (b"[" if start else b"") + whole[start:]


def check_layout(raw: bytes, element: bytes, count: int, expected: str) -> None:
    """Raise ReplyError unless `raw` without its numbers is a list of `count` times `element`."""
    layout = raw.translate(None, _NUMBERS + JSON_BLANKS)
    if layout != b"[%b]" % b",".join([element] * count):
        if any(word in raw for word in _NOT_FINITE):
            raise ReplyError("log-probabilities that are not finite")
        came = raw[:80].decode(errors="replace")
        raise ReplyError(f"log-probabilities of another shape: expected {expected}, got {came!r}")


def read_floats(raw: bytes | msgspec.Raw | memoryview) -> Logprobs:
    """Return the JSON of a list of numbers as an array; raises ReplyError for other JSON."""
    try:
        return np.array(_FLOATS.decode(raw), dtype=np.float64)
    except msgspec.DecodeError as error:
        raise ReplyError(f"log-probabilities that are no list of numbers ({error})") from error


def as_ids(numbers: Sequence[float] | Logprobs) -> TokenIds:
    """Return token ids as an array; raises ReplyError for a number that is not whole, or not from 0 to 2**31 - 1."""
    given = np.asarray(numbers)
    if not given.size:
        return np.empty(0, np.int32)
    if given.min() < 0 or given.max() > np.iinfo(np.int32).max:
        raise ReplyError(f"a token id out of range: {given.min()} to {given.max()}")
    ids = given.astype(np.int32)
    if given.dtype != np.int64 and not np.array_equal(ids, given):
        raise ReplyError("a token id that is no whole number")
    return ids

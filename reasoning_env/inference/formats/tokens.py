"""Formats of replies with sampled tokens: how the numbers are read from the bytes of the reply.

A reply has tens of bytes a token and may be many megabytes long. The bytes are cut into completions first. Then the
numbers of one completion are read at a time, each in its own turn of the event loop. Log-probabilities are the floats
that the server wrote, bit for bit. Each format has a module of its own beside this one, which has what they share.

A reply that does not fit its format is a ReplyError, which says what came; the request is then sent again.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from mmap import mmap
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ...prompts.chat_format import ChatFormat
from ...records import Prompt, Rollout
from ...runtime.turns import in_turn, reply_slot, run_in_turns
from ..failures import ERROR_BYTES, BrokenOffError, error_in_place, overload_in_choice
from .reply_format import ReplyError, ReplyFormat, ReplyKind, ServerReply, TokenCompletion

if TYPE_CHECKING:
    import aiohttp

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
"""The token ids of a format whose log-probabilities contain them."""
REPLY_PIECE_BYTES = 2**18
"""Bytes of a completion that are read in one turn of the event loop, in about a millisecond."""
REPLY_STALL_S = 10.0
"""Seconds of silence after which a reply that has begun is given up; servers send a whole group at once."""


@dataclass(frozen=True)
class RawCompletion:
    """A completion before its numbers are read.

    `ids` is null if `logprobs` holds the token ids too. `error` is what the server says in place of a completion.
    `text` is the text beside the numbers; "" if there is none.
    """

    ids: msgspec.Raw
    logprobs: msgspec.Raw | memoryview
    finish_reason: str | None
    error: object = None
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class TokenFormat(ReplyFormat):
    """A format with tokens and log-probabilities; one request asks for several completions.

    - `request`: makes the body from the prompt's tokens, the model's name and parameters with OpenAI's names.
    - `cut`: takes a reply apart into completions.
    - `read`: reads the numbers of a completion, a piece at each step.
    - `request_for_text`: makes the body that asks to continue a text by one token, from the text and the model's name.
    - `prompt_of`: returns how the server has read that text: the tokens, their number, or None if the reply does not
      say.
    - `model_of`: returns the name of the model that answered; "" if the reply does not say.
    """

    kind: ReplyKind = ReplyKind.TOKENS
    request: Callable[[Sequence[int], str, Mapping[str, object]], dict[str, object]]
    cut: Callable[[Body], Iterator[RawCompletion]]
    read: Callable[[RawCompletion], Numbers]
    request_for_text: Callable[[str, str], dict[str, object]]
    prompt_of: Callable[[Body], list[int] | int | None]
    model_of: Callable[[Body], str] = lambda body: ""

    def make_request(self, prompt: Prompt, model: str, parameters: Mapping[str, object]) -> dict[str, object]:
        # The prompt's own tokens: for a text, the server would add special tokens to those of the chat template.
        return self.request(prompt.tokens, model, parameters)

    async def read_reply(self, response: aiohttp.ClientResponse) -> ServerReply:
        """Return the completions of a response; also raises ErrorReply for errors in their place.

        Where an overloaded server breaks some completions off, the others are kept.
        """
        completions = []
        overload = None
        async with reply_slot():
            body = await _read_body(response)
            try:
                pieces = self.cut(body)
                while (completion := await in_turn(partial(next, pieces, None))) is not None:
                    if completion.error:
                        overload = overload_in_choice(completion.error) or overload
                        completions.append(TokenCompletion((), (), "error"))
                        continue
                    tokens, logprobs = await run_in_turns(self.read(completion))
                    completions.append(
                        TokenCompletion(tokens, logprobs, completion.finish_reason or "", completion.text)
                    )
            except ReplyError as error:
                if (in_place := error_in_place(bytes(body[:ERROR_BYTES]))) is not None:
                    raise in_place from error
                raise
        if overload is not None and all(completion.word == "error" for completion in completions):
            raise overload
        return ServerReply(completions, model=self.model_of(body))


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
        raise ReplyError(f"a reply that sent nothing for {REPLY_STALL_S:g} s after {filled} bytes") from error


def decode(body: Body, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a whole reply; raises ReplyError for broken JSON, another shape and numbers that are not finite."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise ReplyError(f"JSON of an unexpected shape ({error})") from error
    except msgspec.DecodeError as error:
        if any(body.find(word) >= 0 for word in _NOT_FINITE):
            raise ReplyError("log-probabilities that are not finite") from error
        raise ReplyError(f"invalid or incomplete JSON ({error}; {len(body)} bytes)") from error


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
        raise ReplyError(f"log-probabilities of an unexpected shape: expected {expected}, got {came!r}")


def read_floats(raw: bytes | msgspec.Raw | memoryview) -> Logprobs:
    """Return the JSON of a list of numbers as an array; raises ReplyError for other JSON."""
    try:
        return np.array(_FLOATS.decode(raw), dtype=np.float64)
    except msgspec.DecodeError as error:
        raise ReplyError(f"log-probabilities that are not a list of numbers ({error})") from error


def as_ids(numbers: Sequence[float] | Logprobs) -> TokenIds:
    """Return token ids as an array; raises ReplyError for a number that is not whole, or not from 0 to 2**31 - 1."""
    given = np.asarray(numbers)
    if not given.size:
        return np.empty(0, np.int32)
    if given.min() < 0 or given.max() > np.iinfo(np.int32).max:
        raise ReplyError(f"a token id out of range: {given.min()} to {given.max()}")
    ids = given.astype(np.int32)
    if given.dtype != np.int64 and not np.array_equal(ids, given):
        raise ReplyError("a token id that is not a whole number")
    return ids


def rollout_from_tokens(
    chat: ChatFormat, token_limit: int, prompt: Sequence[int], completion: TokenCompletion
) -> Rollout | BrokenOffError | str:
    """Return a rollout of the server's own tokens, or the reason why the tokens are unfit for training.

    A reply whose text has more tokens than the reply was broken off.
    """
    if len(completion.tokens) == 0:
        return "no completion tokens"
    if len(completion.tokens) != len(completion.logprobs):
        return f"{len(completion.tokens)} tokens and {len(completion.logprobs)} log-probabilities"
    if len(prompt) + len(completion.tokens) >= token_limit:
        return f"{len(prompt) + len(completion.tokens)} tokens, at or over the limit of {token_limit}"
    tokens = np.asarray(completion.tokens, dtype=np.int64)
    logprobs = np.asarray(completion.logprobs, dtype=np.float64)
    if not np.isfinite(logprobs).all():
        return "log-probabilities that are not finite"
    if (logprobs > 0).any():
        return f"log-probabilities up to {logprobs.max():g}, which must not be above 0"
    if not 0 <= tokens.min() <= tokens.max() < chat.vocabulary_size:
        ids = f"token ids from {tokens.min()} to {tokens.max()}"
        return f"{ids}, but the tokenizer has {chat.vocabulary_size} ids; check env.tokenizer_name"
    text = chat.completion_text(tokens)
    given_text = completion.text.rstrip("\ufffd")  # the end of a character that a limit of tokens cut
    if len(given_text) > len(text) and (count := chat.count_tokens(given_text)) > len(tokens):
        why = f"the server returned a text of {count} tokens with the log-probabilities of {len(tokens)}"
        return BrokenOffError("fewer_tokens", why=why)
    in_bytes = tokens.astype(np.int32).tobytes()
    return Rollout(
        text=text,
        tokens=_joined(array("i", prompt), in_bytes),
        masks=_joined(array("i", [-100]) * len(prompt), in_bytes),
        logprobs=_joined(array("d", [1.0]) * len(prompt), logprobs.tobytes()),
        finish_reason=completion.word,
        token_count=len(tokens),
    )


def _joined(values: array[Any], of_completion: bytes) -> array[Any]:
    """Return the prompt's values with the completion's behind them: an array takes a tenth of a list's memory."""
    values.frombytes(of_completion)
    return values

"""Read token ids and log-probabilities from replies. The modules of all token formats use this module.

A reply may have many megabytes. So it is cut into completions, and each completion is read in small pieces that do not
block the event loop. If a reply does not have the expected format, ReplyError says what the reply contains.
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
"""The bytes of a reply. Search only with `find`: mapped memory has no `startswith` and no `in`."""
Numbers = Generator[None, None, tuple[TokenIds, Logprobs]]
"""A generator that reads a piece of a completion at each step, and finally returns token ids and log-probabilities."""

_NUMBERS = b"0123456789+-.eE"
JSON_BLANKS = b" \t\r\n"
_FLOATS = msgspec.json.Decoder(list[float])
_NOT_FINITE = (b"NaN", b"Infinity")
NO_IDS = msgspec.Raw(b"null")
"""Placeholder for the list of token ids, in formats whose log-probabilities contain the ids."""
REPLY_PIECE_BYTES = 2**18
"""Bytes of a completion that are read in one turn of the event loop. Reading them takes about a millisecond."""
REPLY_STALL_S = 10.0
"""Seconds without data after which a reply is given up. Servers send a whole reply without long pauses."""


@dataclass(frozen=True)
class RawCompletion:
    """A completion whose token ids and log-probabilities have not been read yet.

    `ids` is null if `logprobs` contains the token ids too. `error` is the error that the server sent in place of a
    completion. `text` is the completion's text; "" if the reply has none.
    """

    ids: msgspec.Raw
    logprobs: msgspec.Raw | memoryview
    finish_reason: str | None
    error: object = None
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class TokenFormat(ReplyFormat):
    """A format with tokens and log-probabilities; one request asks for several completions.

    - `request`: makes the body of a request from the prompt's tokens, the model's name and OpenAI's parameters.
    - `cut`: splits a reply into completions.
    - `read`: returns a generator that reads a completion's token ids and log-probabilities in several steps.
    - `request_for_text`: makes the body of a request for one token after a text, from the text and the model's name.
    - `prompt_of`: reads the text's tokens, or only their number, from the reply to `request_for_text`; None if missing.
    - `model_of`: returns the model's name in the reply; "" if the reply has no name.
    """

    kind: ReplyKind = ReplyKind.TOKENS
    request: Callable[[Sequence[int], str, Mapping[str, object]], dict[str, object]]
    cut: Callable[[Body], Iterator[RawCompletion]]
    read: Callable[[RawCompletion], Numbers]
    request_for_text: Callable[[str, str], dict[str, object]]
    prompt_of: Callable[[Body], list[int] | int | None]
    model_of: Callable[[Body], str] = lambda body: ""

    def make_request(self, prompt: Prompt, model: str, parameters: Mapping[str, object]) -> dict[str, object]:
        # Send tokens: the prompt's text already has the special tokens of its template, and the server would add more.
        return self.request(prompt.tokens, model, parameters)

    async def read_reply(self, response: aiohttp.ClientResponse) -> ServerReply:
        """Return the completions of a response. Raises ErrorReply if the response contains an error instead.

        If an overloaded server breaks some completions off, the others are returned.
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
        if overload is not None and all(completion.finish_reason == "error" for completion in completions):
            raise overload
        return ServerReply(completions, model=self.model_of(body))


async def _read_body(response: aiohttp.ClientResponse) -> Body:
    """Return the whole body. Raises ReplyError if the server sends nothing for REPLY_STALL_S."""
    length = None if "Content-Encoding" in response.headers else response.content_length
    # Growing a bytearray to 9 MB, or filling one with zeros, would block the event loop for up to 39 ms.
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
        raise ReplyError(f"the server sent {filled} bytes, then nothing for {REPLY_STALL_S:g} s") from error


def decode(body: Body, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a whole reply. Raises ReplyError for invalid JSON, an unexpected shape and numbers that are not finite."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise ReplyError(f"the reply is JSON of an unexpected shape ({error})") from error
    except msgspec.DecodeError as error:
        if any(body.find(word) >= 0 for word in _NOT_FINITE):
            raise ReplyError("the reply has log-probabilities that are not finite") from error
        raise ReplyError(f"the reply is invalid or incomplete JSON ({error}; {len(body)} bytes)") from error


def in_pieces(raw: msgspec.Raw | memoryview, end_of_element: bytes) -> Iterator[bytes]:
    """Split the JSON of a list into shorter lists, each of about REPLY_PIECE_BYTES bytes.

    `end_of_element`, such as `],`, ends each element but the last. The list is split only after this string.
    """
    whole = bytes(raw)
    start = 0
    while (end := whole.find(end_of_element, start + REPLY_PIECE_BYTES)) >= 0:
        comma = end + len(end_of_element) - 1
        yield (b"[" if start else b"") + whole[start:comma] + b"]"
        start = comma + 1
    yield (b"[" if start else b"") + whole[start:]


def check_layout(raw: bytes, element: bytes, count: int, expected: str) -> None:
    """Raise ReplyError unless `raw` is a list of `count` elements with the layout `element`.

    A layout is JSON without numbers and whitespace. The error describes an element as `expected`.
    """
    layout = raw.translate(None, _NUMBERS + JSON_BLANKS)
    if layout != b"[%b]" % b",".join([element] * count):
        if any(word in raw for word in _NOT_FINITE):
            raise ReplyError("the reply has log-probabilities that are not finite")
        came = raw[:80].decode(errors="replace")
        raise ReplyError(f"the reply has log-probabilities of an unexpected shape: expected {expected}, got {came!r}")


def read_floats(raw: bytes | msgspec.Raw | memoryview) -> Logprobs:
    """Parse the JSON of a list of numbers into an array. Raises ReplyError for other JSON."""
    try:
        return np.array(_FLOATS.decode(raw), dtype=np.float64)
    except msgspec.DecodeError as error:
        raise ReplyError(f"the reply has log-probabilities that are not a list of numbers ({error})") from error


def as_ids(numbers: Sequence[float] | Logprobs) -> TokenIds:
    """Return token ids as an array. Raises ReplyError unless each number is whole and from 0 to 2**31 - 1."""
    given = np.asarray(numbers)
    if not given.size:
        return np.empty(0, np.int32)
    if given.min() < 0 or given.max() > np.iinfo(np.int32).max:
        raise ReplyError(f"the reply has token ids from {given.min()} to {given.max()}; some are out of range")
    ids = given.astype(np.int32)
    if given.dtype != np.int64 and not np.array_equal(ids, given):
        raise ReplyError("the reply has a token id that is not a whole number")
    return ids


def rollout_from_tokens(
    chat: ChatFormat, token_limit: int, prompt: Sequence[int], completion: TokenCompletion
) -> Rollout | BrokenOffError | str:
    """Return a rollout of the sampled tokens, or the reason why they are unusable for training.

    The reason is a BrokenOffError if the completion's text has more tokens than the reply lists.
    """
    if len(completion.tokens) == 0:
        return "no completion tokens"
    if len(completion.tokens) != len(completion.logprobs):
        return f"{len(completion.tokens)} tokens, but {len(completion.logprobs)} log-probabilities"
    if (total := len(prompt) + len(completion.tokens)) >= token_limit:
        return f"{total} tokens of prompt and completion, at or above the limit of {token_limit}"
    tokens = np.asarray(completion.tokens, dtype=np.int64)
    logprobs = np.asarray(completion.logprobs, dtype=np.float64)
    lowest, highest = logprobs.min(), logprobs.max()
    if not -np.inf < lowest <= highest < np.inf:
        return "log-probabilities that are not finite"
    if highest > 0:
        return f"log-probabilities up to {highest:g}, but a log-probability is at most 0"
    if not 0 <= tokens.min() <= tokens.max() < chat.vocabulary_size:
        ids = f"token ids from {tokens.min()} to {tokens.max()}"
        return f"{ids}, but the tokenizer has {chat.vocabulary_size} ids; check env.tokenizer_name"
    text = chat.completion_text(tokens)
    given_text = completion.text.rstrip("\ufffd")  # U+FFFD: the token limit cut a character
    if len(given_text) > len(text) and (count := chat.count_tokens(given_text)) > len(tokens):
        why = f"the server returned a text of {count} tokens, but log-probabilities for only {len(tokens)} of them"
        return BrokenOffError("fewer_tokens", why=why)
    in_bytes = tokens.astype(np.int32).tobytes()
    return Rollout(
        text=text,
        tokens=_joined(array("i", prompt), in_bytes),
        masks=_joined(array("i", [-100]) * len(prompt), in_bytes),
        logprobs=_joined(array("d", [1.0]) * len(prompt), logprobs.tobytes()),
        finish_reason=completion.finish_reason,
        token_count=len(tokens),
    )


def _joined(of_prompt: array[Any], of_completion: bytes) -> array[Any]:
    """Append the completion's values to the prompt's values, and return the array."""
    of_prompt.frombytes(of_completion)
    return of_prompt

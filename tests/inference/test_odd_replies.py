"""Replies of faulty servers: garbled HTTP, extreme Retry-After values and incomplete completions."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence

import aiohttp
import pytest

from reasoning_env.errors import ServerError
from reasoning_env.inference.addresses import StatusError
from reasoning_env.inference.failures import (
    LONGEST_WAIT_S,
    BrokenOffError,
    FailureKind,
    Timeouts,
    explain_failure,
    seconds_asked,
)
from reasoning_env.inference.formats import REPLY_FORMATS
from reasoning_env.inference.formats.choices import CHAT, PlainChat, read_choice, read_json
from reasoning_env.inference.formats.reply_format import ReplyKind, ServerReply, TokenCompletion
from reasoning_env.inference.formats.tokens import TokenFormat
from reasoning_env.inference.served_model import Received, make_rollouts
from reasoning_env.inference.server import Endings
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.records import Prompt, Rollout
from reasoning_env.runtime.turns import run_in_turns
from reasoning_gym_testing import Completion, GenerationRequest
from reasoning_gym_testing.completions import TOKENIZER, Tokens
from reasoning_gym_testing.protocols import write_reply
from tests.records import SAMPLING
from tests.waiting import PATIENCE_S

from .clients import serve

TOKEN_FORMATS = [each for each in REPLY_FORMATS if isinstance(each, TokenFormat)]
each_format = pytest.mark.parametrize("token_format", TOKEN_FORMATS, ids=lambda each: each.name)
SOUND = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
GARBLED = {
    "NUL in a header": SOUND.replace(b"OK\r\n", b"OK\r\nX-Trace: a\0b\r\n"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a status that is none": SOUND.replace(b"200", b"2x0"),
    "two lengths": SOUND.replace(b"OK\r\n", b"OK\r\nContent-Length: 1\r\n"),
}
"""Replies that aiohttp cannot parse. aiohttp reports them as if the server had sent status 400."""


async def failure_of(reply: bytes) -> BaseException:
    """Return the error that aiohttp raises for this reply, sent over the network."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await session.get(f"http://{host}:{port}/")
    return caught.value


@pytest.mark.parametrize("reply", GARBLED.values(), ids=GARBLED)
async def test_error_for_a_garbled_http_reply_has_no_status(reply: bytes) -> None:
    failure = explain_failure(await failure_of(reply))
    assert (failure.kind, failure.status) == (FailureKind.UNUSABLE, None)
    assert failure.description.startswith("the reply is not valid HTTP (400, message=")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT_S),
        ("1e30", LONGEST_WAIT_S),
        ("86400", LONGEST_WAIT_S),
        ("1 Jan 99999999999999999999 10:00:00", None),
        ("Fri, 01 Jan 2100 00:00:00 +9999999999", None),
        ("-5", 0.0),
    ],
)
def test_wait_requested_by_a_retry_after_header_is_limited(header: str, seconds: float | None) -> None:
    assert seconds_asked(header) == seconds


async def test_only_the_start_of_the_body_of_an_error_reply_is_read() -> None:
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Error\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * 1000)
                await writer.drain()
        ended.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        async with serve(f"http://{host}:{port}", formats=[CHAT], timeouts=Timeouts(PATIENCE_S, 5.0, tries=1)) as model:
            with pytest.raises(ServerError, match="StatusError: 500 xxx"):
                await model.complete(PlainChat().prompt([{"role": "user", "content": "?"}]), 1, SAMPLING)
            await ended.wait()


# ---------------------------------------------------------------------------- incomplete completions

WORDS = "First, add the two numbers. The sum is <answer>4</answer>"


async def received(
    token_format: TokenFormat, chat: ChatFormat, text: str, tokens: Sequence[int], word: str = "stop"
) -> Received:
    """Return what the client reads from a reply with this text and these tokens, with one log-probability per token."""
    asked = GenerationRequest(token_format.name, "", (1, 2), 1, 64, 1.0, 1.0)
    completion = Completion(text, word, tuple(tokens), (-0.5,) * len(tokens))
    body = write_reply(asked, (completion,), Tokens(TOKENIZER))
    [raw] = token_format.cut(body)
    ids, logprobs = await run_in_turns(token_format.read(raw))
    reply = ServerReply([TokenCompletion(ids, logprobs, raw.finish_reason or "", raw.text)])
    prompt = Prompt(({"role": "user", "content": "?"},), "?", (1, 2))
    [found] = await make_rollouts(reply, ReplyKind.TOKENS, chat, prompt, SAMPLING, Endings(), stop_after_answer=False)
    return found


@each_format
async def test_reply_that_lacks_the_last_tokens_counts_as_interrupted(
    token_format: TokenFormat, chat: ChatFormat
) -> None:
    cut = chat.encode(WORDS)[:-3]
    found = await received(token_format, chat, WORDS, cut)
    assert isinstance(found, BrokenOffError)
    assert (
        str(found)
        == f"the server returned a text of {len(cut) + 3} tokens, but log-probabilities for only {len(cut)} of them"
    )


@each_format
@pytest.mark.parametrize(
    "text", [WORDS, f"{WORDS}<|im_end|>", WORDS.removesuffix("</answer>"), ""], ids=["same", "marks", "stop", "none"]
)
async def test_reply_whose_text_matches_its_tokens_is_accepted(
    token_format: TokenFormat, chat: ChatFormat, text: str
) -> None:
    found = await received(token_format, chat, text, chat.encode(f"{WORDS}<|im_end|>"))
    assert isinstance(found, Rollout)
    assert found.text == WORDS


@each_format
@pytest.mark.parametrize("word", ["stop", "length"])
async def test_reply_with_neither_text_nor_tokens_counts_as_interrupted(
    token_format: TokenFormat, chat: ChatFormat, word: str
) -> None:
    found = await received(token_format, chat, "", [], word)
    assert isinstance(found, BrokenOffError)
    assert "without text and with 0 tokens" in str(found)


EMPTY = {
    "text": {"text": ""},
    "chat": {"message": {"content": ""}},
    "chat without content": {"message": {"content": None}},
}


@pytest.mark.parametrize("fields", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize(
    ("count", "word", "is_whole"),
    [(0, "stop", False), (0, "content_filter", True), (1, "stop", True), (None, "stop", True)],
)
async def test_empty_completion_of_0_tokens_counts_as_interrupted(
    fields: dict[str, object], count: int | None, word: str, is_whole: bool
) -> None:
    completion = read_choice(read_json(json.dumps({**fields, "finish_reason": word}).encode()), count)
    prompt = PlainChat().prompt([{"role": "user", "content": "?"}])
    [found] = await make_rollouts(
        ServerReply([completion]), ReplyKind.CHAT, PlainChat(), prompt, SAMPLING, Endings(), stop_after_answer=False
    )
    assert isinstance(found, Rollout) is is_whole


def test_error_reply_with_deeply_nested_json_counts_as_a_refused_request() -> None:
    assert explain_failure(StatusError(400, b"[" * 100_000, {})).kind is FailureKind.REFUSED

"""Formats of replies with text: any OpenAI-compatible `/v1/chat/completions` and `/v1/completions`.

Each completion is a request of its own: many hosted servers ignore or refuse `n`, and token counts are reported per
request. Thinking that a server returns apart from the text is not searched for an answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...prompts.chat_format import ChatFormat
from ...prompts.chat_templates import plain_text
from ...prompts.messages import Content, read_content
from ...prompts.thinking import Thinking, choose_thinking
from ...records import ENDING_WORDS, Ending, Prompt, Rollout, Sampling
from ...runtime.concurrency import cancel_all
from ...runtime.text import short, visible
from ..events import EVENT_STREAM, join_events, read_events
from ..failures import ErrorReply, error_of_reply, message_of, overload_in_choice
from ..refusals import Attempts, Refusals, Stream
from .reply_format import MAX_TOKENS, ReplyFormat, ReplyKind, SentRequest, ServerReply, TextCompletion

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

ANSWER_START = "<answer>"
ANSWER_END = "</answer>"
KEEPS_STOP = {"include_stop_str_in_output": True, "no_stop_trim": True}
"""Fields that ask for a text with the stop text at its end, vLLM by the first name and SGLang by the second."""
KNOWN_WORDS = frozenset(" ".join(ENDING_WORDS.values()).split())
"""The finish reasons that are known."""
MOST_NAME = 200
"""Characters of a model's name that are kept."""
THINKING = ("reasoning_content", "reasoning")
"""The fields with the thinking: vLLM, SGLang and DeepSeek use the first name, newer vLLM and others the second."""


@dataclass(frozen=True, kw_only=True)
class ChoicesFormat(ReplyFormat):
    """A format whose replies hold `choices`; `prompt_fields` returns the fields of a request that hold the prompt."""

    prompt_fields: Callable[[Prompt], dict[str, object]]

    def make_request(self, prompt: Prompt, model: str, parameters: Mapping[str, object]) -> dict[str, object]:
        return {"model": model, **self.prompt_fields(prompt), **parameters}

    async def read_reply(self, response: aiohttp.ClientResponse) -> ServerReply:
        """Return the completion of a response; also raises ErrorReply for an error in its place."""
        body = await response.read()
        read = _read_stream if response.content_type == EVENT_STREAM else read_json
        reply = await asyncio.to_thread(read, body)
        if error := getattr(reply, "error", None):
            raise error_of_reply(error)
        token_count = getattr(getattr(reply, "usage", None), "completion_tokens", None)
        choice = reply.choices[0]
        # A completion that was broken off because the server is overloaded counts as a refused request.
        if overload := overload_in_choice(getattr(choice, "error", None)):
            raise overload
        return ServerReply([read_choice(choice, token_count)], model=read_name(getattr(reply, "model", None)))


TEXT = ChoicesFormat(
    name="openai",
    kind=ReplyKind.TEXT,
    path="/completions",
    below_v1=True,
    prompt_fields=lambda prompt: {"prompt": prompt.text or plain_text(prompt.messages)},
)
CHAT = ChoicesFormat(
    name="chat",
    kind=ReplyKind.CHAT,
    path="/chat/completions",
    below_v1=True,
    prompt_fields=lambda prompt: {"messages": [dict(message) for message in prompt.messages]},
)


def read_json(body: bytes) -> Any:
    """Return the JSON of a body, whose fields are attributes. Raises JSONDecodeError."""
    return json.loads(body, object_hook=lambda fields: SimpleNamespace(**fields))


def _read_stream(body: bytes) -> Any:
    return join_events(read_events(body))


def read_token_number(value: object) -> int | None:
    """Return a number of tokens, from 0 to MAX_TOKENS; None for any other value, as if the server had said nothing."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
        return value
    return None


def read_name(value: object) -> str:
    """Return the name of a model, safe to print; "" for any other value, as if the server had said nothing."""
    return visible(value, MOST_NAME) if isinstance(value, str) else ""


def read_choice(choice: Any, token_count: object = None) -> TextCompletion:
    """Return the completion of a message or of a text.

    Raises ErrorReply for a message that holds something else than text.
    """
    message = getattr(choice, "message", None)
    given = getattr(message, "content", None) if message is not None else getattr(choice, "text", None)
    content = read_content(given)
    if content is None:
        raise ErrorReply(f"a message with a content that is neither text nor a list of parts: {short(given)!r}")
    fields = [text for name in THINKING if isinstance(text := getattr(message, name, None), str)]
    error = getattr(choice, "error", None)
    return TextCompletion(
        text=content.text,
        thinking=next(filter(None, fields), content.thinking),
        word=_ending_word(choice, content),
        error=message_of(error) if error else "",
        token_count=read_token_number(token_count),
    )


def _ending_word(choice: object, content: Content) -> str:
    """Return the word for how a choice ended: the server's, or `error` and `refusal` where the choice holds such.

    A choice without a message and without a text has no word, whatever the server says: nothing came.
    """
    message = getattr(choice, "message", None)
    if getattr(choice, "error", None):
        return "error"
    if getattr(message, "refusal", None) or content.is_refusal:
        return "refusal"
    if message is None and getattr(choice, "text", None) is None:
        return ""
    return finish_word(getattr(choice, "finish_reason", None), getattr(choice, "stop_reason", None))


def finish_word(finish_reason: object, stop_reason: object = None) -> str:
    """Return the server's word for how a completion ended; "" if the server does not say.

    SGLang's finish reason is an object with the word as its `type`. Some gateways leave `finish_reason` null, and say
    `stop_reason`; where vLLM has the stop text, which is no word of the table.
    """
    if isinstance(finish_reason, Mapping):
        finish_reason = finish_reason.get("type")
    finish_reason = getattr(finish_reason, "type", finish_reason)
    if finish_reason is None or finish_reason == "":
        is_known = isinstance(stop_reason, str) and stop_reason.lower() in KNOWN_WORDS
        return str(stop_reason) if is_known else ""
    return str(finish_reason)


class PlainChat:
    """Replaces a ChatFormat if the server applies the chat template: prompts contain messages only.

    No tokenizer says which formats of thinking the model knows, so `auto` takes `<think>` only.
    """

    hides_thinking = False
    vocabulary_size = 0

    def __init__(self, thinking: str = "auto") -> None:
        self._thinking = thinking

    @property
    def thinking(self) -> Thinking:
        return choose_thinking(self._thinking)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        characters = sum(len(message["content"]) for message in messages)
        # Common tokenizers have more than two characters a token, so no prompt takes more than is reserved for it.
        return Prompt(tuple(messages), "", (), estimated_tokens=characters // 2)

    def count_tokens(self, text: str) -> int:
        """Return at least as many tokens as common tokenizers make of a text."""
        return len(text) // 2

    def decode(self, tokens: Sequence[int]) -> str:
        return ""

    def completion_text(self, tokens: object) -> str:
        return ""


def rollout_without_tokens(completion: TextCompletion) -> Rollout:
    """Return a rollout without tokens, which cannot be used for training."""
    return Rollout(
        text=completion.text,
        tokens=(),
        masks=(),
        logprobs=None,
        finish_reason=completion.word,
        token_count=completion.token_count,
        thinking=completion.thinking,
    )


def rollout_from_text(
    chat: ChatFormat, prompt: Prompt, sampling: Sampling, completion: TextCompletion, *, stop: str | None = None
) -> Rollout | str:
    """Return a rollout of tokens made from the server's text, or the reason why the text is unfit for training.

    `stop` is the stop text of the request; a model that was stopped by it has produced no end of turn.
    """
    text = chat.strip_end_of_turn(completion.text)
    finish_reason = completion.word
    stopped = stop is not None and text.endswith(stop)
    finished = Ending.of(finish_reason) is Ending.FINISHED and not stopped
    tokens = chat.completion_tokens(text, finished=finished)
    if not tokens:
        return "no text, and says that it was cut short"
    room = sampling.token_limit - 1 - len(prompt.tokens)
    if len(tokens) > room:
        # The text may have more tokens here than at the server.
        tokens = tokens[:room]
        finish_reason = "length"
    return Rollout(
        text=text,
        tokens=array("i", [*prompt.tokens, *tokens]),
        masks=array("i", [*[-100] * len(prompt.tokens), *tokens]),
        logprobs=None,
        finish_reason=finish_reason,
        token_count=len(tokens),
    )


SendOne = Callable[[Mapping[str, object]], Awaitable[ServerReply]]
"""Sends a request with some parameters."""


async def request_each(n: int, request: SendOne, parameters: Mapping[str, object]) -> ServerReply:
    """Send a request for each of `n` completions; if all fail, raises the error of the first."""
    requests = [asyncio.ensure_future(request(parameters)) for _ in range(n)]
    try:
        replies = await asyncio.gather(*requests, return_exceptions=True)
    finally:
        await cancel_all(requests)
    errors = [reply for reply in replies if isinstance(reply, BaseException)]
    if len(errors) == n:
        raise errors[0]
    answered = [reply for reply in replies if isinstance(reply, ServerReply)]
    completions = [one for reply in answered for one in reply.completions]
    return ServerReply(completions, requests=[one for reply in answered for one in reply.requests])


class Adapting:
    """Sends requests to one server, and changes the parts that the server refuses."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._refusals = Refusals(stream) if stream == "always" else None
        """What the server refuses; None as long as it has refused nothing."""

    async def send(self, request: Mapping[str, object], prompt_tokens: int, send: SendOne) -> ServerReply:
        """Send a request until the server accepts it. `prompt_tokens` is the size of the prompt, at most.

        Raises what `send` raises, unless another request may be accepted.
        """
        attempts = Attempts(prompt_tokens)
        while True:
            adapted = request if self._refusals is None else self._refusals.adapt(request, attempts)
            try:
                reply = await send(adapted)
                break
            except Exception as error:
                self._refusals = self._refusals or Refusals(self._stream)
                self._refusals.learn(error, adapted, attempts)
        if self._refusals is not None:
            self._refusals.note_success(adapted)
        return replace(reply, requests=[SentRequest(request, adapted, reply.model)])


class StopText:
    """Tracks whether a server keeps the stop string at the end of completions.

    Most servers leave the stop text out unless they are asked to keep it, and some do not know that request: without
    its closing tag an answer would not count. Requests to such a server have no stop text, and completions are cut
    here.
    """

    def __init__(self) -> None:
        self._is_kept: bool | None = None
        """None until a completion shows it."""

    async def request_each(self, n: int, request: SendOne, parameters: Mapping[str, object]) -> ServerReply:
        """Request completions that end with their first closing answer tag; raises what `request_each` raises."""
        stops = self._is_kept is not False
        sent = dict(parameters) if stops else {name: parameters[name] for name in parameters if name != "stop"}
        reply = await request_each(n, request, sent)
        texts = [one for one in reply.completions if isinstance(one, TextCompletion)]
        if stops and any(one.text.endswith(ANSWER_END) for one in texts):
            self._is_kept = True
        if stops and not self._is_kept and any(map(_lacks_closing, texts)):
            if self._is_kept is None:
                logger.warning(
                    "the server does not return the stop string %s: completions are cut after it here", ANSWER_END
                )
            self._is_kept = False
            return await self.request_each(n, request, parameters)
        return replace(reply, completions=[_cut_after_answer(one) for one in texts])


def _lacks_closing(completion: TextCompletion) -> bool:
    """Return whether a completion that the model or the stop text ended is inside an answer."""
    is_finished = Ending.of(completion.word) is Ending.FINISHED
    return is_finished and completion.text.rfind(ANSWER_START) > completion.text.rfind(ANSWER_END)


def _cut_after_answer(completion: TextCompletion) -> TextCompletion:
    before, closing, _ = completion.text.partition(ANSWER_END)
    return replace(completion, text=before + closing, word="stop") if closing else completion

"""Formats of replies with text: any OpenAI-compatible `/v1/chat/completions` and `/v1/completions`.

Each completion has a separate request, because many hosted servers ignore or refuse `n`. If a server returns thinking
in a separate field, no answer is extracted from that field.
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
from ...runtime.text import printable, short
from ..events import EVENT_STREAM, join_events, read_events
from ..failures import ErrorReply, message_of, overload_in_choice
from .reply_format import MAX_TOKENS, ReplyError, ReplyFormat, ReplyKind, ServerReply, TextCompletion

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

ANSWER_START = "<answer>"
ANSWER_END = "</answer>"
KEEPS_STOP = {"include_stop_str_in_output": True, "no_stop_trim": True}
"""Fields that ask the server to keep the stop string in the text: the first for vLLM, the second for SGLang."""
KNOWN_FINISH_REASONS = frozenset(" ".join(ENDING_WORDS.values()).split())
"""All known finish reasons."""
MAX_NAME_CHARACTERS = 200
"""A model's name is cut after this many characters."""
THINKING = ("reasoning_content", "reasoning")
"""Fields with the thinking of a reply. vLLM, SGLang and DeepSeek use the first; newer vLLM and others, the second."""


@dataclass(frozen=True, kw_only=True)
class ChoicesFormat(ReplyFormat):
    """A format whose replies have `choices`. `prompt_fields` returns the request fields that contain the prompt."""

    prompt_fields: Callable[[Prompt], dict[str, object]]

    def make_request(self, prompt: Prompt, model: str, parameters: Mapping[str, object]) -> dict[str, object]:
        return {"model": model, **self.prompt_fields(prompt), **parameters}

    async def read_reply(self, response: aiohttp.ClientResponse) -> ServerReply:
        """Return the completion in a response.

        Raises ErrorReply if the response has an error instead, and ReplyError if it has neither.
        """
        body = await response.read()
        read = _read_stream if response.content_type == EVENT_STREAM else read_json
        try:
            reply = await asyncio.to_thread(read, body)
        except ValueError as fault:
            raise ReplyError("the reply is incomplete JSON") from fault
        if error := getattr(reply, "error", None):
            raise ErrorReply(error)
        token_count = getattr(getattr(reply, "usage", None), "completion_tokens", None)
        choices = getattr(reply, "choices", None)
        if not isinstance(choices, list) or not choices:
            raise ReplyError("the reply contains no completion")
        choice = choices[0]
        # If the server broke the completion off because of overload, the request counts as refused.
        broken_off = getattr(choice, "error", None)
        if broken_off and (overload := overload_in_choice(broken_off)):
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
    """Parse JSON into objects with the fields as attributes. Raises JSONDecodeError."""
    return json.loads(body, object_hook=lambda fields: SimpleNamespace(**fields))


def _read_stream(body: bytes) -> Any:
    return join_events(read_events(body))


def read_token_number(value: object) -> int | None:
    """Return the value if it is a number of tokens, from 0 to MAX_TOKENS; None for any other value."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
        return value
    return None


def read_name(value: object) -> str:
    """Return a model's name with control characters escaped; "" for a value that is not a string."""
    return printable(value, MAX_NAME_CHARACTERS) if isinstance(value, str) else ""


def read_choice(choice: Any, token_count: object = None) -> TextCompletion:
    """Return the completion in a choice, which has a message or a text.

    Raises ReplyError for a message whose content is not text.
    """
    message = getattr(choice, "message", None)
    given = getattr(message, "content", None) if message is not None else getattr(choice, "text", None)
    content = read_content(given)
    if content is None:
        raise ReplyError(f"the content of a message is neither text nor a list of parts: {short(given)!r}")
    fields = [text for name in THINKING if isinstance(text := getattr(message, name, None), str)]
    error = getattr(choice, "error", None)
    return TextCompletion(
        text=content.text,
        thinking=next(filter(None, fields), content.thinking),
        finish_reason=_finish_reason(choice, content),
        error=message_of(error) if error else "",
        token_count=read_token_number(token_count),
    )


def _finish_reason(choice: object, content: Content) -> str:
    """Return `error` or `refusal` if the choice has an error or a refusal, else the server's finish reason.

    Returns "" for a choice with neither a message nor a text, because such a choice contains no completion.
    """
    message = getattr(choice, "message", None)
    if getattr(choice, "error", None):
        return "error"
    if getattr(message, "refusal", None) or content.is_refusal:
        return "refusal"
    if message is None and getattr(choice, "text", None) is None:
        return ""
    return read_finish_reason(getattr(choice, "finish_reason", None), getattr(choice, "stop_reason", None))


def read_finish_reason(finish_reason: object, stop_reason: object = None) -> str:
    """Return the server's finish reason as a string; "" if the server sent none.

    SGLang sends an object whose field `type` is the finish reason. Some gateways send the reason as `stop_reason`.
    """
    if isinstance(finish_reason, Mapping):
        finish_reason = finish_reason.get("type")
    finish_reason = getattr(finish_reason, "type", finish_reason)
    if finish_reason is None or finish_reason == "":
        # vLLM sends the stop string as `stop_reason`, so accept only known reasons.
        is_known = isinstance(stop_reason, str) and stop_reason.lower() in KNOWN_FINISH_REASONS
        return str(stop_reason) if is_known else ""
    return str(finish_reason)


class PlainChat:
    """The chat format for servers that apply the chat template.

    Prompts contain messages only. If `thinking` is `auto`, only `<think>` marks thinking.
    """

    hides_thinking = False

    def __init__(self, thinking: str = "auto") -> None:
        self._thinking = thinking

    @property
    def thinking(self) -> Thinking:
        return choose_thinking(self._thinking)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        characters = sum(len(message["content"]) for message in messages)
        # Common tokenizers have more than two characters per token, so this never underestimates a prompt.
        return Prompt(tuple(messages), "", (), estimated_tokens=characters // 2)

    def count_tokens(self, text: str) -> int:
        """Estimate how many tokens a text has. Common tokenizers give at most this number."""
        return len(text) // 2

    def decode(self, tokens: Sequence[int]) -> str:
        return ""


def rollout_without_tokens(completion: TextCompletion) -> Rollout:
    """Return a rollout without tokens. It cannot be used for training."""
    return Rollout(
        text=completion.text,
        tokens=(),
        masks=(),
        logprobs=None,
        finish_reason=completion.finish_reason,
        token_count=completion.token_count,
        thinking=completion.thinking,
    )


def rollout_from_text(
    chat: ChatFormat, prompt: Prompt, sampling: Sampling, completion: TextCompletion, *, stop: str | None = None
) -> Rollout | str:
    """Tokenize the server's text and return a rollout, or the reason why the text is unusable for training.

    If the text ends with the stop string `stop`, the rollout has no end-of-turn token, because the model sampled none.
    """
    text = chat.strip_end_of_turn(completion.text)
    finish_reason = completion.finish_reason
    stopped = stop is not None and text.endswith(stop)
    finished = Ending.of(finish_reason) is Ending.FINISHED and not stopped
    tokens = chat.completion_tokens(text, finished=finished)
    if not tokens:
        return "a completion that has no text, although its finish reason says that the token limit ended it"
    room = sampling.token_limit - 1 - len(prompt.tokens)
    if len(tokens) > room:
        # Tokenizing the text may give more tokens than the server sampled.
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
"""Sends a request with the given parameters and returns the reply."""


async def request_each(n: int, request: SendOne, parameters: Mapping[str, object]) -> ServerReply:
    """Send `n` requests for one completion each. Return the completions that arrive; if none, raise the first error."""
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


class StopText:
    """Tracks whether a server keeps the stop string at the end of completions.

    The stop string is the closing answer tag, without which an answer does not count. Requests ask the server to keep
    the tag. If a server removes the tag anyway, later requests have no stop string, and this class cuts off each
    completion after the tag.
    """

    def __init__(self) -> None:
        self._is_kept: bool | None = None
        """Whether completions contain the stop string; None until a completion shows whether they do."""

    async def request_each(self, n: int, request: SendOne, parameters: Mapping[str, object]) -> ServerReply:
        """Return up to `n` completions, each cut off after its first answer. If all fail, raise the first error."""
        stops = self._is_kept is not False
        sent = dict(parameters) if stops else {name: parameters[name] for name in parameters if name != "stop"}
        reply = await request_each(n, request, sent)
        texts = [one for one in reply.completions if isinstance(one, TextCompletion)]
        if stops and any(one.text.endswith(ANSWER_END) for one in texts):
            self._is_kept = True
        if stops and not self._is_kept and any(map(_lacks_closing, texts)):
            if self._is_kept is None:
                logger.warning(
                    "the server removes the stop string %s from completions, so requests now omit the stop string, and "
                    "this program cuts off each completion after %s",
                    ANSWER_END,
                    ANSWER_END,
                )
            self._is_kept = False
            return await self.request_each(n, request, parameters)
        return replace(reply, completions=[_cut_after_answer(one) for one in texts])


def _lacks_closing(completion: TextCompletion) -> bool:
    """Return True if the server removed the closing answer tag of a finished completion."""
    is_finished = Ending.of(completion.finish_reason) is Ending.FINISHED
    return is_finished and completion.text.rfind(ANSWER_START) > completion.text.rfind(ANSWER_END)


def _cut_after_answer(completion: TextCompletion) -> TextCompletion:
    before, closing, _ = completion.text.partition(ANSWER_END)
    return replace(completion, text=before + closing, finish_reason="stop") if closing else completion

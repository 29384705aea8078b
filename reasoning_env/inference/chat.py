"""Requests to chat servers: any OpenAI-compatible `/v1/chat/completions`, hosted servers too.

Such a server lays out the prompt itself and answers with text, so no tokenizer is needed, and there are no tokens to
train on. Each completion is a request of its own: many hosted servers ignore or refuse `n`, and token counts are
reported per request. Thinking that a server returns apart from the text is not searched for an answer.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from ..prompts.messages import Content, read_content, system_in_question
from ..prompts.thinking import choose_thinking
from ..records import Prompt, Rollout, Sampling
from ..runtime.concurrency import AdaptiveLimit, cancel_all
from ..runtime.text import short
from .failures import BrokenOffError, FailureKind, explain_failure, http_status
from .requests import Endings, finish_word

logger = logging.getLogger(__name__)

THINKING = ("reasoning_content", "reasoning")
"""Where servers put the thinking: vLLM, SGLang and DeepSeek use the first name, newer vLLM and others the second."""
OPTIONAL = ("temperature", "top_p", "extra_body", "stream_options")
"""Parameters that some hosted models refuse. They are then left out, and the log says so."""

Stream = Literal["auto", "always", "never"]
"""Whether replies come as events; `auto` where the server says that it only streams."""
STREAM_WORD = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)
SYSTEM_WORDS = re.compile(
    r"\b(system|developer)\b.{0,40}\b(role|instruction|message|prompt)|\brole\b.{0,60}\b(system|developer)\b",
    re.IGNORECASE | re.DOTALL,
)
"""What servers say of a system message that the model does not take: `Developer instruction is not enabled`,
`System role not supported`, `'messages[0].role' does not support 'system' with this model`."""


class ChatClient(Protocol):
    """A client of a server with chat completions."""

    @property
    def model(self) -> str:
        """Name of the model at the server."""

    async def create(self, **request: object) -> Any:
        """Send a request and return the reply, whose fields are attributes; `prompt` asks for a text completion.

        `extra_body` holds further fields of the request. Raises any error, with the HTTP status as an attribute.
        """


class PlainChat:
    """Replaces a ChatFormat where the server applies the chat template: prompts are messages alone.

    No tokenizer says which formats of thinking the model knows, so `auto` takes `<think>` only.
    """

    hides_thinking = False
    vocabulary_size = 0

    def __init__(self, thinking: str = "auto") -> None:
        self.thinking = choose_thinking(thinking)

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


class ChatRequests:
    """Asks chat servers for completions, and remembers which parameters they refuse."""

    def __init__(self, stream: Stream = "auto") -> None:
        self.endings = Endings()
        self._stream = stream
        self._asks_for_events = stream == "always"
        self._system_in_question = False
        self._turns = itertools.count()
        self._limit = AdaptiveLimit()
        self._limit_name: str | None = "max_tokens"
        """What the servers call the limit of tokens; None where they refuse it."""
        self._left_out: set[str] = set()

    async def complete(
        self,
        clients: Sequence[ChatClient],
        prompt: Prompt,
        n: int,
        sampling: Sampling,
        more: Mapping[str, object] | None = None,
    ) -> list[Rollout]:
        """Send `n` requests to the clients' servers in turn and return the rollouts that came.

        `more` are further options of each request. If all requests fail, raises what the client raised for the first.
        """
        budget = sampling.completion_budget(prompt)
        options = {"temperature": sampling.temperature, "top_p": sampling.top_p, **(more or {})}
        fields = self.fields(prompt)

        async def request_one() -> Rollout:
            client = clients[next(self._turns) % len(clients)]
            return await self.ask(client, fields, budget, options)

        requests = [asyncio.ensure_future(request_one()) for _ in range(n)]
        try:
            replies = await asyncio.gather(*requests, return_exceptions=True)
        finally:
            await cancel_all(requests)
        failures = [reply for reply in replies if isinstance(reply, BaseException)]
        if len(failures) == n:
            raise failures[0]
        return [reply for reply in replies if isinstance(reply, Rollout)]

    def fields(self, prompt: Prompt) -> dict[str, object]:
        """Return the fields of a request that hold the prompt."""
        return {"messages": [dict(message) for message in prompt.messages]}

    async def ask(
        self,
        client: ChatClient,
        fields: Mapping[str, object],
        budget: int,
        options: Mapping[str, object],
        *,
        at_once: bool = False,
    ) -> Rollout:
        """Send one request for a completion of at most `budget` tokens, without the parameters that the server refuses.

        `fields` hold the prompt. A request that is sent `at_once` does not wait where a server limits requests. Raises
        what the client raises, and BrokenOffError for a completion that the server broke off.
        """
        while True:
            streaming = {"stream": True, "stream_options": {"include_usage": True}} if self._asks_for_events else {}
            taken = {name: value for name, value in {**options, **streaming}.items() if name not in self._left_out}
            arguments: dict[str, object] = {
                "model": client.model,
                **(_without_system(fields) if self._system_in_question else fields),
                **({} if self._limit_name is None else {self._limit_name: budget}),
                **taken,
            }
            try:
                reply = await (client.create(**arguments) if at_once else self._create(client, arguments))
            except Exception as error:
                if not self._adapt_to_refusal(error, arguments):
                    raise
            else:
                _check_reply(reply)
                usage = getattr(reply, "usage", None)
                rollout = rollout_from_choice(reply.choices[0], self.endings, getattr(usage, "completion_tokens", None))
                if isinstance(rollout, BrokenOffError):
                    raise rollout
                return rollout

    async def _create(self, client: ChatClient, arguments: Mapping[str, object]) -> Any:
        """Send a request, at a time when the servers take it; raises what the client raises."""
        sent_s = await self._limit.wait()
        try:
            return await client.create(**arguments)
        except Exception as error:
            failure = explain_failure(error)
            if failure.kind is FailureKind.BUSY:
                self._limit.refused(sent_s, failure.retry_after_s)
            raise

    def _adapt_to_refusal(self, error: Exception, sent: Mapping[str, object]) -> bool:
        """Leave the parameters that the error refuses out of later requests; return whether it refuses any."""
        text = str(error)
        if http_status(error) not in (400, 422):
            return False
        if "max_completion_tokens" in text and "max_tokens" in sent:
            self._limit_name = "max_completion_tokens"
            return True
        for limit in {"max_tokens", "max_completion_tokens"} & sent.keys():
            if limit not in text:
                continue
            if self._limit_name is not None:
                logger.warning("the server refuses %s; completions get the server's own limit (%s)", limit, text)
            self._limit_name = None
            return True
        if self._stream == "auto" and "stream" not in sent and STREAM_WORD.search(text):
            if not self._asks_for_events:
                logger.info("the server only streams (%s); its replies are read as events", text)
            self._asks_for_events = True
            return True
        refused = [
            name
            for name in OPTIONAL
            if name in sent and any(parameter in text for parameter in parameter_names(name, sent[name]))
        ]
        for name in refused:
            if name not in self._left_out:
                parameters = ", ".join(parameter_names(name, sent[name]))
                logger.warning("the server refuses %s; completions are sampled with the server's own", parameters)
        self._left_out.update(refused)
        if not refused and _without_system(sent) != sent and SYSTEM_WORDS.search(text):
            if not self._system_in_question:
                logger.warning("the server refuses the system message, whose text goes before the question (%s)", text)
            self._system_in_question = True
            return True
        return bool(refused)


def _without_system(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields of a request with the text of the system message in front of the question."""
    messages = fields.get("messages")
    return {**fields, "messages": system_in_question(messages)} if isinstance(messages, list) else fields


class ErrorReply(Exception):
    """A reply of status 200 holds an error, as those of some proxies do, or a message that nobody can read."""


def _check_reply(reply: object) -> None:
    """Raise ErrorReply if a reply holds an error, beside completions or in their place."""
    if error := getattr(reply, "error", None):
        raise ErrorReply(_message_of(error))


def _message_of(error: object) -> str:
    """Return what an error in a reply says."""
    said = error.get("message") if isinstance(error, Mapping) else getattr(error, "message", None)
    return str(said or error)


def parameter_names(keyword: str, value: Any) -> list[str]:
    """Return what servers call a keyword of OpenAI's client; `extra_body` holds several parameters."""
    return list(value) if keyword == "extra_body" else [keyword]


def rollout_from_choice(choice: Any, endings: Endings, token_count: object = None) -> Rollout | BrokenOffError:
    """Return a rollout of a message or of a text, or the error for a completion that the server broke off.

    There are no tokens to train on. Raises ErrorReply for a message that holds something else than text.
    """
    message = getattr(choice, "message", None)
    given = getattr(message, "content", None) if message is not None else getattr(choice, "text", None)
    content = read_content(given)
    if content is None:
        raise ErrorReply(f"a message with a content that is neither text nor a list of parts: {short(given)!r}")
    fields = [text for name in THINKING if isinstance(text := getattr(message, name, None), str)]
    thinking = next(filter(None, fields), content.thinking)
    word = ending_word(choice, content)
    is_empty = not content.text and not thinking
    broken_off = endings.broken_off(word, is_empty=is_empty, said=choice_error(choice))
    return broken_off or Rollout(
        text=content.text,
        tokens=(),
        masks=(),
        logprobs=None,
        finish_reason=word,
        token_count=token_count if isinstance(token_count, int) else None,
        thinking=thinking,
    )


def ending_word(choice: object, content: Content | None = None) -> str:
    """Return the word for how a choice ended: the server's, or `error` and `refusal` where the choice holds such.

    A choice without a message and without a text has no word, whatever the server says: nothing came.
    """
    message = getattr(choice, "message", None)
    if choice_error(choice):
        return "error"
    if getattr(message, "refusal", None) or (content is not None and content.is_refusal):
        return "refusal"
    if message is None and getattr(choice, "text", None) is None:
        return ""
    return finish_word(getattr(choice, "finish_reason", None), getattr(choice, "stop_reason", None))


def choice_error(choice: object) -> str:
    """Return what the error within a choice says; "" without one."""
    error = getattr(choice, "error", None)
    return _message_of(error) if error else ""

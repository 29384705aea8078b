"""The parameters that a server refuses: later requests leave them out, or name them as the server wants."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Literal

from ..prompts.messages import system_in_question
from .failures import http_status

logger = logging.getLogger(__name__)

REQUIRED = frozenset({"model", "messages", "prompt", "stop", "stream", "n"})
"""Fields of a request that are never left out. All others are parameters that some hosted models refuse."""
LIMITS = ("max_tokens", "max_completion_tokens")

Stream = Literal["auto", "always", "never"]
"""Whether replies come as events; `auto` where the server says that it only streams."""
STREAM_WORD = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)
SYSTEM_WORDS = re.compile(
    r"\b(system|developer)\b.{0,40}\b(role|instruction|message|prompt)|\brole\b.{0,60}\b(system|developer)\b",
    re.IGNORECASE | re.DOTALL,
)
"""What servers say of a system message that the model does not take: `Developer instruction is not enabled`,
`System role not supported`, `'messages[0].role' does not support 'system' with this model`."""


class Refusals:
    """What one server has refused. `adapt` changes a request accordingly, and `learn` reads an error."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._asks_for_events = stream == "always"
        self._system_in_question = False
        self._limit_name: str | None = "max_tokens"
        """What the server calls the limit of tokens; None where it refuses the limit."""
        self._left_out: set[str] = set()

    def adapt(self, request: Mapping[str, object]) -> dict[str, object]:
        """Return a request as the server takes it."""
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if self._asks_for_events else {}
        adapted = {name: value for name, value in {**request, **streaming}.items() if name not in self._left_out}
        limit = adapted.pop("max_tokens", None)
        if self._limit_name is not None and limit is not None:
            adapted[self._limit_name] = limit
        return _without_system(adapted) if self._system_in_question else adapted

    def learn(self, error: Exception, sent: Mapping[str, object]) -> bool:
        """Note what an error refuses of the request that was sent; return whether it refuses anything."""
        text = str(error)
        if http_status(error) not in (400, 422):
            return False
        return (
            self._learn_limit(text, sent)
            or self._learn_stream(text, sent)
            or self._learn_parameters(text, sent)
            or self._learn_system(text, sent)
        )

    def _learn_limit(self, text: str, sent: Mapping[str, object]) -> bool:
        if "max_completion_tokens" in text and "max_tokens" in sent:
            self._limit_name = "max_completion_tokens"
            return True
        if not any(limit in text for limit in LIMITS if limit in sent):
            return False
        if self._limit_name is not None:
            logger.warning("the server refuses %s; completions get the server's own limit (%s)", self._limit_name, text)
        self._limit_name = None
        return True

    def _learn_stream(self, text: str, sent: Mapping[str, object]) -> bool:
        if self._stream != "auto" or "stream" in sent or not STREAM_WORD.search(text):
            return False
        if not self._asks_for_events:
            logger.info("the server only streams (%s); its replies are read as events", text)
        self._asks_for_events = True
        return True

    def _learn_parameters(self, text: str, sent: Mapping[str, object]) -> bool:
        refused = {name for name in sent if name not in (*REQUIRED, *LIMITS) and name in text}
        if new := sorted(refused - self._left_out):
            logger.warning("the server refuses %s; completions are sampled with the server's own", ", ".join(new))
        self._left_out |= refused
        return bool(refused)

    def _learn_system(self, text: str, sent: Mapping[str, object]) -> bool:
        if _without_system(sent) == sent or not SYSTEM_WORDS.search(text):
            return False
        if not self._system_in_question:
            logger.warning("the server refuses the system message, whose text goes before the question (%s)", text)
        self._system_in_question = True
        return True


def _without_system(request: Mapping[str, object]) -> dict[str, object]:
    """Return a request with the text of the system message in front of the question."""
    messages = request.get("messages")
    changed = {"messages": system_in_question(messages)} if isinstance(messages, list) else {}
    return {**request, **changed}

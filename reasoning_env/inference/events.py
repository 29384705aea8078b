"""Join the server-sent events of a streamed reply into one reply. Each event has a piece of one completion."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

EVENT_STREAM = "text/event-stream"
"""Content type of a streamed reply."""
END = "[DONE]"
LINE_END = re.compile(r"\r\n|\r|\n")
PIECES = ("content", "reasoning_content", "reasoning", "refusal")
"""Fields of a message that a stream sends in pieces."""


def read_events(body: bytes) -> list[Any]:
    """Return the JSON data of server-sent events, with fields as attributes of Python objects.

    Raises JSONDecodeError for other data.
    """
    read: list[Any] = []
    data: list[str] = []
    # `splitlines` would also split at characters that JSON strings may contain, such as U+2028.
    for line in [*LINE_END.split(body.decode("utf-8", "replace")), ""]:
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").strip())
        elif not line and data:
            text = "\n".join(data)
            data.clear()
            if text != END:
                read.append(json.loads(text, object_hook=lambda fields: SimpleNamespace(**fields)))
    return read


def join_events(events: Iterable[Any]) -> Any:
    """Join the events of one completion into one reply: a choice with its usage, or the server's error.

    The finish reason is None if the stream has none.
    """
    fields: dict[str, list[Any]] = {name: [] for name in PIECES}
    texts: list[str] = []
    reply = SimpleNamespace(choices=[], usage=None, error=None, model=None)
    ending: dict[str, Any] = {"finish_reason": None, "error": None}
    for event in events:
        reply.error = getattr(event, "error", None) or reply.error
        reply.model = getattr(event, "model", None) or reply.model
        reply.usage = getattr(event, "usage", None) or reply.usage
        for choice in getattr(event, "choices", None) or []:
            piece = getattr(choice, "delta", None) or getattr(choice, "message", None)
            for name, pieces in fields.items():
                if value := getattr(piece, name, None):
                    pieces.append(value)
            if value := getattr(choice, "text", None):
                texts.append(value)
            for name in ending:
                ending[name] = getattr(choice, name, None) or ending[name]
            reply.choices = [choice]
    if reply.choices:
        is_text = getattr(reply.choices[0], "text", None) is not None
        message = None if is_text else SimpleNamespace(**{name: _join(pieces) for name, pieces in fields.items()})
        reply.choices = [SimpleNamespace(message=message, text="".join(texts), **ending)]
    return reply


def _join(pieces: list[Any]) -> Any:
    """Join pieces into a string, or into a list of parts if a piece is a list of parts. None if there are no pieces."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces) if pieces else None
    parts: list[Any] = []
    for piece in pieces:
        parts += [SimpleNamespace(type="text", text=piece)] if isinstance(piece, str) else piece
    return parts

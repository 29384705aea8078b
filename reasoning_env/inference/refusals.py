"""Learn which parts of a request a server refuses, and change later requests so that the server accepts them.

Requests are changed as little as possible. A token limit is lowered to the value that the error allows. A parameter is
renamed if the server has another name for it. A parameter is left out permanently only if the server accepts the
request without it.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..prompts.messages import system_in_question
from ..runtime.text import printable
from .failures import MAX_MESSAGE_CHARACTERS, ErrorReply, http_status, is_overload
from .token_limits import LIMIT_NAMES, AllowedTokens, allowed_tokens, names_limit

logger = logging.getLogger(__name__)

REQUIRED = frozenset({"model", "messages", "prompt", "stop", "stream", "stream_options", "n", *LIMIT_NAMES})
"""Fields of a request that `Refusals` never leaves out."""
DROPPED_LAST = ("top_p", "temperature", "reasoning_effort", "chat_template_kwargs")
"""If an error names several parameters, these are the last to be left out, in this order."""
FEWEST_TOKENS = 64
"""If the context leaves fewer tokens than this for a completion, the prompt counts as too long."""
PROMPT_MARGIN = 1.05
"""The estimated size of a prompt is multiplied by this, because prompts differ in characters per token."""
MAX_CHANGES = 32
"""Maximum number of changes of one request. Halving the largest token limit down to a valid one takes about 20."""

Stream = Literal["auto", "always", "never"]
"""Whether to request streamed replies. `auto`: only if the server says that it supports no other replies."""
STREAM_WORD = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)
UNKNOWN_NAME = re.compile(
    r"unsupported|not supported|does ?n.t support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed"
    r"|forbidden|\bextra\b|deprecated|\binstead\b",
    re.IGNORECASE,
)
"""How servers report an unknown parameter."""
MISSING_NAME = re.compile(r"\brequired\b|\bmissing\b", re.IGNORECASE)
SYSTEM_WORDS = re.compile(
    r"\b(system|developer)\b.{0,40}\b(role|instruction|message|prompt)|\brole\b.{0,60}\b(system|developer)\b",
    re.IGNORECASE | re.DOTALL,
)
"""How servers report that a model accepts no system message: `Developer instruction is not enabled`,
`System role not supported`, `'messages[0].role' does not support 'system' with this model`."""


@dataclass
class Attempts:
    """The attempts to send one request.

    - `estimate`: an upper bound of the number of the prompt's tokens.
    - `by_server`: the prompt's number of tokens, as stated by the server's error; None before such an error.
    - `changes`: how often the request was changed and sent again.
    """

    estimate: int
    by_server: int | None = None
    changes: int = 0


class Refusals:
    """The refusals of one server: `learn` reads an error, and `adapt` changes requests accordingly.

    If a request was sent before the last change, its error is ignored. The request is sent again with the current
    changes.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._asks_for_events = stream == "always"
        self._system_in_question = False
        self._limit_name: str | None = LIMIT_NAMES[0]
        """The server's name for the token limit of a completion; None if the server has no such parameter."""
        self._unknown_limit_names: set[str] = set()
        self._most_tokens: int | None = None
        """The largest token limit that the server accepts; None until it refuses a limit."""
        self._least_tokens = 1
        self._context: int | None = None
        """The context length that an error reported, in tokens; None until an error reports it."""
        self._prompt_scale = 0.0
        """The largest ratio so far: a prompt's tokens as the server counts them, divided by the estimated tokens."""
        self._left_out: set[str] = set()
        self._search: _Search | None = None
        """The search for the refused parameters among those that an error names; None while there is no search."""
        self._logged: set[str] = set()

    def adapt(self, request: Mapping[str, object], attempts: Attempts) -> dict[str, object]:
        """Return the request with all changes that the server's refusals have required so far."""
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if self._asks_for_events else {}
        adapted = {name: value for name, value in {**request, **streaming}.items() if name not in self._left_out}
        limit = adapted.pop("max_tokens", None)
        if self._limit_name is not None and isinstance(limit, int):
            adapted[self._limit_name] = self._limit(limit, attempts)
        return _without_system(adapted) if self._system_in_question else adapted

    def _limit(self, limit: int, attempts: Attempts) -> int:
        if self._context is not None:
            tokens = attempts.by_server
            if tokens is None:
                tokens = math.ceil(attempts.estimate * self._prompt_scale * PROMPT_MARGIN)
            limit = min(limit, max(FEWEST_TOKENS, self._context - tokens))
        if self._most_tokens is not None:
            limit = min(limit, self._most_tokens)
        return max(limit, self._least_tokens)

    def learn(self, error: Exception, sent: Mapping[str, object], attempts: Attempts) -> None:
        """Learn from an error how `adapt` must change requests. `sent` is the refused request.

        Raises the error if no change can help, and after MAX_CHANGES changes.
        """
        attempts.changes += 1
        message = _refusing_message(error) if attempts.changes <= MAX_CHANGES else None
        is_learnt = message is not None and (
            self._learn_stream(message, sent)
            or self._learn_limit(message, sent, attempts)
            or self._learn_missing_limit(message, sent)
            or self._learn_parameters(message, sent)
            or self._learn_system(message, sent)
        )
        if not is_learnt:
            raise error

    def note_success(self, sent: Mapping[str, object]) -> None:
        """Record that the server accepted the request `sent`. Log each change of requests once."""
        if self._search is not None and self._left_out.isdisjoint(sent):
            self._search = None
        if self._left_out and self._left_out.isdisjoint(sent):
            names = ", ".join(sorted(self._left_out))
            self._log(f"the server refuses {names}, so requests now omit {names}, and the server's default applies")
        limit = next((sent[name] for name in LIMIT_NAMES if name in sent), None)
        if self._limit_name is None:
            self._log("the server has no parameter for a token limit: its own limit ends completions")
        elif limit is not None and limit == self._most_tokens:
            self._log(f"the server refused a larger limit, so requests now limit completions to {limit:,} tokens")
        elif limit is not None and self._context is not None:
            self._log(
                f"the server allows {self._context:,} tokens for prompt and completion together: from now on, "
                "max_tokens of a request is this number minus the tokens of its prompt"
            )

    def _log(self, line: str) -> None:
        if line not in self._logged:
            self._logged.add(line)
            logger.warning("%s", line)

    def _learn_limit(self, message: str, sent: Mapping[str, object], attempts: Attempts) -> bool:
        name = next((name for name in LIMIT_NAMES if name in sent), None)
        limit = None if name is None else sent[name]
        if name is None or not isinstance(limit, int):
            return False
        if not names_limit(message) and any(_names(other, message) for other in sent if other not in REQUIRED):
            return False  # the numbers of the message are about another parameter
        suggested = [other for other in LIMIT_NAMES if other != name and _names(other, message)]
        is_unknown = UNKNOWN_NAME.search(message) is not None and _names(name, message)
        if is_unknown and suggested and suggested[0] not in self._unknown_limit_names:
            self._rename_limit(name, suggested[0])
            return True
        allowed = allowed_tokens(message, limit, attempts.by_server or attempts.estimate)
        if allowed is not None:
            return self._lower_limit(allowed, limit, attempts)
        if is_unknown:
            others = [other for other in LIMIT_NAMES[:2] if other not in {name, *self._unknown_limit_names}]
            self._rename_limit(name, others[0] if others else None)
        return is_unknown

    def _lower_limit(self, allowed: AllowedTokens, limit: int, attempts: Attempts) -> bool:
        if allowed.context is not None:
            if allowed.completion < min(limit, FEWEST_TOKENS):
                return False  # the prompt is too long
            attempts.by_server = allowed.context - allowed.completion
            self._prompt_scale = max(self._prompt_scale, attempts.by_server / max(1, attempts.estimate))
            self._context = min(allowed.context, self._context or allowed.context)
        elif allowed.completion > limit:
            self._least_tokens = allowed.completion
        else:
            self._most_tokens = min(allowed.completion, self._most_tokens or allowed.completion)
        return True

    def _rename_limit(self, name: str, new_name: str | None) -> None:
        self._unknown_limit_names.add(name)
        if self._limit_name == name:
            self._limit_name = new_name

    def _learn_missing_limit(self, message: str, sent: Mapping[str, object]) -> bool:
        if not names_limit(message) or not MISSING_NAME.search(message):
            return False
        wanted = [name for name in LIMIT_NAMES if name not in sent and _names(name, message)]
        if not wanted or wanted[0] in self._unknown_limit_names:
            return False
        self._limit_name = wanted[0]
        return True

    def _learn_stream(self, message: str, sent: Mapping[str, object]) -> bool:
        if self._stream != "auto" or "stream" in sent or not STREAM_WORD.search(message):
            return False
        if not self._asks_for_events:
            logger.info("the server supports only streaming (%s), so requests now stream", printable(message, 200))
        self._asks_for_events = True
        return True

    def _learn_parameters(self, message: str, sent: Mapping[str, object]) -> bool:
        """Omit the next parameter that the error names; in the last try, all that it names. Return False after that."""
        if not self._left_out.isdisjoint(sent):
            return True  # the request was sent before the last change
        # Leave out numbers and identifiers, which differ between two errors of the same kind.
        wording = [word for word in message.split() if not re.search(r"\d", word)]
        if self._search is None or self._search.wording != wording:
            named = [name for name in sent if name not in REQUIRED and _names(name, message)]
            if not named:
                return False
            self._search = _Search(wording, sorted(named, key=_importance))
        return self._search.advance(self._left_out)

    def _learn_system(self, message: str, sent: Mapping[str, object]) -> bool:
        if _without_system(sent) == sent or not SYSTEM_WORDS.search(message):
            return False
        if not self._system_in_question:
            logger.warning(
                "the server refuses the system message (%s), so the text of the message now precedes the question",
                printable(message, 200),
            )
        self._system_in_question = True
        return True


class _Search:
    """Finds out by trial which parameters must be left out, among those that an error names."""

    def __init__(self, wording: Sequence[str], named: Sequence[str]) -> None:
        self.wording = wording
        self._named = named
        self._tried = 0

    def advance(self, left_out: set[str]) -> bool:
        """Update `left_out`, the parameters that the next try omits. Return False if no try is left."""
        # Send the parameters of the last attempt again: the server may refuse two parameters only together.
        left_out.difference_update(self._named)
        if self._tried < len(self._named):
            left_out.add(self._named[self._tried])
        elif self._tried == len(self._named) > 1:
            left_out.update(self._named)
        else:
            return False
        self._tried += 1
        return True


def _refusing_message(error: Exception) -> str | None:
    """Return the message of an error that refuses a request; None for any other error, such as overload."""
    status = http_status(error)
    if is_overload(error) and status != 413:  # 413 means that the request is too large, whatever the message says
        return None
    if isinstance(error, ErrorReply):
        return str(error)[:MAX_MESSAGE_CHARACTERS]
    messages = getattr(error, "messages", None)
    return str(messages) if status in (400, 413, 422) and messages is not None else None


def _names(name: str, message: str) -> bool:
    """Return True if a message names a parameter, in any of the usual spellings (`top_p`, `topP`, `top-p`)."""
    return re.search(rf"(?<![a-z]){name.replace('_', '[ _-]?')}(?![a-z])", message, re.IGNORECASE) is not None


def _importance(name: str) -> tuple[int, str]:
    return (DROPPED_LAST.index(name) + 1 if name in DROPPED_LAST else 0, name)


def _without_system(request: Mapping[str, object]) -> dict[str, object]:
    """Return a request with the text of the system message in front of the question."""
    messages = request.get("messages")
    changed = {"messages": system_in_question(messages)} if isinstance(messages, list) else {}
    return {**request, **changed}

"""What a failed request to an inference server means, and what a user can do.

`explain_failure` is one table for the start and for the run.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from ...records import Prompt

MAX_FAILURES = 3
"""How often the request of a group may fail while other requests succeed."""
NO_JSON = "its reply is no JSON"
ANSWERS = "it answers with status"


class Meaning(Enum):
    """What the server's failure says about the next request."""

    ABSENT = auto()
    """The server is not there, or not ready yet: the same request may succeed later."""
    BUSY = auto()
    """The server asks for patience, which is no failure of the request."""
    REFUSED = auto()
    """The server will never take this request."""
    UNUSABLE = auto()
    """The reply, or the lack of one, fits no other meaning, such as a web page instead of JSON."""


@dataclass(frozen=True)
class Failure:
    """A failed request in plain words.

    - `description`: one line with the kind of the error and its message.
    - `remedy`: what a user can do, with settings in braces as in `errors.ReasoningEnvError`.
    - `status`: the HTTP status; None without a reply.
    """

    description: str
    meaning: Meaning
    remedy: str
    status: int | None


def explain_failure(error: BaseException) -> Failure:
    """Return what an error that a client raised for a request means."""
    cause = _cause(error)
    description = _describe_reply(cause) or describe_failure(error)
    status = _status(cause)
    meaning, remedy = _explain_status(status)
    if meaning is not Meaning.UNUSABLE:
        return Failure(description, meaning, remedy, status)
    error_name = type(cause).__name__
    # Errors of clients for a server that cannot be reached; errors of the system are OSError.
    no_connection = error_name in ("APIConnectionError", "APITimeoutError", "ServerDisconnectedError")
    if status is None and (no_connection or isinstance(cause, (OSError, TimeoutError))):
        return Failure(description, Meaning.ABSENT, "start one, or correct {openai.base_url}", None)
    if description == NO_JSON:
        remedy = "that is no JSON, but perhaps a web page: check {openai.base_url}"
    return Failure(description, Meaning.UNUSABLE, remedy, status)


def _describe_reply(cause: BaseException) -> str | None:
    """Return what is wrong with a reply that the client could not read; None for any other failure.

    Clients of vLLM and SGLang raise ContentTypeError for a web page; the others take its text for the reply.
    """
    if type(cause).__name__ == "ContentTypeError" or (isinstance(cause, AttributeError) and "'str'" in str(cause)):
        return NO_JSON
    if isinstance(cause, (TypeError, IndexError, KeyError, AttributeError)):
        return "its reply holds no completion"
    return None


def describe_status(error: BaseException) -> str:
    """Return in plain words the reply of a server that cannot serve now: its status, and how long it asks to wait."""
    cause = _cause(error)
    status = _status(cause)
    headers = getattr(getattr(cause, "response", None), "headers", None) or getattr(cause, "headers", None) or {}
    wait = headers.get("Retry-After") or headers.get("retry-after")
    asks = f", and asks to wait {wait} s" if wait else ""
    return f"{ANSWERS} {status} ({HTTPStatus(status).phrase}){asks}: {describe_failure(error)}"


def _status(error: BaseException) -> Any:
    """Return the HTTP status that an error of OpenAI's client or of aiohttp carries, else None."""
    return getattr(error, "status_code", None) or getattr(error, "status", None)


def is_quota(error: BaseException) -> bool:
    """Tell whether a hosted server refuses because nothing is left to spend, which waiting does not change."""
    return any(word in str(_cause(error)) for word in ("insufficient_quota", "exceeded your current quota"))


def _explain_status(status: int | None) -> tuple[Meaning, str]:
    """Return what a reply's HTTP status means, and what a user can do; `status` is None where there was no reply."""
    match status:
        case 400 | 413 | 422:
            remedy = (
                "check {openai.model_name}, {openai.server_type}, and that {env.max_token_length} is not above the "
                "server's context"
            )
            return Meaning.REFUSED, remedy
        case 401 | 403:
            return Meaning.REFUSED, "check {openai.api_key}"
        case 404:
            return Meaning.REFUSED, "check {openai.model_name}, {openai.base_url} and {openai.server_type}"
        case 429:
            return Meaning.BUSY, "wait, or lower {env.max_num_workers}"
        case 500:
            return Meaning.ABSENT, "look into the server's log"
        case 502 | 504:
            return Meaning.ABSENT, "start the server behind {openai.base_url}"
        case 503:
            return Meaning.ABSENT, "wait until the server has loaded its model"
        case _:
            return Meaning.UNUSABLE, "check {openai.server_type}, {openai.model_name} and {openai.api_key}"


def explain_no_reply(asked: object, method: str, prompt: Prompt) -> str:
    """Return why a stand-in for a server gave nothing for a prompt."""
    name = type(asked).__name__
    if not hasattr(asked, method):
        return f"env.server ({name}) cannot be asked for completions: it needs a method {method}"
    words = textwrap.shorten(prompt.text or prompt.messages[0]["content"], 100)
    return f"{method} of {name} has no reply to the prompt that begins {words!r}"


def describe_failure(error: BaseException) -> str:
    """Return the failure in one line; of tenacity's RetryError, the failure of its last attempt."""
    cause = _cause(error)
    return f"{type(cause).__name__}: {cause}".rstrip(": ").splitlines()[0][:300]


def _cause(error: BaseException) -> BaseException:
    """Return the failure of the last attempt of tenacity's RetryError, and any other error as it is."""
    last_attempt = getattr(error, "last_attempt", None)
    return (last_attempt.exception() if last_attempt is not None else None) or error


def address(server: object) -> str:
    """Return what messages call a server: its URL, or the name of its class."""
    url = getattr(getattr(server, "config", None), "base_url", None)
    return url if url and isinstance(url, str) else type(server).__name__

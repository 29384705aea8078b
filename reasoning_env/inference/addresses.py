"""Servers at startup: URLs, keys and headers, the first requests, and waiting for a server.

The first request to a server shows whether the server works, is absent for now, or will never work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import resource
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import unquote_plus, urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic import BaseModel, BeforeValidator

from ..errors import ConfigError, ServerError
from ..records import Prompt
from ..runtime.concurrency import cancel_all
from ..runtime.retries import OutageLog, pauses
from ..settings.given import make_settings, parse_mapping
from .failures import (
    NO_QUOTA,
    BrokenOffError,
    Failure,
    FailureKind,
    all_messages,
    describe_failure,
    error_in_place,
    error_names,
    explain_failure,
)
from .formats.choices import CHAT, read_token_number
from .formats.reply_format import ReplyKind

if TYPE_CHECKING:
    from .completer import Completer
    from .formats.reply_format import ReplyFormat
    from .server import RequestOptions

logger = logging.getLogger(__name__)

ServerT = TypeVar("ServerT", bound=BaseModel)

PATIENCE_S = 30.0
"""Default number of seconds to wait for a server at startup."""
AWAY_LIMIT_S = 600.0
"""`process` and `evaluate` retry for at least this many seconds if a server is lost: a restart takes minutes."""
PROBE_S = 30.0
"""Time limit in seconds for a test request, and for the list of models."""
HEALTH_S = 2.0
"""Limit in seconds for the health check of a server after a failed request."""
OTHERS_S = 2.0
"""Seconds for which the check at startup waits for further servers after the first server has answered."""
LEAST_WAIT_S = 1.0
"""Minimum time limit in seconds for a test request, even if less time is left."""
SPARE_FILES = 64
"""File descriptors that are reserved for files and for starting workers. An evaluation uses about 20."""
NO_KEY = "x"
"""The key for servers that need no key, because OpenAI's client cannot be created without a key."""


def max_connections() -> int:
    """Return how many connections this process can open, given the limit for open files and the files already open."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, most - len(os.listdir("/dev/fd")) - SPARE_FILES)


def check_url(setting: str, url: str | None, *, remedy: str | None = None) -> None:
    """Raise ConfigError unless `url` is empty or the URL of one server. `setting` names the setting of the URL.

    `remedy` tells the user how to name several servers.
    """
    if not url:
        return
    if len(url.split()) != 1 or "," in url:
        raise ConfigError("must be one URL", setting=setting, got=url, remedy=remedy)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:  # raised for wrong brackets in the host, and for wrong ports
        raise ConfigError(f"must be a URL ({error})", setting=setting, got=url) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("must begin with http:// or https:// and the server's name", setting=setting, got=url)


def public_url(url: str) -> str:
    """Return a URL without the parts that may contain keys: user, password and query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


Headers = Annotated[dict[str, str], BeforeValidator(parse_mapping)]
"""Setting: headers by name, as a mapping or as `name=value, name=value`."""


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def goes_through_proxy(url: str) -> bool:
    """Return True if requests to a URL go through a proxy from environment variables."""
    host = urlsplit(url).hostname or ""
    return bool(getproxies()) and not is_loopback(host) and not proxy_bypass(host)


def read_secrets(server: object, *, for_chat: bool) -> dict[str, object]:
    """Return a server's settings `api_key` and, if there are any, `headers`, as they are sent.

    `server` has the attribute `api_key`, and perhaps `headers`. `$NAME` is replaced by that environment variable.
    If a server has headers but no key, `api_key` is "". If a server has neither, `api_key` is NO_KEY, or the variable
    OPENAI_API_KEY if it is set and `for_chat` is True.

    Raises ConfigError if a variable is not set, or if a key or header has a character that HTTP does not allow.
    """
    headers = {name: _read_word(word, "headers") for name, word in getattr(server, "headers", {}).items()}
    key = getattr(server, "api_key", None) or NO_KEY
    if key != NO_KEY:
        key = _read_word(key, "api_key")
    elif headers:
        key = ""  # a header may contain the key
    elif for_chat and os.environ.get("OPENAI_API_KEY"):
        key = _read_word("$OPENAI_API_KEY", "api_key")
    return {"api_key": key, "headers": headers} if headers else {"api_key": key}


def read_servers(
    settings_cls: type[ServerT],
    defaults: Sequence[Mapping[str, object]],
    of_files: Sequence[Mapping[str, object]],
    of_options: Mapping[str, object],
) -> list[ServerT]:
    """Return the settings of the servers. Options override files, and files override `defaults[0]`.

    The environment variable OPENAI_BASE_URL is the default address of a single server, as in OpenAI's own clients.
    Returns an empty list if nothing is set.

    Raises ConfigError for an invalid setting, and for any option if there are several servers.
    """
    if of_options and max(len(of_files), len(defaults)) > 1:
        raise ConfigError(
            "this option cannot be used with several inference servers",
            setting=f"openai.{next(iter(of_options))}",
            remedy="set it for each server in the --config file",
        )
    variable = os.environ.get("OPENAI_BASE_URL") if len(of_files) <= 1 else None
    if not (variable or of_options or any(of_files)):
        return []
    servers = []
    for of_file in of_files or [{}]:
        given = {**of_file, **of_options}
        if given.get("model_name") == "":
            raise ConfigError("must not be empty", setting="openai.model_name", remedy="name the model")
        setting = "openai.base_url"
        if variable and "base_url" not in given:
            setting = "OPENAI_BASE_URL"
            given["base_url"] = variable
        server = make_settings(settings_cls, {**defaults[0], **given}, "openai.")
        check_url(
            setting,
            getattr(server, "base_url", None),
            remedy="to use several servers, list them under `openai` in a --config file",
        )
        servers.append(server)
    return servers


def _read_word(word: str, name: str) -> str:
    """Return a key or header. `$NAME` reads an environment variable. Raises ConfigError (see `read_secrets`)."""
    setting = f"openai.{name}"
    if word.startswith("$"):
        variable = word[1:]
        word = os.environ.get(variable, "")
        if not word:
            raise ConfigError(f"the environment variable {variable} is not set", setting=setting, remedy="set it")
    if not word.isprintable():
        raise ConfigError(
            "contains a line break or another character that HTTP headers cannot contain", setting=setting
        )
    return word


def find_secrets(servers: Iterable[object]) -> list[str]:
    """Return the secrets that logs must not show: servers' keys, headers, passwords, and keys in environment variables.

    Each server may have the attributes `api_key`, `headers` and `base_url`. All values in a URL's query are secrets.
    """
    variables = ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    candidates = [os.environ.get(name) for name in variables]
    for server in servers:
        keys = [str(getattr(server, "api_key", None) or ""), *(getattr(server, "headers", None) or {}).values()]
        candidates += [os.environ.get(key[1:]) if key.startswith("$") else key for key in keys]
        url = urlsplit(getattr(server, "base_url", None) or "")
        values = [field.partition("=")[2] for field in url.query.split("&")]
        candidates += [url.password, *values, *map(unquote_plus, values)]
    return sorted({text for text in candidates if text})


class StatusError(Exception):
    """A reply with a status of 300 or more, with the server's message."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self._body = body

    def __str__(self) -> str:
        """Return a line with the status and the error's message. Without a message, use the beginning of the reply."""
        error = error_in_place(self._body)
        text = self._body[:1000].decode(errors="replace") if error is None else str(error)
        phrase = HTTPStatus(self.status).phrase if self.status in set(HTTPStatus) else ""
        said = " ".join(text.split())[:200] or phrase
        return said if said.startswith(str(self.status)) else f"{self.status} {said}".strip()

    @property
    def messages(self) -> str:
        """All error messages in the reply, joined by spaces."""
        return all_messages(self._body)

    @property
    def names(self) -> Sequence[str]:
        """The code, type and status that the reply's error contains."""
        error = error_in_place(self._body)
        return [] if error is None else error.names


async def wait_for_server(probe: Callable[[float], Awaitable[Sequence[Failure]]], timeout_s: float) -> None:
    """Call `probe` (with a time limit in seconds) until it returns no failures.

    Raises any error of `probe`, and ServerError if failures remain after `timeout_s` seconds, which may be infinite.
    """
    deadline = time.monotonic() + timeout_s
    outage = OutageLog(logger)
    waits = pauses()
    while failures := await probe(min(PROBE_S, max(LEAST_WAIT_S, deadline - time.monotonic()))):
        reasons = "; ".join(failure.description for failure in failures)
        if time.monotonic() >= deadline:
            raise ServerError(
                f"no inference server was ready within {timeout_s:g} s ({reasons})", remedy=failures[0].remedy
            )
        outage.note(f"waiting for an inference server ({reasons})")
        asked_s = max(failure.retry_after_s or 0.0 for failure in failures)
        await asyncio.sleep(min(max(next(waits), asked_s), max(0.0, deadline - time.monotonic())))
    outage.over("an inference server answers")


async def try_connection(url: str, timeout_s: float) -> OSError | None:
    """Open and close a connection to an http server; return the error if no connection is made within `timeout_s`."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    except OSError as error:  # includes TimeoutError
        return error
    writer.close()
    return None


# ---------------------------------------------------------------------------- first requests

CONTEXT_NAMES = ("max_model_len", "context_length")
"""Fields with the context length in a server's list of models; vLLM uses the first name."""


def explain_probe(error: Exception, completer: Completer, reply_format: ReplyFormat) -> Failure:
    """Explain why a request for one token failed. Raises ServerError if the server will never work."""
    failure = explain_failure(error)
    is_refused = NO_QUOTA in error_names(error) or (failure.kind is FailureKind.REFUSED and failure.status != 404)
    may_work_later = failure.kind in (FailureKind.ABSENT, FailureKind.BUSY) or isinstance(error, BrokenOffError)
    if may_work_later and not is_refused:
        return failure
    fault = "refuses" if is_refused else "does not answer"
    raise ServerError(
        f"the inference server at {completer.address} cannot be used: it {fault} {completer.place(reply_format)} "
        f"({failure.description})",
        remedy=(path_remedy(failure, completer.url) if reply_format.below_v1 else None) or failure.remedy,
    ) from error


def path_remedy(failure: Failure, url: str) -> str | None:
    """Return the advice to add `/v1` to the URL; None if `/v1` is not missing."""
    parts = urlsplit(url.rstrip("/"))
    # A URL with a query belongs to a server with other endpoints.
    if failure.status != 404 or parts.path.endswith("/v1") or parts.query:
        return None
    before, version, _ = parts.path.partition("/v1/")
    path = before if version else re.sub(r"/v\d+$", "", parts.path)
    where = parts._replace(path=f"{path}/v1", query="", fragment="").geturl().replace("{", "{{").replace("}", "}}")
    return f"check {{openai.base_url}}: the usual form is {where}"


def find_context_length(models: Sequence[object], name: str) -> int | None:
    """Return a model's context length in tokens, or that of the first model if `models` has no model of this name.

    Return None if the model has no length.
    """
    named = [model for model in models if getattr(model, "id", None) == name] or models[:1]
    lengths = [read_token_number(getattr(model, field, None)) for model in named for field in CONTEXT_NAMES]
    return next(filter(None, lengths), None)


async def probe(completer: Completer, prompt: Prompt, options: RequestOptions) -> Failure | None:
    """Request one token, and select the format that works. Return why the server does not work yet, or None.

    Raises ServerError if the server will never work.
    """
    failed = await detect(completer, prompt, options)
    if failed is None:
        return None
    reply_format, error = failed
    return explain_probe(error, completer, reply_format)


async def detect(completer: Completer, prompt: Prompt, options: RequestOptions) -> tuple[ReplyFormat, Exception] | None:
    """Set `completer.format` to the first format that gives a generated token. If it is already set, test only it.

    Returns None if a format works. Returns a format and its error if the server may support the format but failed for
    another reason, such as an outage.

    Raises ServerError if the server supports none of the formats, or returns no token.
    """
    formats = completer.formats if completer.format is None else [completer.format]
    refusals: list[str] = []
    passing: tuple[ReplyFormat, Exception] | None = None
    for reply_format in formats:
        place = completer.place(reply_format)
        try:
            works = await completer.gives_token(reply_format, prompt, options)
            refusal = "no token"
        except Exception as error:
            # The model thinks before it answers, and a single token is too few for that.
            works = reply_format.kind is ReplyKind.CHAT and "output limit" in str(error)
            if not works and (len(formats) == 1 or not _may_lack(reply_format, error, completer.url)):
                return reply_format, error
            if explain_failure(error).kind in (FailureKind.ABSENT, FailureKind.BUSY):
                passing = reply_format, error
            refusal = describe_failure(error)
        if works:
            completer.format = reply_format
            if CHAT in formats[: formats.index(reply_format)]:
                logger.warning(
                    "chat completions do not work (%s), so /v1/completions is used, without a chat template",
                    refusals[0],
                )
            return None
        refusals.append(f"{place}: {refusal}")
    if passing is not None:
        return passing
    raise ServerError(
        f"the inference server at {completer.address} returned no token when a test request asked for one "
        f"({'; '.join(refusals)})",
        remedy="check {openai.base_url}, which usually ends in /v1, and {openai.model_name}",
    )


async def find_format(completer: Completer, prompt: Prompt, options: RequestOptions) -> ReplyFormat:
    """Detect, log and return the format of a server whose format was not detected at startup.

    Detection sends a request for one token. Raises any error of this request, and ServerError if the server supports
    none of the formats.
    """
    if (failed := await detect(completer, prompt, options)) is not None:
        raise failed[1]
    found = completer.format
    assert found is not None, "detect() chose a format"
    level = logging.INFO if found.kind is ReplyKind.TOKENS else logging.WARNING
    logger.log(level, "%s: %s (%s)", completer.address, found.kind.summary, completer.place(found))
    return found


def _may_lack(reply_format: ReplyFormat, error: Exception, url: str) -> bool:
    """Return True if an error may mean that the server does not support this format.

    For chat completions, return True only if the endpoint or the chat template is missing. A 404 that may have another
    cause (the model's name, or a missing `/v1` in the URL) does not count.
    """
    failure = explain_failure(error)
    if failure.status in (401, 403):
        return False
    if reply_format.kind is not ReplyKind.CHAT:
        return failure.status is not None or failure.kind is FailureKind.UNUSABLE
    lacks_path = reply_format.below_v1 and path_remedy(failure, url) is not None
    if not isinstance(error, StatusError) or lacks_path:
        return False
    said = str(error).lower()
    return "chat template" in said or (error.status in (404, 405, 501) and "model" not in said)


async def check_servers(
    list_completers: Callable[[], Sequence[Completer]], prompt: Prompt, options: RequestOptions, timeout_s: float
) -> None:
    """Wait until at least one server has generated a token. Detect the reply formats of the ready servers.

    Raises:
        ServerError: A server refuses the test request, or returns no token.
        ServerError: No server was ready within `timeout_s` seconds, which may be infinite.
    """

    async def probe(timeout_s: float) -> Sequence[Failure]:
        completers = list_completers()
        failures = await _probe_all(completers, prompt, options, timeout_s)
        absent = [
            replace(failure, description=f"{completer.address}: {failure.description}")
            for completer, failure in zip(completers, failures, strict=True)
            if failure is not None
        ]
        if len(absent) == len(completers):
            return absent
        if absent:
            reasons = "; ".join(failure.description for failure in absent)
            logger.warning("not every inference server answers yet (%s)", reasons)
        return []

    await wait_for_server(probe, timeout_s)


async def _probe_all(
    completers: Sequence[Completer], prompt: Prompt, options: RequestOptions, timeout_left_s: float
) -> list[Failure | None]:
    """Return each server's failure; None for a server that works. Once a server works, wait OTHERS_S for the others."""
    probes = [asyncio.ensure_future(probe(completer, prompt, options)) for completer in completers]
    left = set(probes)
    deadline = time.monotonic() + timeout_left_s
    try:
        while left and (wait_s := deadline - time.monotonic()) > 0:
            done, left = await asyncio.wait(left, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if any(probe.result() is None for probe in done):
                deadline = min(deadline, time.monotonic() + OTHERS_S)
        return [probe.result() if probe.done() else explain_failure(TimeoutError()) for probe in probes]
    finally:
        await cancel_all(probes)

"""A client of one model at one server, which needs aiohttp alone: chat completions, or text for base models."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import aiohttp

from ..errors import ConfigError
from ..records import Prompt, Rollout, Sampling, Timeouts
from .addresses import PATIENCE_S, PROBE_S, Absence, goes_through_proxy, wait_for_server
from .chat import ChatRequests, PlainChat, Stream
from .events import EVENT_STREAM, join_events, read_events
from .failures import FailureKind, explain_failure
from .probes import explain_probe, find_context_length, path_remedy
from .requests import PatientRequests, Reachability
from .text import PlainText, TextRequests

logger = logging.getLogger(__name__)

CHAT_TYPE = "chat"
"""The type of a server that is asked for chat completions."""
TEXT_TYPE = "openai"
"""The type of a server that is asked for text completions."""
ENDPOINTS = {CHAT_TYPE: "/chat/completions", TEXT_TYPE: "/completions"}


@dataclass(frozen=True)
class HostedServer:
    """Address of a server (`http://host:port/v1`), model, key, limit of one request, and type.

    A `server_type` of None is found out: chat completions where the server has them, else text. `stream` says whether
    replies are asked for as events.
    """

    base_url: str
    model: str
    api_key: str
    timeout_s: float
    server_type: str | None = CHAT_TYPE
    stream: Stream = "auto"


SPARE_FILES = 64
"""File descriptors that are left to workers that start, and to files: an evaluation has about 20 of them."""


def max_connections() -> int:
    """Return how many connections this process can open besides its files; further requests wait for one."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, most - len(os.listdir("/dev/fd")) - SPARE_FILES)


class StatusError(Exception):
    """A reply with a status of 400 or more, in the server's own words."""

    def __init__(self, status: int, said: str, headers: Mapping[str, str]) -> None:
        super().__init__(said if said.startswith(str(status)) else f"{status} {said}".strip())
        self.status = status
        self.headers = headers


class HostedModel:
    """The completions of one model.

    The first request opens connections; `close`, or the end of `async with`, closes them. `options` are further fields
    of each request for a chat completion. `timeouts` limit the requests for completions.
    """

    def __init__(
        self,
        server: HostedServer,
        options: Mapping[str, object] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.server = server
        self.server_type = server.server_type or CHAT_TYPE
        """How the server is asked."""
        self._options = options or {}
        self._timeouts = timeouts or Timeouts(None, PATIENCE_S)
        self._layout = PlainChat()
        self._requests = ChatRequests(server.stream)
        if server.server_type == TEXT_TYPE:
            self._ask_for_text()
        self._patience = PatientRequests(logger)
        self._reachability = Reachability(server.base_url, self._connect_anew)
        self._http: aiohttp.ClientSession | None = None

    def _ask_for_text(self) -> None:
        self.server_type = TEXT_TYPE
        self._options = {}
        self._layout = PlainText()
        self._requests = TextRequests(self.server.stream)

    async def __aenter__(self) -> Self:
        return self

    def _new_connections(self) -> aiohttp.ClientSession:
        key = self.server.api_key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=self.server.timeout_s)
        # The evaluation limits the requests under way, and environment variables name the proxies.
        connector = aiohttp.TCPConnector(limit=max_connections())
        proxied = goes_through_proxy(self.server.base_url)
        return aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector, trust_env=proxied)

    async def _connect_anew(self) -> None:
        """Send what is sent from now on over new connections."""
        former, self._http = self._http, self._new_connections()
        if former is not None:
            await former.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()

    @property
    def ended(self) -> Mapping[str, int]:
        """Problems that were given up because completions were broken off, by the server's word."""
        return self._patience.ended

    @property
    def model(self) -> str:
        return self.server.model

    @property
    def base_url(self) -> str:
        return self.server.base_url

    async def create(self, **request: Any) -> Any:
        """Send a request and return the reply.

        Raises StatusError, JSONDecodeError, ServerAwayError and the errors of aiohttp.
        """
        extra = request.pop("extra_body", {})
        reply = self._send("POST", ENDPOINTS[self.server_type], {**request, **extra})
        async with asyncio.timeout(self._timeouts.reply_s):
            return await self._reachability.outlast(reply)

    async def _send(self, method: str, endpoint: str, request: Mapping[str, object] | None = None) -> Any:
        if self._http is None:
            self._http = self._new_connections()
        url = f"{self.base_url.rstrip('/')}{endpoint}"
        async with self._http.request(method, url, json=request) as response:
            body = await response.read()
            if response.status >= 400:
                said = _message(body)
                raise StatusError(response.status, said, response.headers)
            if response.content_type == EVENT_STREAM:
                return await asyncio.to_thread(lambda: join_events(read_events(body)))
            if "json" not in response.content_type:
                raise aiohttp.ContentTypeError(
                    response.request_info, response.history, status=response.status, message="no JSON"
                )
            return await asyncio.to_thread(json.loads, body, object_hook=lambda fields: SimpleNamespace(**fields))

    # ---- before the first problem

    async def models(self) -> list[Any]:
        """Return the server's list of models; raises any error, as not every server has a list."""
        async with asyncio.timeout(PROBE_S):
            return list((await self._send("GET", "/models")).data)

    async def context_lengths(self) -> list[int | None]:
        """Return how many tokens the model takes for prompt and completion; None if the server does not say."""
        try:
            models = await self.models()
        except Exception as error:
            logger.debug("%s lists no models: %r", self.base_url, error)
            return [None]
        return [find_context_length(models, self.model)]

    async def check(self, timeout_s: float) -> None:
        """Return once the server has given a token. Find out the type of the server, if that is open.

        Raises:
            ServerError: The server refuses the request, or sends no completion.
            ServerError: The server is away, or cannot serve now, for `timeout_s`.
        """
        await wait_for_server(self._probe, timeout_s)

    async def _probe(self, timeout_s: float) -> Sequence[Absence]:
        """Ask for one token; return why the server is absent, if it is. Raises the errors of `check`."""
        try:
            async with asyncio.timeout(timeout_s):
                fields = self._requests.fields(self.prompt([{"role": "user", "content": "Hello"}]))
                await self._requests.ask(self, fields, 1, self._options, at_once=True)
            return []
        except Exception as error:
            is_chat = self.server_type == CHAT_TYPE
            if is_chat and self.server.server_type is None and self._lacks_chat(error):
                logger.warning("no chat completions here (%s): the model gets plain text, as a base model", error)
                self._ask_for_text()
                return await self._probe(timeout_s)
            endpoint = f"POST /v1{ENDPOINTS[self.server_type]}"
            absence = explain_probe(error, self.base_url, endpoint, is_chat=is_chat)
        return [] if absence is None else [replace(absence, reason=f"{self.base_url}: {absence.reason}")]

    def _lacks_chat(self, error: Exception) -> bool:
        """Tell whether a refusal means that there are no chat completions for the model: no endpoint, or no template.

        A 404 may also mean that there is no such model, or that the URL lacks its `/v1`.
        """
        if not isinstance(error, StatusError) or path_remedy(explain_failure(error), self.base_url) is not None:
            return False
        said = str(error).lower()
        return "chat template" in said or (error.status in (404, 405, 501) and "model" not in said)

    # ---- completions

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        """Return the prompt that the server gets: messages, or plain text."""
        return self._layout.prompt(messages)

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Return exactly `n` rollouts; raises the errors of `PatientRequests.complete`."""

        def ask(missing: int) -> Awaitable[list[Rollout]]:
            return self._requests.complete([self], prompt, missing, sampling, self._options)

        return await self._patience.complete(n, ask, self._timeouts)


async def only_model(base_url: str, api_key: str, timeout_s: float) -> str:
    """Return the name of the only model that a server lists; waits for the server.

    Raises ServerError if no server answers within `timeout_s`, and ConfigError for none, several or no list.
    """
    missing = "MODEL is missing, as in `evaluate MODEL`"
    names: list[str] = []

    async def list_names(_timeout_s: float) -> Sequence[Absence]:
        try:
            names.extend(str(model.id) for model in await client.models())
        except Exception as error:
            failure = explain_failure(error)
            if failure.kind is FailureKind.ABSENT and failure.status is None:
                return [Absence(f"{base_url}: {failure.description}")]
            raise ConfigError(
                f"{missing}; {base_url} does not say which it has ({failure.description})",
                remedy=path_remedy(failure, base_url),
            ) from error
        return []

    async with HostedModel(HostedServer(base_url, "", api_key, PROBE_S)) as client:
        await wait_for_server(list_names, timeout_s)
    if len(names) == 1:
        logger.info("evaluating %s, the only model at %s", names[0], base_url)
        return names[0]
    raise ConfigError(f"{missing}; {base_url} has {list_models(names)}")


MOST_SHOWN = 5
"""Models of a server that an error names."""


def list_models(names: list[str]) -> str:
    """Return the first names, joined by commas."""
    return (", ".join(names[:MOST_SHOWN]) + (", ..." if len(names) > MOST_SHOWN else "")) or "none"


def _message(body: bytes) -> str:
    """Return in a line what a refusal says: the message of an OpenAI-like error, or the text."""
    try:
        error = json.loads(body)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        text = body[:1000].decode(errors="replace")
    return " ".join(text.split())[:200]

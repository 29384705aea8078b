"""Inference servers: one table of their types, and which type a server has.

A row of SERVER_TYPES has a value of `openai.server_type`, the class of such servers, the content of their replies, and
the endpoint. All other modules read the table. docs/servers.md says how to add a row.

Atropos' ServerManager makes objects of the classes from the settings. Health checks, limits of requests, retries and
lists of nodes are Atropos'. The classes here ask for tokens and read replies in their own way.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

import aiohttp
from atroposlib.envs import base
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig, ServerBaseline
from atroposlib.envs.server_handling.sglang_server import SGLangServer
from atroposlib.envs.server_handling.vllm_server import VLLMServer
from openai import AsyncOpenAI
from pydantic import Field

from ...errors import ConfigError, ServerError
from ...inference.addresses import read_key
from ...inference.chat import ChatRequests
from ...inference.failures import FailureKind, describe_failure, explain_failure
from ...inference.hosted import HostedModel, HostedServer
from ...inference.requests import Reachability
from .protocols.completions import COMPLETIONS
from .protocols.sglang import SGLANG
from .protocols.vllm import VLLM
from .replies import ReplyError, TokenProtocol, TokenReply, TokenRequests

logger = logging.getLogger(__name__)

AUTO = "auto"
CHAT = "chat"
ONE_TOKEN = "1 + 1 ="
"""The prompt of a probe: servers continue it by a single token."""


_FOUND_TYPE = "found_server_type"
"""Attribute of a server of type `auto`, our class or an importer's, for the type that was found."""


# ---------------------------------------------------------------------------- what replies hold


class Training(Enum):
    """Whether a trainer can use the completions."""

    YES = "yes"
    WITHOUT_LOGPROBS = "by trainers that compute log-probabilities themselves"
    NO = "no"


class ReplyKind(Enum):
    """What replies hold, the best kind first.

    `method` names the method of Atropos' servers, and of their manager, that gives such replies. `_METHOD_wrapper` is
    the same for one server, without retries and waits: each class of servers must have it.
    """

    TOKENS = ("tokens_and_logprobs_completion", Training.YES, "tokens and log-probabilities as sampled")
    TEXT = (
        "completion",
        Training.WITHOUT_LOGPROBS,
        "text only: tokens are made again from the text, without log-probabilities; fine for evaluation and data, not "
        "for training",
    )
    CHAT = ("chat_completion", Training.NO, "chat only: text without tokens; for evaluation and data, not for training")

    def __init__(self, method: str, for_training: Training, summary: str) -> None:
        self.method = method
        self.for_training = for_training
        self.summary = summary


# ---------------------------------------------------------------------------- classes of servers


class VllmTokenServer(TokenRequests, VLLMServer):  # type: ignore[misc]  # atroposlib has no types
    """Atropos' own vLLM server."""

    protocol = VLLM


class SglangTokenServer(TokenRequests, SGLangServer):  # type: ignore[misc]
    """A server of SGLang."""

    protocol = SGLANG


class CompletionsTokenServer(TokenRequests, VLLMServer):  # type: ignore[misc]
    """An ordinary `vllm serve`, asked for token ids."""

    protocol = COMPLETIONS


class ChatServer(OpenAIServer):  # type: ignore[misc]
    """Any server with chat completions, hosted ones too."""

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        """Report healthy: OpenAIServer would ask for a completion each second, for which hosted servers charge."""
        self.server_healthy = True


class AutoServer(TokenRequests, VLLMServer):  # type: ignore[misc]
    """A server whose type is found out at the start, or with the first request if the server was absent then."""

    async def _tokens_and_logprobs_completion_wrapper(self, **options: Any) -> TokenReply:
        found = type_of(self)
        if found.reply_kind is None:
            found = await find_type(self, lambda kind: {})
            level = logging.INFO if found.reply_kind is ReplyKind.TOKENS else logging.WARNING
            logger.log(level, "%s: %s", address(self), describe_replies([self]))
        if found.protocol is None:
            raise ReplyError("the server gives text only")
        return await self.sample(found.protocol, **options)

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        """Check each second whether anything answers at `/health`; a 404 is an answer too."""
        url = f"{self.config.base_url.rstrip('/').removesuffix('/v1')}/health"
        while True:
            try:
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.config.timeout)) as session,
                    session.get(url) as response,
                ):
                    self.server_healthy = response.status < 500
            except (aiohttp.ClientError, OSError, TimeoutError):
                self.server_healthy = False
            await asyncio.sleep(1)


_REACHABILITY = "reachability"
"""Attribute of a server, our class or any other, for what `watched` found out."""


def watched(server: APIServer) -> Reachability:
    """Return whether a server is reachable. From the first call on, requests to the server end when they are lost.

    The retries of OpenAI's client end then too: it would wait silently for as long as Retry-After asks.

    Atropos' manager picks a server for each request, and its classes repeat a failed request at the same server. So the
    public methods of the server are replaced, outside of that: a lost request may go to another server.
    """
    known: Reachability | None = vars(server).get(_REACHABILITY)
    if known is not None:
        return known
    if isinstance(client := getattr(server, "openai", None), AsyncOpenAI):
        client.max_retries = 0
    reachability = Reachability(address(server), partial(_disconnect, server))
    setattr(server, _REACHABILITY, reachability)
    for kind in ReplyKind:
        setattr(server, kind.method, partial(_ask, reachability, getattr(server, kind.method)))
    return reachability


async def _ask(reachability: Reachability, method: Callable[..., Awaitable[object]], **options: object) -> object:
    return await reachability.outlast(method(**options))


async def _disconnect(server: APIServer) -> None:
    """Replace the server's client of OpenAI, close the former one with its connections, and check the health anew.

    A check whose request was lost would wait for `timeout`, and the server would keep the health that it had.
    """
    client = getattr(server, "openai", None)
    if isinstance(client, AsyncOpenAI):
        server.openai = AsyncOpenAI(
            api_key=client.api_key, base_url=client.base_url, timeout=client.timeout, max_retries=client.max_retries
        )
        await client.close()
    if server.check_task is not None:
        server.check_task.cancel()
        is_chat = type_of(server).reply_kind is ReplyKind.CHAT
        server.check_task = asyncio.create_task(server.check_server_status_task(chat_completion=is_chat))


# ---------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class ServerType:
    """A type of inference servers.

    - `name`: the value of `openai.server_type`.
    - `server_class`: the class that serves it.
    - `reply_kind`: what its replies hold; None while that has to be found out.
    - `endpoint`: what messages call the place that gives completions.
    """

    name: str
    server_class: type[APIServer]
    reply_kind: ReplyKind | None
    endpoint: str

    @property
    def protocol(self) -> TokenProtocol | None:
        """The protocol in which tokens are asked for; None if the class itself asks and reads the reply."""
        if not issubclass(self.server_class, TokenRequests):
            return None
        return getattr(self.server_class, "protocol", None)

    @property
    def is_importers_class(self) -> bool:
        """Whether the class is an importer's own; only its methods of APIServer are known."""
        return all(self.server_class is not row.server_class for row in SERVER_TYPES)


SERVER_TYPES: Sequence[ServerType] = (
    ServerType(AUTO, AutoServer, None, "requests for completions"),
    ServerType("vllm", VllmTokenServer, ReplyKind.TOKENS, VLLM.endpoint),
    ServerType("sglang", SglangTokenServer, ReplyKind.TOKENS, SGLANG.endpoint),
    ServerType("completions", CompletionsTokenServer, ReplyKind.TOKENS, COMPLETIONS.endpoint),
    ServerType("openai", OpenAIServer, ReplyKind.TEXT, "POST /v1/completions"),
    ServerType(CHAT, ChatServer, ReplyKind.CHAT, "POST /v1/chat/completions"),
)
"""All types; `auto` tries them in this order, the best first."""


def address(server: object) -> str:
    """Return what messages call a server: its URL, or the name of its class."""
    url = getattr(getattr(server, "config", None), "base_url", None)
    return url if url and isinstance(url, str) else type(server).__name__


def names_of_types(for_training: Training) -> str:
    """Return the names of the types whose completions a trainer can use to this degree: `a, b or c`."""
    *names, last = [
        row.name for row in SERVER_TYPES if row.reply_kind is not None and row.reply_kind.for_training is for_training
    ]
    return f"{', '.join(names)} or {last}" if names else last


def named_type(config: object) -> ServerType:
    """Return the type that a server's settings name; `auto` if they name none.

    Atropos' default is `openai`. It counts only if the settings say it.
    """
    name = AUTO
    if isinstance(config, ServerBaseline) and "server_type" in config.model_fields_set:
        name = config.server_type
    return next(row for row in SERVER_TYPES if row.name == name)


def type_of(server: APIServer) -> ServerType:
    """Return the type of a server; `reply_kind` is None before the type of an `auto` server is found out.

    An importer's own class (`ReasoningGymEnv.server_cls`) is asked for the kind of replies of the named type, through
    the methods of APIServer, whatever the protocol of that type is.
    """
    found: ServerType | None = vars(server).get(_FOUND_TYPE)
    if found is not None:
        return found
    named = named_type(getattr(server, "config", None))
    if type(server) is named.server_class:
        return named
    if named.name == AUTO:
        # Atropos makes the settings of local and of Slurm's servers itself, and leaves the type out.
        for row in SERVER_TYPES:
            if type(server) is row.server_class:
                return row
    return _type_of_own_class(server, named, named.reply_kind)


def _type_of_own_class(server: APIServer, named: ServerType, reply_kind: ReplyKind | None) -> ServerType:
    own_class = type(server)
    endpoint = named.endpoint if reply_kind is None else f"{reply_kind.method} of {own_class.__name__}"
    return replace(named, server_class=own_class, reply_kind=reply_kind, endpoint=endpoint)


def shared_reply_kind(servers: Sequence[object]) -> ReplyKind | None:
    """Return the worst kind of replies among the servers; TOKENS while no type is found out.

    None if a stand-in is among the servers, or there is no server.
    """
    known = [type_of(server).reply_kind for server in servers if isinstance(server, APIServer)]
    if not servers or len(known) < len(servers):
        return None
    return next((kind for kind in reversed(ReplyKind) if kind in known), ReplyKind.TOKENS)


def describe_replies(servers: Sequence[object]) -> str:
    """Describe the replies of the servers; empty if a stand-in is among the servers."""
    kind = shared_reply_kind(servers)
    if kind is None:
        return ""
    protocols = [type_of(server).protocol for server in servers]
    endpoints = {protocol.endpoint for protocol in protocols if protocol is not None}
    if kind is ReplyKind.TOKENS and endpoints:
        return f"{kind.summary} ({', '.join(sorted(endpoints))})"
    return kind.summary


# ---------------------------------------------------------------------------- requests for chats


_CHAT_CLIENT = "chat_client"
"""Attribute of a server of ours for what `chat_client` made."""


def chat_client(server: APIServer) -> HostedModel:
    """Return the client of a server's chat completions, which evaluations have too; the first call makes it."""
    client: HostedModel | None = vars(server).get(_CHAT_CLIENT)
    if client is None:
        url = str(server.openai.base_url).rstrip("/")
        config = server.config
        client = HostedModel(HostedServer(url, config.model_name, server.openai.api_key, config.timeout))
        setattr(server, _CHAT_CLIENT, client)
    return client


async def close_connections(server: APIServer) -> None:
    """Close the connections of a server's clients; Atropos never closes its own."""
    for client in filter(None, [getattr(server, "openai", None), vars(server).get(_CHAT_CLIENT)]):
        await client.close()


@dataclass(frozen=True)
class LimitedChat:
    """The chat completions of a server, within the server's limit of requests under way for a split."""

    client: HostedModel
    limit: asyncio.Semaphore

    @property
    def model(self) -> str:
        return self.client.model

    async def create(self, **request: Any) -> Any:
        """Send a request and return the reply; raises the errors of `HostedModel.create`."""
        async with self.limit:
            return await self.client.create(**request)


def takes_chat_requests(server: object) -> bool:
    """Tell whether `chat_client` knows what is at a server's address; an importer's class may have none."""
    return isinstance(server, (ChatServer, AutoServer))


# ---------------------------------------------------------------------------- finding out a type

Options = Callable[[ReplyKind], Mapping[str, Any]]
"""What requests for such replies carry besides prompt and sampling."""


async def find_type(server: APIServer, options: Options) -> ServerType:
    """Find out the best type that a server of type `auto` supports, and keep to it from now on.

    The server is asked for one token in each way, with `options`, as training will ask. An importer's own class is
    tried in tokens, text and chat.

    Raises:
        ServerError: the server supports none of the types.
        other errors of clients: the server is absent, busy, or refuses the key.
    """
    refusals: list[str] = []
    passing: Exception | None = None
    for candidate in _candidates(server):
        assert candidate.reply_kind is not None
        try:
            if not await ask_for_one_token(server, candidate, options(candidate.reply_kind)):
                raise ReplyError("no token")
        except Exception as error:
            failure = explain_failure(error)
            if failure.status in (401, 403):
                raise
            if failure.status is None and failure.kind is not FailureKind.UNUSABLE:
                raise
            if failure.kind in (FailureKind.ABSENT, FailureKind.BUSY):
                passing = error
            refusals.append(f"{candidate.endpoint}: {describe_failure(error)}")
        else:
            setattr(server, _FOUND_TYPE, candidate)
            return candidate
    if passing is not None:
        raise passing
    raise ServerError(
        f"the inference server at {address(server)} supports none of the types that were tried ({'; '.join(refusals)})",
        remedy="check {openai.base_url}, which mostly ends in /v1, and {openai.model_name}",
    )


def _candidates(server: APIServer) -> list[ServerType]:
    if isinstance(server, AutoServer):
        return [row for row in SERVER_TYPES if row.name != AUTO]
    return [_type_of_own_class(server, named_type(server.config), kind) for kind in ReplyKind]


async def ask_for_one_token(server: APIServer, server_type: ServerType, options: Mapping[str, object]) -> bool:
    """Ask a server as one of a type, as training does, but for one token. Return whether a token came.

    Raises what clients raise.
    """
    kind = server_type.reply_kind
    assert kind is not None
    asked: dict[str, object] = {"prompt": ONE_TOKEN}
    if kind is ReplyKind.CHAT:
        asked = {"messages": [{"role": "user", "content": ONE_TOKEN}]}
        if takes_chat_requests(server):
            await ChatRequests().ask(chat_client(server), asked, 1, options)
            return True
    request = {"model": server.config.model_name, **asked, "n": 1, "max_tokens": 1, "temperature": 1.0, **options}
    if server_type.protocol is not None:
        reply = await server.sample(server_type.protocol, **request)
    else:
        reply = await getattr(server, f"_{kind.method}_wrapper")(**request)
    if kind is not ReplyKind.TOKENS:
        return bool(reply.choices)
    _, completions, _, _ = reply
    return len(completions) > 0 and len(completions[0]) > 0


# ---------------------------------------------------------------------------- settings of servers


class ServerConfig(APIServerConfig):  # type: ignore[misc]
    """An inference server of which nothing is known but its address."""

    server_type: str = Field(
        default=AUTO,
        description="Type of the server. `auto` detects the best type that works; other types are used as given.",
    )


def allow_server_types() -> None:
    """Let settings of servers name every row of SERVER_TYPES.

    This changes Atropos' own models, whose `server_type` knows four types only: importers, files and the command line
    name servers by these models, and Atropos makes copies of them, so a class of ours would not do.
    """
    names: object = Literal.__getitem__(tuple(row.name for row in SERVER_TYPES))
    for config_class in (ServerBaseline, APIServerConfig, ServerConfig):
        config_class.model_fields["server_type"].annotation = names
        config_class.model_rebuild(force=True)


allow_server_types()


@contextlib.contextmanager
def tokenizer_if_needed(configs: ServerBaseline | list[APIServerConfig], *, testing: bool = False) -> Iterator[None]:
    """Keep BaseEnv from loading a tokenizer if all servers are chat servers; `tokenizer` is then None.

    With `testing`, a tokenizer that is not on this machine is not downloaded. Raises OSError for such a tokenizer.

    This replaces the loader in Atropos' module: BaseEnv's constructor always loads a tokenizer by name and has no hook
    for it, but hosted models have no public tokenizer, and tests run without a network.
    """
    loader = base.AutoTokenizer

    def load_none(_name: str) -> None:
        return None

    def load_local(name: str) -> object:
        try:
            return loader.from_pretrained(name, local_files_only=True)
        except OSError as error:
            raise OSError(f"{name!r} is not on this machine, and testing=True downloads nothing") from error

    if not needs_tokenizer(configs):
        base.AutoTokenizer = SimpleNamespace(from_pretrained=load_none)
    elif testing:
        base.AutoTokenizer = SimpleNamespace(from_pretrained=load_local)
    try:
        yield
    finally:
        base.AutoTokenizer = loader


def needs_tokenizer(configs: ServerBaseline | list[APIServerConfig]) -> bool:
    """Tell whether an environment with these servers needs a tokenizer; with chat servers alone it needs none."""
    several = configs if isinstance(configs, list) else [configs]
    return not several or any(named_type(config).reply_kind is not ReplyKind.CHAT for config in several)


def complete_servers(
    configs: ServerBaseline | list[APIServerConfig], tokenizer_name: str
) -> ServerBaseline | list[APIServerConfig]:
    """Return settings of servers with the environment's tokenizer where they name none, and their API keys.

    Raises ConfigError if

    - there is no server,
    - the servers have different types, because Atropos would treat all of them as the first, or
    - the environment variable of a key is not set.
    """
    several = configs if isinstance(configs, list) else [configs]
    types = sorted({named_type(config).name for config in several})
    if len(types) != 1:
        raise ConfigError(
            f"all inference servers must have one type; got {', '.join(types) or 'no server'}",
            setting="openai.server_type",
        )
    completed = []
    for config in several:
        missing: dict[str, object] = {"server_type": types[0]}
        if config.tokenizer_name == "none":
            missing["tokenizer_name"] = tokenizer_name
        if isinstance(config, APIServerConfig):
            missing["api_key"] = read_key(str(config.api_key or ""), for_chat=types[0] == CHAT)
        completed.append(config.model_copy(update=missing))
    # A single APIServerConfig goes on as a list: as a bare value Atropos would replace its URL by four of its own.
    return completed if isinstance(configs, (list, APIServerConfig)) else completed[0]


def choose_server_class(
    server_cls: type[APIServer], configs: ServerBaseline | list[APIServerConfig]
) -> type[APIServer]:
    """Return the class that serves the type of the settings; an importer's own `server_cls` stays."""
    if not inspect.isabstract(server_cls):
        return server_cls
    return named_type(configs[0] if isinstance(configs, list) else configs).server_class

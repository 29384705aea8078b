"""Atropos' side of inference servers: settings, the class that Atropos makes servers of, and classes of importers.

An `AtroposServer` is a `Server` behind Atropos' interface. A run asks the `Server` itself. Everything else
in Atropos' manager is asked by its methods: mocks of tests, Atropos' harness, and classes of importers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig, ReasoningConfig
from atroposlib.envs.server_handling.server_manager import ServerManager
from atroposlib.envs.server_handling.vllm_server import VLLMServer
from openai import AsyncOpenAI
from transformers import AutoTokenizer

from ..inference.addresses import detect_late
from ..inference.completer import Completer, ServerSpec
from ..inference.formats import REPLY_FORMATS
from ..inference.formats.reply_format import ReplyError, ReplyFormat, ReplyKind, TokenCompletion
from ..inference.formats.tokens import TokenFormat
from ..inference.server import RequestOptions, Server
from ..records import Prompt
from .config import named_format, type_hint
from .methods import AskedByMethods

# ---------------------------------------------------------------------------- Atropos' interface


class AtroposServer(VLLMServer):  # type: ignore[misc]
    """A `Server` behind Atropos' interface: health, limits, timings, and methods for an importer's own code.

    `named` is the format of settings that name none. Requests for tokens go through `server`. Those for text and chat
    go through Atropos' own code, which returns OpenAI's objects; a run does not send such requests.
    """

    def __init__(
        self,
        config: APIServerConfig,
        reasoning_config: ReasoningConfig | None = None,
        *,
        named: ReplyFormat | None = None,
    ) -> None:
        APIServer.__init__(self, config, reasoning_config=reasoning_config)  # VLLMServer's would load a tokenizer
        asked = named_format(config) or named
        self.server = Server(
            ServerSpec(
                url=config.base_url or "",
                model=config.model_name,
                key=config.api_key or "",
                timeout_s=config.timeout,
                formats=REPLY_FORMATS if asked is None else [asked],
                headers=getattr(config, "headers", {}),
                hint=type_hint(asked),
            ),
            slots={"train": self.sem, "eval": self.eval_sem},
            on_reply=self._note_reply,
        )

    @cached_property
    def tokenizer(self) -> Any:
        name = self.config.tokenizer_name
        return AutoTokenizer.from_pretrained(self.config.model_name if name == "none" else name)

    @cached_property
    def openai(self) -> AsyncOpenAI:
        # Without its own retries: it would wait silently for as long as Retry-After asks.
        config = self.config
        address = urlsplit(config.base_url or "")
        return AsyncOpenAI(
            api_key=config.api_key,
            base_url=address._replace(query="").geturl(),
            default_query=dict(parse_qsl(address.query)),
            default_headers=getattr(config, "headers", {}),
            timeout=config.timeout,
            max_retries=0,
        )

    @property
    def server_healthy(self) -> bool:
        return not self.server.is_away

    @server_healthy.setter
    def server_healthy(self, healthy: bool) -> None:
        """Ignore what APIServer's constructor and methods say: `server` knows."""

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        """Return at once: requests notice a server that is away, and the run looks after it."""

    async def _tokens_and_logprobs_completion_wrapper(
        self, **parameters: Any
    ) -> tuple[list[int], list[list[int]], list[list[float]], list[str]]:
        text = parameters.pop("prompt", None)
        del parameters["model"]
        tokens = list(parameters.pop("input_ids", None) or self.tokenizer.encode(text))
        # As in Atropos' own classes: both the chat template and the tokenizer may have written the beginning of text.
        if len(tokens) >= 2 and tokens[0] == self.tokenizer.bos_token_id == tokens[1]:
            tokens = tokens[1:]
        for name in ("max_new_tokens", "max_completion_tokens"):
            if name in parameters:
                parameters["max_tokens"] = parameters.pop(name)
        prompt = Prompt(({"role": "user", "content": text or ""},), text or "", tuple(tokens))
        found = self.server.format or await detect_late(self.server, prompt, RequestOptions())
        if not isinstance(found, TokenFormat):
            raise ReplyError("the server returns text without token ids")
        reply = await self.server.ask(found, prompt, parameters)
        completions = [one for one in reply.completions if isinstance(one, TokenCompletion)]
        ids = [list(map(int, one.tokens)) for one in completions]
        logprobs = [list(map(float, one.logprobs)) for one in completions]
        return tokens, ids, logprobs, [one.word for one in completions]

    def _note_reply(self, split: str, seconds: float) -> None:
        """Keep what Atropos' metrics are made of."""
        is_training = split == "train"
        (self.request_timings if is_training else self.eval_request_timings).append(seconds)
        (self.attempts_list if is_training else self.eval_attempts_list).append(1)


async def close_connections(server: APIServer) -> None:
    """Close the connections of a server's clients; Atropos never closes its own."""
    if isinstance(server, AtroposServer):
        await server.server.close()
    if (client := vars(server).get("openai")) is not None:
        await client.close()


# ---------------------------------------------------------------------------- who is asked


class Completers:
    """Returns who is asked for completions; called for each request, so that what a test replaces is used at once.

    - The manager is asked by its methods if it is not Atropos' own, or a method of it was replaced.
    - Otherwise stand-ins among its servers alone are asked: objects that are no `APIServer`, and servers of which a
      method was replaced.
    - Otherwise all servers are asked: an `AtroposServer` as a `Server`, an importer's class by its methods.

    `manager` returns BaseEnv's manager. `expected` is the kind of replies that a stand-in with several methods is asked
    for.
    """

    def __init__(self, manager: Callable[[], object], expected: ReplyKind | None) -> None:
        self._manager = manager
        self._expected = expected or ReplyKind.TOKENS
        self._by_methods: list[AskedByMethods] = []

    def __call__(self) -> Sequence[Completer]:
        manager = self._manager()
        if not isinstance(manager, ServerManager) or _replaced_kinds(manager, ServerManager):
            return [self._asked_by_methods(manager)]
        stand_ins = [server for server in manager.servers if _is_stand_in(server)]
        return [
            server.server if _is_ours(server) else self._asked_by_methods(server)
            for server in stand_ins or manager.servers
        ]

    @property
    def servers(self) -> Sequence[object]:
        """The manager's servers; a stand-in for the manager without servers is itself the only server."""
        manager = self._manager()
        servers = getattr(manager, "servers", None)
        return servers if isinstance(servers, (list, tuple)) else [manager]

    @property
    def clients(self) -> Sequence[APIServer]:
        """Atropos' own among the servers; stand-ins have no connections, limits and timings."""
        return [server for server in self.servers if _is_server(server)]

    def _asked_by_methods(self, asked: object) -> AskedByMethods:
        """Return what asks an object; the same for later requests, because the kind of replies may be detected."""
        kinds = self._kinds_of(asked)
        known = next((one for one in self._by_methods if one.asked is asked and one.kinds == kinds), None)
        if known is None:
            hint = type_hint(named_format(getattr(asked, "config", None)))
            known = AskedByMethods(asked, kinds, is_stand_in=_is_stand_in(asked), hint=hint)
            self._by_methods.append(known)
        return known

    def _kinds_of(self, asked: object) -> Sequence[ReplyKind]:
        """Return the kinds of replies to try, the best first."""
        replaced = _replaced_kinds(asked, ServerManager) or _replaced_kinds(asked, AtroposServer)
        if not replaced and _is_server(asked):
            named = named_format(getattr(asked, "config", None))
            return list(ReplyKind) if named is None else [named.kind]
        # A stand-in is asked as the servers before it were, if it has that method.
        kinds = (self._expected, *ReplyKind)
        offered = [kind for kind in kinds if (kind in replaced if replaced else hasattr(asked, kind.method))]
        return offered[:1] or [self._expected]


def _is_server(asked: object) -> bool:
    """Tell whether an object is of a class of Atropos' servers; a mock of such a class is not."""
    return issubclass(type(asked), APIServer)


def _replaced_kinds(asked: object, usual: type) -> Sequence[ReplyKind]:
    """Return the kinds of replies whose methods are not those of a class, in one of its objects; else none."""
    if not issubclass(type(asked), usual):
        return []
    return [
        kind
        for kind in ReplyKind
        if getattr(getattr(asked, kind.method), "__func__", None) is not getattr(usual, kind.method)
    ]


def _is_ours(server: object) -> bool:
    return issubclass(type(server), AtroposServer) and not _replaced_kinds(server, AtroposServer)


def _is_stand_in(server: object) -> bool:
    return not _is_server(server) or bool(_replaced_kinds(server, AtroposServer))

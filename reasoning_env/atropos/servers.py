"""Inference servers as Atropos sees them: `AtroposServer`, and the choice of the servers that get requests.

A run sends requests directly to the `Server` that an `AtroposServer` wraps. If tests or users replace the servers by
other objects, the run calls the methods of Atropos' interface on these objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig, ReasoningConfig
from atroposlib.envs.server_handling.server_manager import ServerManager

from ..inference.completer import Completer, ServerSettings
from ..inference.formats import REPLY_FORMATS, format_of_kind
from ..inference.formats.reply_format import ReplyFormat, ReplyKind
from ..inference.server import Server
from .config import named_format
from .methods import MethodCompleter
from .methods_for_users import MethodsForUsers

# ---------------------------------------------------------------------------- Atropos' interface


class AtroposServer(MethodsForUsers):
    """Wraps a `Server` in Atropos' interface: health, limits and timings.

    `named` is the reply format to use if the settings have no `server_type`; None to detect the format.
    """

    def __init__(
        self,
        config: APIServerConfig,
        reasoning_config: ReasoningConfig | None = None,
        *,
        named: ReplyFormat | None = None,
    ) -> None:
        APIServer.__init__(self, config, reasoning_config=reasoning_config)  # VLLMServer.__init__ loads a tokenizer
        only_format = named_format(config) or named
        self.server = Server(
            ServerSettings.model_validate(config, from_attributes=True),  # Atropos' own class has fewer settings
            formats=REPLY_FORMATS if only_format is None else [only_format],
            slots={"train": self.sem, "eval": self.eval_sem},
            on_reply=self._note_reply,
        )

    @property
    def server_healthy(self) -> bool:
        return not self.server.is_away

    @server_healthy.setter
    def server_healthy(self, healthy: bool) -> None:
        """Ignore the value that APIServer assigns, because `self.server` detects its own health."""

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        """Return at once, because requests and the run detect an unreachable server without this task."""

    def _note_reply(self, split: str, seconds: float) -> None:
        """Record the duration of a request for Atropos' metrics."""
        is_training = split == "train"
        (self.request_timings if is_training else self.eval_request_timings).append(seconds)
        (self.attempts_list if is_training else self.eval_attempts_list).append(1)


async def close_connections(server: APIServer) -> None:
    """Close the connections of a server's HTTP clients, including Atropos' client, which Atropos never closes."""
    if isinstance(server, AtroposServer):
        await server.server.close()
    if (client := vars(server).get("openai")) is not None:
        await client.close()


# ---------------------------------------------------------------------------- servers that get requests


class Completers:
    """A function that returns the completers for a request. Call it for each request.

    - If user code replaced the server manager or one of its methods, return only the manager.
    - Otherwise, return the stand-ins: servers that are no `APIServer` or that have a replaced method.
    - If there are no stand-ins, return all servers.

    In place of an `AtroposServer` that is no stand-in, return its attribute `server`. Wrap other objects in a
    MethodCompleter.

    `manager` returns BaseEnv's server manager. `expected` is the kind of reply to request from an object that has
    methods for several kinds.
    """

    def __init__(self, manager: Callable[[], object], expected: ReplyKind | None) -> None:
        self._manager = manager
        self._expected = expected or ReplyKind.TOKENS
        self._by_methods: list[MethodCompleter] = []

    def __call__(self) -> Sequence[Completer]:
        manager = self._manager()
        if not isinstance(manager, ServerManager) or _replaced_kinds(manager, ServerManager):
            return [self._method_completer(manager)]
        stand_ins = [server for server in manager.servers if _is_stand_in(server)]
        return [
            server.server if _is_ours(server) else self._method_completer(server)
            for server in stand_ins or manager.servers
        ]

    @property
    def servers(self) -> Sequence[object]:
        """The servers of BaseEnv's server manager. If a test's manager has no servers, the manager itself."""
        manager = self._manager()
        servers = getattr(manager, "servers", None)
        return servers if isinstance(servers, (list, tuple)) else [manager]

    @property
    def clients(self) -> Sequence[APIServer]:
        """The objects in `servers` that are APIServers. Stand-ins of tests are left out: they have no connections."""
        return [server for server in self.servers if _is_server(server)]

    def _method_completer(self, server: object) -> MethodCompleter:
        """Return a MethodCompleter for `server`, always the same unless the server's reply formats change."""
        formats = self._formats_of(server)
        known = next((one for one in self._by_methods if one.server is server and one.formats == formats), None)
        if known is None:
            known = MethodCompleter(server, formats, is_stand_in=_is_stand_in(server))
            self._by_methods.append(known)
        return known

    def _formats_of(self, server: object) -> Sequence[ReplyFormat]:
        """Return the formats in which `server`, a server or server manager, may reply, in order of preference."""
        replaced = _replaced_kinds(server, ServerManager) or _replaced_kinds(server, AtroposServer)
        if not replaced and _is_server(server):
            named = named_format(getattr(server, "config", None))
            return [named] if named is not None else list(map(format_of_kind, ReplyKind))
        # Prefer the kind of replies that the run expects, if the stand-in has its method.
        kinds = (self._expected, *ReplyKind)
        offered = [kind for kind in kinds if (kind in replaced if replaced else hasattr(server, kind.method))]
        return [format_of_kind(next(iter(offered), self._expected))]


def _is_server(server: object) -> bool:
    """Return True if an object is an APIServer; False for a mock with `spec=APIServer`, which passes `isinstance`."""
    return issubclass(type(server), APIServer)


def _replaced_kinds(server: object, base: type) -> Sequence[ReplyKind]:
    """Return the reply kinds for which `server` replaces the method of `base`; [] if it is no instance of `base`."""
    if not issubclass(type(server), base):
        return []
    return [
        kind
        for kind in ReplyKind
        if getattr(getattr(server, kind.method), "__func__", None) is not getattr(base, kind.method)
    ]


def _is_ours(server: object) -> bool:
    return issubclass(type(server), AtroposServer) and not _replaced_kinds(server, AtroposServer)


def _is_stand_in(server: object) -> bool:
    return not _is_server(server) or bool(_replaced_kinds(server, AtroposServer))

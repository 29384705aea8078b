"""The interface of everything that returns completions, and the description of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..records import Prompt, Sampling
from .addresses import Candidate
from .formats import REPLY_FORMATS
from .formats.reply_format import ReplyFormat, ReplyKind, ServerReply
from .refusals import Stream

if TYPE_CHECKING:
    from .server import RequestOptions


class Completer(Protocol):
    """The source of completions: a `Server`, or the methods of another class (`atropos/servers.py`)."""

    @property
    def address(self) -> str:
        """The name of the server in messages."""

    @property
    def name_of_type(self) -> str:
        """The type of the server, for results."""

    @property
    def kind(self) -> ReplyKind | None:
        """The kind of replies; None until it is detected."""

    @property
    def place(self) -> str | None:
        """The endpoint, for messages; None if it is unknown."""

    @property
    def hint(self) -> str:
        """What messages add to the advice to check the model's name."""

    @property
    def is_away(self) -> bool: ...

    def load(self, split: str) -> float:
        """Return the number of requests in flight, divided by the limit if there is a limit."""

    async def complete(
        self,
        prompt: Prompt,
        n: int,
        sampling: Sampling,
        options: RequestOptions,
        *,
        kind: ReplyKind | None = None,
        reply_s: float | None = None,
    ) -> ServerReply: ...

    def candidates(self, prompt: Prompt, options: RequestOptions) -> Sequence[Candidate]:
        """Return the ways to request one token, the best first; empty if the format is known."""

    def keep(self, number: int, refusals: Sequence[str]) -> None:
        """Use candidate `number` from now on; `refusals` are the errors of the candidates before it."""

    async def context_length(self) -> int | None: ...
    async def read_text(self, text: str) -> list[int] | int | None: ...
    async def look_after(self) -> None: ...
    async def close(self) -> None: ...


class Slots(Protocol):
    """A limit of requests in flight: a semaphore with its size as `max_val`."""

    max_val: int

    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *error: object) -> None: ...


@dataclass(frozen=True)
class ServerSpec:
    """The description of a server.

    - `url`: the address (`http://host:port/v1`). Its query is added to every request.
    - `model`: the model's name on this server. `key`: the key, "" for none. `headers` are sent besides the key.
    - `timeout_s`: the time limit of one request.
    - `formats`: the reply formats to try, the best first. The first format that gives a token is used; a single format
      is used without a trial.
    - `stream`: whether to request replies as events.
    - `hint`: what messages add to the advice to check the model's name.
    """

    url: str
    model: str
    key: str
    timeout_s: float
    formats: Sequence[ReplyFormat] = REPLY_FORMATS
    stream: Stream = "auto"
    headers: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""

"""The interface of everything that returns completions, and the description of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..records import Prompt, Sampling
from .addresses import Candidate, Headers
from .formats import AUTO, check_type, names_of_types
from .formats.reply_format import ReplyKind, ServerReply
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
    async def check_if_away(self) -> None: ...
    async def close(self) -> None: ...


class Slots(Protocol):
    """A limit of requests in flight: a semaphore with its size as `max_val`."""

    max_val: int

    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *error: object) -> None: ...


class ServerSettings(BaseModel):
    """The description of an inference server: the settings of the section `openai`, for all commands."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)

    base_url: str = "http://localhost:9001/v1"
    """Address of the inference server (`--openai.base_url`). Every request includes the query string of this address.
    Without this setting, the environment variable OPENAI_BASE_URL is used. To use several servers in `serve` and
    `process`, list them under `openai` in a file."""
    model_name: str | None = None
    """Name of the model on the server (`--openai.model_name`). None: in `evaluate`, the only model of the server."""
    api_key: str | None = None
    """API key of the server (`--openai.api_key`). `$NAME` reads an environment variable. None: OPENAI_API_KEY."""
    headers: Headers = Field(default_factory=dict)
    """HTTP headers of every request, such as `api-key=$AZURE_KEY`; `$NAME` reads an environment variable. With
    `headers`, the environment sends a key only if `api_key` is set."""
    server_type: Annotated[str, AfterValidator(check_type)] = Field(
        default=AUTO, json_schema_extra={"enum": [*names_of_types()]}
    )
    """Type of the server. `auto`: the best type that the server supports. `evaluate` uses `auto` and `chat` only."""
    timeout: Annotated[int, Field(ge=1)] = 1200
    """Time limit of a request, in seconds."""
    stream: Stream = "auto"
    """Whether to request text and chat completions as streams. `auto`: only if the server refuses other requests."""

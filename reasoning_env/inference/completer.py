"""The interface of objects that return completions, and the settings of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..records import Prompt, Sampling
from .addresses import Headers
from .formats import AUTO, check_type, names_of_types
from .formats.reply_format import ReplyFormat, ReplyKind, ServerReply
from .refusals import Stream

if TYPE_CHECKING:
    from .server import RequestOptions


class Completer(Protocol):
    """An object that returns completions: a `Server`, or a `MethodCompleter` (`atropos/methods.py`)."""

    formats: Sequence[ReplyFormat]
    """The formats to try, the best first."""
    format: ReplyFormat | None
    """The format of the server; None until it is detected."""

    @property
    def address(self) -> str:
        """The server's address for messages, without API keys."""

    @property
    def url(self) -> str:
        """The server's URL, which may contain keys. Messages contain `address` instead."""

    @property
    def is_away(self) -> bool: ...

    def place(self, reply_format: ReplyFormat) -> str:
        """Return a format's endpoint for log and error messages: `POST /v1/completions with token ids`."""

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

    async def gives_token(self, reply_format: ReplyFormat, prompt: Prompt, options: RequestOptions) -> bool:
        """Return True if a request in this format returns a token. May raise any error."""

    async def context_length(self) -> int | None: ...
    async def read_text(self, text: str) -> list[int] | int | None: ...
    async def check_if_away(self) -> None: ...
    async def close(self) -> None: ...


class Slots(Protocol):
    """A semaphore of size `max_val` for requests in flight."""

    max_val: int

    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *error: object) -> None: ...


class ServerSettings(BaseModel):
    """The description of an inference server: the settings of the section `openai`, for all commands."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)

    base_url: str = "http://localhost:9001/v1"
    """Address of the inference server (`--openai.base_url`). Every request includes the query string of this address.
    The environment variable OPENAI_BASE_URL replaces the default. To use several servers in `serve` and `process`, list
    them under `openai` in a --config file."""
    model_name: str | None = None
    """Name of the model on the server (`--openai.model_name`). None: `evaluate` uses the server's only model, and other
    commands send the name `default`."""
    api_key: str | None = None
    """API key of the server (`--openai.api_key`). `$NAME` reads an environment variable. None: `$OPENAI_API_KEY`."""
    headers: Headers = Field(default_factory=dict)
    """HTTP headers of every request, such as `api-key=$AZURE_KEY`; `$NAME` reads an environment variable. If `headers`
    are set, no default API key is sent."""
    server_type: Annotated[str, AfterValidator(check_type)] = Field(
        default=AUTO, json_schema_extra={"enum": [*names_of_types()]}
    )
    """Type of the server. `auto`: the best type that the server supports. `evaluate` accepts only `auto` and `chat`."""
    timeout: Annotated[int, Field(ge=1)] = 1200
    """Time limit of a request, in seconds."""
    stream: Stream = "auto"
    """Whether to request text and chat completions as streams. `auto`: only if the server requires streaming."""

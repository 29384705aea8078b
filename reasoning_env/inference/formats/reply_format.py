"""The interface of reply formats: how to build a request and how to read its reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from ...records import Prompt

if TYPE_CHECKING:
    import aiohttp
    from numpy.typing import NDArray


class ReplyKind(Enum):
    """The content of replies, the best kind first.

    `method`: the name of the request method in Atropos' server classes.
    """

    TOKENS = ("tokens_and_logprobs_completion", "sampled tokens and their log-probabilities")
    TEXT = (
        "completion",
        "text only: the environment tokenizes the text, and the trainer must compute the log-probabilities itself",
    )
    CHAT = ("chat_completion", "chat only: no token ids, so usable by `evaluate` and `process`, but not for training")

    def __init__(self, method: str, summary: str) -> None:
        self.method = method
        self.summary = summary


NO_FILTERS: Mapping[str, object] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Parameters that switch off the filters in a model's generation_config.json: log-probabilities do not reflect them."""


@dataclass(frozen=True)
class TokenCompletion:
    """A completion as sampled tokens with log-probabilities, in NumPy arrays or lists.

    - `finish_reason`: as the server sends it; "" if the server sends none.
    - `text`: the completion's text, if the reply contains both tokens and text; else "".
    """

    tokens: Sequence[int] | NDArray[Any]
    logprobs: Sequence[float] | NDArray[Any]
    finish_reason: str
    text: str = ""


@dataclass(frozen=True)
class TextCompletion:
    """A completion as text.

    - `text`: the text.
    - `thinking`: the thinking, if the server returned it in a separate field; else "".
    - `finish_reason`: `error` for an error, `refusal` for a refusal; else the server's, or "" if missing.
    - `error`: the message of an error in the completion.
    - `token_count`: number of tokens of the completion; None if the server does not send it.
    """

    text: str
    thinking: str
    finish_reason: str
    error: str = ""
    token_count: int | None = None


ServedCompletion: TypeAlias = "TokenCompletion | TextCompletion"


@dataclass(frozen=True)
class SentRequest:
    """A request that the server answered.

    - `requested`: the fields that the settings ask for, with OpenAI's names.
    - `sent`: the fields as sent. They differ from `requested` if the server refused some fields.
    - `model`: the model's name in the reply; "" if the reply has no name.
    """

    requested: Mapping[str, object]
    sent: Mapping[str, object]
    model: str = ""


@dataclass(frozen=True)
class ServerReply:
    """The completions of a reply, or of the replies to several requests.

    - `prompt_tokens`: the ids of the prompt's tokens, if the server returned them; else None.
    - `model`: the model's name in the reply; "" if the reply has no name.
    - `requests`: a record of each request that the server answered.
    """

    completions: Sequence[ServedCompletion]
    prompt_tokens: Sequence[int] | None = None
    model: str = ""
    requests: Sequence[SentRequest] = ()


MAX_TOKENS = 10**8
"""If a reply states a larger number of tokens, the number is ignored."""


class ReplyError(Exception):
    """A reply does not fit its format."""


@dataclass(frozen=True, kw_only=True)
class ReplyFormat(ABC):
    """A format of requests to a server and of its replies.

    - `name`: the value of `openai.server_type`.
    - `kind`: what the replies contain, such as tokens or only text.
    - `path`: is added to the server's address. If `below_v1` is False, the address's final `/v1` is removed.
    - `note`: words after the path in messages.
    """

    name: str
    kind: ReplyKind
    path: str
    below_v1: bool
    note: str = ""

    @abstractmethod
    def make_request(self, prompt: Prompt, model: str, parameters: Mapping[str, object]) -> dict[str, object]:
        """Return the body of a request; `parameters` have OpenAI's names."""

    @abstractmethod
    async def read_reply(self, response: aiohttp.ClientResponse) -> ServerReply:
        """Return the completions of a successful response.

        Raises ReplyError, ErrorReply and the errors of reading a body.
        """

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


class Training(Enum):
    """Whether the completions can be used for training."""

    YES = "yes"
    WITHOUT_LOGPROBS = "by trainers that compute log-probabilities themselves"
    NO = "no"


class ReplyKind(Enum):
    """The content of replies, the best kind first.

    `method` names the method that gives such replies, for servers that have methods instead of a format.
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


NO_FILTERS: Mapping[str, object] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Parameters of requests for tokens to train on: a model's generation_config.json may have filters, which
log-probabilities do not show."""


@dataclass(frozen=True)
class TokenCompletion:
    """A completion as sampled tokens with log-probabilities: numpy's arrays, or lists from methods.

    - `word`: the server's word for how the completion ended; "" if the server does not say.
    - `text`: the text that the reply has beside the tokens; "" if there is none.
    """

    tokens: Sequence[int] | NDArray[Any]
    logprobs: Sequence[float] | NDArray[Any]
    word: str
    text: str = ""


@dataclass(frozen=True)
class TextCompletion:
    """A completion as text.

    - `text`: the text without thinking that the server returned apart; `thinking` is that thinking.
    - `word`: the server's word for how the completion ended; "" if the server does not say.
    - `error`: what an error within the completion says.
    - `token_count`: tokens of the completion; None if the server does not say.
    """

    text: str
    thinking: str
    word: str
    error: str = ""
    token_count: int | None = None


ServedCompletion: TypeAlias = "TokenCompletion | TextCompletion"


@dataclass(frozen=True)
class SentRequest:
    """A request that was answered.

    - `requested`: the fields of the request as chosen, by OpenAI's names.
    - `sent`: the fields that were sent, after the server had refused some of them.
    - `model`: the model that answered, by the reply's own words; "" if the reply does not say.
    """

    requested: Mapping[str, object]
    sent: Mapping[str, object]
    model: str = ""


@dataclass(frozen=True)
class ServerReply:
    """The completions of a reply, or of the replies to several requests.

    - `prompt_tokens`: the prompt's tokens as the server read them; None if they are those of the request.
    - `model`: the model that answered, by the reply's own words; "" if the reply does not say.
    - `requests`: the requests that were answered.
    """

    completions: Sequence[ServedCompletion]
    prompt_tokens: Sequence[int] | None = None
    model: str = ""
    requests: Sequence[SentRequest] = ()


MAX_TOKENS = 10**8
"""No prompt and no completion has as many tokens."""


class ReplyError(Exception):
    """A reply does not fit its format."""


@dataclass(frozen=True, kw_only=True)
class ReplyFormat(ABC):
    """A way to ask a server for completions.

    - `name`: the value of `openai.server_type`.
    - `kind`: what the replies hold.
    - `path`: is joined to the server's address, without the address' `/v1` unless `below_v1`.
    - `note`: what messages add to the path.
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

        Raises ReplyError, JSONDecodeError and what reading a body raises.
        """

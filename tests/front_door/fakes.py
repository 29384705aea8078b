"""Inference servers without a network, for `ReasoningGymEnv.server_cls`; everything between them and a test is real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig
from openai.types.completion import Completion, CompletionChoice
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from reasoning_gym_environment import ReasoningGymEnv
from testing import TOKENIZER as TOKENIZER_FOLDER

TOKENIZER: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(TOKENIZER_FOLDER)
END_OF_TURN: int = TOKENIZER.convert_tokens_to_ids("<|im_end|>")
PROBE = "1 + 1 ="
"""What the environment asks at startup, to see whether a server is there."""


@dataclass(frozen=True)
class Reply:
    """One completion. `tokens` and `logprobs` are made from the text where they are not given."""

    text: str
    finish_reason: str = "stop"
    tokens: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None

    @property
    def output(self) -> list[int]:
        if self.tokens is not None:
            return list(self.tokens)
        end = [END_OF_TURN] if self.finish_reason == "stop" else []
        return [*TOKENIZER.encode(self.text, add_special_tokens=False), *end]

    @property
    def output_logprobs(self) -> list[float]:
        return list(self.logprobs) if self.logprobs is not None else [logprob(place) for place in self.output]


def logprob(token: int) -> float:
    """A log-probability that shows which token it belongs to."""
    return -0.001 * (token + 1)


Script = Callable[[dict[str, Any]], Sequence[Reply]]


def wrong(request: dict[str, Any]) -> list[Reply]:
    return [Reply("<answer>nonsense</answer>")] * request["n"]


@dataclass
class Log:
    """What a server was asked for, the startup probe left out, and how it answers."""

    script: Script = wrong
    requests: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: dict[str, Any]) -> Sequence[Reply]:
        if request["prompt"] == PROBE:
            return [Reply("2")] * request["n"]
        self.requests.append(request)
        await asyncio.sleep(0)
        return self.script(request)

    def say(self, *replies: str | Reply) -> None:
        """Answer every request with these, as many of them as it asks for."""
        fixed = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]
        self.script = lambda request: fixed[: request["n"]]

    def say_in_turn(self, *turns: Sequence[Reply]) -> None:
        """Answer the first request with the first of these, and so on; the last one stays."""
        left = list(turns)
        self.script = lambda request: left.pop(0) if len(left) > 1 else left[0]


class TokenServer(APIServer):
    """Gives tokens and log-probabilities, like vLLM and SGLang."""

    def __init__(self, config: APIServerConfig, reasoning_config: Any = None) -> None:
        super().__init__(config, reasoning_config)
        self.log = Log()

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        self.server_healthy = True

    async def _chat_completion_wrapper(self, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def _completion_wrapper(self, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def _tokens_and_logprobs_completion_wrapper(self, **kwargs: Any) -> tuple[list, list, list, list]:
        replies = await self.log.answer(kwargs)
        prompt = kwargs.get("input_ids") or TOKENIZER.encode(kwargs["prompt"])
        return (
            prompt,
            [reply.output for reply in replies],
            [reply.output_logprobs for reply in replies],
            [reply.finish_reason for reply in replies],
        )


class TextServer(OpenAIServer):
    """Gives text, like any server with OpenAI's protocol."""

    def __init__(self, config: APIServerConfig, reasoning_config: Any = None) -> None:
        super().__init__(config, reasoning_config)
        self.log = Log()

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        self.server_healthy = True

    async def _completion_wrapper(self, **kwargs: Any) -> Completion:
        replies = await self.log.answer(kwargs)
        # Unchecked, as the real client builds it: servers send what they like.
        choices = [
            CompletionChoice.model_construct(index=index, text=reply.text, finish_reason=reply.finish_reason)
            for index, reply in enumerate(replies)
        ]
        return Completion.model_construct(id="", created=0, model="m", object="text_completion", choices=choices)


class TokenEnv(ReasoningGymEnv):
    """The environment with a `TokenServer`; `reported` holds what every `wandb_log` would have sent."""

    server_cls = TokenServer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reported: list[dict[str, Any]] = []

    @property
    def log(self) -> Log:
        return self.server.servers[0].log

    async def create_rollout_table(self, wandb_metrics: dict[str, Any]) -> dict[str, Any]:
        metrics = await super().create_rollout_table(wandb_metrics)
        self.reported.append(metrics)
        return metrics

    async def report(self) -> dict[str, Any]:
        """The metrics since the last report."""
        await self.wandb_log()
        return self.reported[-1]


class TextEnv(TokenEnv):
    """The environment with a `TextServer`."""

    server_cls = TextServer

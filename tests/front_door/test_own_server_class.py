"""Use a custom server class, passed by Atropos' hook `server_cls`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_harness import create_chat_completion, create_completion
from transformers import AutoTokenizer

from reasoning_gym_testing import TOKENIZER

from .conftest import Env, MakeEnv, right

TEXTS = ["<answer>right</answer>", "<answer>wrong</answer>"] * 2


class OwnServer(APIServer):  # type: ignore[misc]  # atroposlib has no types
    """A server class without an address that supports all request methods. Subclasses remove methods."""

    async def check_server_status_task(self, chat_completion: bool = True) -> None:
        self.server_healthy = True

    async def _chat_completion_wrapper(self, *, n: int, **_: Any) -> Any:
        return create_chat_completion(TEXTS[:n], n)

    async def _completion_wrapper(self, *, n: int, **_: Any) -> Any:
        return create_completion(TEXTS[:n], n)

    async def _tokens_and_logprobs_completion_wrapper(self, *, n: int, input_ids: Any = (1, 2), **_: Any) -> Any:
        tokens = AutoTokenizer.from_pretrained(TOKENIZER)(TEXTS[:n])["input_ids"]
        return list(input_ids), tokens, [[-0.5] * len(ids) for ids in tokens], ["stop"] * n


class TokenServer(OwnServer):
    """Supports the token method only."""

    async def _completion_wrapper(self, **_: Any) -> Any:
        raise NotImplementedError

    async def _chat_completion_wrapper(self, **_: Any) -> Any:
        raise NotImplementedError


class TextServer(OwnServer):
    """Supports the methods for text and chat."""

    async def _tokens_and_logprobs_completion_wrapper(self, **_: Any) -> Any:
        raise NotImplementedError


class ChatServer(TextServer):
    """Supports the chat method only."""

    async def _completion_wrapper(self, **_: Any) -> Any:
        raise NotImplementedError


async def collect(env: Env) -> Any:
    """Collect a group whose first and third completion are right."""
    item = await env.get_next_item()
    TEXTS[::2] = [right(item)] * 2
    group, _ = await env.collect_trajectories(item)
    return group


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("auto", OwnServer),
        ("auto", TokenServer),
        ("auto", TextServer),
        ("auto", ChatServer),
        ("vllm", OwnServer),
        ("sglang", OwnServer),
        ("completions", OwnServer),
        ("openai", TextServer),
        ("chat", ChatServer),
    ],
)
async def test_group_is_collected_through_a_custom_server_class(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch, kind: str, own: type[OwnServer]
) -> None:
    monkeypatch.setattr(Env, "server_cls", own)
    env = await make_env(kind)
    group = await collect(env)
    assert type(env.server.servers[0]) is own
    assert group["scores"] == [1.0, 0.0, 1.0, 0.0]
    assert all(map(len, group["tokens"])) is (own is not ChatServer)
    assert (group["inference_logprobs"] is not None) is (own in (OwnServer, TokenServer))


@pytest.mark.parametrize("own", [OwnServer, TextServer, ChatServer])
async def test_evaluation_runs_through_a_custom_server_class(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: type[OwnServer]
) -> None:
    monkeypatch.setattr(Env, "server_cls", own)
    env = await make_env(
        "auto",
        num_eval_samples_per_task=2,
        eval_max_completion_tokens=64,  # with this setting, the environment requests a server's context length
        data_dir_to_save_evals=str(tmp_path),
    )
    await env.evaluate()
    assert env.reported[-1]["eval/mean_score"] == 0.0


async def test_metrics_are_reported_with_a_custom_server_class(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Env, "server_cls", OwnServer)
    env = await make_env("auto")
    await collect(env)
    [own] = env._run.clients
    await own.update_weight(0.5)
    assert (await own.wandb_metrics({}, "server_0"))["server/server_0_average_num_attempts"] == 1.0
    await env.wandb_log()

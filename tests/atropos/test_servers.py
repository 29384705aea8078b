"""Servers of type auto: what they are found to give, over real HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_manager import ServerManager

from reasoning_env.atropos.inference.replies import COMPLETIONS, VLLM, TokenProtocol
from reasoning_env.atropos.inference.server_checks import check_servers, check_tokenizer
from reasoning_env.atropos.inference.servers import Mode, choose_server_class, mode_of
from reasoning_env.errors import ConfigError, ServerError
from reasoning_env.prompting import ChatFormat
from reasoning_gym_testing import TOKENIZER, InferenceServer, respond
from reasoning_gym_testing.inference_server import InferenceServer as RealServer
from tests.chat_templates import tokenizer_with


def manager_of(*configs: Any) -> ServerManager:
    listed = [config.model_copy(update={"tokenizer_name": TOKENIZER}) for config in configs]
    return ServerManager(listed, server_class=choose_server_class(APIServer, listed))


async def found(*servers: InferenceServer) -> list[Any]:
    """Let an environment's check find out what the servers give."""
    manager = manager_of(*(server.config("auto") for server in servers))
    try:
        await check_servers(manager.servers, Mode.TOKENS, 5.0)
    finally:
        for one in manager.servers:
            await one.openai.close()
    return list(manager.servers)


@pytest.mark.parametrize(
    ("paths", "mode", "protocol"),
    [
        (["/generate", "/v1/completions"], Mode.TOKENS, VLLM),
        (["/v1/completions", "/v1/chat/completions"], Mode.TOKENS, COMPLETIONS),
        (["/v1/chat/completions"], Mode.CHAT, None),
    ],
    ids=["generate", "completions", "chat"],
)
async def test_best_way_that_works_is_taken(paths: Sequence[str], mode: Mode, protocol: TokenProtocol | None) -> None:
    async with RealServer(paths=paths) as server:
        [one] = await found(server)
    assert (one.mode, one.protocol) == (mode, protocol)


async def check_reading(server: InferenceServer, kind: str, tokenizer: Any) -> None:
    """Let an environment with this tokenizer compare what the server reads."""
    manager = manager_of(server.config(kind))
    try:
        await check_servers(manager.servers, Mode.TOKENS, 5.0)
        await check_tokenizer(manager.servers, ChatFormat(tokenizer, "mine"))
    finally:
        for one in manager.servers:
            await one.openai.close()


KINDS = ["auto", "vllm", "sglang", "completions"]


@pytest.mark.parametrize("kind", KINDS)
async def test_tokenizer_of_the_server_passes(kind: str, tokenizer: Any) -> None:
    async with RealServer() as server:
        await check_reading(server, kind, tokenizer)


@pytest.mark.parametrize("kind", KINDS)
async def test_tokenizer_of_another_model_is_told_in_one_line(kind: str, tokenizer: Any) -> None:
    other = tokenizer_with(tokenizer, tokenizer.chat_template, more=("a", "e"))
    async with RealServer() as server:
        with pytest.raises(
            ConfigError, match=r"env\.tokenizer_name: 'mine' is not the tokenizer of .* at http"
        ) as raised:
            await check_reading(server, kind, other)
    assert "\n" not in str(raised.value)


async def test_server_that_does_not_tell_how_it_reads_passes(tokenizer: Any) -> None:
    async with RealServer() as server:
        server.fail(respond(400), only=lambda request, body: b'"text"' in body)
        await check_reading(server, "sglang", tokenizer)


async def test_server_that_gives_nothing_is_refused_in_one_line() -> None:
    async with RealServer(paths=[]) as server:
        with pytest.raises(ServerError, match=r"openai\.base_url") as raised:
            await found(server)
    assert "\n" not in str(raised.value)
    assert server.url in str(raised.value)


async def test_what_all_servers_give_is_taken() -> None:
    async with RealServer() as whole, RealServer(paths=["/v1/chat/completions"]) as chats:
        assert mode_of(await found(whole, chats)) is Mode.CHAT

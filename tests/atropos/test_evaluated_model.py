"""What `evaluate` finds out from a server before anything is loaded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from reasoning_env.atropos.config import DEFAULT_MODEL
from reasoning_env.atropos.inference.evaluated_model import choose_model
from reasoning_env.atropos.launch import build_launch
from reasoning_env.atropos.modes.evaluate import Evaluate
from reasoning_env.errors import ConfigError, ServerError
from reasoning_gym_environment import ReasoningGymEnv

Choose = Callable[..., Awaitable[tuple[str, str, str]]]
CHAT = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}


@pytest.fixture
async def choose() -> AsyncIterator[Choose]:
    """Starts a server with some models, and returns the chosen model, type and tokenizer."""
    started: list[TestServer] = []

    async def choose(
        models: list[str], *, chat: int = 200, message: str = "no such page", path: str = "/v1", **options: Any
    ) -> tuple[str, str, str]:
        async def list_models(_: web.Request) -> web.Response:
            return web.json_response({"object": "list", "data": [{"id": model} for model in models]})

        async def complete(_: web.Request) -> web.Response:
            return web.json_response(CHAT if chat == 200 else {"error": {"message": message}}, status=chat)

        app = web.Application()
        app.router.add_get("/v1/models", list_models)
        app.router.add_post("/v1/chat/completions", complete)
        server = TestServer(app)
        started.append(server)
        await server.start_server()
        given = {name.replace("__", "."): value for name, value in options.items()}
        url = str(server.make_url(path))
        launch = build_launch(ReasoningGymEnv, Evaluate(), {"openai.base_url": url, **given})
        assert isinstance(launch.servers, list)
        config, [chosen] = await choose_model(launch.config, launch.servers, launch.typed)
        return chosen.model_name, chosen.server_type, config.tokenizer_name

    yield choose
    for server in started:
        await server.close()


async def test_only_model_is_taken(choose: Choose) -> None:
    assert await choose(["only"]) == ("only", "chat", DEFAULT_MODEL)


@pytest.mark.parametrize(
    ("models", "told"), [([], "has none$"), (["a", "b"], "has a, b$"), (list("abcdef"), "a, b, c, d, e, ...")]
)
async def test_model_is_missing(choose: Choose, models: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=rf"^MODEL is missing, as in `evaluate MODEL`; http://.*{told}"):
        await choose(models)


async def test_named_model_is_kept(choose: Choose) -> None:
    assert await choose(["only"], openai__model_name="mine") == ("mine", "chat", DEFAULT_MODEL)


@pytest.mark.parametrize(
    ("chat", "message", "server_type"),
    [
        (404, "no such page", "auto"),
        (405, "not allowed", "auto"),
        (400, "the tokenizer has no chat template", "auto"),
        (400, "use max_completion_tokens", "chat"),
        (404, "the model `m` does not exist", "chat"),
        (401, "wrong key", "chat"),
        (429, "rate limit", "chat"),
        (503, "loading", "chat"),
    ],
)
async def test_type_follows_chat(choose: Choose, chat: int, message: str, server_type: str) -> None:
    chosen = await choose([], chat=chat, message=message, openai__model_name="m")
    assert chosen == ("m", server_type, "m" if server_type == "auto" else DEFAULT_MODEL)


@pytest.mark.parametrize("given", [{"env__tokenizer_name": "t"}, {"openai__server_type": "vllm"}])
async def test_named_tokenizer_or_type_is_kept(choose: Choose, given: dict[str, str]) -> None:
    _, server_type, tokenizer = await choose([], openai__model_name="m", **given)
    assert server_type == given.get("openai__server_type", "auto")
    assert tokenizer == given.get("env__tokenizer_name", "m")


async def test_url_without_v1(choose: Choose) -> None:
    with pytest.raises(ServerError, match=r"404.*most servers want http://\S+/v1$"):
        await choose(["m"], path="/", openai__model_name="m")

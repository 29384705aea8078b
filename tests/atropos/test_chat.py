from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from atroposlib.envs import base
from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from openai.types.chat import ChatCompletion

from reasoning_env.atropos.config import complete_servers
from reasoning_env.atropos.inference.chat import ChatRequests, PlainChat, is_chat, tokenizer_if_needed
from reasoning_env.errors import ConfigError
from reasoning_env.records import Sampling

SAMPLING = Sampling(temperature=0.5, top_p=0.9, token_limit=1000, split="eval")
PROMPT = PlainChat().prompt([{"role": "user", "content": "x" * 200}])


class Refusal(Exception):
    status_code = 400


class Server:
    """Answers with "yes" unless `fault` raises something for a request, whose arguments are kept."""

    def __init__(self, fault: Callable[[dict[str, Any]], None] = lambda sent: None) -> None:
        self.config = SimpleNamespace(model_name="model")
        self.sem = self.eval_sem = asyncio.Semaphore(2)
        self.openai = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=self._create)))
        self.sent: list[dict[str, Any]] = []
        self._fault = fault

    async def _create(self, **sent: Any) -> SimpleNamespace:
        self.sent.append(sent)
        self._fault(sent)
        choice = SimpleNamespace(message=SimpleNamespace(content="yes"), finish_reason="stop")
        return SimpleNamespace(choices=[choice], usage=SimpleNamespace(completion_tokens=7))


async def complete(server: Server, n: int = 1) -> list[Any]:
    return await ChatRequests().complete(server, PROMPT, n, SAMPLING)


async def test_each_completion_is_a_request_of_its_own_with_its_number_of_tokens() -> None:
    server = Server()
    rollouts = await complete(server, 3)
    assert [(rollout.text, rollout.completion_tokens, rollout.tokens) for rollout in rollouts] == [("yes", 7, ())] * 3
    assert server.sent[0] == {
        "model": "model",
        "messages": [{"role": "user", "content": "x" * 200}],
        "max_tokens": SAMPLING.completion_budget(PROMPT),
        "temperature": 0.5,
        "top_p": 0.9,
    }
    assert SAMPLING.completion_budget(PROMPT) < 1000 - 50


async def test_reply_without_text_is_a_completion_all_the_same() -> None:
    server = Server()

    async def thinks(**sent: Any) -> SimpleNamespace:
        choice = SimpleNamespace(message=SimpleNamespace(content=None), finish_reason="length")
        return SimpleNamespace(choices=[choice], usage=None)

    server.openai.chat.completions.create = thinks
    (rollout,) = await complete(server)
    assert (rollout.text, rollout.truncated, rollout.completion_tokens) == ("", True, None)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_thinking_that_comes_apart_from_the_text_is_kept_apart(name: str) -> None:
    server = Server()

    async def thinks(**sent: Any) -> ChatCompletion:
        message = {"role": "assistant", "content": "<answer>1</answer>", name: "</think><answer>2</answer>"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        reply = {"id": "", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return ChatCompletion.model_validate(reply)

    server.openai.chat.completions.create = thinks
    (rollout,) = await complete(server)
    assert (rollout.text, rollout.thinking) == ("<answer>1</answer>", "</think><answer>2</answer>")


async def test_completions_that_came_are_kept_when_others_fail() -> None:
    def fail_second(sent: dict[str, Any]) -> None:
        if len(server.sent) == 2:
            raise ConnectionResetError

    server = Server(fail_second)
    assert len(await complete(server, 3)) == 2


async def test_failure_of_all_is_raised() -> None:
    def fail(sent: dict[str, Any]) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await complete(Server(fail), 2)


async def test_refused_parameters_are_left_out_once_and_for_all(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(sent: dict[str, Any]) -> None:
        if "max_tokens" in sent:
            raise Refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in sent:
            raise Refusal("'temperature' does not support 0.5 with this model")

    server, requests = Server(refuse), ChatRequests()
    for _ in range(2):
        assert len(await requests.complete(server, PROMPT, 1, SAMPLING)) == 1
    assert len(server.sent) == 4
    assert server.sent[-1].keys() == {"model", "messages", "max_completion_tokens", "top_p"}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_refusal_of_something_else_is_raised() -> None:
    def refuse(sent: dict[str, Any]) -> None:
        raise Refusal("no such model")

    server = Server(refuse)
    with pytest.raises(Refusal):
        await complete(server)
    assert len(server.sent) == 1


def completed(**fields: Any) -> Any:
    (config,) = complete_servers([APIServerConfig(**{"base_url": "http://h/v1", **fields})], "tokenizer")
    return config


def test_chat_server_is_one_of_type_openai_to_atropos_and_is_not_asked_for_its_health() -> None:
    config = completed(server_type="chat", model_name="m")
    assert (is_chat(config), config.server_type, config.health_check, config.model_name) == (True, "openai", False, "m")
    assert not is_chat(completed(server_type="openai"))


@pytest.mark.parametrize(
    ("server_type", "given", "key"),
    [
        ("chat", "", "from-variable"),
        ("chat", "x", "from-variable"),
        ("chat", "own", "own"),
        ("chat", "$MY_KEY", "mine"),
        ("openai", "$MY_KEY", "mine"),
        ("openai", "", "x"),
    ],
)
def test_key_is_read_from_the_environment(
    server_type: str, given: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-variable")
    monkeypatch.setenv("MY_KEY", "mine")
    assert completed(server_type=server_type, api_key=given).api_key == key


def test_key_of_a_variable_that_is_not_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigError, match="MY_KEY"):
        completed(server_type="chat", api_key="$MY_KEY")


def test_tokenizer_is_loaded_but_for_chat_servers() -> None:
    loader = base.AutoTokenizer
    with tokenizer_if_needed([completed(server_type="openai")]):
        assert base.AutoTokenizer is loader
    with tokenizer_if_needed([completed(server_type="chat")]):
        assert base.AutoTokenizer.from_pretrained("anything") is None
    assert base.AutoTokenizer is loader

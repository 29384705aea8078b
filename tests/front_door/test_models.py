"""Base models, models with their own thinking format, and options of chat templates."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from transformers import AutoTokenizer

from reasoning_env.errors import ConfigError, ServerError
from reasoning_gym_testing import TOKENIZER, InferenceServer, respond
from reasoning_gym_testing.http_server import Handler
from tests.chat_templates import tokenizer_with

from .conftest import MakeEnv, in_turn, make_config, make_env_object


@pytest.fixture
def base_model(tmp_path: Path) -> str:
    """A tokenizer without chat template."""
    folder = Path(shutil.copytree(TOKENIZER, tmp_path / "base"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    return str(folder)


@pytest.fixture
def magistral(tmp_path: Path) -> str:
    """A tokenizer whose special tokens mark thinking."""
    plain = AutoTokenizer.from_pretrained(TOKENIZER)
    folder = tmp_path / "magistral"
    tokenizer_with(plain, plain.chat_template, more=("[THINK]", "[/THINK]")).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", ["vllm", "sglang", "openai"])
async def test_reply_of_a_base_model_is_cut_where_the_next_turn_begins(
    make_env: MakeEnv, server: InferenceServer, base_model: str, kind: str
) -> None:
    env = await make_env(kind, tokenizer_name=base_model, chat_template="plain", include_messages=True)
    item = await env.get_next_item()
    begins = [f"hm</think> <answer>{item.problem.answer}</answer>", "<answer>?</answer>"] * 2
    runs_on = "\n\nUser: And 1 + 1?\n\nAssistant: <think>2</think> <answer>2</answer>"
    server.policy = in_turn([begin + runs_on for begin in begins])
    group, _ = await env.collect_trajectories(item)
    assert sorted(group["scores"]) == [0.0, 0.0, 1.0, 1.0]
    assert sorted(messages[-1]["content"] for messages in group["messages"]) == sorted(begins)
    assert server.requests[0].prompt.endswith("Assistant: <think>")


@pytest.mark.parametrize("kind", ["vllm", "sglang", "openai"])
async def test_answer_inside_native_thinking_is_ignored(
    make_env: MakeEnv, server: InferenceServer, magistral: str, kind: str
) -> None:
    env = await make_env(kind, tokenizer_name=magistral)
    item = await env.get_next_item()
    right = f"[THINK]Not <answer>0</answer>.[/THINK]<answer>{item.problem.answer}</answer>"
    server.policy = in_turn([right, "<answer>?</answer>"])
    group, _ = await env.collect_trajectories(item)
    assert sorted(group["scores"]) == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "openai"])
async def test_answer_after_thinking_in_an_unknown_format_scores_zero(
    make_env: MakeEnv, server: InferenceServer, kind: str
) -> None:
    env = await make_env(kind, ensure_scores_are_not_same=False)
    item = await env.get_next_item()
    text = f"[THINK]Not <answer>0</answer>.[/THINK]<answer>{item.problem.answer}</answer>"
    server.policy = lambda request: [text] * request.n
    group, _ = await env.collect_trajectories(item)
    assert group["scores"] == [0.0] * 4


async def test_refusal_of_the_field_skip_special_tokens_raises(
    make_env: MakeEnv, server: InferenceServer, magistral: str
) -> None:
    server.fail(respond(400, {"error": {"message": "Unrecognized request argument: skip_special_tokens"}}))
    with pytest.raises(ServerError, match=r"Unrecognized request argument: skip_special_tokens.*openai\.server_type"):
        await make_env("openai", tokenizer_name=magistral)


async def test_chat_template_options_are_sent_to_the_chat_server(make_env: MakeEnv, server: InferenceServer) -> None:
    asked: list[dict[str, Any]] = []

    async def listen(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked.append(await request.json())
        return await handler(request)

    env = await make_env("chat", chat_template_kwargs={"enable_thinking": False}, reasoning_effort="low")
    item = await env.get_next_item()
    server.fail(listen)
    await env.collect_trajectories(item)
    assert asked
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in asked)
    assert {body["reasoning_effort"] for body in asked} == {"low"}


@pytest.mark.parametrize(("kind", "is_used"), [("vllm", False), ("chat", True)])
async def test_warning_is_logged_if_the_reasoning_effort_setting_is_ignored(
    make_env: MakeEnv, caplog: pytest.LogCaptureFixture, kind: str, is_used: bool
) -> None:
    await make_env(kind, reasoning_effort="low")
    assert any("env.reasoning_effort is ignored" in message for message in caplog.messages) is not is_used


@pytest.mark.parametrize(("kind", "is_used"), [("vllm", False), ("chat", True)])
async def test_warning_is_logged_if_the_openai_stream_setting_is_ignored(
    server: InferenceServer, workers: Any, caplog: pytest.LogCaptureFixture, kind: str, is_used: bool
) -> None:
    env = make_env_object([server.config(kind, stream="never")], pool=workers)
    await env.setup()
    await env.close()
    assert any("openai.stream is ignored" in message for message in caplog.messages) is not is_used


def test_unknown_thinking_format_raises() -> None:
    with pytest.raises(ConfigError, match=r"(?s)thinking.*'magistral'"):
        make_config(thinking="thikn")


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (None, "cannot be read .No such file"),
        ("{% for m in messages %}", "TemplateSyntaxError"),
        (
            "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}",
            "the template leaves out the question",
        ),
    ],
)
def test_unusable_chat_template_raises_a_one_line_error(tmp_path: Path, template: str | None, says: str) -> None:
    path = tmp_path / "own.jinja"
    if template is not None:
        path.write_text(template)
    with pytest.raises(ConfigError, match=says) as refused:
        make_env_object(chat_template=str(path))
    assert "\n" not in str(refused.value)

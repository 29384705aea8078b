from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.errors import ConfigError, ServerError
from reasoning_env.inference.addresses import (
    find_secrets,
    goes_through_proxy,
    read_secrets,
    wait_for_server,
)
from reasoning_env.inference.completer import ServerSettings
from reasoning_env.inference.failures import Failure, FailureKind
from reasoning_env.inference.server import Server


async def test_waiting_for_a_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def probe(_timeout_s: float) -> Sequence[Failure]:
        return [
            Failure(
                "http://one: Connection refused", FailureKind.ABSENT, "start the server, or correct {openai.base_url}"
            )
        ]

    with pytest.raises(ServerError, match=r"\(http://one: Connection refused\); start the server, .*openai\.base_url$"):
        await wait_for_server(probe, 0.6)
    assert caplog.messages == ["waiting for an inference server (http://one: Connection refused)"]


@pytest.mark.parametrize(
    ("url", "proxied"),
    [
        ("http://127.0.0.1:9001/v1", False),
        ("http://localhost/v1", False),
        ("http://[::1]:9001/v1", False),
        ("http://near.example/v1", False),
        ("http://far.example/v1", True),
    ],
)
def test_proxy_is_not_used_for_localhost(monkeypatch: pytest.MonkeyPatch, url: str, proxied: bool) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "near.example")
    assert goes_through_proxy(url) is proxied


def test_secrets_are_found_in_server_settings_and_environment_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("WANDB_API_KEY", "wandb-key")
    monkeypatch.setenv("HF_TOKEN", "hf-token")
    monkeypatch.setenv("MY_KEY", "named-key")
    monkeypatch.setenv("AZURE_KEY", "azure-key")
    servers = [
        SimpleNamespace(),
        SimpleNamespace(headers={"api-key": "$AZURE_KEY", "tenant": "my-tenant"}),
        SimpleNamespace(api_key="$MY_KEY", base_url=None),
        SimpleNamespace(api_key="sk-secret", base_url="http://me:pass-word@host/v1?v=1&sig=query%2Fkey"),
    ]
    keys = {"sk-secret", "pass-word", "1", "query%2Fkey", "query/key", "named-key", "azure-key", "my-tenant"}
    assert set(find_secrets(servers)) == {*keys, "wandb-key", "hf-token"}


@pytest.mark.parametrize("query", ["", "?api-version=1&key=k"])
def test_public_server_address_contains_no_keys(query: str) -> None:
    server = Server(ServerSettings(base_url=f"http://me:password@host:9/v1{query}", model_name="m"))
    assert server.address == "http://host:9/v1"


@pytest.mark.parametrize("given", [{"api_key": "$KEY"}, {"headers": {"api-key": "$KEY"}}], ids=["key", "header"])
def test_api_key_that_contains_a_line_end_raises(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    """A key that was read from a file often ends with a line end, which a header cannot contain."""
    monkeypatch.setenv("KEY", "sk-secret\n")
    with pytest.raises(ConfigError, match=r"^openai\.(api_key|headers): contains a line break") as error:
        read_secrets(ServerSettings(**given), for_chat=False)
    assert "sk-secret" not in str(error.value)

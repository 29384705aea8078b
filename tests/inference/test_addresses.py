from __future__ import annotations

import logging
import os

import pytest

from reasoning_env.errors import ServerError
from reasoning_env.inference.addresses import ask_loopback_directly, goes_through_proxy, wait_for_address


async def test_waiting_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(ServerError, match=r"http://127\.0\.0\.1:9: .*openai\.base_url$"):
        await wait_for_address(["http://127.0.0.1:9"], 0.3)
    [message] = caplog.messages
    assert message.startswith("waiting for an inference server (http://127.0.0.1:9")


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
def test_what_goes_through_a_proxy(monkeypatch: pytest.MonkeyPatch, url: str, proxied: bool) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "near.example")
    assert goes_through_proxy(url) is proxied


def test_clients_of_the_environment_ask_loopback_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "near.example")
    monkeypatch.setenv("NO_PROXY", "")
    ask_loopback_directly()
    assert os.environ["no_proxy"] == "near.example,localhost,127.0.0.1,::1"

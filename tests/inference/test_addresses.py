from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.inference import addresses
from reasoning_env.inference.addresses import (
    ask_loopback_directly,
    check_scheme,
    goes_through_proxy,
    wait_for_address,
)


@asynccontextmanager
async def listening(answer: bytes | None) -> AsyncIterator[int]:
    """Listen on a port and answer each request; None never answers."""
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is None:
            await ended.wait()
        else:
            await reader.read(1000)
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        ended.set()


@pytest.fixture(autouse=True)
def short_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "GREETING_S", 0.2)


async def test_http_asked_by_https() -> None:
    async with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        with pytest.raises(ConfigError, match=r"the server speaks http, not https; .*; write http://$"):
            await wait_for_address([f"https://127.0.0.1:{port}/v1"], 1.0)


async def test_https_asked_by_http() -> None:
    # A server of TLS answers the beginning of TLS with an alert: here that no version suits it.
    alert = bytes([21, 3, 3, 0, 2, 2, 70])
    async with listening(alert) as port:
        with pytest.raises(ConfigError, match=r"the server speaks https, not http; .*; write https://$"):
            await check_scheme(f"http://127.0.0.1:{port}/v1")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_silent_server_passes(scheme: str) -> None:
    async with listening(None) as port:
        await check_scheme(f"{scheme}://127.0.0.1:{port}/v1")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "https://127.0.0.1:9/v1", "ChatServer", ""])
async def test_absent_server_passes(url: str) -> None:
    await check_scheme(url)


def test_reason_of_plain_text_is_known() -> None:
    # What this OpenSSL calls an answer that is not TLS is among the names.
    server = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(server, ssl.MemoryBIO(), server_hostname="h")
    server.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as error:
        tls.do_handshake()
    assert error.value.reason in addresses.NO_TLS


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

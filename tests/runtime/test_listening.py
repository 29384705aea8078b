from __future__ import annotations

import re
import socket

import pytest
from aiohttp import web

from reasoning_env.errors import ConfigError
from reasoning_env.runtime.listening import ListenAddress, check_address, listen


def refused(words: str) -> pytest.RaisesExc[ConfigError]:
    return pytest.raises(ConfigError, match=re.escape(words))


async def test_port_check_and_listen_raise_equal_errors() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress("127.0.0.1", taken.getsockname()[1])
        words = f"--port: cannot listen on 127.0.0.1: Address already in use; got {address.port}; choose another port"
        with refused(words):
            await check_address(address)
        runner = web.AppRunner(web.Application())
        with refused(words):
            await listen(runner, address)
        await runner.cleanup()


async def test_port_check_keeps_the_port_free() -> None:
    runner = web.AppRunner(web.Application())
    port = await listen(runner, ListenAddress("127.0.0.1", 0))
    await runner.cleanup()
    address = ListenAddress("127.0.0.1", port)
    await check_address(address)
    assert await listen(runner, address) == port
    await runner.cleanup()


@pytest.mark.parametrize("host", ["203.0.113.1", "nobody.invalid"])
async def test_error_names_the_option_of_a_host_that_cannot_be_bound(host: str) -> None:
    with refused("--host: cannot listen on this address: "):
        await check_address(ListenAddress(host, 0))

from __future__ import annotations

import re
import socket

import pytest
from aiohttp import web

from reasoning_env.errors import ConfigError
from reasoning_env.runtime.listening import ListenAddress, check_address, listen


def refused(words: str) -> pytest.RaisesExc[ConfigError]:
    return pytest.raises(ConfigError, match=re.escape(words))


async def test_checking_a_used_port_and_listening_on_it_raise_the_same_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress("127.0.0.1", taken.getsockname()[1])
        words = f"--port: cannot listen on 127.0.0.1: Address already in use; got {address.port}; choose another port"
        with refused(words):
            await check_address(address)
        runner = web.AppRunner(web.Application())
        with refused(words):
            await listen(runner, address)
        await runner.cleanup()


async def test_checking_a_port_leaves_it_free() -> None:
    runner = web.AppRunner(web.Application())
    port = await listen(runner, ListenAddress("127.0.0.1", 0))
    await runner.cleanup()
    address = ListenAddress("127.0.0.1", port)
    await check_address(address)
    assert await listen(runner, address) == port
    await runner.cleanup()


@pytest.mark.parametrize("host", ["203.0.113.1", "nobody.invalid"])
async def test_error_about_a_host_that_cannot_be_bound_names_the_option(host: str) -> None:
    with refused("--host: cannot listen on this address: "):
        await check_address(ListenAddress(host, 0))

"""Listen for HTTP on an address, or raise an error with a message of one line."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from ..errors import ConfigError
from .text import describe_connection

BACKLOG = 1024
"""Maximum number of connections that wait to be accepted. With aiohttp's default of 128, some clients in a burst of
1,000 connections must wait for a second or longer."""


@dataclass(frozen=True)
class ListenAddress:
    """Host and port of a server (port 0: the system picks a free port), and the settings that error messages name."""

    host: str
    port: int
    host_setting: str = "--host"
    port_setting: str = "--port"


async def check_address(address: ListenAddress) -> None:
    """Raise the ConfigError that `listen` would raise. Call this before the slow steps of the startup."""
    with _errors_for_user(address):
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, address.host, address.port, start_serving=False)
        server.close()


async def listen(runner: web.BaseRunner, address: ListenAddress) -> int:
    """Start a server and return its port. The caller cleans up `runner`, also after an error.

    Raises ConfigError if the port is in use, or if the address is not one of this machine.
    """
    await runner.setup()
    with _errors_for_user(address):
        await web.TCPSite(runner, address.host, address.port, backlog=BACKLOG).start()
    [(_, found, *_), *_] = runner.addresses
    return int(found)


@contextmanager
def _errors_for_user(address: ListenAddress) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = describe_connection(error)
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise ConfigError(
                f"cannot listen on {address.host}: {reason}",
                setting=address.port_setting,
                got=address.port,
                remedy="choose another port, or 0 for a free port",
            ) from error
        raise ConfigError(
            f"cannot listen on this address: {reason}",
            setting=address.host_setting,
            got=address.host,
            remedy="use an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all addresses",
        ) from error

"""Listen for HTTP on an address, or say in one line why that cannot be."""

from __future__ import annotations

import os
import socket

from aiohttp import web

from ..errors import ConfigError

BACKLOG = 1024
"""Connections that wait until the server takes them. With aiohttp's 128, the system asks those of a burst of 1,000 to
come again in one second, then in two, and so on."""


async def listen(runner: web.AppRunner, host: str, port: int, *, setting: str) -> int:
    """Start an application and return its port; 0 takes a free port. The caller cleans up, after an error too.

    Raises ConfigError about `setting`, the setting of the port, where the address is in use or is not this machine's.
    """
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
    except OSError as error:
        # An unknown name of a host has a number of its own; asyncio puts the address into the words of the others.
        if error.errno is None or isinstance(error, socket.gaierror):
            reason = error.strerror or str(error)
        else:
            reason = os.strerror(error.errno)
        raise ConfigError(
            f"cannot listen on {host}: {reason}",
            setting=setting,
            got=port,
            remedy="choose another port, or 0 for a free port",
        ) from error
    [(_, found, *_), *_] = runner.addresses
    return int(found)

"""An HTTP server on the loopback interface that keeps its port, with faults on demand."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import random
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Self

from aiohttp import web

HOST = "127.0.0.1"
PORTS = range(15_000, 32_000)
"""The ports that servers use. They are below the ports of outgoing connections, which could otherwise occupy the port
of a stopped server."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Fault = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]
"""Replies to a request instead of the handler, or calls the handler, like an aiohttp middleware."""
Picks = Callable[[web.Request, bytes], bool]
"""Returns True if a fault applies to a request with this body."""


def every_request(_request: web.Request, _body: bytes) -> bool:
    return True


_RESERVED: dict[int, socket.socket] = {}


def free_port() -> int:
    """Reserve a free port and return it. Other calls of `free_port` and outgoing connections do not take the port.

    On Linux a bound socket reserves the port until `release_port` or the end of this process. A server that sets
    `SO_REUSEADDR`, as most do, can still listen on the port. Without a reservation, another test process once took the
    port before the server started (`Address already in use`).

    On other systems a bound socket would block the server, so the port is only known to be free during the call.
    """
    while True:
        port = random.choice(PORTS)
        reserving = socket.socket()
        try:
            reserving.bind((HOST, port))
        except OSError:
            reserving.close()
            continue
        if sys.platform == "linux":
            reserving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _RESERVED[port] = reserving
        else:
            reserving.close()
        return port


def release_port(port: int) -> None:
    """End the reservation of a port, if this process has reserved it."""
    reserving = _RESERVED.pop(port, None)
    if reserving is not None:
        reserving.close()


@atexit.register
def _release_all_ports() -> None:
    """Close the sockets of all reservations, because Python warns of sockets that are open at its end."""
    for port in list(_RESERVED):
        release_port(port)


# ---------------------------------------------------------------------------- faults


def respond(status: int, value: object = "a fault on demand") -> Fault:
    """Reply with a status and a JSON value, which may break the protocol."""

    async def answer(_request: web.Request, _handler: Handler) -> web.Response:
        return web.json_response(value, status=status)

    return answer


def slow(seconds: float) -> Fault:
    """Wait before handling the request; with `math.inf`, wait forever."""

    async def wait(request: web.Request, handler: Handler) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await handler(request)

    return wait


async def cut(request: web.Request, _handler: Handler) -> web.StreamResponse:
    """Reset the connection instead of handling the request."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def cut_reply(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle the request, then reset the connection instead of replying."""
    await handler(request)
    return await cut(request, handler)


async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Close the listening socket and every connection, so that new connections are refused."""
    return await cut(request, handler)  # for a request that arrived just before the socket was closed


async def linger(_request: web.Request, _handler: Handler) -> web.StreamResponse:
    """Close the listening socket, but keep open connections without a reply, like a server that hangs at its end."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


# ---------------------------------------------------------------------------- the server


@cache
def _background_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop on a separate thread, for servers started with `with`. It runs until this process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class FaultyServer:
    """Serves `make_app()` on a port that stays the same, even after a fault that refuses connections.

    `async with` serves on the running event loop, `with` on a separate thread. Call the methods from any thread.
    """

    runner_options: Mapping[str, Any] = {"handler_cancellation": True}

    def __init__(self, port: int | None = None) -> None:
        self._port = port or free_port()
        self.url = f"http://{HOST}:{self._port}"
        self._fault: Fault | None = None
        self._only: Picks = every_request
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: socket.socket | None = None
        self._accepting: set[asyncio.Task[Any]] = set()

    def make_app(self) -> web.Application:
        """Return the application to serve; called on the server's event loop."""
        raise NotImplementedError

    def fail(self, fault: Fault, only: Picks = every_request) -> None:
        """Apply a fault to the requests that `only` picks, until `recover` or the next fault."""
        self._fault, self._only = fault, only
        self._open_or_close()

    def recover(self) -> None:
        """End the fault; the port stays the same."""
        self._fault = None
        self._open_or_close()

    async def __aenter__(self) -> Self:
        app = self.make_app()
        app.middlewares.insert(0, self._apply_fault)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, **self.runner_options)
        await self._runner.setup()
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._open_or_close()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await self._runner.cleanup()
        release_port(self._port)
        self._loop = None

    def __enter__(self) -> Self:
        return asyncio.run_coroutine_threadsafe(self.__aenter__(), _background_loop()).result()

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.__aexit__(), _background_loop()).result()

    def _open_or_close(self) -> None:
        """Listen; during the faults `refuse` and `linger`, stop listening. Before the start, do nothing."""

        async def on_loop() -> None:
            self._open_or_close()

        if self._loop is None:
            return
        if threading.get_ident() != self._thread_id:
            asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()
        elif self._fault is refuse:
            self._close()
        elif self._fault is linger:
            self._stop_listening()
        elif self._listener is None:
            self._listener = socket.create_server((HOST, self._port), backlog=1024)
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        # Accept connections here, because asyncio's server leaks a connection that arrives just when the server closes.
        assert self._loop is not None
        assert self._listener is not None
        with contextlib.suppress(OSError):  # the client has closed the connection
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            server: Any = self._runner.server
            task = self._loop.create_task(self._loop.connect_accepted_socket(server, connection))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    def _stop_listening(self) -> None:
        if self._listener is not None and self._loop is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _close(self) -> None:
        self._stop_listening()
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    @web.middleware
    async def _apply_fault(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        body = await request.read()
        if self._fault is not None and (self._fault in (refuse, linger) or self._only(request, body)):
            return await self._fault(request, handler)
        return await handler(request)

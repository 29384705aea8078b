"""Error replies of a judge server: each is one line of JSON, also where aiohttp refuses a request before any route."""

from __future__ import annotations

import logging

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

EOF_PAUSE_S = 0.5
"""Seconds between two looks for a client that sends no more."""


class Refused(Exception):
    """A request gets no verdicts. The reply tells why, in one line of JSON, and in how many seconds to ask again."""

    def __init__(self, status: int, reason: str, *, retry_after_s: int | None = None, kind: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = " ".join(reason.splitlines())
        self.kind = kind
        self._headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}

    def reply(self) -> web.Response:
        """Return the reply to the client."""
        fields = {"error": self.reason} if self.kind is None else {"error": self.reason, "kind": self.kind}
        return web.json_response(fields, status=self.status, headers=self._headers)


class _Connection(web.RequestHandler):
    """A connection whose errors outside of all routes are one line of JSON."""

    __slots__ = ()

    def eof_received(self) -> bool:  # type: ignore[override] # a protocol may keep its connection, by asyncio's page
        """Keep the connection of a client that sends no more and waits for its reply.

        The end of a client that is gone looks the same. Its system refuses an interim reply, which ends the request.
        """
        self._loop.call_later(EOF_PAUSE_S, self._look_for_client)
        return not self._is_idle()

    def _look_for_client(self) -> None:
        request = self._current_request
        if self.transport is None:
            return
        if self._is_idle() or (request is not None and not request.content.is_eof()):
            self.force_close()
            return
        if request is not None and request.version >= HttpVersion11 and request.writer.output_size == 0:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._loop.call_later(EOF_PAUSE_S, self._look_for_client)

    def _is_idle(self) -> bool:
        """Tell whether the connection waits for a request."""
        return self._waiter is not None and not self._waiter.done()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # logs the error; raises where a reply has begun
        if isinstance(exc, LineTooLong):
            status = 431
            line = "the head of the request is too large"
        elif isinstance(exc, HttpProcessingError):
            line = "the request is not HTTP"
        else:
            line = "an internal error; the server's log has it"
        reply = web.json_response({"error": line}, status=status)
        reply.force_close()
        return reply


class _Connections(web.Server):
    """A server that makes `_Connection`s."""

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class JsonErrorsRunner(web.AppRunner):
    """A runner of an application, all of whose errors are one line of JSON."""

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await server.request_handler(request)
            except web.HTTPException as error:  # an unknown `Expect` is refused before the middleware
                return web.json_response({"error": error.reason}, status=error.status)

        return _Connections(
            handle,
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            **server._kwargs,
        )


def http_logger() -> logging.Logger:
    """Return the logger for aiohttp, without broken heads.

    aiohttp logs each of them as an error, with a traceback and a part of the request: a stranger could fill the log,
    and the log would hold the tokens of clients whose head has a mistake.
    """
    http_logger = logging.getLogger(f"{__name__}.http")
    http_logger.addFilter(_is_no_broken_head)  # a logger takes a filter once
    return http_logger


def _is_no_broken_head(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))

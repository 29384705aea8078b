"""Error replies of a judge server: one line of JSON, even if the request is not HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

logger = logging.getLogger(__name__)

HEAD_TIMEOUT_S = 10.0
"""Time limit for the head of a request, and for the pause between two requests of a connection."""
INTERNAL_ERROR = "internal error; see the server's log"


class Refused(Exception):
    """A request gets no verdicts. The reply has the reason as JSON, and Retry-After if retrying may help."""

    def __init__(self, status: int, reason: str, *, retry_after_s: int | None = None, kind: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = " ".join(reason.splitlines())
        self.kind = kind
        self._headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}

    def reply(self) -> web.Response:
        """Return this refusal as an HTTP reply."""
        fields = {"error": self.reason} if self.kind is None else {"error": self.reason, "kind": self.kind}
        return web.json_response(fields, status=self.status, headers=self._headers)


class _Connection(web.RequestHandler):
    """Sends a JSON reply to an invalid HTTP head.

    aiohttp itself would log a traceback and a part of the request. Anybody could fill the log, and the log could
    contain clients' tokens.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        line = "the head of the request is not valid HTTP, or is too large"
        if status >= 500:
            logger.error("a request failed", exc_info=exc)
            line = INTERNAL_ERROR
        reply = web.json_response({"error": line}, status=status)
        reply.force_close()
        return reply


class JsonServer(web.Server):
    """aiohttp's low-level server with JSON replies only. Cancels the handler when the client disconnects."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(handler, handler_cancellation=True)

    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # aiohttp's runners pass None to turn the log off
            auto_decompress=False,  # aiohttp would decompress on the event loop, even the rest of a refused body
            # aiohttp counts this time for a head from the connection's start, or from the end of its last request.
            keepalive_timeout=HEAD_TIMEOUT_S,
        )

"""Serve `/metrics` for `serve` and `process`: the metrics that wandb gets, and the duration of sampling and judging."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager

from aiohttp import web

from .. import __version__
from ..metrics.metric import Kind, Metric, Reading
from ..metrics.prometheus import build_info, histograms, new_registry, reply_to_scrape
from ..records import LibraryInfo
from ..runtime.listening import ListenAddress, listen

logger = logging.getLogger(__name__)

DURATIONS = Metric[object](
    "group/duration_s/STEP",
    Kind.HISTOGRAM,
    "seconds to get a group's `completions` or `verdicts`",
)


class MetricsServer:
    """Serves the metrics of a run.

    `readings` returns the current values of the metrics. `library` returns information about reasoning-gym; None before
    the workers start.
    """

    def __init__(self, readings: Callable[[], Iterable[Reading]], library: Callable[[], LibraryInfo | None]) -> None:
        self._readings = readings
        self._library = library
        self._registry = new_registry()
        self._durations = histograms(DURATIONS, ("completions", "verdicts"), self._registry)

    def time(self, step: str) -> AbstractContextManager[object]:
        """Measure how long it takes to get a group's completions or verdicts; `step` is `completions` or `verdicts`."""
        return self._durations[step].time()

    @asynccontextmanager
    async def serve(self, address: ListenAddress) -> AsyncIterator[None]:
        """Serve the metrics inside the context. Raises ConfigError if the port is in use."""
        app = web.Application()
        app.router.add_get("/metrics", self._scrape)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        try:
            port = await listen(runner, address)
            logger.info("serving metrics at http://%s:%d/metrics", address.host, port)
            yield
        finally:
            await runner.cleanup()

    async def _scrape(self, _: web.Request) -> web.Response:
        library = self._library()
        build = None if library is None else build_info(__version__, library)
        return await reply_to_scrape(self._registry, self._readings(), build)

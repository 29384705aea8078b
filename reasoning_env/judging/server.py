"""Serve verdicts over HTTP, for trainers that use a reward server. A session or a Ray cluster computes the verdicts.

- `POST /score {"ref": reference, "texts": [completion, ...]}` ->
  `{"verdicts": [{"score", "reason", "answer", "parts"}, ...]}`
- `POST /rm {"prompt", "response", "label": reference}` -> the score, a number (slime, miles)
- `POST /get_reward {"query": [prompt + completion], "prompts": [...], "labels": [reference]}` ->
  `{"rewards", "scores", "extra_logs"}` (OpenRLHF)
- `GET /health` -> `{"status": "ok"}`; 503 and `{"error": reason}` while no worker answers
- `GET /metrics` -> metrics in Prometheus' text format

Requests contain references to problems, so any server can judge any problem. A client's mistake gets a status 4xx and
one line. The server retries after an infrastructure error. If the error persists, the server replies with 503 and
Retry-After, never with a score.

A session with a score function judges rows: send `row` instead of `ref`, and rows as labels (objects, or JSON strings).
"""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from aiohttp import web

from ..errors import (
    ConfigError,
    GenerationError,
    GeneratorFaultError,
    InvalidReferenceError,
    RaisingFunctionError,
    ScoringError,
    WorkerError,
)
from ..metrics.prometheus import reply_to_scrape
from ..records import Row, Subject, Verdict
from ..runtime.concurrency import map_concurrently
from ..runtime.retries import pauses
from .bodies import BodyReader, run_in_thread_if_long
from .client import NOT_GENERATED_KIND, RAISES_KIND
from .limits import JudgeLimits
from .messages import GetRewardRequest, RmRequest, ScoreRequest
from .metrics import JudgeMetrics
from .openrlhf import completions_behind
from .replies import INTERNAL_ERROR, JsonServer, Refused

logger = logging.getLogger(__name__)

REPLY_TIMEOUT_S = 30.0
"""Time limit, in seconds, for the client to read the reply."""


class Judge(Protocol):
    """The interface that the server needs. `Session` and `RayJudges` implement it."""

    async def judge(self, subject: Subject, completions: Sequence[str], /) -> list[Verdict]: ...

    @property
    def fault(self) -> str | None:
        """Why the judge cannot work at the moment, in one line; None if it works."""


Route = Callable[[web.BaseRequest], Awaitable[web.Response]]


class JudgeServer:
    """The routes of a judge server. If `token` is set, every request except /health needs this bearer token."""

    AT_ONCE = 8
    """How many completions of a request with several references are judged at the same time."""
    # With 64, four such requests delayed a group of 8 answers by 3 s.
    SHUTDOWN_TIMEOUT_S = 2.0
    """Seconds that requests in progress get at shutdown. aiohttp may wait for this time twice."""

    def __init__(
        self,
        judge: Judge,
        *,
        token: str | None = None,
        limits: JudgeLimits | None = None,
    ) -> None:
        self._judge = judge
        self._token = token
        self._bodies = BodyReader(limits or JudgeLimits())
        self._posts: Mapping[str, Route] = {"/score": self._score, "/rm": self._rm, "/get_reward": self._get_reward}
        self._gets: Mapping[str, Route] = {"/health": self._health, "/metrics": self._metrics}
        self.metrics = JudgeMetrics(self._posts)
        self._prompt_missed = False
        """Whether the warning about a query that lacks its prompt has been logged."""

    def runner(self) -> web.ServerRunner:
        """Return a runner for aiohttp's sites. Call this method on the event loop that will serve."""
        return web.ServerRunner(JsonServer(self.handle), shutdown_timeout=self.SHUTDOWN_TIMEOUT_S)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Reply to a request; every error gets one line of JSON."""
        started = time.monotonic()
        self.metrics.requests += 1
        try:
            try:
                route = self._route(request)
                self._bodies.check_head(request)
            except Refused as error:
                return await self._send(request, error.reply())
            async with self._bodies.room_of_body(request):
                reply = await self._reply(request, route)
                if request.path in self._posts:
                    self.metrics.durations[request.path].observe(time.monotonic() - started)
                return await self._send(request, reply)
        finally:
            self.metrics.requests -= 1

    def _route(self, request: web.BaseRequest) -> Route:
        """Return the function that handles a request. Raises Refused (401, 404 or 405)."""
        if request.path != "/health" and not self._is_authorized(request):
            raise Refused(401, "send the server's token in the header Authorization: Bearer TOKEN")
        if request.path not in {*self._posts, *self._gets}:
            raise Refused(404, f"unknown path {request.path[:100]!r}; use {', '.join([*self._posts, *self._gets])}")
        routes = {"POST": self._posts, "GET": self._gets, "HEAD": self._gets}.get(request.method, {})
        if request.path not in routes:
            raise Refused(405, f"use {'POST' if request.path in self._posts else 'GET'} for {request.path}")
        return routes[request.path]

    async def _reply(self, request: web.BaseRequest, route: Route) -> web.Response:
        if request.transport is not None and request.headers.get("Expect", "").lower() == "100-continue":
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            return await route(request)
        except Refused as error:
            return error.reply()
        except Exception:  # the client must get an error status instead of a score
            logger.exception("a request failed with an internal error; the client gets status 500")
            return Refused(500, INTERNAL_ERROR, retry_after_s=5).reply()

    async def _send(self, request: web.BaseRequest, reply: web.Response) -> web.Response:
        """Send a reply. If the client does not read it in time, close the connection."""
        self.metrics.replies[reply.status] += 1
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                if request.transport is not None:
                    request.transport.set_write_buffer_limits(0)  # so that `drain` waits until all bytes are sent
                await reply.prepare(request)
                await reply.write_eof()
                await request.writer.drain()
        except ConnectionError:  # the client disconnected, which aiohttp notices too
            pass
        except TimeoutError:
            self.metrics.unread_replies += 1
            if request.transport is not None:
                request.transport.abort()
        return reply

    def _is_authorized(self, request: web.BaseRequest) -> bool:
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._token.encode())
        return is_right and scheme.lower() == "bearer"

    # ---- routes

    async def _score(self, request: web.BaseRequest) -> web.Response:
        async with self._bodies.read(request, ScoreRequest) as body:
            subject = body.ref if body.row is None else body.row
            if subject is None:
                raise Refused(400, "the body needs `ref` (the reference of a problem) or `row` (a row with a problem)")
            verdicts = await self._verdicts(subject, body.texts)
            reply = await _encode(verdicts, of_row=not isinstance(subject, str))
        # aiohttp sends a file object in pieces, without copying the whole reply.
        return web.Response(body=io.BytesIO(reply), content_type="application/json")

    async def _rm(self, request: web.BaseRequest) -> web.Response:
        async with self._bodies.read(request, RmRequest) as body:
            [subject] = await self._subjects([body.label])
            [verdict] = await self._verdicts(subject, [body.response])
        return web.json_response(verdict.score)

    async def _get_reward(self, request: web.BaseRequest) -> web.Response:
        async with self._bodies.read(request, GetRewardRequest) as body:
            return await self._rewards(body)

    async def _rewards(self, body: GetRewardRequest) -> web.Response:
        queries, prompts = body.query, body.prompts
        if not len(queries) == len(prompts) == len(body.labels):
            raise Refused(
                400,
                "`query`, `prompts` and `labels` must have the same length; "
                f"got {len(queries)}, {len(prompts)} and {len(body.labels)}",
            )
        subjects = await self._subjects(body.labels)
        size = sum(map(len, queries)) + sum(map(len, prompts))
        found = await run_in_thread_if_long(size, completions_behind, prompts, queries)
        completions = [completion for completion in found if completion is not None]
        if len(completions) < len(found):
            number = found.index(None)
            reason = f"query {number} does not contain the end of prompt {number}, so the completion cannot be found"
            if not self._prompt_missed:  # OpenRLHF itself may not log the refusal
                self._prompt_missed = True
                logger.warning(
                    "%s; start of the query: %r, end of the prompt: %r. This is logged once; the metric "
                    "judge/replies/422 counts all cases",
                    reason,
                    queries[number][:80],
                    prompts[number][-80:],
                )
            raise Refused(422, reason)
        judged = await self._judge_each(subjects, completions)
        scores = [verdict.score for verdict in judged]
        logs = {"correct": [float(verdict.correct) for verdict in judged]}
        if all(isinstance(subject, str) for subject in subjects):  # rows of a score function have different parts
            logs["format"] = [verdict.parts["format"] for verdict in judged]
        return web.json_response({"rewards": scores, "scores": scores, "extra_logs": logs})

    async def _health(self, request: web.BaseRequest) -> web.Response:
        if self._judge.fault is not None:
            raise Refused(503, self._judge.fault, retry_after_s=5)
        return web.json_response({"status": "ok"})

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        return await reply_to_scrape(self.metrics.registry, self.metrics.readings(), self.metrics.build)

    # ---- reading

    async def _subjects(self, labels: Sequence[Subject]) -> list[Subject]:
        """Return the reference or row in each label. Rows may be JSON strings.

        Raises Refused (400 or 413).
        """
        texts = [label for label in labels if isinstance(label, str) and label.startswith("{")]
        if not texts:
            return list(labels)
        rows = await self._bodies.parse(f"[{','.join(texts)}]".encode(), list[Row])
        if len(rows) != len(texts):
            raise Refused(400, "a label that begins with { must be a row as JSON")
        found = iter(rows)
        return [next(found) if isinstance(label, str) and label.startswith("{") else label for label in labels]

    # ---- judging

    async def _judge_each(self, subjects: Sequence[Subject], completions: Sequence[str]) -> list[Verdict]:
        """Return a verdict for each completion. After the first error, stop judging and raise the error."""

        async def judge(pair: tuple[Subject, str]) -> Verdict:
            subject, text = pair
            [verdict] = await self._verdicts(subject, [text])
            return verdict

        pairs = zip(subjects, completions, strict=True)
        return await map_concurrently(judge, pairs, at_once=self.AT_ONCE)

    async def _verdicts(self, subject: Subject, texts: Sequence[str]) -> list[Verdict]:
        """Return verdicts, after up to two retries. Raises Refused if the retries fail, and for other errors."""
        # More retries would let the client wait too long. Some retries are needed because miles never retries.
        retry_pauses = islice(pauses(), 2)
        while True:
            try:
                verdicts = await self._judge.judge(subject, texts)
            except RaisingFunctionError as error:
                self.metrics.faults += 1
                raise Refused(503, str(error), retry_after_s=5, kind=RAISES_KIND) from error
            except ConfigError as error:
                raise Refused(400, str(error)) from error
            except InvalidReferenceError as error:
                raise Refused(422, str(error)) from error
            except GeneratorFaultError as error:
                self.metrics.faults += 1
                raise Refused(500, str(error), retry_after_s=5) from error
            except GenerationError as error:
                raise Refused(422, str(error), kind=NOT_GENERATED_KIND) from error
            except (ScoringError, WorkerError) as error:
                self.metrics.faults += 1
                pause_s = next(retry_pauses, None)
                if pause_s is None:
                    logger.warning("judging a request failed (%s); the client gets status 503 and should retry", error)
                    raise Refused(503, str(error), retry_after_s=5) from error
                await asyncio.sleep(pause_s)
            else:
                self.metrics.verdicts.update(verdict.reason.value for verdict in verdicts)
                if isinstance(subject, str):
                    self.metrics.answers.add(subject.partition(":")[0], [verdict.answer for verdict in verdicts])
                return verdicts


async def _encode(verdicts: Sequence[Verdict], *, of_row: bool) -> bytes:
    """Return the verdicts as JSON. Long answers are encoded on a thread, one verdict at a time."""

    def write() -> bytes:
        # A score function may return lone surrogates, which UTF-8 cannot encode.
        rows = [
            json.dumps(_describe(verdict, of_row), ensure_ascii=False).encode("utf-8", "replace")
            for verdict in verdicts
        ]
        return b'{"verdicts": [' + b", ".join(rows) + b"]}"

    return await run_in_thread_if_long(sum(len(verdict.answer or "") for verdict in verdicts), write)


def _describe(verdict: Verdict, of_row: bool) -> dict[str, object]:
    """Return a verdict as JSON values. For a row, `parts` has only what the score function returned."""
    fields: dict[str, object] = {
        "score": verdict.score,
        "reason": verdict.reason.value,
        "answer": verdict.answer,
    }
    details = {"parts": verdict.own_parts if of_row else verdict.parts, "error": verdict.error}
    return fields | {name: value for name, value in details.items() if value is not None}

"""Serve verdicts over HTTP, for trainers with a reward server. A session or a Ray cluster judges.

- `POST /score {"ref": reference, "texts": [completion, ...]}` ->
  `{"verdicts": [{"score", "reason", "answer", "parts"}, ...]}`
- `POST /rm {"prompt", "response", "label": reference}` -> the score, a number (slime, miles)
- `POST /get_reward {"query": [prompt + completion], "prompts": [...], "labels": [reference]}` ->
  `{"rewards", "scores", "extra_logs"}` (OpenRLHF)
- `GET /health` -> `{"status": "ok"}`; 503 and `{"error": reason}` while no worker answers
- `GET /metrics` -> metrics in Prometheus' text format

Requests name problems by reference, so any server can judge any problem. A client's mistake gets a status 4xx and one
line. An infrastructure error is retried here, then answered with 503 and Retry-After, and never with a score. A request
has limits of size and time (`JudgeLimits`).

A judge of rows (a session with a score function) takes `row` in place of `ref`, and rows as labels: objects, or their
JSON as text.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
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
from .bodies import HOLDING, BodyReader, beside_the_loop_if_long
from .client import NOT_GENERATED_KIND, RAISES_KIND
from .limits import Account, Holding, JudgeLimits
from .messages import GetRewardRequest, RmRequest, ScoreRequest
from .metrics import JudgeMetrics
from .openrlhf import completions_behind
from .replies import JsonErrorsRunner, Refused, http_logger

logger = logging.getLogger(__name__)


class Judge(Protocol):
    """A session, or `RayJudges`."""

    async def judge(self, subject: Subject, completions: Sequence[str], /) -> list[Verdict]: ...

    @property
    def fault(self) -> str | None:
        """Why nothing can be judged at the moment, in one line; None otherwise."""


class JudgeServer:
    """The routes over a judge. With `token` (`judge_token`), every request but /health needs this bearer token."""

    AT_ONCE = 8
    """Completions of a request with several references that are judged at a time. Each has turns of its own: with 64, a
    group of 8 answers waited 3 s beside 4 such requests."""
    SHUTDOWN_TIMEOUT_S = 2.0
    """Seconds for requests under way at the end. aiohttp waits for them up to twice."""

    def __init__(
        self,
        judge: Judge,
        *,
        token: str | None = None,
        limits: JudgeLimits | None = None,
    ) -> None:
        self._judge = judge
        self._token = token
        self._limits = limits or JudgeLimits()
        self._account = Account(self._limits)
        self._bodies = BodyReader(self._limits, self._account)
        self._judging = {"/score": self._score, "/rm": self._rm, "/get_reward": self._get_reward}
        self.metrics = JudgeMetrics(self._judging, self._account)
        self._prompt_missed = False
        """Whether a query without its prompt was logged."""

    def app(self) -> web.Application:
        """Return the application for aiohttp's runners.

        `runner` has the limits on time too, and replies with JSON to heads that are not HTTP and to an unknown
        `Expect`, which aiohttp's other runners answer with a line of text.
        """
        app = web.Application(middlewares=[self._guard])
        for route, handler in self._judging.items():
            app.router.add_post(route, handler)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        return app

    def runner(self) -> web.AppRunner:
        """Return a runner that closes connections without a whole head, and cancels requests whose client is gone."""
        return JsonErrorsRunner(
            self.app(),
            access_log=None,
            logger=http_logger(),
            auto_decompress=False,  # aiohttp unpacks on the event loop, also the rest of a body that is refused
            handler_cancellation=True,
            # aiohttp counts the time for a head from the connection's start, or from the end of its last request.
            keepalive_timeout=self._limits.head_timeout_s,
            shutdown_timeout=self.SHUTDOWN_TIMEOUT_S,
        )

    # ---- routes

    async def _score(self, request: web.Request) -> web.Response:
        body = await self._bodies.read(request, ScoreRequest)
        subject = body.ref if body.row is None else body.row
        if subject is None:
            raise Refused(400, "give `ref`, the reference of a problem, or `row`")
        verdicts = await self._verdicts(subject, body.texts)
        reply = await _encode(verdicts, of_row=not isinstance(subject, str))
        self._account.hold(request[HOLDING], len(reply))
        # As a file, which aiohttp sends in pieces, without a copy.
        return web.Response(body=io.BytesIO(reply), content_type="application/json")

    async def _rm(self, request: web.Request) -> web.Response:
        body = await self._bodies.read(request, RmRequest)
        [subject] = await self._subjects([body.label])
        [verdict] = await self._verdicts(subject, [body.response])
        return web.json_response(verdict.score)

    async def _get_reward(self, request: web.Request) -> web.Response:
        body = await self._bodies.read(request, GetRewardRequest)
        queries, prompts = body.query, body.prompts
        if not len(queries) == len(prompts) == len(body.labels):
            raise Refused(400, f"{len(queries)} queries, {len(prompts)} prompts and {len(body.labels)} labels")
        subjects = await self._subjects(body.labels)
        size = sum(map(len, queries)) + sum(map(len, prompts))
        found = await beside_the_loop_if_long(size, completions_behind, prompts, queries)
        completions = [completion for completion in found if completion is not None]
        if len(completions) < len(found):
            number = found.index(None)
            reason = f"query {number} does not hold the end of its prompt, so its completion is unknown"
            if not self._prompt_missed:  # OpenRLHF itself logs next to nothing
                self._prompt_missed = True
                logger.warning(
                    "%s; it begins with %r, and the prompt ends with %r (the metrics count further ones)",
                    reason,
                    queries[number][:80],
                    prompts[number][-80:],
                )
            raise Refused(422, reason)
        judged = await self._judge_each(subjects, completions)
        scores = [verdict.score for verdict in judged]
        logs = {"correct": [float(verdict.correct) for verdict in judged]}
        if all(isinstance(subject, str) for subject in subjects):  # parts of a score function have other names
            logs["format"] = [verdict.parts["format"] for verdict in judged]
        return web.json_response({"rewards": scores, "scores": scores, "extra_logs": logs})

    async def _health(self, request: web.Request) -> web.Response:
        if self._judge.fault is not None:
            raise Refused(503, self._judge.fault, retry_after_s=5)
        return web.json_response({"status": "ok"})

    async def _metrics(self, request: web.Request) -> web.Response:
        return await reply_to_scrape(self.metrics.registry, self.metrics.readings(), self.metrics.build)

    # ---- reading

    async def _subjects(self, labels: Sequence[Subject]) -> list[Subject]:
        """Return labels with a row for each text that is the JSON of a row. Raises the reply 400 or 413."""
        texts = [label for label in labels if isinstance(label, str) and label.startswith("{")]
        if not texts:
            return list(labels)
        rows = await self._bodies.parse(f"[{','.join(texts)}]".encode(), list[Row])
        if len(rows) != len(texts):
            raise Refused(400, "a label that begins with { must be one row in JSON")
        found = iter(rows)
        return [next(found) if isinstance(label, str) and label.startswith("{") else label for label in labels]

    # ---- judging

    async def _judge_each(self, subjects: Sequence[Subject], completions: Sequence[str]) -> list[Verdict]:
        """Return the verdict on each completion. The first error cancels the other completions, and is raised."""

        async def judge(pair: tuple[Subject, str]) -> Verdict:
            subject, text = pair
            [verdict] = await self._verdicts(subject, [text])
            return verdict

        pairs = zip(subjects, completions, strict=True)
        return await map_concurrently(judge, pairs, at_once=self.AT_ONCE)

    async def _verdicts(self, subject: Subject, texts: Sequence[str]) -> list[Verdict]:
        """Return verdicts, with up to two retries after infrastructure errors. Raises the reply of a failed request."""
        # Not more retries, because the client waits. Not fewer, because miles never repeats a request.
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
                    logger.warning("a request gets no verdict, and the client is told to retry: %s", error)
                    raise Refused(503, str(error), retry_after_s=5) from error
                await asyncio.sleep(pause_s)
            else:
                self.metrics.verdicts.update(verdict.reason.value for verdict in verdicts)
                if isinstance(subject, str):
                    self.metrics.answers.add(subject.partition(":")[0], [verdict.answer for verdict in verdicts])
                return verdicts

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Reply to a request. A client that does not read the reply in time loses its connection."""
        holding = request[HOLDING] = Holding()
        started = time.monotonic()
        try:
            reply = await self._reply(request, handler)
            self.metrics.replies[reply.status] += 1
            if request.path in self._judging:
                self.metrics.durations[request.path].observe(time.monotonic() - started)
            async with self._account.transfer(holding):
                if request.transport is not None:
                    request.transport.set_write_buffer_limits(0)  # `drain` waits until the system has taken everything
                await reply.prepare(request)
                await reply.write_eof()
                await request.writer.drain()
        except ConnectionError:  # the client is gone, as aiohttp notices too
            pass
        except TimeoutError:
            self.metrics.unread_replies += 1
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._account.release(holding)
        return reply

    async def _reply(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Check a request's token; answer every error with one line of JSON."""
        try:
            if request.path != "/health" and not self._is_known(request):
                raise Refused(401, "this needs a bearer token, as in Authorization: Bearer TOKEN")
            return await handler(request)
        except Refused as error:
            return error.reply()
        except web.HTTPException as error:  # an unknown route or method
            return web.json_response({"error": error.reason}, status=error.status)
        except Exception:  # the client must get a status that is no score
            logger.exception("a request failed")
            line = "an internal error; the server's log has it"
            return web.json_response({"error": line}, status=500, headers={"Retry-After": "5"})

    def _is_known(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._token.encode())
        return is_right and scheme.lower() == "bearer"


async def _encode(verdicts: Sequence[Verdict], *, of_row: bool) -> bytes:
    """Return the verdicts as JSON: a thread writes long answers, and one verdict at a time."""

    def write() -> bytes:
        rows = [json.dumps(_describe(verdict, of_row), ensure_ascii=False) for verdict in verdicts]
        # Half of a pair of surrogates, which a score function may write, is no UTF-8.
        return ('{"verdicts": [' + ", ".join(rows) + "]}").encode("utf-8", "replace")

    return await beside_the_loop_if_long(sum(len(verdict.answer or "") for verdict in verdicts), write)


def _describe(verdict: Verdict, of_row: bool) -> dict[str, object]:
    """Return a verdict as JSON values. `parts` of a row are its score function's; `error` is what a verifier raised."""
    fields: dict[str, object] = {
        "score": verdict.score,
        "reason": verdict.reason.value,
        "answer": verdict.answer,
    }
    details = {"parts": verdict.own_parts if of_row else verdict.parts, "error": verdict.error}
    return fields | {name: value for name, value in details.items() if value is not None}

"""Serve verdicts over HTTP, for trainers with a reward server. A session or a Ray cluster judges.

- `POST /score {"ref": reference, "texts": [completion, ...]}` -> `{"verdicts": [{"score", "reason", "answer"}, ...]}`
- `POST /rm {"prompt", "response", "label": reference}` -> the score, a number (slime, miles)
- `POST /get_reward {"query": [prompt + completion], "prompts": [...], "labels": [reference]}` ->
  `{"rewards", "scores", "extra_logs"}` (OpenRLHF)
- `GET /health` -> `{"status": "ok"}`
- `GET /metrics` -> counters in Prometheus' text format

Requests name problems by reference, so any server can judge any problem. A wrong request gets a status 4xx and one
line. An infrastructure error is retried here, then answered with 503 and Retry-After, and never with a score.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Protocol

from aiohttp import web

from .errors import GenerationError, InvalidReferenceError, ScoringError, WorkerError
from .records import Verdict
from .runtime.retries import pauses

logger = logging.getLogger(__name__)


class Judge(Protocol):
    """A session, or `RayJudges`."""

    async def judge(self, problem: str, completions: Sequence[str], /) -> list[Verdict]: ...


class JudgeServer:
    """The routes over a judge. With `token`, every request but /health needs this bearer token."""

    MAX_BODY_BYTES = 32 * 2**20
    """Largest request. A group of 64 completions of 32,000 tokens has about 8 MB."""
    MAX_REQUESTS = 1024
    """Requests that may wait at a time. Further requests get 429, so that the client waits."""

    def __init__(self, judge: Judge, *, token: str | None = None) -> None:
        self._judge = judge
        self._token = token
        self._waiting = 0
        self._counts: Counter[str] = Counter()

    def app(self) -> web.Application:
        """Return the application for aiohttp's runners."""
        app = web.Application(client_max_size=self.MAX_BODY_BYTES, middlewares=[self._guard])
        app.router.add_post("/score", self._score)
        app.router.add_post("/rm", self._rm)
        app.router.add_post("/get_reward", self._get_reward)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        return app

    # ---- routes

    async def _score(self, request: web.Request) -> web.Response:
        body = await _read(request)
        verdicts = await self._verdicts(_text(body, "ref"), _texts(body, "texts"))
        rows = [{"score": row.score, "reason": row.reason.value, "answer": row.answer} for row in verdicts]
        return web.json_response({"verdicts": rows})

    async def _rm(self, request: web.Request) -> web.Response:
        body = await _read(request)
        [verdict] = await self._verdicts(_text(body, "label"), [_text(body, "response")])
        return web.json_response(verdict.score)

    async def _get_reward(self, request: web.Request) -> web.Response:
        body = await _read(request)
        queries, prompts, labels = _texts(body, "query"), _texts(body, "prompts"), _texts(body, "labels")
        if not len(queries) == len(prompts) == len(labels):
            raise _refusal(400, f"{len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels")
        completions = [query.removeprefix(prompt) for query, prompt in zip(queries, prompts, strict=True)]
        judged = await asyncio.gather(*map(self._verdicts, labels, ([text] for text in completions)))
        scores = [verdict.score for [verdict] in judged]
        logs = {"correct": [float(verdict.correct) for [verdict] in judged]}
        return web.json_response({"rewards": scores, "scores": scores, "extra_logs": logs})

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _metrics(self, request: web.Request) -> web.Response:
        lines = [f"reasoning_judge_{name} {count}" for name, count in sorted(self._counts.items())]
        return web.Response(text="\n".join([*lines, f"reasoning_judge_waiting {self._waiting}", ""]))

    # ---- judging

    async def _verdicts(self, reference: str, texts: Sequence[str]) -> list[Verdict]:
        """Return verdicts, with up to two retries after infrastructure errors. Raises the reply of a failed request."""
        # Not more retries, because the client waits. Not fewer, because miles never repeats a request.
        retry_pauses = islice(pauses(), 2)
        while True:
            try:
                verdicts = await self._judge.judge(reference, texts)
            except (InvalidReferenceError, GenerationError) as error:
                raise _refusal(422, str(error)) from error
            except (ScoringError, WorkerError) as error:
                self._counts["faults_total"] += 1
                pause_s = next(retry_pauses, None)
                if pause_s is None:
                    logger.warning("a request gets no verdict, and the client is told to retry: %s", error)
                    raise _refusal(503, str(error), retry_after_s=5) from error
                await asyncio.sleep(pause_s)
            else:
                self._counts["verdicts_total"] += len(verdicts)
                return verdicts

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Check a request's token and the number of requests; answer every error with one line of JSON."""
        try:
            if request.path != "/health" and not self._is_known(request):
                raise _refusal(401, "this needs a bearer token, as in Authorization: Bearer TOKEN")
            # Not for GET: /health and /metrics must answer while the server is full.
            if self._waiting >= self.MAX_REQUESTS and request.method == "POST":
                raise _refusal(429, f"{self.MAX_REQUESTS} requests wait already", retry_after_s=1)
            self._waiting += 1
            try:
                return await handler(request)
            finally:
                self._waiting -= 1
        except web.HTTPException as error:
            self._counts[f"replies_{error.status}_total"] += 1
            if error.content_type == "application/json":
                raise
            reason = f"more than {self.MAX_BODY_BYTES} bytes" if error.status == 413 else error.reason
            return web.json_response({"error": reason}, status=error.status)
        except Exception:  # the client must get a status that is no score
            logger.exception("a request failed")
            self._counts["replies_500_total"] += 1
            return web.json_response({"error": "an internal error; the server's log has it"}, status=500)

    def _is_known(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        given = request.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {self._token}".encode())


def _refusal(status: int, reason: str, *, retry_after_s: int | None = None) -> web.HTTPException:
    """Return an error reply with the reason as one line, to be raised."""
    exceptions: dict[int, type[web.HTTPException]] = {
        400: web.HTTPBadRequest,
        401: web.HTTPUnauthorized,
        422: web.HTTPUnprocessableEntity,
        429: web.HTTPTooManyRequests,
        503: web.HTTPServiceUnavailable,
    }
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return exceptions[status](text=json.dumps({"error": reason}), content_type="application/json", headers=headers)


async def _read(request: web.Request) -> dict[str, object]:
    """Return the body, a JSON object, parsed in a thread. Raises the reply 400 for another body."""
    body = await request.read()
    try:
        parsed = await asyncio.to_thread(json.loads, body)
    except (ValueError, RecursionError):
        raise _refusal(400, "the body is not JSON") from None
    if not isinstance(parsed, dict):
        raise _refusal(400, f"the body must be a JSON object, not {type(parsed).__name__}")
    return parsed


def _text(body: dict[str, object], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str):
        raise _refusal(400, f"{name!r} must be a text")
    return text


def _texts(body: dict[str, object], name: str) -> list[str]:
    texts = body.get(name)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _refusal(400, f"{name!r} must be a list of texts")
    return texts

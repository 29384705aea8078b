"""Serve verdicts over HTTP, for trainers with a reward server. A session or a Ray cluster judges.

- `POST /score {"ref": reference, "texts": [completion, ...]}` -> `{"verdicts": [{"score", "reason", "answer"}, ...]}`
- `POST /rm {"prompt", "response", "label": reference}` -> the score, a number (slime, miles)
- `POST /get_reward {"query": [prompt + completion], "prompts": [...], "labels": [reference]}` ->
  `{"rewards", "scores", "extra_logs"}` (OpenRLHF)
- `GET /health` -> `{"status": "ok"}`; 503 and `{"error": reason}` while no worker answers
- `GET /metrics` -> counters in Prometheus' text format

Requests name problems by reference, so any server can judge any problem. A client's mistake gets a status 4xx and one
line. An infrastructure error is retried here, then answered with 503 and Retry-After, and never with a score. A request
has limits of size and time (`JudgeLimits`), and the requests of one client do not hold up the requests of others.
Bodies may be packed with gzip.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from pydantic import BaseModel, ConfigDict, Field

from ..errors import ConfigError, GenerationError, GeneratorFaultError, InvalidReferenceError, ScoringError, WorkerError
from ..records import Verdict
from ..runtime.clients import CLIENT
from ..runtime.concurrency import do_as_they_come
from ..runtime.json_reader import TooManyValuesError, read_json, read_several
from ..runtime.retries import pauses
from ..runtime.turns import in_background
from .client import NOT_GENERATED, check_token

logger = logging.getLogger(__name__)


class Judge(Protocol):
    """A session, or `RayJudges`."""

    async def judge(self, problem: str, completions: Sequence[str], /) -> list[Verdict]: ...


class RowJudge(Protocol):
    """A `ScoreJudge`: judges completions of rows in place of references."""

    async def judge(self, row: Mapping[str, Any], completions: Sequence[str], /) -> list[Verdict]: ...


@runtime_checkable
class Supervised(Protocol):
    """A judge that knows whether it can judge at the moment."""

    @property
    def fault(self) -> str | None:
        """Why nothing can be judged at the moment, in one line; None otherwise."""


Row = Mapping[str, Any]
Subject = str | Row
"""What completions are judged by: a problem's reference, or a row."""


class JudgeLimits(BaseModel):
    """Limits of one request to a judge server, and of all requests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    head_timeout_s: float = Field(
        default=10.0,
        gt=0.0,
        le=3600.0,
        description="Seconds for the head of a request, and between two requests of a connection.",
    )
    body_timeout_s: float = Field(default=30.0, gt=0.0, le=3600.0, description="Seconds for the body of a request.")
    max_texts: int = Field(default=4096, ge=1, le=1_000_000, description="Most completions in a request.")
    max_body_mb: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="Largest body of a request, in megabytes. A group of 64 completions of 32,000 tokens has about 8.",
    )
    max_waiting: int = Field(
        default=1024,
        ge=1,
        le=1_000_000,
        description="Requests that may wait at a time. A further request gets 429, unless no other request of its "
        "client waits.",
    )

    max_held_mb: int = Field(
        default=512,
        ge=2,
        le=1_048_576,
        description="Megabytes of all bodies that are read or wait. A further body gets 503 if the bodies of its "
        "client take more than is free then; so one client takes half of the megabytes at most.",
    )

    @property
    def max_values(self) -> int:
        """Most JSON values in a request: the three lists of /get_reward, and prompts that are lists of messages."""
        return 8 * self.max_texts + 64


PROMPT_END = 160
"""Bytes of a prompt's end, without blanks, that a query must hold.

The longest text that a chat template writes behind a question has 79 (cohere2, of the 108 templates of TRL 1.16 and
axolotl 0.19), so that at least half of the end is of the question.
"""
_BLANKS = b" \t\n\r\x0b\x0c"


def completion_behind(prompt: str, query: str) -> str | None:
    """Return the completion in a query of OpenRLHF, a prompt and its completion; None if the prompt is not there.

    A query is tokens that were decoded, so that its prompt may differ from `prompt`: a beginning-of-text mark stands in
    front, blanks are lost or added (decoders with `clean_up_tokenization_spaces` change ` . .` to `..`), and a prompt
    that is too long is cut on the left. The prompt's end is then searched for without blanks; where the prompt holds
    this end twice, a longer end is searched for.

    A model may write the prompt again, with an answer behind. The first place counts, so that all of its text is
    judged. A first place that is deeper in the query than the prompt is long is the model's own, and counts as none.
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    raw = query.encode("utf-8", "surrogatepass")
    seen = raw.translate(None, _BLANKS)
    asked = prompt.encode("utf-8", "surrogatepass").translate(None, _BLANKS)
    length = min(PROMPT_END, len(asked))
    while asked.find(asked[-length:]) < len(asked) - length:
        length = min(2 * length, len(asked))
    start = seen.find(asked[-length:], 0, len(asked) + PROMPT_END) if asked else -1
    if start == -1:
        return None
    # The place in `raw` behind as many bytes that are no blanks.
    place = bisect_left(range(len(raw)), start + length, key=lambda at: at - sum(raw.count(b, 0, at) for b in _BLANKS))
    return raw[place:].decode("utf-8", "surrogatepass").lstrip()


def completions_behind(prompts: Sequence[str], queries: Sequence[str]) -> list[str | None]:
    """Return the completion in each query, as `completion_behind` does."""
    return [completion_behind(prompt, query) for prompt, query in zip(prompts, queries, strict=True)]


HELD_BYTES = web.RequestKey("HELD_BYTES", int)
"""Key of a request for the bytes of its body that are counted."""


class TooLargeError(ValueError):
    """A packed body holds more than a body may have."""


def unpack(body: bytes | bytearray, max_bytes: int) -> bytes:
    """Return the content of a body in the format of gzip or zlib.

    Raises:
        TooLargeError: The content has more than `max_bytes`. No more than that is unpacked.
        ValueError: The body has another format, or is not whole.
    """
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: of either format
    try:
        content = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(content) > max_bytes:
        raise TooLargeError
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("it does not end with the packed text")
    return content


class BodyBudget:
    """Bytes of all bodies that are read or wait, by client.

    The bodies of a client take at most as many bytes as all bodies leave free: one client half of the budget, two
    clients a third each. A client that comes thus always finds room, and the bodies never exceed the budget.
    """

    def __init__(self, max_bytes: int) -> None:
        self._free = max_bytes
        self._held: Counter[str] = Counter()

    def take(self, client: str, size: int) -> bool:
        """Count bytes of a client, and tell whether there was room; without room, count nothing."""
        if self._held[client] + size > self._free - size:
            return False
        self._held[client] += size
        self._free -= size
        return True

    def give_back(self, client: str, size: int) -> None:
        """Count bytes of a client no longer."""
        self._free += size
        self._held[client] -= size
        if not self._held[client]:
            del self._held[client]


class JudgeServer:
    """The routes over a judge. With `token`, every request but /health needs this bearer token.

    With `rows`, the judge is a RowJudge: /score takes `row` in place of `ref`, and the labels of the other routes are
    rows, as objects or as their JSON.

    Raises ConfigError for a token that HTTP does not carry.
    """

    SHORT_BODY = 1 << 16
    """Bytes of a body up to which the event loop reads the JSON; a thread costs more than it saves."""
    AT_ONCE = 64
    """Completions of a request with several references that are judged at a time. With all 4,096 at once, the event
    loop began them in one turn of 1.2 s."""
    SHUTDOWN_TIMEOUT_S = 2.0
    """Seconds for requests under way at the end. aiohttp waits for them up to twice."""

    def __init__(
        self,
        judge: Judge | RowJudge,
        *,
        token: str | None = None,
        limits: JudgeLimits | None = None,
        rows: bool = False,
    ) -> None:
        if token is not None:
            check_token(token)
        self._judge: Any = judge
        self._rows = rows
        self._token = token
        self._limits = limits or JudgeLimits()
        self._waiting: Counter[str] = Counter()
        """Whole requests that wait for their verdicts, by client."""
        self._bodies = BodyBudget(self._limits.max_held_mb * 2**20)
        self._counts: Counter[str] = Counter()
        self._is_unpacked = True
        """Whether aiohttp unpacks bodies before they are read."""
        self._prompt_missed = False
        """Whether a query without its prompt was logged."""

    def app(self) -> web.Application:
        """Return the application for aiohttp's runners, which unpack bodies themselves.

        `runner` has the limits on time too, and replies with JSON to heads that are not HTTP and to an unknown
        `Expect`, which aiohttp's other runners answer with a line of text.
        """
        app = web.Application(middlewares=[self._guard])
        app.router.add_post("/score", self._score)
        app.router.add_post("/rm", self._rm)
        app.router.add_post("/get_reward", self._get_reward)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        return app

    def runner(self) -> web.AppRunner:
        """Return a runner that closes connections without a whole head, and cancels requests whose client is gone."""
        self._is_unpacked = False
        return _Runner(
            self.app(),
            access_log=None,
            logger=_http_logger(),
            auto_decompress=False,  # aiohttp unpacks on the event loop, also the rest of a body that is too large
            handler_cancellation=True,
            # aiohttp counts the time for a head from the connection's start, or from the end of its last request.
            keepalive_timeout=self._limits.head_timeout_s,
            shutdown_timeout=self.SHUTDOWN_TIMEOUT_S,
        )

    # ---- routes

    async def _score(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        with self._place(request):
            subject = await self._subject(body, "row" if self._rows else "ref")
            verdicts = await self._verdicts(subject, self._texts(body, "texts"))
            return await _reply_with_verdicts(verdicts)

    async def _rm(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        with self._place(request):
            [verdict] = await self._verdicts(await self._subject(body, "label"), [_text(body, "response")])
            return web.json_response(verdict.score)

    async def _get_reward(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        queries = self._texts(body, "query")
        prompts = self._texts(body, "prompts")
        labels = await self._labels(body)
        if not len(queries) == len(prompts) == len(labels):
            raise _refusal(400, f"{len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels")
        if sum(map(len, queries)) + sum(map(len, prompts)) <= self.SHORT_BODY:
            found = completions_behind(prompts, queries)
        else:
            found = await in_background(completions_behind, prompts, queries)
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
            raise _refusal(422, reason)
        with self._place(request):
            judged = await self._judge_each(labels, completions)
        scores = [verdict.score for verdict in judged]
        logs = {"correct": [float(verdict.correct) for verdict in judged]}
        return web.json_response({"rewards": scores, "scores": scores, "extra_logs": logs})

    async def _health(self, request: web.Request) -> web.Response:
        fault = self._judge.fault if isinstance(self._judge, Supervised) else None
        if fault is not None:
            raise _refusal(503, fault, retry_after_s=5)
        return web.json_response({"status": "ok"})

    async def _metrics(self, request: web.Request) -> web.Response:
        lines = [f"reasoning_judge_{name} {count}" for name, count in sorted(self._counts.items())]
        return web.Response(text="\n".join([*lines, f"reasoning_judge_waiting {self._waiting.total()}", ""]))

    # ---- reading

    async def _read(self, request: web.Request) -> dict[str, object]:
        """Return the body, a JSON object. Raises the reply 400, 408, 413, 415 or 503 for another body."""
        body = await self._read_bytes(request)
        packed = request.headers.get("Content-Encoding", "identity").strip().lower()
        if packed in ("gzip", "deflate") and not self._is_unpacked:
            try:
                body = await in_background(unpack, body, self._limits.max_body_mb * 2**20)
            except TooLargeError:
                raise self._too_large() from None
            except ValueError as error:
                raise _refusal(400, f"the body is not {packed}: {error}") from None
            self._hold(request, len(body))
        elif packed not in ("gzip", "deflate", "identity"):
            raise _refusal(415, "Content-Encoding must be gzip, deflate or identity")
        try:
            if len(body) <= self.SHORT_BODY:
                parsed = read_json(body, self._limits.max_values)
            else:
                parsed = await in_background(read_json, body, self._limits.max_values)
        except TooManyValuesError:
            raise _refusal(
                413,
                f"the body has more than {self._limits.max_values} JSON values, as many as max_texts, "
                f"{self._limits.max_texts}, allows",
            ) from None
        except ValueError as error:
            raise _refusal(400, f"the body is not JSON: {error}") from None
        if not isinstance(parsed, dict):
            raise _refusal(400, f"the body must be a JSON object, not {type(parsed).__name__}")
        return parsed

    async def _read_bytes(self, request: web.Request) -> bytes | bytearray:
        """Return the bytes of the body. Raises the reply 400, 408, 413 or 503."""
        max_bytes = self._limits.max_body_mb * 2**20
        if (request.content_length or 0) > max_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                async for chunk in request.content.iter_any():
                    self._hold(request, len(chunk))
                    body += chunk
                    if len(body) > max_bytes:
                        raise self._too_large()
        except TimeoutError:
            raise _refusal(408, f"the body took more than body_timeout_s, {self._limits.body_timeout_s:g} s") from None
        except (web.RequestPayloadError, ConnectionError):
            raise _refusal(400, "the body is not whole") from None
        return body

    def _too_large(self) -> web.HTTPException:
        return _refusal(413, f"the body is larger than max_body_mb, {self._limits.max_body_mb} megabytes")

    def _hold(self, request: web.Request, size: int) -> None:
        """Count bytes of a body until the request ends. Raises the reply 503 when there is no room."""
        if not self._bodies.take(request.remote or "", size):
            line = f"the bodies of other requests take too much of max_held_mb, {self._limits.max_held_mb} megabytes"
            raise _refusal(503, line, retry_after_s=1)
        request[HELD_BYTES] = request.get(HELD_BYTES, 0) + size

    def _texts(self, body: dict[str, object], name: str) -> list[str]:
        texts = body.get(name)
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _refusal(400, f"{name!r} must be a list of texts")
        if len(texts) > self._limits.max_texts:
            raise _refusal(413, f"{name!r} has {len(texts)} texts, more than max_texts, {self._limits.max_texts}")
        return texts

    async def _subject(self, body: dict[str, object], name: str) -> Subject:
        """Return what completions are judged by: a reference or a row."""
        if not self._rows:
            return _text(body, name)
        [row] = await self._read_rows({name: body.get(name)})
        return row

    async def _labels(self, body: dict[str, object]) -> Sequence[Subject]:
        """Return the labels of /get_reward."""
        labels = body.get("labels")
        if not self._rows or not isinstance(labels, list):
            return self._texts(body, "labels")
        return await self._read_rows({f"labels[{number}]": label for number, label in enumerate(labels)})

    async def _read_rows(self, values: Mapping[str, object]) -> list[Row]:
        """Return the rows in values by name: objects, or their JSON. Raises the reply 400 for another value."""
        texts = [value.encode("utf-8", "surrogatepass") for value in values.values() if isinstance(value, str)]
        if sum(map(len, texts)) <= self.SHORT_BODY:
            parsed = iter(_parse_rows(texts, self._limits.max_values))
        else:
            parsed = iter(await in_background(_parse_rows, texts, self._limits.max_values))
        rows: list[Row] = []
        for name, value in values.items():
            row = next(parsed) if isinstance(value, str) else value
            if not isinstance(row, dict):
                raise _refusal(400, f"{name!r} must be a row: a JSON object, or its text")
            rows.append(row)
        return rows

    @contextmanager
    def _place(self, request: web.Request) -> Iterator[None]:
        """Count a whole request as waiting. Raises the reply 429 when too many wait, unless none is of this client."""
        client = request.remote or ""
        if self._waiting.total() >= self._limits.max_waiting and self._waiting[client]:
            raise _refusal(429, f"{self._limits.max_waiting} requests wait already", retry_after_s=1)
        self._waiting[client] += 1
        CLIENT.set(client)
        try:
            yield
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]

    # ---- judging

    async def _judge_each(self, references: Sequence[Subject], completions: Sequence[str]) -> list[Verdict]:
        """Return the verdict on each completion. The first error cancels the other completions, and is raised."""
        judged: dict[int, Verdict] = {}

        async def pairs() -> AsyncIterator[tuple[int, Subject, str]]:
            for number, (reference, text) in enumerate(zip(references, completions, strict=True)):
                yield number, reference, text

        async def judge(pair: tuple[int, Subject, str]) -> None:
            number, reference, text = pair
            [judged[number]] = await self._verdicts(reference, [text])

        await do_as_they_come(judge, pairs(), at_once=self.AT_ONCE)
        return [judged[number] for number in range(len(completions))]

    async def _verdicts(self, reference: Subject, texts: Sequence[str]) -> list[Verdict]:
        """Return verdicts, with up to two retries after infrastructure errors. Raises the reply of a failed request."""
        # Not more retries, because the client waits. Not fewer, because miles never repeats a request.
        retry_pauses = islice(pauses(), 2)
        while True:
            try:
                verdicts: list[Verdict] = await self._judge.judge(reference, texts)
            except ConfigError as error:
                raise _refusal(400, str(error)) from error
            except InvalidReferenceError as error:
                raise _refusal(422, str(error)) from error
            except GeneratorFaultError as error:
                self._counts["faults_total"] += 1
                raise _refusal(500, str(error), retry_after_s=5) from error
            except GenerationError as error:
                raise _refusal(422, str(error), kind=NOT_GENERATED) from error
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
        """Check a request's token; answer every error with one line of JSON."""
        try:
            if request.path != "/health" and not self._is_known(request):
                raise _refusal(401, "this needs a bearer token, as in Authorization: Bearer TOKEN")
            return await handler(request)
        except web.HTTPException as error:
            self._counts[f"replies_{error.status}_total"] += 1
            if error.content_type == "application/json":
                raise
            return web.json_response({"error": error.reason}, status=error.status)
        except Exception:  # the client must get a status that is no score
            logger.exception("a request failed")
            self._counts["replies_500_total"] += 1
            line = "an internal error; the server's log has it"
            return web.json_response({"error": line}, status=500, headers={"Retry-After": "5"})
        finally:
            self._bodies.give_back(request.remote or "", request.get(HELD_BYTES, 0))

    def _is_known(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._token.encode())
        return is_right and scheme.lower() == "bearer"


class _Connection(web.RequestHandler):
    """A connection whose errors outside of all routes are one line of JSON."""

    __slots__ = ()

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


class _Runner(web.AppRunner):
    """A runner of an application, all of whose errors are one line of JSON."""

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await server.request_handler(request)
            except web.HTTPException as error:  # an unknown `Expect` is refused before the middleware
                if error.content_type == "application/json":
                    raise
                return web.json_response({"error": error.reason}, status=error.status)

        return _Connections(
            handle,
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            **server._kwargs,
        )


def _http_logger() -> logging.Logger:
    """Return the logger for aiohttp, without broken heads.

    aiohttp logs each of them as an error, with a traceback and a part of the request: a stranger could fill the log,
    and the log would hold the tokens of clients whose head has a mistake.
    """
    http_logger = logging.getLogger(f"{__name__}.http")
    http_logger.addFilter(_is_no_broken_head)  # a logger takes a filter once
    return http_logger


def _is_no_broken_head(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _refusal(
    status: int, reason: str, *, retry_after_s: int | None = None, kind: str | None = None
) -> web.HTTPException:
    """Return an error reply with the reason as one line, to be raised."""
    exceptions: dict[int, type[web.HTTPException]] = {
        400: web.HTTPBadRequest,
        401: web.HTTPUnauthorized,
        408: web.HTTPRequestTimeout,
        415: web.HTTPUnsupportedMediaType,
        422: web.HTTPUnprocessableEntity,
        429: web.HTTPTooManyRequests,
        500: web.HTTPInternalServerError,
        503: web.HTTPServiceUnavailable,
    }
    fields = {"error": " ".join(reason.splitlines())}
    if kind is not None:
        fields["kind"] = kind
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    text = json.dumps(fields)
    if status == 413:  # its class needs sizes, and writes them into the text
        return web.HTTPRequestEntityTooLarge(0, text=text, content_type="application/json", headers=headers)
    return exceptions[status](text=text, content_type="application/json", headers=headers)


async def _reply_with_verdicts(verdicts: Sequence[Verdict]) -> web.Response:
    """Return the verdicts as JSON: a thread writes long answers, and one verdict at a time."""

    def write() -> bytes:
        rows = [json.dumps(_describe(verdict)) for verdict in verdicts]
        return ('{"verdicts": [' + ", ".join(rows) + "]}").encode()

    size = sum(len(verdict.answer or "") for verdict in verdicts)
    body = write() if size <= JudgeServer.SHORT_BODY else await in_background(write)
    return web.Response(body=body, content_type="application/json")


def _describe(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON values; what only score functions give stands there if it is given."""
    fields: dict[str, object] = {
        "score": verdict.score,
        "reason": verdict.reason.value,
        "answer": verdict.answer,
    }
    details = {"parts": verdict.parts, "error": verdict.error}
    return fields | {name: value for name, value in details.items() if value is not None}


def _parse_rows(texts: Sequence[bytes], max_values: int) -> list[object]:
    """Return what the JSON of rows stands for, up to the first text that is not JSON, or has a value too many in all.

    None stands for that text and those behind.
    """
    parsed: list[object] = []
    with suppress(ValueError):
        for value in read_several(texts, max_values):
            parsed.append(value)
    return parsed + [None] * (len(texts) - len(parsed))


def _text(body: dict[str, object], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str):
        raise _refusal(400, f"{name!r} must be a text")
    return text

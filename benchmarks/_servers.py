"""Servers with faults to order: a recording proxy before run-api, and inference servers without a model.

Each runs on a thread of its own and keeps its port for life, also while nobody listens there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

from demo.chat import TURN_END, last_question
from demo.generation import Completion, Generator
from demo.policy import Policy as ScriptedPolicy
from demo.policy_server import make_app
from demo.rules import solve

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")

HOST = "127.0.0.1"
PORTS = range(15_000, 32_000)
"""Below those that the system gives to outgoing connections: one of them could take the port of a server that is down,
and even connect to itself there."""
HOP_HEADERS = ("connection", "host", "keep-alive", "transfer-encoding", "content-length")
ACCEPT_TURNS = 3
"""Of the loop, in which a connection that was accepted becomes one of the server's."""
LAST_TURNS_S = 0.05
"""For connections to be taken down, which happens in later turns of the loop."""
SEND_PATHS = ("/scored_data", "/scored_data_list")
GENERATION_PATHS = ("/generate", "/v1/completions")


def lasting_port() -> int:
    """A port that is free now and that no outgoing connection takes later."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port


class Site:
    """An aiohttp application on a thread of its own; the socket can be closed and opened again."""

    def __init__(self, make: Callable[[], web.Application], **options: Any) -> None:
        """`make` is called on the thread's loop; `options` are those of aiohttp's AppRunner."""
        self.port = lasting_port()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._site: web.SockSite | None = None
        self._runner: web.AppRunner = self.run(self._set_up(make, options))

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the site's loop, from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def open(self) -> None:
        """Listen; nothing happens when it does already."""
        self.run(self._open())

    def shut(self) -> None:
        """Close the listening socket and cut every connection: new ones are refused."""
        self.run(self._shut())

    def cut(self, request: web.Request) -> None:
        """Reset the connection of a request that is being handled."""
        if request.transport is not None:
            request.transport.abort()

    def close(self) -> None:
        """End for good; safe to call twice."""
        if not self.loop.is_closed():
            self.run(self._end())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(10)
            self.loop.close()

    async def _set_up(self, make: Callable[[], web.Application], options: Mapping[str, Any]) -> web.AppRunner:
        runner = web.AppRunner(make(), access_log=None, shutdown_timeout=0.1, **options)
        await runner.setup()
        return runner

    async def _open(self) -> None:
        if self._site is None:
            self._socket = socket.create_server((HOST, self.port))
            site = web.SockSite(self._runner, self._socket)
            await site.start()
            self._site = site

    async def _shut(self) -> None:
        if self._site is not None:
            # asyncio would leave a connection open for good that it accepts in the turn in which its server closes.
            self.loop.remove_reader(self._socket.fileno())
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
            await self._site.stop()
            self._site = None
        assert self._runner.server is not None
        _abort(self._runner.server)

    async def _end(self) -> None:
        await self._shut()
        server = self._runner.server
        await self._runner.cleanup()
        assert server is not None
        _abort(server)  # what was accepted at the last moment
        await asyncio.sleep(LAST_TURNS_S)


def _abort(server: web.Server) -> None:
    for connection in server.connections:
        if connection.transport is not None:
            connection.transport.abort()


# ---------------------------------------------------------------------------- before run-api


@dataclass(frozen=True)
class Delivery:
    """A group that run-api took. `at` is in seconds of the monotonic clock.

    `key` tells groups apart (see `key_of_messages`), `question` is the last message of the prompt, or empty where the
    group came without messages.
    """

    key: str
    env_id: int
    at: float
    question: str
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Registration:
    """What run-api told an environment that it registered, at `at` (monotonic): its `env_id` and wandb name."""

    at: float
    env_id: int
    name: str
    starting_step: int


def key_of_messages(conversations: Iterable[Sequence[Mapping[str, Any]]]) -> str:
    """What identifies a group: a hash of all its conversations, from their roles and texts.

    The same for a group that run-api was sent with messages and for the line that dumps have of it.
    """
    plain = [[(message["role"], message["content"]) for message in conversation] for conversation in conversations]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _key_of_tokens(tokens: Any) -> str:
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()


class Gateway:
    """A reverse proxy before the run-api at `upstream` that records what arrives there, and breaks what it is told to.

    A run-api that is not there or goes away in the middle makes it reset the client's connection. `delivered`,
    `registered`, `disconnected` and `emptied` (the times of `/reset_data`, monotonic) grow in the order of run-api's
    answers, whether or not the client sees them.
    """

    def __init__(self, upstream: str) -> None:
        self.delivered: list[Delivery] = []
        self.registered: list[Registration] = []
        self.disconnected: list[int] = []
        self.emptied: list[float] = []
        self._upstream = upstream
        self._fault: Callable[[web.Request], Awaitable[web.StreamResponse]] = self._forward
        self._faulty_paths: tuple[str, ...] = ()
        self._session: aiohttp.ClientSession | None = None
        # Bodies pass as they are: aiohttp would unpack the first of several concatenated gzip members only.
        self._site = Site(self._make_app, auto_decompress=False)
        self._site.open()

    @property
    def url(self) -> str:
        return self._site.url

    def refuse(self) -> None:
        """Close the socket, until `accept`."""
        self._site.shut()

    def accept(self) -> None:
        """Listen on the same port again, and end whatever fault there was."""
        self._fault = self._forward
        self._site.open()

    def cut_replies(self, *paths: str) -> None:
        """Let requests (with `paths`, only those) pass and cut their connections before the reply; until `accept`."""
        self._faulty_paths = paths
        self._fault = self._forward_and_cut

    def answer(self, status: int, *paths: str) -> None:
        """Answer requests (with `paths`, only those) with this status, and pass nothing on, until `accept`."""

        async def answer(_request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, text="a fault to order")

        self._faulty_paths = paths
        self._fault = answer

    def close(self) -> None:
        self._site.close()

    def _make_app(self) -> web.Application:
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.cleanup_ctx.append(self._with_session)
        return app

    async def _with_session(self, _app: web.Application) -> Any:
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            yield

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        faulty = not self._faulty_paths or request.path in self._faulty_paths
        return await (self._fault if faulty else self._forward)(request)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_HEADERS}
        try:
            async with self._session.request(
                request.method, f"{self._upstream}{request.path_qs}", data=body, headers=headers
            ) as reply:
                answer = await reply.read()
        except aiohttp.ClientError:
            self._site.cut(request)
            return web.Response(status=502)
        if reply.status == 200:
            self._record(request.path, request.headers.get("Content-Encoding", ""), body, answer, reply.headers)
        kept = {name: value for name, value in reply.headers.items() if name.lower() not in HOP_HEADERS}
        return web.Response(status=reply.status, body=answer, headers=kept)

    async def _forward_and_cut(self, request: web.Request) -> web.StreamResponse:
        response = await self._forward(request)
        self._site.cut(request)
        return response

    def _record(self, path: str, encoding: str, body: bytes, answer: bytes, headers: Mapping[str, str]) -> None:
        if path in SEND_PATHS:
            sent = json.loads(_plain(body, encoding))
            self.delivered += [_delivery(group) for group in (sent if isinstance(sent, list) else [sent])]
        elif path == "/register-env":
            told = json.loads(_plain(answer, headers.get("Content-Encoding", "")))
            # An environment's mark, by which it knows run-api again, is no environment.
            if told.get("status") == "success":
                self.registered.append(
                    Registration(time.monotonic(), told["env_id"], told["wandb_name"], told["starting_step"])
                )
        elif path == "/disconnect-env":
            self.disconnected.append(json.loads(_plain(body, encoding))["env_id"])
        elif path == "/reset_data":
            self.emptied.append(time.monotonic())


def _plain(body: bytes, encoding: str) -> bytes:
    return gzip.decompress(body) if "gzip" in encoding.lower() else body


def _delivery(group: Mapping[str, Any]) -> Delivery:
    messages = group.get("messages")
    return Delivery(
        key=key_of_messages(messages) if messages else _key_of_tokens(group["tokens"]),
        env_id=group["env_id"],
        at=time.monotonic(),
        question=messages[0][-2]["content"] if messages else "",
        scores=tuple(group["scores"]),
    )


# ---------------------------------------------------------------------------- inference servers


class Policy:
    """An inference server with vLLM's and OpenAI's protocols: the demo's scripted policy, with faults to order.

    A `steady` one speaks vLLM's protocol only, answers at once and briefly, and the same prompt always gets the same
    answers. `generations` counts the requests that were answered with completions.
    """

    def __init__(self, *, skill: float = 0.6, seed: int = 1, latency_s: float = 0.0, steady: bool = False) -> None:
        """`skill` is the share of right rollouts (0 to 1), `latency_s` the mean seconds of a generation."""
        self.generations = 0
        self._wait_s = 0.0
        self._make_fault: Callable[[], web.Response] | None = None
        self._generation_only = False

        def make() -> web.Application:
            app = (
                _steady_app(skill, seed, latency_s) if steady else make_app(skill=skill, seed=seed, latency_s=latency_s)
            )
            app.middlewares.insert(0, self._route)
            return app

        self._site = Site(make)
        self._site.open()

    @property
    def port(self) -> int:
        return self._site.port

    def ok(self) -> None:
        """End whatever fault there was."""
        self._wait_s, self._make_fault = 0.0, None
        self._site.open()

    def down(self) -> None:
        """Close the socket and cut what is under way."""
        self._site.shut()

    def up(self) -> None:
        """Listen again, on the same port."""
        self._site.open()

    def errors(self) -> None:
        """Answer everything, health checks included, with status 500."""
        self._make_fault, self._generation_only = (lambda: web.Response(status=500)), False

    def garbage(self) -> None:
        """Answer generations with status 200 and JSON that means nothing; health checks pass."""
        nonsense = {"choices": "none", "text": {"a": 1}}
        self._make_fault, self._generation_only = (lambda: web.json_response(nonsense)), True

    def slow(self, seconds: float) -> None:
        """Let each generation wait for so long before it begins."""
        self._wait_s = seconds

    def close(self) -> None:
        self._site.close()

    @web.middleware
    async def _route(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        generating = request.path in GENERATION_PATHS
        if generating and self._wait_s:
            await asyncio.sleep(self._wait_s)
        if self._make_fault is not None and (generating or not self._generation_only):
            return self._make_fault()
        response = await handler(request)
        self.generations += generating and response.status == 200
        return response


def _steady_app(skill: float, seed: int, latency_s: float) -> web.Application:
    generator = Generator(ScriptedPolicy(skill=skill, seed=seed))
    answers = {}

    def complete(question: str, n: int) -> list[Completion]:
        chance = random.Random(f"{seed}:{question}")
        answer = solve(question)
        completions = []
        for _ in range(n):
            text = answer if answer is not None and chance.random() < skill else str(chance.randrange(10))
            if text not in answers:
                tokens = generator.tokenizer.encode(f"<answer>{text}</answer>{TURN_END}", add_special_tokens=False).ids
                answers[text] = Completion(f"<answer>{text}</answer>", tokens, [-0.5] * len(tokens), "stop")
            completions.append(answers[text])
        return completions

    async def generate(request: web.Request) -> web.Response:
        asked = generator.read_request(await request.json())
        completions = complete(last_question(asked.prompt), asked.n)
        if latency_s:
            await asyncio.sleep(latency_s)
        return web.json_response(
            {
                "text": [completion.text for completion in completions],
                "finish_reasons": [completion.finish_reason for completion in completions],
                "logprobs": [
                    [[{str(token): logprob}] for token, logprob in zip(one.token_ids, one.logprobs, strict=True)]
                    for one in completions
                ],
            }
        )

    async def health(_request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_post("/generate", generate)
    return app

"""Measure rollouts/s of `judge` over HTTP, beside handlers that call the library.

A server process, its workers and the client share this machine, and 64 requests are in flight. The first part measures
only `judge`: groups of 8 to `/score`, and one answer per request to slime's `/rm` and OpenRLHF's `/get_reward`.

In the second part, one answer in a hundred keeps the library's verifier busy for seconds (such as `9**9**7`, which a
model may write), and all other answers are right. `judge` is compared with two handlers that call `score_answer`: on
the event loop, and in a thread with a time limit, after which the answer scores 0. Prints one line of JSON: rollouts/s
by format; for each server verdicts/s, right answers that scored 0, and the longest wait for `/health` in seconds.

`--score` measures any score function instead (`_score.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import aiohttp
from aiohttp import web

from reasoning_env import Problem, ReasoningSettings, Session
from reasoning_env.judging.server import JudgeServer
from reasoning_gym_testing.http_server import HOST, free_port

from . import _score

GROUP_SIZE = 8
AT_ONCE = 64
TASKS = ["chain_sum", "gcd", "basic_arithmetic", "spell_backward"]
SLOW_TASK = "polynomial_multiplication"
SLOW_ONE_IN = 100
TIME_LIMIT_S = 5.0
"""Time limit of handlers per answer, equal to the default deadline of `judge`."""
SETTINGS = ReasoningSettings(seed=1, num_generators=1, num_verifiers=2)

Body = dict[str, Any]


# ---------------------------------------------------------------------------- servers


async def serve_judge(port: int) -> None:
    session = Session(SETTINGS)
    await session.start()
    await _serve(JudgeServer(session).runner(), port)


async def serve_library(port: int, *, in_thread: bool) -> None:
    """The library in a handler; `index` names an item of a task's dataset."""
    library = importlib.import_module("reasoning_gym")
    datasets = {task: library.create_dataset(task, seed=1, size=1000) for task in (*TASKS, SLOW_TASK)}

    async def score(request: web.Request) -> web.Response:
        body = await request.json()
        dataset = datasets[body["task"]]
        entry = dataset[body["index"]]
        try:
            if in_thread:
                work = asyncio.to_thread(dataset.score_answer, body["answer"], entry)
                found = await asyncio.wait_for(work, TIME_LIMIT_S)
            else:
                found = dataset.score_answer(body["answer"], entry)
        except Exception:  # as trainers' examples have it
            found = 0.0
        return web.json_response(found)

    async def health(request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.add_routes([web.post("/score", score), web.get("/health", health)])
    await _serve(web.AppRunner(app, access_log=None), port)


async def _serve(runner: web.BaseRunner, port: int) -> None:
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    await asyncio.Event().wait()


def _run(way: str, port: int) -> None:
    with suppress(KeyboardInterrupt):
        asyncio.run(serve_judge(port) if way == "judge" else serve_library(port, in_thread=way.endswith("thread")))


@contextmanager
def serving(way: str) -> Iterator[str]:
    """Start a server in its own process, and yield its URL."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(way, port))
    process.start()
    try:
        yield f"http://{HOST}:{port}"
    finally:
        process.kill()
        process.join()


# ---------------------------------------------------------------------------- the client


async def ask_all(url: str, path: str, bodies: Sequence[Body]) -> tuple[list[Any], float, float]:
    """Return the replies in order, the total seconds, and the longest wait for `/health` meanwhile."""
    waits: list[float] = []
    room = asyncio.Semaphore(AT_ONCE)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(600)) as client:
        await _until_up(client, url)

        async def ask(body: Body) -> Any:
            async with room, client.post(url + path, json=body) as reply:
                reply.raise_for_status()
                return await reply.json()

        async def watch() -> None:
            while True:
                asked = time.perf_counter()
                waits.append(0.0)
                try:
                    async with client.get(f"{url}/health"):
                        pass
                finally:
                    waits[-1] = time.perf_counter() - asked
                await asyncio.sleep(0.02)

        await ask(bodies[0])
        watching = asyncio.create_task(watch())
        started = time.perf_counter()
        replies = await asyncio.gather(*map(ask, bodies))
        seconds = time.perf_counter() - started
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return replies, seconds, max(waits)


async def _until_up(client: aiohttp.ClientSession, url: str) -> None:
    while True:
        with suppress(aiohttp.ClientError):
            async with client.get(f"{url}/health"):
                return
        await asyncio.sleep(0.1)


async def make_problems(tasks: Sequence[str], number: int) -> list[Problem]:
    session = Session(SETTINGS.model_copy(update={"tasks": list(tasks)}))
    await session.start()
    try:
        return [await session.next() for _ in range(number)]
    finally:
        await session.close()


def completions(problem: Problem) -> list[str]:
    """Return half right completions, half different wrong completions, with 200 words of thinking."""
    wrong = [f"<think>{'so ' * 200}</think><answer>{number}</answer>" for number in range(GROUP_SIZE // 2)]
    return [*[f"<answer>{problem.answer}</answer>"] * (GROUP_SIZE - len(wrong)), *wrong]


def formats(problems: Sequence[Problem]) -> dict[str, tuple[str, int, list[Body]]]:
    """Path, rollouts a request and requests of each format."""
    asked = [(problem, text) for problem in problems for text in completions(problem)]
    return {
        "groups_of_8": (
            "/score",
            GROUP_SIZE,
            [{"ref": problem.reference, "texts": completions(problem)} for problem in problems],
        ),
        "slime": (
            "/rm",
            1,
            [{"prompt": problem.question, "response": text, "label": problem.reference} for problem, text in asked],
        ),
        "openrlhf": (
            "/get_reward",
            1,
            [
                {"query": [problem.question + text], "prompts": [problem.question], "labels": [problem.reference]}
                for problem, text in asked
            ],
        ),
    }


async def measure_formats(url: str, groups: int) -> dict[str, int]:
    """Return rollouts/s by format. The first format also pays for generating each problem from its reference."""
    problems = await make_problems(TASKS, groups)
    rates = {}
    for name, (path, rollouts, bodies) in formats(problems).items():
        _, seconds, _ = await ask_all(url, path, bodies)
        rates[name] = round(len(bodies) * rollouts / seconds)
    return rates


def slow_answer(number: int) -> str:
    """Return an answer that takes the library seconds. Each is different, because the library caches results."""
    return f"{number + 9}**9**7"


def figures(asked: tuple[list[Any], float, float], right: Sequence[bool]) -> dict[str, float]:
    scores, seconds, wait_s = asked
    zeros = sum(score == 0.0 for score, is_right in zip(scores, right, strict=True) if is_right)
    return {
        "verdicts_per_s": round(len(scores) / seconds),
        "right_answers_scored_0": zeros,
        "longest_health_wait_s": round(wait_s, 2),
    }


async def measure_slow_judge(url: str, answers: int) -> dict[str, float]:
    problems = await make_problems(TASKS, 100)
    [slow] = await make_problems([SLOW_TASK], 1)
    right = [number % SLOW_ONE_IN != SLOW_ONE_IN // 2 for number in range(answers)]
    bodies = []
    for number, is_right in enumerate(right):
        problem = problems[number % len(problems)] if is_right else slow
        answer = problem.answer if is_right else slow_answer(number)
        bodies.append({"prompt": "", "response": f"<answer>{answer}</answer>", "label": problem.reference})
    return figures(await ask_all(url, "/rm", bodies), right)


async def measure_slow_library(url: str, answers: int) -> dict[str, float]:
    library = importlib.import_module("reasoning_gym")
    datasets = {task: library.create_dataset(task, seed=1, size=1000) for task in TASKS}
    right = [number % SLOW_ONE_IN != SLOW_ONE_IN // 2 for number in range(answers)]
    bodies = []
    for number, is_right in enumerate(right):
        task = TASKS[number % len(TASKS)] if is_right else SLOW_TASK
        answer = datasets[task][number % 100]["answer"] if is_right else slow_answer(number)
        bodies.append({"task": task, "index": number % 100, "answer": answer})
    return figures(await ask_all(url, "/score", bodies), right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--answers", type=int, default=1000, help="of the load with slow ones")
    parser.add_argument("--score", action="store_true", help="a score function whose completions hang and crash")
    parser.add_argument("--completions", type=int, default=10_000, help="of --score")
    options = parser.parse_args()
    if options.score:
        print(json.dumps(asyncio.run(_score.measure(options.completions, SETTINGS.verifiers))))
        print(json.dumps(asyncio.run(_score.measure_math_verify())))
        return
    with serving("judge") as url:
        found: dict[str, Any] = {"rollouts_per_s": asyncio.run(measure_formats(url, options.groups))}
        found["judge"] = asyncio.run(measure_slow_judge(url, options.answers))
    for way in ("library on the event loop", "library in a thread"):
        with serving(way) as url:
            found[way] = asyncio.run(measure_slow_library(url, options.answers))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

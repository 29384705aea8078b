"""Run `evaluate`, `process` and `serve` against a server that takes few requests a second, and count what is lost.

`python -m benchmarks.overload [--rate 3] [--kinds 429 529 ...]`. Each kind is a way in which servers refuse a request
because they have too much to do (KINDS). In each kind the three commands run at the same time, each with a server of
its own: `evaluate` with 40 problems over chat completions, `process` with 40 groups over completions with token ids,
and `serve` until 40 groups have arrived at a real run-api with a trainer.

Prints one line of JSON. For each kind and command: what is done, what is dropped or failed, how many requests the
server took and refused, and the seconds. Exits with 1 unless all 40 are done everywhere and nothing is dropped. Takes
four minutes at 3 requests a second. Needs Linux.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aiohttp import web

from demo.policy import ScriptedPolicy
from reasoning_gym_testing import (
    TOKENIZER,
    InferenceServer,
    LocalTraining,
    Process,
    generations,
    server_settings,
    wait_until,
)
from reasoning_gym_testing.http_server import Handler
from reasoning_gym_testing.local_training import CHEAP_TASKS, SCRIPT
from reasoning_gym_testing.protocols import MODEL_NAME

NUMBER = 40
PROBLEMS_PER_TASK = 5
"""Of the eight tasks: 40 problems."""
UNDER_WAY = 16
LATENCY_S = 0.2
LIMIT_S = 300.0
"""Seconds for a command. At 3 requests a second, 40 requests take 14 s."""
LIMITED = {"message": "Rate limit exceeded", "code": 429}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

Refuse = Callable[[web.Request], web.Response]
"""Makes the reply to a request that is over the rate."""


def _reply(status: int, value: object, **headers: str) -> Refuse:
    return lambda _request: web.json_response(value, status=status, headers=headers)


def _within_choice(request: web.Request) -> web.Response:
    part = {"message": {"content": ""}} if "chat" in request.path else {"text": ""}
    choice = {"index": 0, **part, "finish_reason": "error", "error": LIMITED}
    return web.json_response({"choices": [choice]})


KINDS: Mapping[str, Refuse] = {
    "429": _reply(429, {}),
    "529": _reply(529, OVERLOADED),
    "503_after_an_answer": _reply(503, {}),
    "200_with_error": _reply(200, {"error": LIMITED}),
    "200_with_error_in_choice": _within_choice,
    "500_with_overloaded_error": _reply(500, OVERLOADED),
    "retry_after": _reply(429, {}, **{"Retry-After": "2"}),
}


class Limit:
    """A fault of a server: refuses the requests over `rate` in any second, in the words of a kind."""

    def __init__(self, refuse: Refuse, rate: int) -> None:
        self._refuse = refuse
        self._taken_s: deque[float] = deque(maxlen=rate)
        self.taken = 0
        self.refused = 0

    async def __call__(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        now_s = time.monotonic()
        if len(self._taken_s) == self._taken_s.maxlen and now_s - self._taken_s[0] < 1.0:
            self.refused += 1
            return self._refuse(request)
        self._taken_s.append(now_s)
        self.taken += 1
        return await handler(request)


# ---------------------------------------------------------------------------- the commands


def _evaluate(training: LocalTraining, url: str) -> tuple[int, int]:
    words = ["evaluate", MODEL_NAME, "--base-url", f"{url}/v1", "--chat", "--tasks", CHEAP_TASKS, "--json"]
    words += ["--limit", str(PROBLEMS_PER_TASK), "--concurrency", str(UNDER_WAY)]
    process = training.processes.start("evaluate", [SCRIPT.resolve(), *words], python=True)
    process.end(timeout_s=LIMIT_S)
    found = json.loads(process.stdout)["overall"] if process.stdout else {"completions": 0, "failed": 0}
    return found["completions"], found["failed"]


def _process(training: LocalTraining, url: str) -> tuple[int, int]:
    groups = training.processes.folder / "groups.jsonl"
    settings = {
        "tasks": CHEAP_TASKS,
        "tokenizer_name": TOKENIZER,
        "total_steps": NUMBER,
        "max_num_workers": UNDER_WAY,
        "data_path_to_save_groups": groups,
    }
    server = server_settings(url, "completions")
    words = [f"--env.{name}={value}" for name, value in settings.items()]
    words += [f"--openai.{name}={value}" for name, value in server.items()]
    process = training.processes.start("process", [SCRIPT.resolve(), "process", *words], python=True)
    process.end(timeout_s=LIMIT_S)
    return len(groups.read_bytes().splitlines()) if groups.exists() else 0, _dropped(process)


def _serve(training: LocalTraining, _url: str) -> tuple[int, int]:
    training.start_trainer(batch_size=16)
    process = training.start_environment(
        "serve", server_type="completions", max_num_workers=UNDER_WAY, ensure_scores_are_not_same=False
    )
    wait_until(lambda: len(training.proxy.delivered) >= NUMBER or not process.check(), LIMIT_S, f"{NUMBER} groups")
    process.end(signal.SIGTERM)
    return NUMBER, _dropped(process)


def _dropped(process: Process) -> int:
    """Return how many groups a command has dropped, by its last line of progress."""
    counts = re.findall(r"progress: .* failed=(\d+)", process.stderr)
    return int(counts[-1]) if counts else -1


COMMANDS: Mapping[str, Callable[[LocalTraining, str], tuple[int, int]]] = {
    "evaluate": _evaluate,
    "process": _process,
    "serve": _serve,
}


def measure(refuse: Refuse, rate: int, folder: Path) -> dict[str, Any]:
    """Run the commands against servers that refuse in this way; return the figures by command."""
    with LocalTraining(folder, ScriptedPolicy(skill=0.6, seed=0), latency_s=LATENCY_S) as training:

        def run(name: str) -> dict[str, Any]:
            limit, began_s = Limit(refuse, rate), time.monotonic()
            if name == "serve":  # over the server of the training
                server = training.servers[0]
                server.fail(limit, only=generations)
                done, dropped = COMMANDS[name](training, server.url)
            else:
                with InferenceServer(ScriptedPolicy(skill=0.6, seed=0), latency_s=LATENCY_S) as server:
                    server.fail(limit, only=generations)
                    done, dropped = COMMANDS[name](training, server.url)
            seconds = round(time.monotonic() - began_s, 1)
            return {"done": done, "dropped": dropped, "taken": limit.taken, "refused": limit.refused, "s": seconds}

        with ThreadPoolExecutor(len(COMMANDS)) as threads:
            return dict(zip(COMMANDS, threads.map(run, COMMANDS), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.overload", description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=int, default=3, help="requests that the server takes in a second")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS], help="ways to refuse a request")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="overload-") as name:
        kinds = {kind: measure(KINDS[kind], options.rate, Path(name) / kind) for kind in options.kinds}
    print(json.dumps({"benchmark": "overload", "rate": options.rate, "number": NUMBER, "kinds": kinds}))
    figures = itertools.chain.from_iterable(found.values() for found in kinds.values())
    return 0 if all((one["done"], one["dropped"]) == (NUMBER, 0) for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

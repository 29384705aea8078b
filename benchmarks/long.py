"""Measure the cost of long completions, beside the plain loop, over real HTTP.

`python -m benchmarks.long` measures all programs in turns, at 200, 2,000, 8,000 and 32,000 tokens a completion: groups
of 8, 8 in flight (`--in-flight 8 64`), replies of 1 s (`--latency-s 4`), problems of four cheap tasks. Each measurement
is a new process. The inference server is another process with prepared completions. The programs:

- `plain`: Atropos' vLLM client and managed server, and the library on the event loop, like Atropos' own environment
- `imported`: direct calls of `collect_trajectories`, up to the scored group, with Python's default garbage collector
- `calm`: the same after `tune_garbage_collector`, the environment's default
- `completions`: the same with an ordinary `vllm serve` that returns token ids
- `process`: `process_manager`, which writes the groups to a file
- `serve`: `env_manager`, which dumps, packs and sends every group to Atropos' run-api, a separate process

Figures:

- processor time of the main process in microseconds per completion token
- delays of wake-ups of the event loop in milliseconds (99th percentile, longest)
- `held`: the part of the delays in which the loop's own thread worked; other processes hardly affect it
- growth of the main process at its peak, in bytes per token of the groups in flight and waiting

Prints lines to stderr, then one line of JSON. Needs Linux and some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoning_env.atropos.config import tune_process_for_event_loop
from reasoning_gym_testing import TOKENIZER, Processes, RunApi, server_settings
from reasoning_gym_testing.trainer import REGISTRATION, REQUEST_TIMEOUT_S

from ._usage import Heartbeat, resident_mb
from .throughput import _plain_score, in_fresh_process

GROUP_SIZE = 8
TASKS = ("chain_sum", "gcd", "lcm", "count_bits")
PROMPT_ROOM = 1000
WARM_UP_S, SETTLE_S = 4.0, 0.05
LEAST_GROUPS = 24
SAMPLE_S = 0.02


@dataclass(frozen=True)
class Load:
    """The load of a program: at least `seconds`, and at least LEAST_GROUPS."""

    way: str
    tokens: int
    in_flight: int
    seconds: float
    url: str
    run_api_url: str = ""


# ---------------------------------------------------------------------------- the ways


def make_environment(load: Load, server_type: str, **settings: Any) -> Any:
    from reasoning_env.atropos import ServerConfig

    front_door = importlib.import_module("reasoning_gym_environment")
    config = front_door.ReasoningGymEnvConfig(
        tokenizer_name=TOKENIZER,
        group_size=GROUP_SIZE,
        max_token_length=load.tokens + PROMPT_ROOM,
        max_num_workers=load.in_flight,
        ensure_scores_are_not_same=False,
        use_wandb=False,
        tasks=TASKS,
        **settings,
    )
    return front_door.ReasoningGymEnv(config, [ServerConfig(**server_settings(load.url, server_type))])


class Imported:
    """The environment, imported by other code that requests one group after another."""

    def __init__(self, load: Load) -> None:
        server_type = "completions" if load.way == "completions" else "vllm"
        if load.way != "calm":
            importlib.import_module("reasoning_env.atropos.lifetime").tune_garbage_collector = lambda: None
        self._env = make_environment(load, server_type)
        self._load = load
        self.done = 0
        self.waiting = 0

    async def run(self) -> None:
        await self._env.setup()
        await keep_busy(self._group, self._load.in_flight)

    async def _group(self) -> None:
        group, _ = await self._env.collect_trajectories(await self._env.get_next_item())
        assert group is not None
        self.done += 1

    async def close(self) -> None:
        await self._env.close()


class Plain:
    """Atropos' own client and managed server, with the library on the event loop."""

    def __init__(self, load: Load) -> None:
        from atroposlib.envs.server_handling.server_baseline import APIServerConfig
        from atroposlib.envs.server_handling.server_manager import ServerManager
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
        config = APIServerConfig(**server_settings(load.url), tokenizer_name=TOKENIZER)
        self._servers = ServerManager([config], max_n_completions=GROUP_SIZE)
        self._library = importlib.import_module("reasoning_gym")
        self._seeds = itertools.count()
        self._load = load
        self.done = 0
        self.waiting = 0

    async def run(self) -> None:
        await keep_busy(self._group, self._load.in_flight)

    async def _group(self) -> None:
        seed = next(self._seeds)
        dataset = self._library.create_dataset(TASKS[seed % len(TASKS)], seed=seed, size=1)
        entry = dataset[0]
        messages = [
            {"role": "system", "content": "Answer in <answer> tags."},
            {"role": "user", "content": entry["question"]},
        ]
        async with self._servers.managed_server(tokenizer=self._tokenizer) as managed:
            await managed.chat_completion(messages=messages, n=GROUP_SIZE, max_tokens=self._load.tokens)
            nodes = managed.get_state()["nodes"]
        group: dict[str, list[Any]] = {"tokens": [], "masks": [], "inference_logprobs": [], "scores": []}
        for node in nodes:
            text = self._tokenizer.decode([token for token in node.masked_tokens if token != -100])
            group["tokens"].append(node.tokens)
            group["masks"].append(node.masked_tokens)
            group["inference_logprobs"].append(node.logprobs)
            group["scores"].append(
                _plain_score(dataset, text.rpartition("<answer>")[2].partition("</answer>")[0], entry)
            )
        assert len(group["scores"]) == GROUP_SIZE
        self.done += 1

    async def close(self) -> None:
        pass


class Managed:
    """The environment under its own loop, `serve` or `process`."""

    def __init__(self, load: Load) -> None:
        more: dict[str, Any] = {"rollout_server_url": load.run_api_url} if load.way == "serve" else {}
        if load.way == "process":
            more = {"data_path_to_save_groups": "groups.jsonl", "include_messages": True}
        self._env = make_environment(
            load,
            "vllm",
            total_steps=1_000_000,
            max_batches_offpolicy=1_000_000,
            steps_per_eval=0,
            dump_rollouts=True,
            dump_failed_rollouts=True,
            rollout_save_score_threshold=0.0,
            data_dumps_dir="dumps",
            **more,
        )
        self._load = load
        if load.way == "process":
            self._env.n_groups_to_process, self._env.group_size_to_process = 1_000_000, GROUP_SIZE
        tune_process_for_event_loop()  # as the command line does

    @property
    def done(self) -> int:
        run = self._env._run
        return run.queue.stats.delivered if self._load.way == "serve" else run.session.metrics.total.groups.total()

    @property
    def waiting(self) -> int:
        """Groups that wait for run-api, not counting groups in flight."""
        waiting: int = self._env._run.queue.stats.waiting
        return waiting

    async def run(self) -> None:
        await (self._env.env_manager() if self._load.way == "serve" else self._env.process_manager())

    async def close(self) -> None:
        await self._env.close()


WAYS: Mapping[str, type[Any]] = {
    "plain": Plain,
    "imported": Imported,
    "calm": Imported,
    "completions": Imported,
    "process": Managed,
    "serve": Managed,
}


async def keep_busy(do_group: Callable[[], Awaitable[None]], in_flight: int) -> None:
    """Run groups without end, `in_flight` at a time."""

    async def lane() -> None:
        while True:
            await do_group()

    await asyncio.gather(*(lane() for _ in range(in_flight)))


# ---------------------------------------------------------------------------- measuring


async def measure(load: Load) -> dict[str, float]:
    """Return the figures of one program."""
    side = WAYS[load.way](load)
    before_mb = peak_mb = resident_mb(os.getpid())
    held = load.in_flight
    heartbeat = Heartbeat()
    running = asyncio.ensure_future(side.run())
    try:
        await _until(running, lambda: side.done >= 2 * load.in_flight, WARM_UP_S)
        heartbeat.late_ms.clear()
        heartbeat.held_ms.clear()
        began, began_s, began_done = time.perf_counter(), time.process_time(), side.done
        while time.perf_counter() - began < load.seconds or side.done - began_done < LEAST_GROUPS:
            await asyncio.sleep(SAMPLE_S)
            assert not running.done(), running.exception()
            now_mb = resident_mb(os.getpid())
            if now_mb > peak_mb:
                peak_mb, held = now_mb, load.in_flight + side.waiting
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_s
        groups = side.done - began_done
    finally:
        heartbeat.stop()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await side.close()
    late_ms, held_ms = sorted(heartbeat.late_ms), sorted(heartbeat.held_ms)
    tokens = GROUP_SIZE * load.tokens
    return {
        "groups_per_s": round(groups / took_s, 2),
        "main_process_ms": round(1000 * cpu_s / groups, 2),
        "cpu_us_per_token": round(1e6 * cpu_s / groups / tokens, 3),
        "loop_p99_ms": round(late_ms[int(0.99 * len(late_ms))], 1),
        "loop_longest_ms": round(late_ms[-1], 1),
        "held_p99_ms": round(held_ms[int(0.99 * len(held_ms))], 1),
        "held_longest_ms": round(held_ms[-1], 1),
        "grew_mb": round(peak_mb - before_mb, 1),
        "groups_held": held,
        "bytes_per_token": round((peak_mb - before_mb) * 2**20 / (held * tokens), 1),
    }


async def _until(running: asyncio.Future[Any], condition: Callable[[], bool], least_s: float) -> None:
    began = time.perf_counter()
    while not condition() or time.perf_counter() - began < least_s:
        assert not running.done(), running.exception()
        await asyncio.sleep(SETTLE_S)


@contextlib.contextmanager
def inference(processes: Processes, tokens: int, latency_s: float) -> Iterator[str]:
    """Run an inference server with completions of this length and latency."""
    words = ["-m", "reasoning_gym_testing", "--policy", "benchmarks._policies:long_random_policy"]
    words += ["--options", json.dumps({"tokens": tokens}), "--latency-s", str(latency_s)]
    process = processes.start(f"inference-{tokens}-{time.monotonic_ns()}", words, python=True, cwd=Path.cwd())
    yield str(process.announcement()["url"])
    process.end(signal.SIGTERM)


def register_idle_trainer(run_api: RunApi, tokens: int) -> None:
    """Register a trainer that takes no batches, because its processor time would count too."""
    run_api.reset_data()
    body = {**REGISTRATION, "batch_size": GROUP_SIZE * 1000, "max_token_len": tokens + PROMPT_ROOM}
    headers = {"Content-Type": "application/json"}
    register = urllib.request.Request(f"{run_api.url}/register", json.dumps(body).encode(), headers)
    # run-api accepts environments only after the trainer has requested a batch.
    for request in (register, f"{run_api.url}/batch"):
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", nargs="+", type=int, default=[200, 2000, 8000, 32000])
    parser.add_argument("--in-flight", nargs="+", type=int, default=[8])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seconds", type=float, default=8.0, help="minimum time of each measurement")
    parser.add_argument("--latency-s", type=float, default=1.0, help="latency of a reply")
    parser.add_argument("--rounds", type=int, default=1, help="how often to repeat all measurements")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name, Processes(Path(name)) as processes:
        run_api = RunApi(processes)
        run_api.start()
        for tokens in options.tokens:
            with inference(processes, tokens, options.latency_s) as url:
                for in_flight, _, way in itertools.product(options.in_flight, range(options.rounds), options.ways):
                    if way == "serve":
                        register_idle_trainer(run_api, tokens)
                    load = Load(way, tokens, in_flight, options.seconds, url, run_api.url)
                    figures = in_fresh_process(measure, load)
                    results.append({"way": way, "tokens": tokens, "in_flight": in_flight, **figures})
                    print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"benchmark": "long", "cores": os.cpu_count(), **vars(options), "results": results}))


if __name__ == "__main__":
    main()

"""Measure the rates of `process` and of BaseEnv's own loop, and delays of the event loop in `process` and `evaluate`.

- Rates: requests take 1 s, and both loops write the same lines to a file, for problems of cheap tasks.
- Delays, for all tasks: wake-ups of the event loop in milliseconds (99th percentile, longest), in `process` with
  requests of 1 s and of 0.2 s (full load), and in `evaluate` with requests of 0.2 s.

The inference server is a separate process. Times do not include the start of the workers.

Prints one line of JSON. Takes two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atroposlib.envs.base import BaseEnv
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from reasoning_env.atropos.cli import tune_process_for_event_loop
from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig
from reasoning_gym_testing import TOKENIZER, Processes, server_settings

from ._usage import Heartbeat

UNDER_WAY = 64
SLOW_S, QUICK_S = 1.0, 0.2
POLICY = ["--policy", "benchmarks._policies:prepared_policy", "--options", '{"tokens": 200}']
CHEAP_TASKS = "chain_sum,gcd,lcm"
BASE_GROUPS = 5
BUSY = 5
"""How many times the groups of a second each."""
SETTLE_S = 0.1
PERCENTILES = 100


@dataclass(frozen=True)
class Measured:
    took_s: float
    late_ms: list[float]

    def lateness(self) -> dict[str, float]:
        p99 = statistics.quantiles(self.late_ms, n=PERCENTILES)[-1]
        return {"p99_ms": round(p99, 1), "longest_ms": round(max(self.late_ms), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.processing", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--groups", type=int, default=320, help="groups that `process` writes with requests of one second"
    )
    groups = parser.parse_args().groups
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name, Processes(Path(name)) as processes:
        folder, busy_groups = Path(name), BUSY * groups
        slow, quick = (_start_server(processes, latency_s) for latency_s in (SLOW_S, QUICK_S))
        base = asyncio.run(_process(BaseEnv, slow, BASE_GROUPS, folder / "base", tasks=CHEAP_TASKS))
        own = asyncio.run(_process(ReasoningGymEnv, slow, groups, folder / "own", tasks=CHEAP_TASKS))
        calm = asyncio.run(_process(ReasoningGymEnv, slow, groups, folder / "calm"))
        busy = asyncio.run(_process(ReasoningGymEnv, quick, busy_groups, folder / "busy"))
        evaluated = asyncio.run(_evaluate(quick, folder / "evaluation"))
    rate, base_rate = groups / own.took_s, BASE_GROUPS / base.took_s
    figures = {
        "base_groups_per_s": round(base_rate, 2),
        "groups_per_s": round(rate, 2),
        "times": round(rate / base_rate, 1),
        "process": {"groups_per_s": round(groups / calm.took_s, 1), **calm.lateness()},
        "busy_process": {"groups_per_s": round(busy_groups / busy.took_s, 1), **busy.lateness()},
        "evaluate": evaluated.lateness(),
    }
    print(json.dumps(figures))


def _start_server(processes: Processes, latency_s: float) -> str:
    words = ["-m", "reasoning_gym_testing", *POLICY, "--latency-s", str(latency_s)]
    server = processes.start(f"server-{latency_s:g}", words, python=True, cwd=Path(__file__).parents[1])
    return str(server.announcement()["url"])


async def _process(manager: type[BaseEnv], url: str, groups: int, folder: Path, **settings: str) -> Measured:
    """Write some groups with one of the two loops."""
    path = folder / "groups.jsonl"
    env = _environment(url, total_steps=groups, data_path_to_save_groups=str(path), **settings)
    env.n_groups_to_process, env.group_size_to_process = groups, env.config.group_size
    measured = await _measure(env, lambda: manager.process_manager(env))
    assert len(path.read_text().splitlines()) == groups
    return measured


async def _evaluate(url: str, folder: Path) -> Measured:
    env = _environment(url, data_dir_to_save_evals=str(folder), num_eval_samples_per_task=10, eval_repeats=4)
    return await _measure(env, env.evaluate)


def _environment(url: str, **settings: Any) -> Any:
    settings |= {"group_size": 8, "max_num_workers": UNDER_WAY, "include_messages": True, "use_wandb": False}
    settings |= {"tokenizer_name": TOKENIZER, "ensure_scores_are_not_same": False}
    return ReasoningGymEnv(ReasoningGymEnvConfig(**settings), [APIServerConfig(**server_settings(url))])


async def _measure(env: Any, run: Callable[[], Awaitable[None]]) -> Measured:
    tune_process_for_event_loop()
    await env.setup()
    env.setup = lambda: asyncio.sleep(0)
    heartbeat = Heartbeat()
    await asyncio.sleep(SETTLE_S)
    heartbeat.late_ms.clear()
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):  # tables, and the name of the page that BaseEnv makes
        await run()
    took_s = time.perf_counter() - began
    heartbeat.stop()
    await env.close()
    return Measured(took_s, heartbeat.late_ms)


if __name__ == "__main__":
    main()

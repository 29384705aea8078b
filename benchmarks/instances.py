"""Several environments at one run-api: groups a second, shares, costs, and what run-api can take.

`python -m benchmarks.instances [--instances 1 2 4] [--seconds 20]` starts that many environments at the same moment
with the same settings, each a process with its workers, and counts what the trainer gets. Inference is one process with
the policy `_policies.canned`, which stands for a GPU fleet: the environments are what is measured. The settings:

- `ceiling`: cheap tasks, and completions that come at once. Main processes and run-api are the limit.
- `mix`: uniform over all tasks, and completions that come at once. Generating and scoring are the limit.
- `long`: as `ceiling`, with completions of 2000 tokens. run-api is the limit.
- `paced`: uniform over all tasks, completions take 2 s, 16 groups under way in each environment. Nothing is the limit,
  and throughput should grow with the number of environments; here it is also looked for problems that came twice.

Groups have 8 completions, of 200 tokens but for `long`. Groups without a signal are sent too, so that each one that is
scored counts. Processor time is in milliseconds a group: of the main processes, of their workers, of run-api and of
inference. `run_api` is the processor time of one request of each kind, with nothing else going on: 1000 divided by it
is what one run-api can do in a second.

Prints one line of JSON; progress goes to stderr. Exits with 1 when a problem came twice. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from reasoning_env.library_facts import FACTS
from reasoning_gym_testing import (
    TOKENIZER,
    Delivery,
    Processes,
    RunApi,
    Trainer,
    server_settings,
    start_environment,
    wait_until,
)
from reasoning_gym_testing.line import CHEAP_TASKS, RECORDED_SCRIPT, SCRIPT
from reasoning_gym_testing.process_table import descendants, is_alive
from reasoning_gym_testing.recorded_environment import read_journal
from reasoning_gym_testing.trainer import REGISTRATION

from ._usage import cpu_s, proportional_mb, resident_mb

ROOT = Path(__file__).resolve().parent.parent
ALL_TASKS = ",".join(sorted(FACTS.keys() - {"composite"}))
GROUP_SIZE = 8
MAX_TOKENS = 4096
PROMPT_TOKENS = 100
COMPLETION_TOKENS = 200
BATCH_SIZE = 64
WARM_UP_S = 8.0
START_TIMEOUT_S = 180.0
REQUESTS = 200
LIST_LENGTH = 8
ALIKE: Mapping[str, Any] = {
    "tokenizer_name": TOKENIZER,
    "group_size": GROUP_SIZE,
    "max_token_length": MAX_TOKENS,
    "max_batches_offpolicy": 64,  # so many that the queue at run-api never holds an environment back
    "total_steps": 1_000_000,
    "steps_per_eval": 0,
    "ensure_scores_are_not_same": False,
    "use_wandb": False,
}
"""What all environments are told."""


@dataclass(frozen=True)
class Setting:
    """What environments are given to do."""

    tasks: str
    latency_s: float
    workers: int
    tokens: int = COMPLETION_TOKENS
    recorded: bool = False


SETTINGS: Mapping[str, Setting] = {
    "ceiling": Setting(CHEAP_TASKS, 0.0, 64),
    "mix": Setting(ALL_TASKS, 0.0, 64),
    "long": Setting(CHEAP_TASKS, 0.0, 16, tokens=10 * COMPLETION_TOKENS),
    "paced": Setting(ALL_TASKS, 2.0, 16, recorded=True),
}


class Site:
    """A run-api with a trainer, inference, and environments that were started together."""

    def __init__(self, processes: Processes, setting: Setting, instances: int) -> None:
        self.run_api = RunApi(processes)
        self.run_api.start()
        self.trainer = Trainer(self.run_api.url, batch_size=BATCH_SIZE, max_token_len=MAX_TOKENS)
        words = ["-m", "reasoning_gym_testing", "--latency-s", str(setting.latency_s)]
        words += ["--policy", "benchmarks._policies:canned", "--options", json.dumps({"tokens": setting.tokens})]
        self.policy = processes.start("policy", [sys.executable, *words], cwd=ROOT)
        servers = [server_settings(self.policy.announcement()["url"])]
        script = RECORDED_SCRIPT if setting.recorded else SCRIPT
        own = {"rollout_server_url": self.run_api.url, "tasks": setting.tasks, "max_num_workers": setting.workers}
        self.environments = [
            start_environment(processes, f"environment-{number}", {**ALIKE, **own}, servers, script=script)
            for number in range(instances)
        ]

    def everyone_delivers(self) -> bool:
        for environment in self.environments:
            environment.check()
        return len({group.env_id for group in self.trainer.received}) == len(self.environments)

    def spent(self) -> dict[str, dict[int, float]]:
        """Return the processor time in seconds so far, by process id, of programs by name."""
        mains = [environment.pid for environment in self.environments]
        programs = {
            "main": mains,
            "workers": [worker for pid in mains for worker in descendants(pid) if is_alive(worker)],
            "run_api": [self.run_api.process.pid],
            "inference": [self.policy.pid],
        }
        return {name: dict(_spent_by(pids)) for name, pids in programs.items()}


def _spent_by(pids: Iterable[int]) -> Iterator[tuple[int, float]]:
    for pid in pids:
        with contextlib.suppress(OSError):  # a worker that has just been replaced
            yield pid, cpu_s(pid)


# ---------------------------------------------------------------------------- environments


def measure(setting: Setting, instances: int, seconds: float) -> dict[str, Any]:
    """Return the figures of so many environments over so many seconds."""
    with tempfile.TemporaryDirectory() as folder, Processes(Path(folder), isolated=True) as processes:
        site = Site(processes, setting, instances)
        with site.trainer:
            wait_until(site.everyone_delivers, START_TIMEOUT_S, f"the first group of each of {instances}")
            time.sleep(WARM_UP_S)
            first, before, started = len(site.trainer.received), site.spent(), time.monotonic()
            time.sleep(seconds)
            groups, after, took_s = site.trainer.received[first:], site.spent(), time.monotonic() - started
            if not groups:
                raise TimeoutError(f"no batch came within {seconds:g} s; measure longer (--seconds)")
            # A worker that was replaced in between counts from its start; what its predecessor used is left out.
            spent = {
                name: sum(used - before[name].get(pid, 0.0) for pid, used in pids.items())
                for name, pids in after.items()
            }
            return _figures(site, groups, spent, took_s)


def _figures(site: Site, groups: Sequence[Delivery], spent: Mapping[str, float], took_s: float) -> dict[str, Any]:
    shares = Counter(group.env_id for group in groups)
    mains = [environment.pid for environment in site.environments]
    figures = {
        "groups_per_s": round(len(groups) / took_s, 1),
        "shares": [round(count / len(groups), 3) for _, count in sorted(shares.items())],
        "cpu_ms_per_group": {name: round(1000 * seconds / len(groups), 2) for name, seconds in spent.items()},
        "cores_used": round(sum(spent.values()) / took_s, 2),
        "main_process_mb": [round(resident_mb(pid)) for pid in mains],
        "with_workers_mb": [round(proportional_mb([pid, *filter(is_alive, descendants(pid))])) for pid in mains],
    }
    served = [
        problem for environment in site.environments for problem in read_journal(environment.folder, "handed_out")
    ]
    if served:
        distinct = {(problem["task"], problem["seed"], str(problem["params"])) for problem in served}
        figures |= {"problems": len(served), "repeated": len(served) - len(distinct)}
    return figures


# ---------------------------------------------------------------------------- run-api


def measure_run_api(completion_tokens: int) -> dict[str, float]:
    """Return the CPU milliseconds that run-api spends on requests with completions of that length."""
    with tempfile.TemporaryDirectory() as folder, Processes(Path(folder), isolated=True) as processes:
        run_api = RunApi(processes)
        run_api.start()
        return asyncio.run(_ask_everything(run_api.process.pid, run_api.url, completion_tokens))


async def _ask_everything(pid: int, url: str, completion_tokens: int) -> dict[str, float]:
    group = _group(completion_tokens)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:

        async def cost(requests: int, method: str, path: str, body: Any, units: int = 1) -> float:
            data = gzip.compress(json.dumps(body).encode(), compresslevel=1)
            headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
            spent = cpu_s(pid)
            for _ in range(requests):
                async with session.request(method, path, data=data, headers=headers) as reply:
                    assert reply.status == 200, await reply.text()
                    await reply.read()
            return round(1000 * (cpu_s(pid) - spent) / requests / units, 3)

        registration = {**REGISTRATION, "batch_size": BATCH_SIZE, "max_token_len": 2**20}
        await cost(1, "POST", "/register", registration)
        await cost(1, "GET", "/batch", {})  # before that no environment may register
        environment = {"max_token_length": 2**20, "desired_name": "bench", "weight": 1.0, "group_size": GROUP_SIZE}
        await cost(1, "POST", "/register-env", environment)
        costs = {"status_of_empty_queue": await cost(REQUESTS, "GET", "/status-env", {"env_id": 0})}
        costs["group"] = await cost(REQUESTS, "POST", "/scored_data", group)
        lists = REQUESTS // LIST_LENGTH
        eight = [group] * LIST_LENGTH
        costs["group_of_a_list"] = await cost(lists, "POST", "/scored_data_list", eight, units=LIST_LENGTH)
        costs["status"] = await cost(REQUESTS, "GET", "/status-env", {"env_id": 0})
        batches = 2 * REQUESTS * GROUP_SIZE // BATCH_SIZE
        costs["group_of_a_batch"] = await cost(batches, "GET", "/batch", {}, units=BATCH_SIZE // GROUP_SIZE)
        return costs


def _group(completion_tokens: int) -> dict[str, Any]:
    tokens = [7 + number % 1000 for number in range(PROMPT_TOKENS + completion_tokens)]
    masks = [-100] * PROMPT_TOKENS + tokens[PROMPT_TOKENS:]
    return {
        "tokens": [tokens] * GROUP_SIZE,
        "masks": [masks] * GROUP_SIZE,
        "scores": [float(number) for number in range(GROUP_SIZE)],
        "inference_logprobs": [[-0.123456] * completion_tokens] * GROUP_SIZE,
        "overrides": [{}] * GROUP_SIZE,
        "env_id": 0,
    }


# ---------------------------------------------------------------------------- the whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, nargs="+", default=[1, 2, 4], help="how many environments at a time")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each is measured")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS, help="which of the settings")
    options = parser.parse_args()
    run_api = {f"{tokens}_tokens": measure_run_api(tokens) for tokens in (COMPLETION_TOKENS, 10 * COMPLETION_TOKENS)}
    result: dict[str, Any] = {"benchmark": "instances", "cores": os.cpu_count(), "run_api": run_api}
    for name in options.settings:
        result[name] = {}
        for count in options.instances:
            result[name][count] = measure(SETTINGS[name], count, options.seconds)
            print(f"{name}, {count}: {json.dumps(result[name][count])}", file=sys.stderr, flush=True)
    print(json.dumps(result))
    return int(any(figures.get("repeated") for name in options.settings for figures in result[name].values()))


if __name__ == "__main__":
    sys.exit(main())

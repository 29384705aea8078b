"""Several environments at one run-api: groups a second, shares, what each costs, and what run-api can take.

`python -m benchmarks.instances [--instances 1,2,4] [--seconds 20]` starts that many environments at the same moment
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

Prints one line of JSON; progress goes to stderr. Needs Linux.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from reasoning_env.library_facts import KNOWN_TASKS
from testing import TOKENIZER, Processes, RunApi, Trainer, server_settings, start_environment, wait_until
from testing.line import RECORDED_SCRIPT, SCRIPT
from testing.process_table import descendants, is_alive
from testing.recorded_environment import read_journal
from testing.trainer import REGISTRATION

from ._usage import cpu_s, proportional_mb, resident_mb

ROOT = Path(__file__).resolve().parent.parent
TASKS = "chain_sum,gcd,lcm,count_bits,products,letter_counting,spell_backward,word_sorting"
GROUP_SIZE = 8
MAX_TOKENS = 4096
PROMPT_TOKENS = 100
COMPLETION_TOKENS = 200
BATCH_SIZE = 64
MAX_BATCHES_OFFPOLICY = 64
"""So many that the queue at run-api never holds an environment back."""
WARM_UP_S = 8.0
START_TIMEOUT_S = 180.0
REQUESTS = 200
LIST_LENGTH = 8


@dataclass(frozen=True)
class Setting:
    """What environments are given to do."""

    tasks: str
    latency_s: float
    workers: int
    tokens: int = COMPLETION_TOKENS
    recorded: bool = False


SETTINGS: Mapping[str, Setting] = {
    "ceiling": Setting(TASKS, 0.0, 64),
    "mix": Setting(",".join(sorted(KNOWN_TASKS - {"composite"})), 0.0, 64),
    "long": Setting(TASKS, 0.0, 16, tokens=10 * COMPLETION_TOKENS),
    "paced": Setting(",".join(sorted(KNOWN_TASKS - {"composite"})), 2.0, 16, recorded=True),
}


class Site:
    """A run-api with a trainer, inference, and environments that were started together."""

    def __init__(self, processes: Processes, setting: Setting, instances: int) -> None:
        self.run_api = RunApi(processes)
        self.run_api.start()
        words = ["-m", "testing.inference_server", "--latency-s", str(setting.latency_s)]
        words += ["--policy", "benchmarks._policies:canned", "--options", json.dumps({"tokens": setting.tokens})]
        self.policy = processes.start("policy", [sys.executable, *words], cwd=ROOT)
        servers = [server_settings(self.policy.announcement()["url"])]
        script = RECORDED_SCRIPT if setting.recorded else SCRIPT
        self.trainer = Trainer(self.run_api.url, batch_size=BATCH_SIZE, max_token_len=MAX_TOKENS)
        self.environments = [
            start_environment(
                processes, f"environment-{number}", _settings(setting, self.run_api.url), servers, script=script
            )
            for number in range(instances)
        ]

    def everyone_delivers(self) -> bool:
        for environment in self.environments:
            environment.check()
        return len({group.env_id for group in self.trainer.received}) == len(self.environments)


def _settings(setting: Setting, run_api: str) -> dict[str, Any]:
    return {
        "rollout_server_url": run_api,
        "tokenizer_name": TOKENIZER,
        "tasks": setting.tasks,
        "group_size": GROUP_SIZE,
        "max_token_length": MAX_TOKENS,
        "max_num_workers": setting.workers,
        "max_batches_offpolicy": MAX_BATCHES_OFFPOLICY,
        "total_steps": 1_000_000,
        "steps_per_eval": 0,
        "ensure_scores_are_not_same": False,
        "use_wandb": False,
    }


@contextlib.contextmanager
def site(setting: Setting, instances: int) -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as folder, Processes(Path(folder), isolated=True) as processes:
        started = Site(processes, setting, instances)
        with started.trainer:
            wait_until(started.everyone_delivers, START_TIMEOUT_S, f"the first group of each of {instances}")
            yield started


# ---------------------------------------------------------------------------- environments


@dataclass(frozen=True)
class Spent:
    """Processor time in seconds at one moment, by process id, of programs by name."""

    at: float
    by_program: Mapping[str, Mapping[int, float]]


def measure(setting: Setting, instances: int, seconds: float) -> dict[str, Any]:
    """The figures of so many environments over so many seconds."""
    with site(setting, instances) as running:
        time.sleep(WARM_UP_S)
        first, before = len(running.trainer.received), _spent(running)
        time.sleep(seconds)
        groups, after = running.trainer.received[first:], _spent(running)
        return _figures(running, groups, before, after)


def _spent(running: Site) -> Spent:
    mains = [environment.pid for environment in running.environments]
    workers = [worker for pid in mains for worker in descendants(pid) if is_alive(worker)]
    programs = {
        "main": mains,
        "workers": workers,
        "run_api": [running.run_api.process.pid],
        "inference": [running.policy.pid],
    }
    return Spent(time.monotonic(), {name: _spent_by(pids) for name, pids in programs.items()})


def _spent_by(pids: Sequence[int]) -> dict[int, float]:
    spent = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # a worker that has just been replaced
            spent[pid] = cpu_s(pid)
    return spent


def _figures(running: Site, groups: Sequence[Any], before: Spent, after: Spent) -> dict[str, Any]:
    took = after.at - before.at
    shares = Counter(group.env_id for group in groups)
    mains = [environment.pid for environment in running.environments]
    trees = [[pid, *filter(is_alive, descendants(pid))] for pid in mains]
    figures = {
        "groups_per_s": round(len(groups) / took, 1),
        "shares": [round(count / len(groups), 3) for _, count in sorted(shares.items())],
        "cpu_ms_per_group": {
            name: round(1000 * _difference(after.by_program[name], before.by_program[name]) / len(groups), 2)
            for name in after.by_program
        },
        "cores_used": round(
            sum(_difference(after.by_program[name], before.by_program[name]) for name in after.by_program) / took, 2
        ),
        "main_process_mb": [round(resident_mb(pid)) for pid in mains],
        "with_workers_mb": [round(proportional_mb(tree)) for tree in trees],
    }
    journals = [read_journal(environment.folder, "handed_out") for environment in running.environments]
    served = [problem for journal in journals for problem in journal]
    if served:
        distinct = {(problem["task"], problem["seed"], str(problem["params"])) for problem in served}
        figures |= {"problems": len(served), "repeated": len(served) - len(distinct)}
    return figures


def _difference(after: Mapping[int, float], before: Mapping[int, float]) -> float:
    # A worker that was replaced in between counts from its start; what its predecessor used is left out.
    return sum(spent - before.get(pid, 0.0) for pid, spent in after.items())


# ---------------------------------------------------------------------------- run-api


def measure_run_api(completion_tokens: int) -> dict[str, float]:
    """Milliseconds of processor time that run-api spends on a request of each kind, for completions of that length."""
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
        costs["group_of_a_list"] = await cost(
            lists, "POST", "/scored_data_list", [group] * LIST_LENGTH, units=LIST_LENGTH
        )
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


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _measure_setting(name: str, counts: Sequence[int], seconds: float) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for count in counts:
        figures = measure(SETTINGS[name], count, seconds)
        single = results.get("1", {}).get("groups_per_s")
        if single:
            figures["of_single"] = round(figures["groups_per_s"] / single, 2)
        results[str(count)] = figures
        _tell(f"{name}, {count}: {json.dumps(figures)}")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", default="1,2,4", help="how many environments, one number after the other")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each is measured")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="which of the settings")
    options = parser.parse_args()
    counts = [int(word) for word in options.instances.split(",")]
    run_api = {f"{tokens}_tokens": measure_run_api(tokens) for tokens in (COMPLETION_TOKENS, 10 * COMPLETION_TOKENS)}
    _tell(f"run_api: {json.dumps(run_api)}")
    result = {"benchmark": "instances", "cores": os.cpu_count(), "run_api": run_api}
    for name in options.settings.split(","):
        result[name] = _measure_setting(name, counts, options.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

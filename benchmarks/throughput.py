"""Measure groups/s and delays of the event loop, beside a plain loop that calls the library on the event loop.

`python -m benchmarks.throughput` runs both sides in turns, for each of five random seeds, on the same machine. Ratios
are meaningful under any load, absolute figures are not. Both sides use Atropos' own server manager and a policy that
answers at once: half of the answers are right, the others are wrong in the expected form. There are 64 groups of 8 in
flight, completions of 200 tokens (`--tokens`), and all tasks that have defaults.

- Both sides work on the same problems in the same order, because some problems take a thousand times longer to
  generate than others.
- Each side sets the garbage collector as its command line does: this environment calms it, Atropos keeps Python's
  defaults.
- Stalls are delays of wake-ups of the event loop, without set-up. `held` is the part in which the loop's own thread
  worked; other programs hardly affect it.
- Workers build a dataset at its first use, which takes 3.5 s of processor time in total. Figures of the first groups
  (`--first-groups`) therefore have separate names that begin with `first_`.
- `--variants` adds figures with a setting, and the share of throughput that remains: `random` and `adaptive` difficulty
  (the latter with adaptive sampling), and `dumps` of every group.

Prints the rates of each seed to stderr, then one line of JSON: ratios as median, minimum and maximum over the seeds,
figures as medians. Units:

- stalls: milliseconds
- memory: resident memory in megabytes
- isolation: milliseconds per rollout, beyond a direct call of the verifier of a cheap task
- `loop_ms`, `threads_ms`, `workers_ms` and their sum `total_ms`: milliseconds of processor time per group, of the event
  loop's thread, of the other threads of the main process, and of all worker processes

Needs Linux, and about two minutes per seed; more if the plain loop gets a problem that takes the library minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import itertools
import json
import logging
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from reasoning_env.atropos.config import tune_process_for_event_loop
from reasoning_env.problems.sampling import TaskSampler
from reasoning_env.records import ProblemRequest, ProblemSpec, Split
from reasoning_env.tasks import COMPOSITE
from reasoning_env.tasks import TASKS as DECLARED
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from reasoning_gym_testing import TOKENIZER

from ._policies import HalfRight
from ._usage import Heartbeat, descendants_cpu_s, resident_mb

GROUP_SIZE = 8
MAX_TOKENS = 8192
CHEAP_TASK = "chain_sum"
ISOLATION_GROUPS = 500
ANSWER: ContextVar[str] = ContextVar("ANSWER", default="1")
"""The right answer to the problem of the present request."""
SETTLE_S = 0.05
TASKS = sorted(DECLARED.keys() - {COMPOSITE})
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "random": {"complexity_mode": "random"},
    "adaptive": {"complexity_mode": "curriculum", "task_sampling": "adaptive"},
    "dumps": {
        "dump_rollouts": True,
        "dump_failed_rollouts": True,
        "rollout_save_score_threshold": 0.0,
        "data_dumps_dir": "dumps",
    },
}


@dataclass(frozen=True)
class Load:
    """The load of a side; `settings` are further settings of the environment."""

    groups: int
    first_groups: int
    in_flight: int
    tokens: int
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)


# ---------------------------------------------------------------------------- both sides


class Environment:
    """The environment as a training config imports it.

    Neither side measures construction, in which Atropos loads tokenizers. `set_up` ends with the first problem, and
    `group` serves a group.
    """

    def __init__(self, load: Load) -> None:
        front_door = importlib.import_module("reasoning_gym_environment")
        config = front_door.ReasoningGymEnvConfig(
            tokenizer_name=TOKENIZER,
            group_size=GROUP_SIZE,
            max_token_length=MAX_TOKENS,
            use_wandb=False,
            seed=load.seed,
            tasks=TASKS,
            **load.settings,
        )
        environment_class = type("Env", (front_door.ReasoningGymEnv,), {"server_cls": _instant_server_class(load)})
        self._env = environment_class(config, [_server_config()])

    @property
    def worker_pids(self) -> Sequence[int]:
        return tuple(self._env.worker_pids)

    async def set_up(self) -> None:
        await self._env.setup()
        self._first = await self._env.get_next_item()

    async def group(self) -> None:
        item, self._first = self._first or await self._env.get_next_item(), None
        ANSWER.set(item.problem.answer or "1")
        await self._env.collect_trajectories(item)

    async def close(self) -> None:
        await self._env.close()


class PlainLoop:
    """The plain loop: the library on the event loop, a new dataset for every item, both forms scored."""

    worker_pids: Sequence[int] = ()

    def __init__(self, load: Load) -> None:
        from atroposlib.envs.server_handling.server_manager import ServerManager
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
        self._servers = ServerManager([_server_config()], server_class=_instant_server_class(load))
        self._positions = itertools.count()
        self._load = load

    async def set_up(self) -> None:
        self._library = importlib.import_module("reasoning_gym")
        self._sampler = TaskSampler(dict.fromkeys(self._usable_tasks(), 1.0), run_seed=self._load.seed)
        self._item()

    def _usable_tasks(self) -> list[str]:
        """Build the dataset of each task, as a set-up without a list must, and return the tasks that build."""
        names = []
        for name in sorted(importlib.import_module("reasoning_gym.factory").DATASETS):
            with contextlib.suppress(
                Exception
            ):  # composite has no defaults, and other tasks that fail are unusable too
                self._library.create_dataset(name, seed=0, size=1)
                names.append(name)
        return names

    def _item(self) -> tuple[Any, dict[str, Any]]:
        spec = self._sampler.draw(next(self._positions), 0)
        dataset = self._library.create_dataset(spec.task, seed=spec.seed, size=1)
        return dataset, dataset[0]

    async def group(self) -> None:
        dataset, entry = self._item()
        ANSWER.set(entry["answer"] or "1")
        messages = [
            {"role": "system", "content": "Answer in <answer> tags."},
            {"role": "user", "content": entry["question"]},
        ]
        prompt = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        async with self._servers.managed_server(tokenizer=self._tokenizer) as managed:
            reply = await managed.completion(prompt=prompt, n=GROUP_SIZE, max_tokens=self._load.tokens)
        for choice in reply.choices:
            _plain_score(dataset, choice.text.rpartition("<answer>")[2].partition("</answer>")[0], entry)

    async def close(self) -> None:
        pass


def _plain_score(dataset: Any, answer: str, entry: dict[str, Any]) -> float:
    scores = [0.0]
    for form in (answer, f"<answer>{answer}</answer>"):
        with contextlib.suppress(Exception):  # ten verifiers let exceptions escape
            scores.append(float(dataset.score_answer(form, entry)))
    return max(scores)


def _server_config() -> Any:
    from atroposlib.envs.server_handling.server_baseline import APIServerConfig

    return APIServerConfig(
        server_type="vllm", base_url="http://127.0.0.1:1/v1", model_name=TOKENIZER, health_check=False
    )


def _instant_server_class(load: Load) -> Any:
    """Return a class of Atropos' servers that answers at once, in this process."""
    from atroposlib.envs.server_handling.server_baseline import APIServer
    from transformers import AutoTokenizer

    class InstantServer(APIServer):  # type: ignore[misc]
        def __init__(self, config: Any, reasoning_config: Any = None) -> None:
            super().__init__(config, reasoning_config=reasoning_config)
            self.tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
            self._policy = HalfRight(load.tokens)

        async def check_server_status_task(self, chat_completion: bool = True) -> None:
            self.server_healthy = True

        async def _chat_completion_wrapper(self, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def _completion_wrapper(self, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def _tokens_and_logprobs_completion_wrapper(self, **kwargs: Any) -> Any:
            await asyncio.sleep(0)  # a reply never comes in the same turn of the loop
            prompt = kwargs.get("input_ids") or self.tokenizer.encode(kwargs["prompt"])
            outputs = self._policy.complete(ANSWER.get(), kwargs["n"])
            return prompt, outputs, [[-0.5] * len(output) for output in outputs], ["stop"] * len(outputs)

    return InstantServer


# ---------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Spent:
    """Wall-clock time, and processor time of the event loop's thread, of the whole process and of its workers."""

    wall_s: float
    loop_s: float
    process_s: float
    workers_s: float

    @classmethod
    def so_far(cls) -> Spent:
        """Return what this process has spent; called on the event loop's thread."""
        return cls(time.perf_counter(), time.thread_time(), time.process_time(), descendants_cpu_s(os.getpid()))

    def per_group(self, before: Spent, groups: int) -> dict[str, float]:
        """Return the rate since an earlier moment, and the milliseconds of processor time of a group."""
        loop_s = self.loop_s - before.loop_s
        process_s = self.process_s - before.process_s
        workers_s = self.workers_s - before.workers_s
        parts = {
            "loop_ms": loop_s,
            "threads_ms": process_s - loop_s,
            "workers_ms": workers_s,
            "total_ms": process_s + workers_s,
        }
        rate = {"groups_per_s": round(groups / (self.wall_s - before.wall_s), 1)}
        return rate | {name: round(1000 * spent_s / groups, 2) for name, spent_s in parts.items()}


async def measure(make_side: type[Environment] | type[PlainLoop], load: Load) -> dict[str, float]:
    """Return the figures of one side."""
    heartbeat = Heartbeat()
    side = make_side(load)
    if isinstance(side, Environment):
        tune_process_for_event_loop()  # as the command line does
    await asyncio.sleep(SETTLE_S)
    heartbeat.late_ms.clear()
    started = time.perf_counter()
    await side.set_up()
    figures = {"setup_s": round(time.perf_counter() - started, 3)}
    await asyncio.sleep(SETTLE_S)
    figures["setup_stall_max_ms"] = round(max(heartbeat.late_ms), 2)
    for prefix, groups in (("first_", load.first_groups), ("", load.groups)):
        phase = await _measure_groups(side, heartbeat, load.in_flight, groups)
        figures |= {prefix + name: value for name, value in phase.items()}
    heartbeat.stop()
    figures["main_process_mb"] = round(resident_mb(os.getpid()), 1)
    figures["largest_worker_mb"] = round(max(map(resident_mb, side.worker_pids), default=0.0), 1)
    await side.close()
    return figures


async def _measure_groups(
    side: Environment | PlainLoop, heartbeat: Heartbeat, in_flight: int, groups: int
) -> dict[str, float]:
    """Run groups, and return their rate, their processor time and the delays of the event loop."""
    heartbeat.late_ms.clear()
    heartbeat.held_ms.clear()
    before = Spent.so_far()
    await _keep_busy(side.group, in_flight, groups)
    figures = Spent.so_far().per_group(before, groups)
    late_ms, held_ms = sorted(heartbeat.late_ms), sorted(heartbeat.held_ms)
    return figures | {
        "stall_p50_ms": round(late_ms[len(late_ms) // 2], 2),
        "stall_p99_ms": round(late_ms[int(0.99 * len(late_ms))], 2),
        "stall_max_ms": round(late_ms[-1], 2),
        "held_p99_ms": round(held_ms[int(0.99 * len(held_ms))], 2),
        "held_max_ms": round(held_ms[-1], 2),
    }


async def _keep_busy(do_group: Callable[[], Awaitable[None]], in_flight: int, groups: int) -> None:
    """Run groups, `in_flight` at a time."""
    remaining = iter(range(groups))

    async def lane() -> None:
        for _ in remaining:
            await do_group()

    await asyncio.gather(*(lane() for _ in range(in_flight)))


async def measure_isolation() -> float:
    """Return the milliseconds per rollout that a worker adds to a direct call of a cheap task's verifier."""
    library = importlib.import_module("reasoning_gym")
    dataset = library.create_dataset(CHEAP_TASK, seed=1, size=1)
    entry = dataset[0]
    pool = WorkerPool(PoolSettings())
    await pool.start()
    try:
        problem = await pool.generate(ProblemSpec(ProblemRequest(CHEAP_TASK, 1), Split.TRAIN, 0), 10.0)
        await pool.score(problem, ["warm"])
        numbers = itertools.count()
        isolated, direct = [], []
        for _ in range(ISOLATION_GROUPS):
            answers = [str(next(numbers)) for _ in range(GROUP_SIZE)]
            started = time.perf_counter()
            await pool.score(problem, answers)
            middle = time.perf_counter()
            for answer in answers:
                _plain_score(dataset, answer, entry)
            isolated.append(middle - started)
            direct.append(time.perf_counter() - middle)
    finally:
        await pool.close()
    return 1000 * (statistics.median(isolated) - statistics.median(direct)) / GROUP_SIZE


def in_fresh_process(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Run a coroutine function in a new interpreter, without imports and caches of other runs."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(_run, function, *arguments).result()


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    # Dumps go to the folder, and some of the library's generators touch files and print; stdout is for the result.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(sys.stderr):
        return asyncio.run(function(*arguments))


def ratios(ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]], name: str) -> dict[str, float]:
    """Return the ratios of a figure over the runs of two sides."""
    quotients = sorted(our[name] / their[name] for our, their in zip(ours, theirs, strict=True))
    return {
        "median": round(statistics.median(quotients), 2),
        "least": round(quotients[0], 2),
        "greatest": round(quotients[-1], 2),
    }


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-groups", type=int, default=2000, help="groups with separate figures")
    parser.add_argument("--groups", type=int, default=600, help="groups after these, for each seed and side")
    parser.add_argument("--in-flight", type=int, default=64, help="groups in flight")
    parser.add_argument("--tokens", type=int, default=200, help="tokens of a completion")
    parser.add_argument("--seeds", nargs="+", type=int, default=[random.randrange(2**31) for _ in range(5)])
    parser.add_argument("--variants", nargs="*", default=[], choices=VARIANTS, help="settings to compare with default")
    options = parser.parse_args()
    sides: dict[Any, list[dict[str, float]]] = {PlainLoop: [], Environment: []}
    variants: dict[str, list[dict[str, float]]] = {name: [] for name in options.variants}
    for number, seed in enumerate(options.seeds):
        load = Load(options.groups, options.first_groups, options.in_flight, options.tokens, seed)
        for side in sorted(sides, key=str, reverse=number % 2 == 1):
            sides[side].append(in_fresh_process(measure, side, load))
            print(
                f"seed {seed}, {side.__name__}: {sides[side][-1]['groups_per_s']} groups/s", file=sys.stderr, flush=True
            )
        for name, runs in variants.items():
            runs.append(in_fresh_process(measure, Environment, replace(load, settings=VARIANTS[name])))
    theirs, ours = sides.values()
    result = {
        "benchmark": "throughput",
        "cores": os.cpu_count(),
        **vars(options),
        "throughput_ratio": ratios(ours, theirs, "groups_per_s"),
        "first_throughput_ratio": ratios(ours, theirs, "first_groups_per_s"),
        "setup_ratio": ratios(ours, theirs, "setup_s"),
        "isolation_ms_per_rollout": round(in_fresh_process(measure_isolation), 3),
        "environment": medians(ours),
        "reference": medians(theirs),
        "variants": {name: {**ratios(runs, ours, "groups_per_s"), **medians(runs)} for name, runs in variants.items()},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

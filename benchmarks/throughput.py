"""Groups per second and event-loop stalls, beside a plain loop that calls the library on the event loop.

`python -m benchmarks.throughput` runs both in one go, on the same machine under the same load, so that the ratios mean
something where the figures alone do not. Both use Atropos' own server manager with a policy that answers at once: 64
groups in flight, groups of 8, completions of 200 tokens, uniform over all tasks that can be built from defaults.

Both do the same problems, position by position: some take a thousand times longer to generate than others, so that two
samples of them are not the same work. Answers cluster within a group, as a policy's do (`--distinct` has no two of them
equal). The heartbeat asks the loop for a wake-up every 5 ms, set-up included, and reports by how much each came late.
`--dumps` adds what writing every group to disk costs: pairs of runs, with dumps and without, in alternating order.

Prints one line of JSON. Stalls are in milliseconds, memory in megabytes (resident set), isolation in milliseconds a
rollout over calling the verifier of a cheap task directly.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
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
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from operator import truediv
from pathlib import Path
from typing import Any

from reasoning_env.library_facts import KNOWN_TASKS
from reasoning_env.tasks.parameters import SpecRules
from reasoning_env.tasks.sampling import UniformSampler

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "testing" / "tokenizer"
GROUP_SIZE = 8
COMPLETION_TOKENS = 200
MAX_TOKENS = 8192
DUMP_PAIRS = 10
HEARTBEAT_S = 0.005
CHEAP_TASK = "chain_sum"
SEED = 42
TASKS = sorted(KNOWN_TASKS - {"composite"})


@dataclass(frozen=True)
class Figures:
    """What one loop was measured at."""

    setup_s: float
    groups_per_s: float
    stall_p50_ms: float
    stall_p99_ms: float
    stall_max_ms: float
    setup_stall_max_ms: float
    main_process_mb: float
    largest_worker_mb: float


class Heartbeat:
    """Measures by how much the loop is late for a wake-up due every 5 ms."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self._task = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            due = time.perf_counter() + HEARTBEAT_S
            await asyncio.sleep(HEARTBEAT_S)
            self.late_ms.append(1000 * (time.perf_counter() - due))

    def stop(self) -> None:
        self._task.cancel()


def instant_server_class(distinct_answers: bool) -> Any:
    """An Atropos server that answers at once, with completions of 200 tokens that end in a number as the answer."""
    from atroposlib.envs.server_handling.server_baseline import APIServer

    class InstantServer(APIServer):  # type: ignore[misc]
        def __init__(self, config: Any, reasoning_config: Any = None) -> None:
            super().__init__(config, reasoning_config=reasoning_config)
            from transformers import AutoTokenizer

            self.tokenizer = AutoTokenizer.from_pretrained(str(TOKENIZER))
            self._chance = random.Random(0)
            thought = self.tokenizer.encode("<think>" + "so it goes on and on " * 100)
            ends = [self.tokenizer.encode(f"</think>\n<answer>{n}</answer><|im_end|>") for n in range(1000)]
            self._completions = [[*thought[: COMPLETION_TOKENS - len(end)], *end] for end in ends]

        async def check_server_status_task(self, chat_completion: bool = True) -> None:
            self.server_healthy = True

        async def _chat_completion_wrapper(self, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def _completion_wrapper(self, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def _tokens_and_logprobs_completion_wrapper(self, **kwargs: Any) -> Any:
            await asyncio.sleep(0)  # a reply never comes in the same turn of the loop
            prompt = kwargs.get("input_ids") or self.tokenizer.encode(kwargs["prompt"])
            outputs = self._group(kwargs["n"])
            return prompt, outputs, [[-0.5] * len(output) for output in outputs], ["stop"] * len(outputs)

        def _group(self, n: int) -> list[list[int]]:
            if distinct_answers:
                return self._chance.sample(self._completions, n)
            # As a policy's samples do, answers cluster: half give the likeliest, half of the rest the next, ...
            candidates = self._chance.sample(self._completions, n)
            weights = [0.5**rank for rank in range(n)]
            return self._chance.choices(candidates, weights, k=n)

    return InstantServer


def server_config() -> Any:
    from atroposlib.envs.server_handling.server_baseline import APIServerConfig

    return APIServerConfig(
        server_type="vllm", base_url="http://127.0.0.1:1/v1", model_name=str(TOKENIZER), health_check=False
    )


async def keep_busy(do_group: Callable[[], Awaitable[None]], in_flight: int, groups: int) -> float:
    """Run groups, `in_flight` at a time; returns the seconds that it took."""
    started = time.perf_counter()
    remaining = iter(range(groups))

    async def lane() -> None:
        for _ in remaining:
            await do_group()

    await asyncio.gather(*(lane() for _ in range(in_flight)))
    return time.perf_counter() - started


@dataclass(frozen=True)
class Load:
    """What both sides are given to do."""

    groups: int
    warm_up_groups: int
    in_flight: int
    distinct_answers: bool
    complexity_mode: str | None = None
    task_sampling: str = "uniform"
    dump_rollouts: bool = False


async def measure_environment(load: Load) -> Figures:
    import reasoning_gym_environment as front_door

    class Env(front_door.ReasoningGymEnv):
        server_cls = instant_server_class(load.distinct_answers)

    config = front_door.ReasoningGymEnvConfig(
        tokenizer_name=str(TOKENIZER),
        group_size=GROUP_SIZE,
        max_token_length=MAX_TOKENS,
        use_wandb=False,
        seed=SEED,
        tasks=TASKS,
        complexity_mode=load.complexity_mode,
        task_sampling=load.task_sampling,
        dump_rollouts=load.dump_rollouts,
        dump_failed_rollouts=load.dump_rollouts,
        rollout_save_score_threshold=0.0,
        data_dumps_dir="dumps",
    )
    heartbeat = Heartbeat()
    env = Env(config, [server_config()])
    await asyncio.sleep(0.05)  # what the constructor blocked is Atropos loading tokenizers, not set-up
    heartbeat.late_ms.clear()
    started = time.perf_counter()
    await env.setup()
    first = await env.get_next_item()
    setup_s = time.perf_counter() - started
    setup_stall = max(heartbeat.late_ms)

    async def group() -> None:
        await env.collect_trajectories(await env.get_next_item())

    await env.collect_trajectories(first)
    await keep_busy(group, load.in_flight, load.warm_up_groups)
    heartbeat.late_ms.clear()
    took = await keep_busy(group, load.in_flight, load.groups)
    figures = _figures(setup_s, load.groups / took, heartbeat.late_ms, setup_stall, env.worker_pids)
    heartbeat.stop()
    await env.close()
    return figures


async def measure_reference(load: Load) -> Figures:
    """The plain way: the library on the event loop, a new dataset for every item, both forms scored."""
    from atroposlib.envs.server_handling.server_manager import ServerManager
    from transformers import AutoTokenizer

    heartbeat = Heartbeat()
    tokenizer = AutoTokenizer.from_pretrained(str(TOKENIZER))
    servers = ServerManager([server_config()], server_class=instant_server_class(load.distinct_answers))
    await asyncio.sleep(0.05)
    heartbeat.late_ms.clear()
    started = time.perf_counter()
    library = importlib.import_module("reasoning_gym")
    sampler = UniformSampler(_usable_tasks(library), (), SpecRules(SEED))
    positions = itertools.count()

    def item() -> tuple[Any, dict[str, Any]]:
        spec = sampler.draw(next(positions), 0)
        dataset = library.create_dataset(spec.task, seed=spec.seed, size=1)
        return dataset, dataset[0]

    item()
    setup_s = time.perf_counter() - started
    await asyncio.sleep(0.05)
    setup_stall = max(heartbeat.late_ms)

    async def group() -> None:
        dataset, entry = item()
        messages = [{"role": "system", "content": "Answer in <answer> tags."}]
        messages.append({"role": "user", "content": entry["question"]})
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        async with servers.managed_server(tokenizer=tokenizer) as managed:
            reply = await managed.completion(prompt=prompt, n=GROUP_SIZE, max_tokens=COMPLETION_TOKENS)
        for choice in reply.choices:
            answer = choice.text.rpartition("<answer>")[2].partition("</answer>")[0]
            _plain_score(dataset, answer, entry)

    await keep_busy(group, load.in_flight, load.warm_up_groups)
    heartbeat.late_ms.clear()
    took = await keep_busy(group, load.in_flight, load.groups)
    figures = _figures(setup_s, load.groups / took, heartbeat.late_ms, setup_stall, ())
    heartbeat.stop()
    return figures


def _usable_tasks(library: Any) -> list[str]:
    """Every task whose dataset can be built from defaults, found out by building it, as set-up without a list must."""
    names = []
    for name in sorted(importlib.import_module("reasoning_gym.factory").DATASETS):
        try:
            library.create_dataset(name, seed=0, size=1)
        except Exception:  # composite has no defaults; what else fails is not usable either
            continue
        names.append(name)
    return names


def _plain_score(dataset: Any, answer: str, entry: dict[str, Any]) -> float:
    scores = [0.0]
    for form in (answer, f"<answer>{answer}</answer>"):
        try:
            scores.append(float(dataset.score_answer(form, entry)))
        except Exception:  # ten verifiers let exceptions escape
            continue
    return max(scores)


async def measure_isolation(groups: int) -> float:
    """Milliseconds a rollout that a verifier worker costs over calling the verifier of a cheap task directly."""
    import reasoning_env as core

    library = importlib.import_module("reasoning_gym")
    dataset = library.create_dataset(CHEAP_TASK, seed=1, size=1)
    entry = dataset[0]
    pool = core.WorkerPool(core.PoolSettings())
    await pool.start()
    try:
        problem = await pool.generate(core.ProblemSpec(CHEAP_TASK, 1, core.Split.TRAIN, 0), 10.0)
        numbers = itertools.count()
        await pool.score(problem, ["warm"])
        isolated, direct = [], []
        for _ in range(groups):
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


def _figures(
    setup_s: float, rate: float, late_ms: Sequence[float], setup_stall: float, workers: Sequence[int]
) -> Figures:
    ordered = sorted(late_ms)
    return Figures(
        setup_s=round(setup_s, 3),
        groups_per_s=round(rate, 1),
        stall_p50_ms=round(ordered[len(ordered) // 2], 2),
        stall_p99_ms=round(ordered[int(0.99 * len(ordered))], 2),
        stall_max_ms=round(ordered[-1], 2),
        setup_stall_max_ms=round(setup_stall, 2),
        main_process_mb=round(_resident_mb(os.getpid()), 1),
        largest_worker_mb=round(max(map(_resident_mb, workers), default=0.0), 1),
    )


def _resident_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # not Linux, or gone
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)


def _run(which: str, load: Load, answer: Any) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    # Some of the library's generators print, and stdout is for the result.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        os.chdir(folder)  # dumps go here, and some of the library's generators touch files
        gc.collect()
        if which == "isolation":
            answer.send(asyncio.run(measure_isolation(500)))
        else:
            answer.send(asyncio.run(measure_environment(load) if which == "environment" else measure_reference(load)))


def _in_fresh_process(which: str, load: Load) -> Any:
    """Each side gets an interpreter of its own, so that neither finds the other's imports and caches."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(which, load, theirs))
    process.start()
    theirs.close()
    result = ours.recv()
    process.join()
    return result


def measure_dumps(load: Load) -> dict[str, Any]:
    """What dumping every group leaves of the throughput: the median of pairs, whose order alternates."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(DUMP_PAIRS):
        for dumping in (False, True) if pair % 2 == 0 else (True, False):
            figures: Figures = _in_fresh_process("environment", replace(load, dump_rollouts=dumping))
            rates[dumping].append(figures.groups_per_s)
    return {
        "of_default": round(statistics.median(map(truediv, rates[True], rates[False])), 3),
        "groups_per_s_with": rates[True],
        "groups_per_s_without": rates[False],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=3000, help="groups to measure each side over")
    parser.add_argument("--warm-up-groups", type=int, default=200, help="groups before these")
    parser.add_argument("--in-flight", type=int, default=64, help="groups under way at a time")
    parser.add_argument("--distinct", action="store_true", help="no two equal answers in a group (the worst case)")
    parser.add_argument("--modes", action="store_true", help="beside the default, random and steered difficulty")
    parser.add_argument("--dumps", action="store_true", help="also the share of the throughput that dumps leave")
    options = parser.parse_args()
    load = Load(options.groups, options.warm_up_groups, options.in_flight, options.distinct)
    reference: Figures = _in_fresh_process("reference", load)
    environment: Figures = _in_fresh_process("environment", load)
    modes: dict[str, Figures] = {}
    if options.modes:
        modes["random"] = _in_fresh_process("environment", replace(load, complexity_mode="random"))
        steered = replace(load, complexity_mode="curriculum", task_sampling="adaptive")
        modes["curriculum_adaptive"] = _in_fresh_process("environment", steered)
    dumps = measure_dumps(load) if options.dumps else {}
    isolation_ms: float = _in_fresh_process("isolation", load)
    result = {
        "benchmark": "throughput",
        "cores": os.cpu_count(),
        **asdict(load),
        "throughput_ratio": round(environment.groups_per_s / reference.groups_per_s, 2),
        "setup_ratio": round(environment.setup_s / reference.setup_s, 2),
        "isolation_ms_per_rollout": round(isolation_ms, 3),
        "environment": asdict(environment),
        "modes": {
            name: {"of_default": round(figures.groups_per_s / environment.groups_per_s, 2), **asdict(figures)}
            for name, figures in modes.items()
        },
        "dumps": dumps,
        "reference": asdict(reference),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

"""Measure `problems` and `rescore` beside a plain loop over the library that writes the same Parquet.

The loop takes items 0, 1, 2 ... of a dataset of each task, writes them, and scores answers with `score_answer`. There
are 20 tasks, the library's slowest among them. Prints one line of JSON:

- `rows_s` and `verdicts_s` of each, with the start of the workers. Each row is scored with a right and a wrong answer.
- `loop`: shares of the loop's rows whose question repeats, is in the evaluation set, or is not served (by cause:
  docs/metrics.md), or whose answer is corrected. `--faults` measures only this.
- `ours`: shares of the rows of `problems` whose question repeats or is in the evaluation set. `--ours` measures only
  this. `tools.solve` looks for wrong answers.
- with `--memory 10000,100000`: the peak memory in megabytes of the main process of each command, by rows. One problem
  and one verdict replace all replies of the workers, whose memory does not depend on the rows. The peak is reached
  while Parquet is written. The index of the rows takes about 0.2 kB a row.
- with `--ray 1,2`: rows/s of problems with verdicts with Ray Data (the extra `ray`), on this many local nodes of one
  core each. The start of the actors counts, so use many rows.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reasoning_env import ReasoningSettings, Session
from reasoning_env.data.problems import RowPlan, write_problems
from reasoning_env.data.tables import read_rows, write_rows
from reasoning_env.data.verdict_files import judge_rows
from reasoning_env.errors import GenerationError
from reasoning_env.problems.references import hash_without_whitespace
from reasoning_env.runtime.concurrency import map_concurrently
from reasoning_env.storage.reading import Malformed

TASKS = (
    "ab",
    "basic_arithmetic",
    "caesar_cipher",
    "chain_sum",
    "coin_flip",
    "countdown",
    "family_relationships",
    "futoshiki",
    "gcd",
    "knight_swap",
    "letter_counting",
    "maze",
    "prime_factorization",
    "propositional_logic",
    "puzzle24",
    "quantum_lock",
    "sokoban",
    "spell_backward",
    "tower_of_hanoi",
    "zebra_puzzles",
)
LOOP_SEED = 42
WITHOUT_WORKERS = """
import sys
from dataclasses import replace
from pathlib import Path
from reasoning_env import Session
from reasoning_env.commands.main import main
from reasoning_env.data import problems
from reasoning_env.records import Reason, Verdict

generate, made = problems.generate_with_retries, []

async def generate_once(pool, spec, deadline_s):
    if not made:
        made.append(await generate(pool, spec, deadline_s))
    return replace(made[0], spec=spec, question=f"{made[0].question} {spec.seed} {spec.index}")

async def judge(session, reference, completions, **how):
    return [Verdict(1.0, Reason.SCORED) for _ in completions]

problems.generate_with_retries, Session.judge = generate_once, judge
assert main(sys.argv[1:], {}, environment_file=Path("environment.py")) == 0
facts = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(facts["VmHWM"].split()[0]) / 1024)
"""


def settings() -> ReasoningSettings:
    return ReasoningSettings(tasks=list(TASKS), num_eval_samples_per_task=20)


def write_ours(folder: Path, count: int) -> float:
    started = time.perf_counter()
    asyncio.run(write_problems(Session(settings()), RowPlan(count * len(TASKS)), folder / "ours.parquet"))
    return time.perf_counter() - started


LOOP_COLUMNS = dict.fromkeys(("task", "question", "answer", "metadata"), "text")
"""Columns of the plain loop's rows, each with its type in Parquet."""


def write_loop(folder: Path, count: int) -> tuple[float, list[dict[str, Any]], dict[str, Any]]:
    """Write the rows of the plain loop. Return the seconds, the rows, and the datasets."""
    started = time.perf_counter()
    library = importlib.import_module("reasoning_gym")
    datasets = {task: library.create_dataset(task, seed=LOOP_SEED, size=count) for task in TASKS}
    rows = []
    for task, dataset in datasets.items():
        for item in dataset:
            question, answer = item["question"], item["answer"]
            rows.append({"task": task, "question": question, "answer": answer, "metadata": repr(item["metadata"])})
    write_rows(folder / "loop.parquet", rows, LOOP_COLUMNS)
    return time.perf_counter() - started, rows, datasets


def judge_ours(folder: Path) -> tuple[int, float]:
    """Score two completions of each row. Return their number and the seconds."""
    rows = [row for row in read_rows(folder / "ours.parquet", "FILE") if not isinstance(row, Malformed)]
    answered = [{**row, "completions": [f"<answer>{row['answer']}</answer>", "<answer>7</answer>"]} for row in rows]
    write_rows(folder / "answered.jsonl", answered, {})
    started = time.perf_counter()
    asyncio.run(judge_rows(Session(settings()), [folder / "answered.jsonl"], folder / "judged.parquet"))
    return 2 * len(rows), time.perf_counter() - started


def judge_loop(folder: Path, rows: Sequence[dict[str, Any]], datasets: dict[str, Any], count: int) -> float:
    """Score as many answers with the library, make each problem again from its number, and write the scores."""
    started = time.perf_counter()
    scored = []
    for number, row in enumerate(rows):
        dataset = datasets[row["task"]]
        item = dataset[number % count]
        scored.append({**row, "scores": [dataset.score_answer(answer, item) for answer in (item["answer"], "7")]})
    write_rows(folder / "scored.parquet", scored, {**LOOP_COLUMNS, "scores": "numbers"})
    return time.perf_counter() - started


async def faults_of_loop(count: int) -> dict[str, float]:
    """Return the shares of the loop's rows that have a fault. Item k of a dataset is the problem of seed + k.

    The loop's questions are compared after clarification, as they are served.
    """
    seen: set[tuple[str, str]] = set()
    faults: Counter[str] = Counter()
    async with Session(settings()) as session:
        held_out = {
            (each.task, hash_without_whitespace(each.question)) for each in await session.evaluation_set.problems()
        }

        async def look(task: str, number: int) -> None:
            problem = await session.make(task, LOOP_SEED + number)
            key = (task, hash_without_whitespace(problem.question))
            if key in seen:
                faults["repeated"] += 1
            if key in held_out:
                faults["in_evaluation"] += 1
            seen.add(key)
            spec = problem.spec.with_request(exact_seed=False)
            try:
                as_served = await session.pool.generate(spec, 60.0)
            except GenerationError:  # this problem is rejected, and no other could be made
                faults["not served: failed"] += 1
                return
            if as_served.flawed:
                faults[f"not served: {next(iter(as_served.flawed))}"] += 1
            elif problem.library_answer is not None:
                faults["corrected"] += 1

        for task in TASKS:
            await map_concurrently(lambda number, task=task: look(task, number), range(count), at_once=8)
    return {name: round(number / (count * len(TASKS)), 4) for name, number in faults.items()}


async def faults_of_ours(folder: Path) -> dict[str, float]:
    """Return the shares of the rows of `problems` that have a fault, counted in the file."""
    rows = [row for row in read_rows(folder / "ours.parquet", "FILE") if not isinstance(row, Malformed)]
    keys = [(row["task"], hash_without_whitespace(row["question"])) for row in rows]
    async with Session(settings()) as session:
        held_out = {
            (each.task, hash_without_whitespace(each.question)) for each in await session.evaluation_set.problems()
        }
    return {
        "repeated": round(1 - len(set(keys)) / len(keys), 4),
        "in_evaluation": round(sum(key in held_out for key in keys) / len(keys), 4),
    }


def memory_of_commands(folder: Path, rows: int) -> dict[str, float]:
    """Return the peak memory in megabytes of the main process of each command, by number of rows."""
    made, answered = folder / f"{rows}.parquet", folder / f"{rows}.jsonl"
    problems = memory("problems", "--tasks", "number_sorting", "--count", str(rows), "--out", str(made))
    with answered.open("w") as file:
        for row in read_rows(made, "FILE"):
            assert not isinstance(row, Malformed)
            file.write(json.dumps({**row, "completions": ["<answer>7</answer>"] * 4}) + "\n")
    made.unlink()
    rescore = memory("rescore", str(answered), "--out", str(folder / f"{rows}-scored.parquet"))
    return {"problems": problems, "rescore": rescore}


def memory(*words: str) -> float:
    """Return the peak memory in megabytes of the main process of a command, without the work of its workers."""
    ended = subprocess.run([sys.executable, "-c", WITHOUT_WORKERS, *words], stdout=subprocess.PIPE, text=True)
    ended.check_returncode()
    return round(float(ended.stdout.split()[-1]), 1)


def rows_of_ray(nodes: int, count: int) -> float:
    """Return the rows/s of problems with verdicts, on local nodes of one core each."""
    import pyarrow
    import ray
    from ray.cluster_utils import Cluster

    from reasoning_env.integrations.ray import JudgeRows, problem_rows

    def complete(batch: pyarrow.Table) -> pyarrow.Table:
        completions = [[f"<answer>{answer}</answer>", "<answer>7</answer>"] for answer in batch["answer"].to_pylist()]
        return batch.append_column("completions", pyarrow.array(completions))

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = Cluster()
    cores = os.sched_getaffinity(0)
    for _, core in zip(range(nodes), sorted(cores), strict=False):
        os.sched_setaffinity(0, {core})  # a node's processes inherit this
        cluster.add_node(num_cpus=1, include_dashboard=False)
    os.sched_setaffinity(0, cores)
    cluster.connect()
    actors: dict[str, Any] = {"compute": ray.data.ActorPoolStrategy(size=nodes), "num_cpus": 0.5}
    of_session = settings().model_copy(update={"num_generators": 1, "num_verifiers": 1})
    made = problem_rows(of_session, RowPlan(count * len(TASKS)), parts=2 * nodes, **actors).map_batches(
        complete, batch_format="pyarrow", batch_size=20, num_cpus=0
    )
    judged = made.map_batches(JudgeRows, fn_constructor_args=(of_session,), batch_format="pyarrow", **actors)
    started = time.perf_counter()
    found = sum(1 for _ in judged.iter_rows())
    rows_s = found / (time.perf_counter() - started)
    ray.shutdown()
    cluster.shutdown()
    return round(rows_s, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="rows of each task (default: %(default)s)")
    parser.add_argument(
        "--memory", default="", metavar="ROWS,ROWS", help="measure only the memory, at these numbers of rows"
    )
    parser.add_argument("--faults", action="store_true", help="measure only the faults of the loop's rows")
    parser.add_argument("--ours", action="store_true", help="measure only the faults of the rows of `problems`")
    parser.add_argument(
        "--ray", default="", metavar="NODES,NODES", help="measure only Ray, with these numbers of local nodes"
    )
    options = parser.parse_args()
    result: dict[str, Any] = {"benchmark": "data"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.ray:
            result["ray_rows_s"] = {nodes: rows_of_ray(int(nodes), options.count) for nodes in options.ray.split(",")}
        elif options.faults:
            result["loop"] = asyncio.run(faults_of_loop(options.count))
        elif options.ours:
            write_ours(folder, options.count)
            result["ours"] = asyncio.run(faults_of_ours(folder))
        elif options.memory:
            result["memory_mb"] = {rows: memory_of_commands(folder, int(rows)) for rows in options.memory.split(",")}
        else:
            ours_s = write_ours(folder, options.count)
            loop_s, rows, datasets = write_loop(folder, options.count)
            verdicts, judged_s = judge_ours(folder)
            scored_s = judge_loop(folder, rows, datasets, options.count)
            ours_rows = json.loads((folder / "ours.parquet.card.json").read_text())["rows"]
            result |= {
                "rows_s": {"problems": round(ours_rows / ours_s, 1), "loop": round(len(rows) / loop_s, 1)},
                "verdicts_s": {
                    "rescore": round(verdicts / judged_s, 1),
                    "loop": round(2 * len(rows) / scored_s, 1),
                },
                "loop": asyncio.run(faults_of_loop(options.count)),
                "ours": asyncio.run(faults_of_ours(folder)),
            }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

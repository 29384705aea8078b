"""How long quick groups wait for their verdicts while slow ones are scored, in seconds.

`python -m benchmarks.fairness` has a pool of two verifier workers score two groups of 16 answers that never end, and at
the same moment 40 groups of 8 quick answers, of another task. `alone` is the same without the slow groups: the
reference for a machine that does other work too. `slow_done_s` is when the last slow answer had timed out. Prints one
line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from reasoning_env.records import Problem, ProblemSpec, Split
from reasoning_env.workers.pool import PoolSettings, WorkerPool

LIBRARY = """
__version__ = "0"
def create_dataset(name, **config):
    return Dataset()
class Dataset:
    def __getitem__(self, index):
        return {"question": "?", "answer": "1", "metadata": {}}
    def score_answer(self, answer, entry):
        while "slow" in answer:
            pass
        return float("1" in answer)
"""
FACTORY = """
class Config:
    def __init__(self, seed, size): pass
DATASETS = {name: (type("Dataset", (), {"__module__": "reasoning_gym.x.y"}), Config) for name in ("quick", "slow")}
"""
GENERATION_S = 60.0


async def score(pool: WorkerPool, problem: Problem, word: str, answers: int) -> float:
    """Score a group and return the seconds until its verdicts were there."""
    began = time.monotonic()
    await pool.score(problem, [f"{word} {number}" for number in range(answers)])
    return time.monotonic() - began


async def measure(deadline_s: float, checkout: Path) -> dict[str, object]:
    pool = WorkerPool(PoolSettings(scoring_deadline_s=deadline_s, checkout=checkout))
    await pool.start()
    try:
        slow, quick = [
            await pool.generate(ProblemSpec(task, 1, Split.TRAIN, 0), GENERATION_S) for task in ("slow", "quick")
        ]
        waits = []
        attack: list[asyncio.Task[float]] = []
        for slow_groups in (0, 2):
            attack = [asyncio.create_task(score(pool, slow, "slow", 16)) for _ in range(slow_groups)]
            await asyncio.sleep(0)
            waits.append(await asyncio.gather(*(score(pool, quick, "quick", 8) for _ in range(40))))
        alone, beside = [{"median_s": statistics.median(each), "slowest_s": max(each)} for each in waits]
        return {"alone": alone, "beside_slow_groups": beside, "slow_done_s": max(await asyncio.gather(*attack))}
    finally:
        await pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deadline-s", type=float, default=5.0, help="processor time that an answer gets")
    deadline_s = parser.parse_args().deadline_s
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "reasoning_gym"
        package.mkdir()
        (package / "__init__.py").write_text(LIBRARY)
        (package / "factory.py").write_text(FACTORY)
        measured = asyncio.run(measure(deadline_s, Path(folder)))
    print(json.dumps({"benchmark": "fairness", "scoring_deadline_s": deadline_s, **measured}))


if __name__ == "__main__":
    main()

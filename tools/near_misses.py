"""Judge wrong answers that are made from right ones: `python -m tools.near_misses --count 20`.

Prints one line of JSON: the wrong answers, how many of them are paid like right ones, and the mean score by way. The
status is 1 when a wrong answer earns 0.99 or more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Sequence
from fnmatch import fnmatch

from reasoning_env.records import Verdict
from reasoning_env.tasks import COMPOSITE, TASKS
from reasoning_env.workers.library import Library
from tests.answers.near_misses import judge_near_misses

from .running import choose_tasks, run_tool


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="*", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=5, help="problems of each task and level (default: %(default)s)")
    parser.add_argument("--levels", default="defaults,0,0.5,1", help="levels from 0 to 1 (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other problems (default: %(default)s)")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    library = Library(None)
    os.chdir(tempfile.mkdtemp())  # some of the library's generators touch files
    patterns = choose_tasks(options.tasks)
    scores: dict[str, list[float]] = defaultdict(list)
    paid: list[str] = []
    for task in sorted(TASKS.keys() - {COMPOSITE}):
        if not any(fnmatch(task, pattern) for pattern in patterns):
            continue
        for name in options.levels.split(","):
            level = None if name == "defaults" or not library.tasks[task].has_levels else float(name)
            seeds = range(1000 * options.seed, 1000 * options.seed + options.count + 1)
            for miss in judge_near_misses(library, task, level, seeds):
                scores[miss.way].append(miss.score)
                if miss.score >= Verdict.CORRECT_SCORE:
                    paid.append(str(miss))
    print(*paid, sep="\n", file=sys.stderr)
    result = {
        "tool": "near_misses",
        "answers": sum(map(len, scores.values())),
        "paid": len(paid),
        "highest": max(max(values) for values in scores.values()),
        "mean_by_way": {way: round(sum(values) / len(values), 3) for way, values in sorted(scores.items())},
    }
    print(json.dumps(result, ensure_ascii=False))
    return int(bool(paid))


if __name__ == "__main__":
    run_tool(main)

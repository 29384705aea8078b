"""Print at which levels a model of a given score should start, by task: `python -m tools.start_levels`.

Reads the published scores of ten models at the library's defaults (`evaluate --preset rg-easy`). A model's score is its
mean over the tasks. For each score in SCORES, the tool averages the scores of a task over the published models within
NEAR of that score. The average decides: start at level 0, at the defaults, or above the defaults. Prints a row for
each combination of the three decisions.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from reasoning_env.evaluations.published import load_published

from .running import run_tool

SCORES = (0.3, 0.58, 0.75)
"""Mean scores of models, each close to the scores of three published models."""
NEAR = 0.1
LOW, HIGH = 0.2, 0.8
"""Pass rates between which five of six groups of eight carry a signal, if all problems are equally hard."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(argv)
    published = load_published("rg-easy").published
    own = {model: fmean(scores.values()) for model, scores in published.items()}
    near = [[scores for model, scores in published.items() if abs(own[model] - score) <= NEAR] for score in SCORES]
    tasks_of: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for task in sorted({task for scores in published.values() for task in scores}):
        means = [fmean(scores[task] for scores in models if task in scores) for models in near]
        tasks_of[tuple(map(start_at, means))].append(f"`{task}`")
    print(f"| {' | '.join(f'score {score:.2f}' for score in SCORES)} | tasks |")
    print("| --- " * (len(SCORES) + 1) + "|")
    for starts, tasks in sorted(tasks_of.items(), key=lambda row: -len(row[1])):
        print(f"| {' | '.join(starts)} | {', '.join(tasks)} |")
    return 0


def start_at(mean: float) -> str:
    if mean < LOW:
        return "level 0"
    return "above" if mean > HIGH else "defaults"


if __name__ == "__main__":
    run_tool(main)

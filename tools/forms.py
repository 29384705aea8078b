"""Measure which honest forms of right answers are refused: `python -m tools.forms --seed 4`.

Prints the share of refused pairs of task and form by class, and each refused pair with an answer and its score. Each
seed draws other problems of the library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.verifiers.form_scores import TASKS, answered_problems, measure, total
from tests.verifiers.honest_forms import FormClass


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", metavar="NAME,NAME", help="names of tasks (default: all)")
    parser.add_argument("--count", type=int, default=6, help="problems of each task (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the library's seed (default: %(default)s)")
    options = parser.parse_args(argv)
    tasks = options.tasks.split(",") if options.tasks else TASKS
    measured = total(measure(task, answered_problems(task, options.seed, options.count)) for task in tasks)
    for refusal in measured.refusals:
        print(
            f"{refusal.task}: {refusal.form} ({refusal.form_class}) earns {refusal.score:.3f}: {refusal.text[:200]!r}"
        )
    for form_class in FormClass:
        refused = sum(refusal.form_class is form_class for refusal in measured.refusals)
        pairs = measured.pairs[form_class]
        print(f"{form_class}: {refused} of {pairs} pairs of task and form refused, {refused / max(1, pairs):.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure which honest forms of right answers are refused: `python -m tools.forms --seed 4`.

Prints the share of refused pairs of task and form by class, and each refused pair with an answer and its score. Then
come wrong answers that a form makes right, and two answers in one that are paid: the status is 1 when there is any.
Each seed draws other problems of the library.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tests.answers.form_scores import (
    TASKS,
    answered_problems,
    measure,
    total,
    two_answers_paid,
    wrong_forms_paid,
)
from tests.answers.honest_forms import FormClass

from .running import choose_tasks, run_tool


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", metavar="NAME,NAME", help="names of tasks (default: all)")
    parser.add_argument("--count", type=int, default=6, help="problems of each task (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the library's seed (default: %(default)s)")
    options = parser.parse_args(argv)
    tasks = choose_tasks(options.tasks) if options.tasks else TASKS
    parts = []
    paid = []
    for task in tasks:
        problems = answered_problems(task, options.seed, options.count)
        parts.append(measure(task, problems))
        wrong = {**wrong_forms_paid(task, problems), **two_answers_paid(task, problems)}
        paid += [f"{task}: {form} is paid: {text[:200]!r}" for form, text in wrong.items()]
    measured = total(parts)
    for refusal in measured.refusals:
        print(
            f"{refusal.task}: {refusal.form} ({refusal.form_class}) earns {refusal.score:.3f}: {refusal.text[:200]!r}"
        )
    for form_class in FormClass:
        refused = sum(refusal.form_class is form_class for refusal in measured.refusals)
        pairs = measured.pairs[form_class]
        print(f"{form_class}: {refused} of {pairs} pairs of task and form refused, {refused / max(1, pairs):.2%}")
    print(*paid, f"{len(paid)} wrong answers are paid", sep="\n")
    return int(bool(paid))


if __name__ == "__main__":
    run_tool(main)

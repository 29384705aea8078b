"""Check served answers with solvers that read only the question: `python -m tools.solve --count 1000`.

Prints each disagreement at once, with the problem's reference, and a line after each level. Then prints a line for each
task: the numbers of confirmed, ambiguous, unsolved and wrong problems. At the end, prints the mean number of draws for
a served problem, with the shares of rejected draws by cause (with `--draws`, only this, without solvers). The status is
1 if there is a disagreement.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial

from reasoning_env.program.running import map_with_progress, run_to_end
from reasoning_env.records import Problem
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from tests.solvers.opinions import Finding, Opinion, opinions_of

from .running import run_tool

WRONG = (Finding.DISAGREES, Finding.REFUSES, Finding.OVERPAYS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=20, help="problems of each task and level (default: %(default)s)")
    parser.add_argument(
        "--levels",
        default="defaults,0,0.25,0.5,0.75,1",
        help="levels from 0 to 1, and `defaults` for the library's own parameters (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the problems (default: %(default)s)")
    parser.add_argument("--draws", action="store_true", help="print only draws and rejected problems")
    options = parser.parse_args(argv)
    problems: list[Problem] = []
    opinions: list[Opinion] = []
    for level in options.levels.split(","):
        settings = ReasoningSettings(
            eval_tasks=options.tasks or ["all"],
            num_eval_samples_per_task=options.count,
            eval_seed=options.seed,
            eval_level=None if level == "defaults" else float(level),
        )
        made, found = run_to_end(partial(_ask, settings, level, solve=not options.draws))
        problems += made
        opinions += found
        if not options.draws:
            print(f"level {level}: {_count(found)}", flush=True)
    _print_table(opinions)
    print(*draws_by_task(problems), sep="\n")
    print(_count(opinions))
    return int(any(opinion.finding in WRONG for opinion in opinions))


async def _ask(settings: ReasoningSettings, level: str, *, solve: bool) -> tuple[list[Problem], list[Opinion]]:
    async with Session(settings) as session:
        problems = await session.evaluation_set.problems()
        if not solve:
            return problems, []

        async def ask(problem: Problem) -> list[Opinion]:
            found = await opinions_of(session, problem)
            for opinion in found:
                if opinion.finding in WRONG:
                    print(opinion, flush=True)
            return found

        answers = await map_with_progress(f"level {level}", problems, ask, at_once=4)
        return problems, [opinion for several in answers for opinion in several]


def _count(opinions: Sequence[Opinion]) -> str:
    wrong = sum(opinion.finding in WRONG for opinion in opinions)
    return f"{len(opinions)} answers checked, {wrong} of them wrong"


def _print_table(opinions: Sequence[Opinion]) -> None:
    counts: dict[str, Counter[Finding]] = {}
    for opinion in opinions:
        counts.setdefault(opinion.problem.task, Counter())[opinion.finding] += 1
    for task in sorted(counts):
        print(f"{task:28}", ", ".join(f"{count} {finding.value}" for finding, count in counts[task].most_common()))


def draws_by_task(problems: Sequence[Problem]) -> list[str]:
    """Return a line for each task with rejected problems: mean draws, and the share of rejected draws by cause."""
    served = Counter(problem.task for problem in problems)
    rejected: dict[str, Counter[str]] = {}
    for problem in problems:
        if problem.flawed:
            rejected.setdefault(problem.task, Counter()).update(problem.flawed)
    lines = []
    for task, causes in sorted(rejected.items(), key=lambda item: -item[1].total() / served[item[0]]):
        draws = served[task] + causes.total()
        shares = ", ".join(f"{count / draws:.2f} {cause}" for cause, count in causes.most_common())
        lines.append(f"{task:28} {draws / served[task]:5.1f} draws: {shares}")
    return lines


if __name__ == "__main__":
    run_tool(main)

"""Check a release of reasoning-gym before it is pinned: `python -m tools.check_release [CHECKOUT]`.

Prints a line for each finding of three checks, and exits with 1 if there is a finding. The command `audit` checks the
rewards.

- declarations: each task has a declaration in `reasoning_env/tasks/`, and each declaration has a task
- levels: each level of difficulty makes problems in time, with the parameters of this level
- questions: training serves no question of the evaluation set, also for tasks without `has_small_pool`
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from reasoning_env.errors import GenerationError
from reasoning_env.problems.evaluation_set import evaluation_spec
from reasoning_env.problems.sampling import TaskSampler
from reasoning_env.program.running import map_with_progress, run_to_end
from reasoning_env.records import LEVEL_STEPS, Problem, ProblemSpec
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import COMPOSITE, TASKS

from .running import run_tool


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "checkout",
        nargs="?",
        type=Path,
        help="folder that contains the package reasoning_gym (default: the installed release)",
    )
    parser.add_argument("--tasks", default="", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--problems", type=int, default=3, help="problems per task and level (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=500, help="training problems per task (default: 500)")
    options = parser.parse_args(argv)
    settings = ReasoningSettings(tasks=options.tasks, num_eval_samples_per_task=5, num_verifiers=1)

    async def check() -> list[str]:
        async with Session(settings, checkout=options.checkout) as session:
            findings = [] if settings.tasks else check_declarations(session)
            findings += await check_levels(session, options.problems)
            return findings + await check_questions(session, options.questions)

    findings = run_to_end(check)
    print(*findings, f"{len(findings)} findings; to check the rewards, run `audit`", sep="\n")
    return int(bool(findings))


def check_declarations(session: Session[Problem]) -> list[str]:
    """Return a line for each task without a declaration, and for each declaration without a task."""
    tasks = {task.name for task in session.library.tasks}
    missing = [f"{task} has no declaration" for task in sorted(tasks - TASKS.keys())]
    return missing + [f"{task} has a declaration and is not in the library" for task in sorted(TASKS.keys() - tasks)]


async def check_levels(session: Session[Problem], problems: int) -> list[str]:
    """Make problems of each task at each level. Return a line for each level that fails or is replaced by another.

    Skip the composite, whose levels are those of its members.
    """

    async def check(task: str) -> list[str]:
        findings = []
        for level in (step / LEVEL_STEPS for step in range(LEVEL_STEPS + 1)):
            drawn = [evaluation_spec(task, number, 0, run_seed=0) for number in range(problems)]
            specs = [spec.with_request(level=level) for spec in drawn]
            made = [await try_to_make(session, spec) for spec in specs]
            failures = [outcome for outcome in made if isinstance(outcome, GenerationError)]
            if failures:
                findings.append(f"levels: {task} at {level:g}: {len(failures)} of {problems} fail: {failures[0]}")
            replaced = [outcome.level for outcome in made if isinstance(outcome, Problem) and outcome.level != level]
            if replaced:
                findings.append(f"levels: {task} at {level:g}: made at {replaced[0]} instead")
        return findings

    tasks = [task for task in session.plan.tasks if task in session.plan.adjustable and task != COMPOSITE]
    return [*chain.from_iterable(await map_with_progress("levels", tasks, check, at_once=4))]


async def check_questions(session: Session[Problem], questions: int) -> list[str]:
    """Generate training problems of each task. Return a line for each task with a question of the evaluation set."""
    evaluation_set = session.evaluation_set
    evaluated = {_words(problem.question) for problem in await evaluation_set.problems()}

    async def check(task: str) -> list[str]:
        sampler = TaskSampler({task: 1.0}, run_seed=session.settings.seed, params=session.plan.all_params)
        drawn = [await try_to_make(session, sampler.draw(number, 0)) for number in range(questions)]
        asked = [made for made in drawn if isinstance(made, Problem) and _words(made.question) in evaluated]
        served = [problem for problem in asked if not await evaluation_set.has_question(problem)]
        if not served:
            return []
        return [f"questions: {task}: the evaluation set contains {len(served)} of {questions} training problems"]

    return [*chain.from_iterable(await map_with_progress("questions", session.plan.tasks, check, at_once=4))]


def _words(question: str) -> tuple[str, ...]:
    return tuple(question.split())


async def try_to_make(session: Session[Problem], spec: ProblemSpec) -> Problem | GenerationError:
    """Return the problem, or the error when generation fails or exceeds training's default deadline."""
    try:
        return await session.pool.generate(spec, session.settings.generation_deadline_s)
    except GenerationError as error:
        return error


if __name__ == "__main__":
    run_tool(main)

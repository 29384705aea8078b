"""The `score` command: judge one completion of a problem, and show the prompt, the score and the reason."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..metrics.outcomes import outcome
from ..program.parser import Command, CommandParser
from ..program.running import run_to_end
from ..program.shared_options import (
    add_config_option,
    add_problem_options,
    check_params,
    problem_as_json,
    problem_settings,
    show_answer,
    show_messages,
    warn_without_levels,
)
from ..runtime.terminal import print_json
from ..runtime.text import printable
from ..storage.folders import find_checkout

if TYPE_CHECKING:
    from ..records import Problem, Verdict
    from ..session import Session


def _score(options: argparse.Namespace, folder: Path) -> int:
    """Score a string as the completion of one problem; print prompt, answer, score and reason. Returns 0.

    Raises ConfigError if the task does not exist, InvalidReferenceError if the reference cannot be used, and
    GenerationError if the task cannot generate a problem with this seed.
    """
    from ..session import Session  # imported here because `-h` does not need workers and tasks

    text = sys.stdin.read() if options.text == "-" else options.text
    task = options.task.partition(":")[0]  # a reference begins with the task's name
    settings = problem_settings("score", options, [task], {"num_generators": 1, "num_verifiers": 1})
    session = Session(settings, checkout=find_checkout(folder))
    problem, verdict = run_to_end(lambda: _judge(session, options, text))
    messages = session.messages(problem)
    reason = outcome(verdict.score, verdict.reason.value, cut=False)
    if options.json:
        judged = {"score": verdict.score, "reason": reason, "read": verdict.answer}
        judged["thinking_formats"] = list(session.thinking.names)
        print_json({**problem_as_json(problem), "prompt": [dict(message) for message in messages], **judged})
        return 0
    read = "no answer found in the completion" if verdict.answer is None else printable(verdict.answer)
    print(f"{show_messages(messages)}\n\n--- score")
    print(f"expected  {show_answer(problem)}\nanswer    {read}\nscore     {verdict.score:g}\nreason    {reason}")
    print(f"thinking  {', '.join(session.thinking.names) or 'none'}")
    return 0


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "task", metavar="TASK", help="name of a task, or a problem's reference (TASK:..., from data or a dump)"
    )
    parser.add_argument(
        "text",
        metavar="TEXT",
        help="the whole completion, such as '<think>...</think><answer>5</answer>'; `-` reads standard input",
    )
    add_problem_options(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_config_option(parser)


async def _judge(session: Session[Problem], options: argparse.Namespace, text: str) -> tuple[Problem, Verdict]:
    async with session:
        if ":" in options.task:
            if options.params or options.level is not None:
                raise ConfigError(
                    "a reference contains the problem's parameters and level", remedy="omit --params and --level"
                )
            problem = await session.remake(options.task)
            [verdict] = await session.judge(problem, [text])
            return problem, verdict
        from ..problems.selection import select_tasks

        matched = select_tasks(session.library.tasks, [options.task])
        task, *others = matched
        if others:
            raise ConfigError(f"{options.task!r} matches several tasks: {', '.join(matched)}", remedy="name one task")
        await check_params(session, [task], options.params, options.level)
        warn_without_levels(session, [task], options.level)
        problem = await session.make(task, options.problem_seed, params=options.params, level=options.level)
        [verdict] = await session.judge(problem, [text])
        return problem, verdict


score_command = Command(
    "score",
    "Score a string as the completion of one problem: print the prompt, the score and the reason for the score.",
    _add_options,
    _score,
    names={"tasks": ""},
)

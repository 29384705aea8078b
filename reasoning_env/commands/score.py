"""The `score` command: what one completion earns, with the prompt that it would have answered."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError
from ..metrics.outcomes import outcome
from ..prompts.messages import build_messages, system_prompt
from ..prompts.thinking import AUTO, NAMES, choose_thinking
from ..records import Problem, Verdict
from ..reports.library import open_library, run_measurement
from ..rewards import score_texts
from ..runtime.terminal import print_json, visible
from ..settings import SYSTEM_PROMPT, ReasoningSettings
from ..storage.folders import find_checkout
from ..workers.pool import PoolSettings
from .options import CommandParser
from .problems import add_problem_options, describe_problem, show_answer, show_messages


def score_command(argv: Sequence[str], folder: Path) -> int:
    """Score a text as a completion of one problem, and print prompt, answer, score and reason; returns 0.

    `folder` is where a checkout of the library may lie. Raises ConfigError for a task that there is not, and
    GenerationError where it has no such problem.
    """
    options = _parse(argv)
    text = sys.stdin.read() if options.text == "-" else options.text
    settings = PoolSettings(generators=1, verifiers=1, checkout=find_checkout(folder), strict_rewards=not options.plain)
    problem, verdict = run_measurement(lambda: _score(settings, options, text))
    thinking = choose_thinking(options.thinking)
    messages = build_messages(system_prompt(SYSTEM_PROMPT, thinking), problem.question)
    reason = outcome(verdict.score, verdict.reason.value, finish_reason=None)
    if options.json:
        judged = {"score": verdict.score, "reason": reason, "read": verdict.answer}
        judged["thinking_formats"] = list(thinking.names)
        print_json({**describe_problem(problem), "prompt": [dict(message) for message in messages], **judged})
        return 0
    read = "nothing" if verdict.answer is None else visible(verdict.answer)
    print(f"{show_messages(messages)}\n\n--- score")
    print(f"expected  {show_answer(problem)}\nread      {read}\nscore     {verdict.score:g}\nreason    {reason}")
    print(f"thinking  {', '.join(thinking.names) or 'none'}")
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="score", description="Score a text as the completion of one problem: see its prompt, reward and reason."
    )
    parser.add_argument("task", metavar="TASK")
    parser.add_argument(
        "text",
        metavar="TEXT",
        help="the whole completion, as in '<think>...</think><answer>5</answer>'; - reads it from standard input",
    )
    add_problem_options(parser)
    parser.add_argument("--plain", action="store_true", help="the library's own score, not that of training")
    parser.add_argument(
        "--thinking", choices=NAMES, default=AUTO, help="format in which the model thinks (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser.parse_args(argv)


async def _score(settings: PoolSettings, options: argparse.Namespace, text: str) -> tuple[Problem, Verdict]:
    async with open_library(settings, [options.task]) as library:
        if len(library.tasks) != 1:
            raise ConfigError(f"name one task; {options.task!r} matches {', '.join(library.tasks)}")
        await library.check_params(options.params, options.level)
        problem = await library.make_problem(library.tasks[0], options.seed, params=options.params, level=options.level)
        limit, thinking = ReasoningSettings().max_answer_bytes, choose_thinking(options.thinking)
        verdicts = await score_texts(library.pool, problem, [text], limit, thinking)
        return problem, verdicts[0]

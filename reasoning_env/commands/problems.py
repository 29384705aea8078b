"""The `problems` command: write a file of problems to train on, with a card that tells what the file holds."""

from __future__ import annotations

import argparse
import json
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..data.problems import COLUMNS, ProblemRows, Row, TaskProgress, Wanted, describe_row
from ..data.store import RowStore, finished_card, write_card
from ..data.tables import check_name, write_rows
from ..problems.plan import describe_run
from ..prompts.chat_format import ChatFormat
from ..prompts.messages import build_messages, system_prompt
from ..prompts.thinking import choose_thinking
from ..records import Problem
from ..runtime.terminal import Table, progress_bar
from ..session import Session
from ..settings import ReasoningSettings
from ..storage.folders import find_checkout
from .options import CommandParser, add_config_option, at_least_one, file_settings
from .problem_options import level, seed, split_names
from .running import run_to_end
from .tasks import read_chat_format


def problems_command(argv: Sequence[str], folder: Path) -> int:
    """Write a file of problems and its card, or go on with the file; print a row for each task; returns 0.

    `folder` may hold a checkout of the library. Raises ConfigError for a wrong option, and for a file of other
    settings.
    """
    options = _parse(argv)
    check_name(options.out, "--out")
    given: dict[str, object] = {"seed": options.seed}
    if options.tasks:
        given["tasks"] = split_names(options.tasks)
    settings = file_settings(options, {"worker_niceness": 0}, given)
    wanted = Wanted(options.count, tuple(options.levels), options.seed, *options.shard)
    chat = None if options.tokenizer is None else read_chat_format(options.tokenizer, setting="--tokenizer")
    session = Session(settings, prepare=_prepare(settings, chat, options), checkout=find_checkout(folder))
    command = "problems " + shlex.join(argv)
    card = run_to_end(lambda: write_problems(session, wanted, options.out, chat, options.max_prompt_tokens, command))
    _table(card).print()
    for task, facts in card["tasks"].items():
        for reason in facts["ended"]:
            print(f"{task} has {facts['rows']} rows of {facts['wanted']}: {reason}")
    print(f"{options.out}: {card['rows']} rows")
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="problems", description="Write problems to train on: no question twice, none of the evaluation set."
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="ends in .jsonl or .parquet")
    parser.add_argument("--count", type=at_least_one, required=True, metavar="N", help="rows of all tasks together")
    parser.add_argument("--tasks", action="append", metavar="NAMES", help="names, globs and categories: gcd,algebra/*")
    parser.add_argument(
        "--levels",
        type=_levels,
        default=[None],
        metavar="L,L",
        help="levels of difficulty from 0 to 1, in turn (default: the library's own)",
    )
    parser.add_argument("--seed", type=seed, default=42, metavar="N", help="seed of the file (default: %(default)s)")
    parser.add_argument(
        "--shard", type=_shard, default=(1, 1), metavar="K/N", help="part K of N parts, which share no question"
    )
    parser.add_argument("--tokenizer", metavar="NAME", help="add the prompt's tokens: a folder, or a name on the hub")
    parser.add_argument(
        "--max-prompt-tokens", type=at_least_one, metavar="N", help="with --tokenizer: leave longer prompts out"
    )
    add_config_option(parser)
    options = parser.parse_args(argv)
    if options.max_prompt_tokens is not None and options.tokenizer is None:
        parser.error("--max-prompt-tokens goes with --tokenizer")
    return options


def _levels(text: str) -> list[float]:
    levels = [level(part.strip()) for part in text.split(",")]
    if len(set(levels)) < len(levels):
        raise argparse.ArgumentTypeError(f"names a level twice; got {text!r}")
    return levels


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts):
        return int(part), int(parts)
    raise argparse.ArgumentTypeError(f"must be K/N with K from 1 to N, such as 3/16; got {text!r}")


def _prepare(
    settings: ReasoningSettings, chat: ChatFormat | None, options: argparse.Namespace
) -> Callable[[Problem], Problem | None]:
    """Return the function that tells whether a prompt is short enough: it returns the problem, or None."""
    limit = options.max_prompt_tokens
    if chat is None or limit is None:
        return lambda problem: problem
    own = system_prompt(settings.system_prompt, choose_thinking(settings.thinking))

    def prepare(problem: Problem) -> Problem | None:
        tokens = chat.prompt(build_messages(own, problem.question)).tokens
        return problem if len(tokens) <= limit else None

    return prepare


async def write_problems(
    session: Session[Problem],
    wanted: Wanted,
    out: Path,
    chat: ChatFormat | None = None,
    max_prompt_tokens: int | None = None,
    command: str = "",
) -> Mapping[str, Any]:
    """Write a file of problems, or go on with it, and return its card. Starts and closes the session.

    The card has `rows`, `tasks` with the progress of each, the settings as `made_with`, and `releases`.
    """
    async with session:
        made_with = _made_with(session, wanted, chat, max_prompt_tokens)
        finished = finished_card(out, made_with)
        if finished is not None:
            return finished
        store = RowStore(out, made_with)
        try:
            await _fill(session, wanted, store, chat)
            types = {**COLUMNS, **({} if chat is None else {"tokens": "tokens"})}
            card = _card(session, wanted, store, made_with, command)
            write_card(out, card)
            write_rows(out, lambda: (row for _, row in store.rows()), types)
        except BaseException:
            store.close()
            raise
        store.remove()
        return card


async def _fill(session: Session[Problem], wanted: Wanted, store: RowStore, chat: ChatFormat | None) -> None:
    """Make the rows that the store lacks."""
    earlier = {
        task: TaskProgress.read(state)
        for task in session.plan.weights
        if (state := store.progress(f"task {task}")) is not None
    }
    rows = ProblemRows(session, wanted, is_new=store.is_new, progress=earlier)
    total = None if wanted.parts > 1 else wanted.count
    with progress_bar("problems", total, done=len(store)) as advance:

        def keep(row: Row) -> None:
            columns = describe_row(session, row)
            if chat is not None:
                columns["tokens"] = list(chat.prompt(session.messages(row.problem)).tokens)
            store.add(row.position, columns)
            store.note(f"task {row.problem.task}", row.progress.state())
            store.commit_in_time()
            advance()

        await rows.make(keep)
    for task, progress in rows.progress.items():
        store.note(f"task {task}", progress.state())


def _made_with(
    session: Session[Problem], wanted: Wanted, chat: ChatFormat | None, max_prompt_tokens: int | None
) -> dict[str, Any]:
    """Return as JSON values what decides the rows."""
    made_with = {
        **describe_run(session.settings, session.plan),
        "count": wanted.count,
        "levels": list(wanted.levels),
        "seed": wanted.seed,
        "shard": [wanted.part, wanted.parts],
        "system_prompt": session.system_prompt(),
        "tokenizer": None if chat is None else chat.name,
        "max_prompt_tokens": max_prompt_tokens,
        "reasoning_gym": session.library.version,
    }
    return dict(json.loads(json.dumps(made_with)))


def _card(
    session: Session[Problem], wanted: Wanted, store: RowStore, made_with: Mapping[str, Any], command: str
) -> dict[str, Any]:
    tasks = {}
    for task in session.plan.weights:
        state = store.progress(f"task {task}")
        if state is not None:
            progress = TaskProgress.read(state)
            tasks[task] = {
                "rows": progress.kept,
                "wanted": progress.wanted,
                "draws": sum(one.draws for one in progress.levels),
                "duplicates": sum(one.duplicates for one in progress.levels),
                "held_out": sum(one.held_out for one in progress.levels),
                "too_long": sum(one.too_long for one in progress.levels),
                "failures": sum(one.failures for one in progress.levels),
                "rows_by_level": {_level_name(one.level): one.rows for one in progress.levels},
                "ended": [f"{_level_name(one.level)}, {one.ended}" for one in progress.levels if one.ended],
            }
    return {
        "rows": len(store),
        "command": command,
        "tasks": tasks,
        "releases": {
            "reasoning_gym": session.library.version,
            "reasoning_gym_environment": __version__,
            "python": platform.python_version(),
        },
        "made_with": made_with,
    }


def _level_name(level: float | None) -> str:
    return "at the defaults" if level is None else f"at level {level:g}"


def _table(card: Mapping[str, Any]) -> Table:
    columns = {"TASK": "", "ROWS": "d", "WANTED": "d", "DRAWS": "d", "REPEATED": "d", "HELD OUT": "d", "TOO LONG": "d"}
    names = ("rows", "wanted", "draws", "duplicates", "held_out", "too_long")
    return Table(columns, [(task, *(facts[name] for name in names)) for task, facts in card["tasks"].items()])

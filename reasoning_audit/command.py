"""The `audit` command: the scores of right, nearly right and unreasoned answers, by task and level, and the findings.

The command fails when a finding is severe: a policy that does not reason earns more than a task's bound, say, or the
oracle earns too little. So a machine can check a new release of the library.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reasoning_env.commands.options import CommandParser, add_config_option, file_settings, program
from reasoning_env.commands.problem_options import split_names
from reasoning_env.commands.running import map_with_progress, run_to_end
from reasoning_env.commands.score_options import add_score_options, check_score_options
from reasoning_env.commands.values import share
from reasoning_env.errors import WorkerError
from reasoning_env.library_facts import COMPOSITE, FACTS
from reasoning_env.problems.selection import select_tasks
from reasoning_env.records import Problem
from reasoning_env.reports.html.page import write_page
from reasoning_env.session import Session
from reasoning_env.storage.folders import find_checkout
from reasoning_env.workers.pool import PoolSettings, WorkerPool

from .contract import ContractCheck
from .findings import (
    MEANINGS,
    Defect,
    Finding,
    Reproduction,
    Severity,
    library_commands,
    merge,
    own_commands,
)
from .output import DEFAULT_OUTPUT, NEVER, check_outputs, finish
from .page import heat_map_page
from .probe_findings import findings_of
from .probes import ROUNDS, AuditTarget, TaskAudit, audit_task
from .questions import same_problems
from .report import DEFAULTS, AuditOutcome, read_report, result_of
from .rows import GOLD
from .rows_command import audit_rows
from .watch import BARE
from .watched_pools import watched_pools

DEFAULT_LEVELS: Sequence[float | None] = (None, 0.0, 0.25, 0.5, 0.75, 1.0)
"""Audited levels; None stands for the library's defaults."""


def audit_command(argv: Sequence[str], folder: Path) -> int:
    """Audit, save the numbers, print table and findings; returns 1 for a finding as severe as --fail-on, else 0.

    `folder` may hold a checkout of the library. Raises:

    - ConfigError: an option or a file cannot be used
    - WorkerError: no problem could be probed
    - OSError: the numbers cannot be saved
    """
    options = _parse(argv)
    if options.saved is not None:
        write_page(options.html, heat_map_page(read_report(options.saved)))
        print(f"{options.html}: open it in a browser")
        return 0
    check_outputs(options)
    if options.score is not None:
        return audit_rows(options)
    given: dict[str, object] = {"exclude_gameable": False}
    if not options.config:
        given["tasks"] = options.tasks
    if options.plain:
        given["strict_rewards"] = False
    settings = file_settings(options, {}, given)
    checkout = find_checkout(folder)
    # With --plain no guard protects the library: probes are not a model's text, and run in a sandbox.
    workers = PoolSettings(settings, checkout, source_wrapper=BARE if options.plain else None)
    session = Session(settings, pool=WorkerPool(workers), checkout=checkout)
    audits, checked = run_to_end(lambda: _audit(session, workers, options))
    library = session.library
    if not any(audit.items for audit in audits):
        failures = audits[0].failures
        cause = failures[0] if failures else "all are flawed"
        raise WorkerError(f"no problem of {len(audits)} tasks and levels could be probed; the first: {cause}")
    left_out = {task.name for task in library.tasks if task.name in library.releases and task.left_out}
    results = {audit.name: result_of(audit, left_out) for audit in audits}
    scores = "the scores of training" if settings.strict_rewards else "the library's own scores"
    known = left_out
    if not options.plain:  # --plain audits the library as it is, apart from training
        known |= {audit.task for audit in audits if results[audit.name] is AuditOutcome.GIVES_AWAY}
    findings = merge(
        [
            *(one for audit in audits for one in findings_of(audit, _commands(audit.task, session, options), known)),
            *checked,
        ]
    )
    return finish(audits, results, findings, library, options, scores=scores)


def _commands(task: str, session: Session[Problem], options: argparse.Namespace) -> Reproduction:
    """Return the object that makes the commands that reproduce a finding."""
    again = _rerun(task, options)
    if options.plain and task not in session.library.releases and session.settings.checkout is None:
        return library_commands(again)
    params = {} if options.config else session.plan.all_params.get(task, {})
    return own_commands(program(), _places(options), params, again)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(argv)
    _check(parser, options)
    return options


def _parser() -> CommandParser:
    parser = CommandParser(
        prog=f"{program()} audit",
        description="Probe every task's rewards with right, nearly right and unreasoned answers.",
    )
    parser.add_argument("--tasks", type=_names, default=[], metavar="NAME,NAME", help=f"default: all but {COMPOSITE}")
    parser.add_argument(
        "--levels",
        type=_levels,
        default=DEFAULT_LEVELS,
        metavar="LEVEL,LEVEL",
        help=f"default: {_level_names(DEFAULT_LEVELS)}",
    )
    more = ", ".join(str(factor) for factor, _ in ROUNDS)
    help_text = f"problems a task and level; {more} times as many follow where it may fail (default: %(default)s)"
    parser.add_argument("--items", type=int, default=5, metavar="N", help=help_text)
    parser.add_argument("--seed", type=int, default=42, help="decides which problems are drawn (default: %(default)s)")
    parser.add_argument(
        "--output", default=DEFAULT_OUTPUT, metavar="PATH", help="JSON file, or a folder for it (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON in place of the table")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page too: a map of tasks and levels")
    parser.add_argument(
        "--from",
        dest="saved",
        type=Path,
        metavar="FILE",
        help="write the page of an earlier audit's JSON file, and probe nothing",
    )
    parser.add_argument(
        "--plain", action="store_true", help="audit the library's own problems and scores, not those of training"
    )
    parser.add_argument(
        "--score",
        metavar="MODULE:FUNCTION",
        help="audit score(completion, **row) over the rows of --rows, and no task; MODULE is a name that Python can "
        "import, or the path of a .py file",
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="rows for --score: .jsonl or .parquet")
    parser.add_argument(
        "--gold", metavar="COLUMN", help=f"the column of right answers in the rows of --rows (default: {GOLD})"
    )
    add_score_options(parser)
    parser.add_argument(
        "--fail-on",
        choices=[*(severity.value for severity in Severity), NEVER],
        default=Severity.HIGH.value,
        help="exit with status 1 at a finding of this severity or above (default: %(default)s)",
    )
    add_config_option(parser)
    return parser


def _check(parser: CommandParser, options: argparse.Namespace) -> None:
    """End the program with an error if options contradict each other or are out of their ranges."""
    check_score_options(parser, options)
    of_tasks = ("tasks", "task_modules", "checkout", "plain", "config", "items", "levels")
    given = [f"--{name.replace('_', '-')}" for name in of_tasks if getattr(options, name) != parser.get_default(name)]
    if options.score is not None and given:
        parser.error(f"--score does not go with {', '.join(given)}: it audits no task")
    if not 1 <= options.items <= 10_000 or options.seed < 0:
        parser.error("--items must be between 1 and 10000 and --seed at least 0")
    if options.saved is not None and options.html is None:
        parser.error("--from needs --html FILE, the page to write")
    if (options.score is None) != (options.rows is None) or (options.gold and options.score is None):
        parser.error("--score MODULE:FUNCTION and --rows FILE go together, with or without --gold COLUMN")


def _names(text: str) -> list[str]:
    """Read names joined by commas."""
    return split_names([text])


def _levels(text: str) -> Sequence[float | None]:
    """Read levels joined by commas; None stands for the library's defaults."""
    try:
        return [None if level.strip() == DEFAULTS else share(level) for level in text.split(",")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"must be numbers from 0 to 1, or {DEFAULTS}; got {text!r}") from None


def _level_names(levels: Sequence[float | None]) -> str:
    """Return levels as `--levels` takes them."""
    return ",".join(DEFAULTS if level is None else f"{level:g}" for level in levels)


async def _audit(
    session: Session[Problem], workers: PoolSettings, options: argparse.Namespace
) -> tuple[list[TaskAudit], Sequence[Finding]]:
    """Return the audits of all tasks and levels, and the findings on their contracts."""
    checked: list[Finding] = []
    by_level: dict[str, dict[float | None, Sequence[Problem]]] = {}
    attacked: set[str] = set()
    async with session, watched_pools(workers) as pools:

        async def audit(target: AuditTarget) -> TaskAudit:
            is_first = target.task not in attacked
            attacked.add(target.task)
            audited = await audit_task(session.pool, target, options.items)
            by_level.setdefault(target.task, {})[target.level] = [replace(one, entry=b"") for one in audited.problems]
            check = ContractCheck(
                pools,
                target,
                _commands(target.task, session, options),
                is_isolated=session.settings.strict_rewards and target.task in FACTS,
            )
            checked.extend(await check.run(audited.problems, audited.errors, attacks=is_first))
            return replace(audited, problems=())

        names = select_tasks(session.library.tasks, options.tasks) if options.tasks else session.plan.tasks
        targets = [
            AuditTarget(task, level, session.plan.all_params.get(task, {}), options.seed, as_is=options.plain)
            for task in names
            if options.tasks or task != COMPOSITE
            for level in options.levels
            if level is None or task in session.library.adjustable
        ]
        # Six at once keep all workers busy, and bound what is kept in memory.
        audits = await map_with_progress("audit", targets, audit, at_once=6)
    for target in targets:
        if target.level is not None and same_problems(by_level.pop(target.task, {})):
            checked.append(_level_finding(target, options))
    return audits, checked


def _level_finding(target: AuditTarget, options: argparse.Namespace) -> Finding:
    defect = Defect.LEVEL_CHANGES_NOTHING
    detail = "the lowest and the highest level make the same problems for the same seeds"
    severity = MEANINGS[defect].severity
    return Finding(defect, target.task, target.level, detail, command=_rerun(target.task, options), severity=severity)


def _rerun(task: str, options: argparse.Namespace) -> str:
    """Return the command that audits a task again."""
    words = ["audit", "--tasks", task, "--seed", str(options.seed), "--items", str(options.items)]
    words += ["--levels", _level_names(options.levels)]
    return f"{program()} {shlex.join([*words, *_places(options)])}"


def _places(options: argparse.Namespace) -> list[str]:
    """Return the options that say where tasks come from, and how they are scored."""
    words = ["--plain"] if options.plain else []
    words += [word for file in options.config for word in ("--config", file)]
    for name, value in (("--task-modules", options.task_modules), ("--checkout", options.checkout)):
        words += [name, value] if value is not None else []
    return words

"""`audit --score`: audit a score function of the user over a file of rows."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace

from reasoning_env.commands.options import program
from reasoning_env.commands.running import run_to_end
from reasoning_env.commands.score_options import score_arguments, score_words
from reasoning_env.data.tables import JSON_LINES, read_rows
from reasoning_env.errors import ConfigError, WorkerError
from reasoning_env.records import LibraryInfo, Problem
from reasoning_env.score_judge import ScoreJudge
from reasoning_env.storage.reading import describe

from .contract import ContractCheck, WatchedPools
from .findings import Finding, Reproduction, function_commands, merge
from .output import finish
from .probe_findings import findings_of
from .probes import AuditTarget, TaskAudit, audit_task
from .report import result_of
from .rows import GOLD, QUESTION_COLUMNS, CompletionForm, RowWorkers, choose_form, row_problems
from .watched_pools import watched_pools


def audit_rows(options: argparse.Namespace) -> int:
    """Audit a score function, save and print as `audit` does, and return the exit status.

    Raises ConfigError for a function or rows that cannot be used, and OSError for numbers that cannot be saved.
    """
    gold = options.gold or GOLD
    try:
        problems = row_problems(read_rows(options.rows, "--rows"), options.rows, options.score, gold)
    except OSError as error:
        raise ConfigError(f"{options.rows} cannot be read: {describe(error)}", setting="--rows") from error
    if not any(problem.question for problem in problems):
        print(f"no column holds questions ({', '.join(QUESTION_COLUMNS)}), so none is checked", file=sys.stderr)
    judge = ScoreJudge(**score_arguments(options))
    audit, checked, form = run_to_end(lambda: _audit(judge, problems, options))
    if not audit.items:
        cause = audit.failures[0] if audit.failures else "no row has an answer"
        raise WorkerError(f"no row of {options.rows} could be probed; the first: {cause}")
    results = {audit.name: result_of(audit)}
    findings = merge([*findings_of(audit, _commands(options, form)), *checked])
    nothing = LibraryInfo(version="", path=options.score, tasks=(), warnings=(), adjustable=frozenset())
    scores = f"the scores of {options.score} for {len(problems)} rows, of completions of the form {str(form)!r}"
    return finish([audit], results, findings, nothing, options, scores=scores)


async def _audit(
    judge: ScoreJudge, problems: list[Problem], options: argparse.Namespace
) -> tuple[TaskAudit, list[Finding], CompletionForm]:
    async with judge:
        form = await choose_form(judge.pool, problems)
        target = AuditTarget(options.score, seed=options.seed, between=f"{form.after}\n{form.before}".strip("\n"))
        audit = await audit_task(RowWorkers(judge.pool, problems, form), target, len(problems), rounds=())
        async with watched_pools(judge.settings) as pools:

            async def third() -> RowWorkers:
                return RowWorkers(await pools.third(), problems, form)

            in_form = WatchedPools(
                RowWorkers(pools.first, problems, form), RowWorkers(pools.other_hash_seed, problems, form), third
            )
            check = ContractCheck(in_form, target, _commands(options, form), makes_problems=False)
            checked = await check.run(problems, audit.errors, attacks=True)
        return replace(audit, problems=()), checked, form


def _commands(options: argparse.Namespace, form: CompletionForm) -> Reproduction:
    """Return commands that call the function itself; commands of this program, where the rows are no JSON lines."""
    words = ["audit", "--score", options.score, "--rows", str(options.rows)]
    words += ["--gold", options.gold] if options.gold else []
    again = f"{program()} {shlex.join([*words, *score_words(options)])}"
    if options.rows.suffix != JSON_LINES:
        return Reproduction(lambda _problem, _answer: again, again)
    return function_commands(options.score, str(options.rows), form.before, form.after, again)

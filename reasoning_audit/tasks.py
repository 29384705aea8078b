"""Audit tasks, each at several levels: the library's tasks and the tasks of the user's modules."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path

from reasoning_env import PoolSettings, Session, WorkerPool
from reasoning_env.errors import WorkerError
from reasoning_env.problems.selection import select_tasks
from reasoning_env.program.parser import program
from reasoning_env.program.running import map_with_progress, run_to_end
from reasoning_env.program.shared_options import file_settings
from reasoning_env.records import Problem
from reasoning_env.storage.folders import find_checkout
from reasoning_env.tasks import COMPOSITE, find_task

from .contract import ContractCheck, WatchedPools, watched_pools
from .findings import Finding, Reporter, findings_of, merge
from .options import level_names
from .report import Report, make_report
from .reproduction import LibraryCommands, OwnCommands, Reproduction
from .scores import AuditTarget, TaskAudit, audit_task
from .watch import BARE


def audit_tasks(options: argparse.Namespace, folder: Path) -> Report:
    """Audit the tasks that the command's options select. Raises ConfigError and WorkerError."""
    given: dict[str, object] = {} if options.config else {"tasks": options.tasks}
    settings = file_settings("audit", options, {}, given)
    checkout = find_checkout(folder)
    # Without strict rewards there are no guards. That is safe, because the audit scores no model output, in a sandbox.
    workers = PoolSettings(settings, checkout, source_wrapper=None if settings.rewards == "strict" else BARE)
    session = Session(settings, pool=WorkerPool(workers), checkout=checkout)
    audits, findings = run_to_end(lambda: _audit(session, workers, options))
    if not any(audit.items for audit in audits):
        failures = audits[0].failures
        cause = failures[0] if failures else "no problem was generated or scored"
        fault = f"no problem could be audited (tried: {len(audits)} pairs of task and level); the first error: {cause}"
        raise WorkerError(fault, remedy="remove the cause of this error, then audit again")
    return make_report(
        audits,
        merge(findings),
        session.library,
        scores="the scores that training uses" if settings.rewards == "strict" else "the library's own scores",
        seed=options.seed,
        left_out=left_out_of_training(session),
    )


def left_out_of_training(session: Session[Problem]) -> set[str]:
    """Return the tasks that training excludes unless the user names them. With library rewards, there are none."""
    if session.settings.rewards == "library":
        return set()
    return {task.name for task in session.library.tasks if task.left_out or find_task(task.name).answer_leak}


async def _audit(
    session: Session[Problem], workers: PoolSettings, options: argparse.Namespace
) -> tuple[list[TaskAudit], list[Finding]]:
    """Return the audits of all tasks and levels, and the findings."""
    attacked: set[str] = set()

    async def audit(target: AuditTarget) -> tuple[TaskAudit, list[Finding]]:
        is_first = target.task not in attacked
        attacked.add(target.task)
        return await _audit_target(session, pools, target, options, attacks=is_first)

    # Library rewards show what other programs get, and the processes of other programs have different hash seeds.
    other_hash_seed = session.settings.rewards != "strict"
    async with session, watched_pools(workers, other_hash_seed=other_hash_seed) as pools:
        # Six audits at a time keep all workers busy and limit memory.
        audited = await map_with_progress("audit", _targets(session, options), audit, at_once=6)
    return [audit for audit, _ in audited], [finding for _, found in audited for finding in found]


def _targets(session: Session[Problem], options: argparse.Namespace) -> list[AuditTarget]:
    plan = session.plan
    names = select_tasks(session.library.tasks, options.tasks) if options.tasks else plan.tasks
    return [
        AuditTarget(task, level, plan.all_params.get(task, {}), options.seed)
        for task in names
        if options.tasks or task != COMPOSITE
        for level in options.levels
        if level is None or task in session.library.adjustable
    ]


async def _audit_target(
    session: Session[Problem], pools: WatchedPools, target: AuditTarget, options: argparse.Namespace, *, attacks: bool
) -> tuple[TaskAudit, list[Finding]]:
    """Audit a task at a level. Return the audit (without its problems, to save memory) and the findings."""
    task = target.task
    reporter = Reporter(task, target.level, _commands(task, session, options))
    audit = await audit_task(session.pool, target, options.items)
    check = ContractCheck(pools, replace(reporter, is_watched=True))
    checked = await check.run(audit.problems, audit.errors, attacks=attacks)
    return replace(audit, problems=()), [*findings_of(audit, reporter, left_out_of_training(session)), *checked]


def _commands(task: str, session: Session[Problem], options: argparse.Namespace) -> Reproduction:
    """Return the commands that reproduce the findings on a task."""
    again = _rerun(task, options)
    if (
        session.settings.rewards == "library"
        and task not in session.library.releases
        and session.settings.checkout is None
    ):
        return LibraryCommands(again)
    params = {} if options.config else session.plan.all_params.get(task, {})
    return OwnCommands(again, program=program(), options=_source_options(options), params=params)


def _rerun(task: str, options: argparse.Namespace) -> str:
    """Return the command that audits a task again."""
    words = ["audit", "--tasks", task, "--seed", str(options.seed), "--items", str(options.items)]
    words += ["--levels", level_names(options.levels)]
    return f"{program()} {shlex.join([*words, *_source_options(options)])}"


def _source_options(options: argparse.Namespace) -> list[str]:
    """Return --config, --rewards, --task-modules and --checkout as the user gave them, as words of a command line."""
    words = [word for file in options.config for word in ("--config", file)]
    for name in ("rewards", "task_modules", "checkout"):
        value = getattr(options, name)
        words += [f"--{name.replace('_', '-')}", value] if value is not None else []
    return words

"""The `audit` command: a table of what every task's verifier pays for right, nearly right and meaningless answers.

It fails when a task pays for one kind of meaningless answer on most problems, so that a new release of the library can
be checked by a machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..errors import ConfigError, WorkerError
from ..library_facts import COMPOSITE, gameable_tasks
from ..records import LibraryInfo
from ..signals import run_until_signal
from ..tasks.sampling import task_params
from ..tasks.selection import select_tasks
from ..workers.checkout import find_checkout
from ..workers.pool import PoolSettings, WorkerPool
from .probes import MOST_FREQUENT, ORACLE, PERTURBED, ROLES
from .probing import HIGH_SCORE, MOST, Tally, TaskAudit, audit_tasks

logger = logging.getLogger(__name__)

DEFAULT_OUTPUT = "audit.json"
MAX_ITEMS = 10_000
EXAMPLE_CHARACTERS = 200
HEADINGS = (
    *("TASK", "ITEMS", "ORACLE", "PERTURBED", "WORST MEANINGLESS ANSWER", "MEAN", "PAID"),
    *("SLOWEST MS", "ESCAPED", "RESULT"),
)
NUMBERS = {"ITEMS", "ORACLE", "PERTURBED", "MEAN", "PAID", "SLOWEST MS"}


class Result(StrEnum):
    """What the audit says of a task."""

    PASSES = "passes"
    FAILS = "FAILS"
    LISTED = "listed"
    """It fails, and is known to."""
    LISTED_PASSES = "listed, passes"
    NOT_PROBED = "not probed"


def audit_command(argv: Sequence[str], folder: Path) -> int:
    """Audit, print the table, save the numbers; returns 1 when a task fails that is not listed, and 0 otherwise.

    `folder` is where a checkout of the library may lie. Raises ConfigError for what a user got wrong, WorkerError when
    nothing could be probed, and OSError when the numbers cannot be saved, after the table was printed.
    """
    options = _parse(argv)
    output = _output_file(options.output)
    settings = PoolSettings(checkout=find_checkout(folder), strict_rewards=not options.plain)
    library, audits = asyncio.run(_audit(settings, options))
    if not any(audit.items for audit in audits):
        raise WorkerError(f"no problem of {len(audits)} tasks could be probed; the first: {audits[0].failures[0]}")
    scores = "the library's own scores" if options.plain else "the scores of training"
    print(f"reasoning-gym {library.version} from {library.path}; {scores}\n")
    listed = gameable_tasks(strict_rewards=True)
    print(format_table(audits, listed))
    _save(output, {"scores": scores, "seed": options.seed, **make_report(audits, listed, library)})
    print(f"\nall numbers are in {output}")
    print(conclude(audits, listed))
    return int(any(verifier(audit, listed) is Result.FAILS for audit in audits))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="audit", description="Probe every task's verifier with right, nearly right and meaningless answers."
    )
    parser.add_argument("--tasks", default="", metavar="NAME,NAME", help=f"default: all but {COMPOSITE}")
    parser.add_argument("--items", type=int, default=20, metavar="N", help="problems a task (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=42, help="another one draws other problems (default: %(default)s)")
    parser.add_argument(
        "--output", default=DEFAULT_OUTPUT, metavar="PATH", help="JSON file, or a folder for it (default: %(default)s)"
    )
    parser.add_argument("--plain", action="store_true", help="audit the library's own scores, not those of training")
    options = parser.parse_args(argv)
    if not 1 <= options.items <= MAX_ITEMS or options.seed < 0:
        parser.error(f"--items must be between 1 and {MAX_ITEMS} and --seed at least 0")
    options.tasks = [name.strip() for name in options.tasks.split(",") if name.strip()]
    return options


def _output_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or text.endswith(os.sep):
        path = path / DEFAULT_OUTPUT
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output: the folder {path.parent} cannot be made: {error.strerror}") from error
    return path


async def _audit(settings: PoolSettings, options: argparse.Namespace) -> tuple[LibraryInfo, list[TaskAudit]]:
    pool = WorkerPool(settings)

    async def work() -> tuple[LibraryInfo, list[TaskAudit]]:
        library = await pool.start()
        for warning in library.warnings:
            logger.warning("%s", warning)
        available = [task.name for task in library.tasks]
        tasks = select_tasks(
            library.tasks, options.tasks, () if options.tasks else [COMPOSITE] if COMPOSITE in available else ()
        )
        params = task_params(tasks, available)
        return library, await audit_tasks(pool, tasks, params, items=options.items, seed=options.seed)

    return await run_until_signal(work, pool.close)


def verifier(audit: TaskAudit, listed: Collection[str]) -> Result:
    """The result of a task; `listed` are those that are known to fail."""
    if not audit.items:
        return Result.NOT_PROBED
    if audit.task in listed:
        return Result.LISTED if audit.offences else Result.LISTED_PASSES
    return Result.FAILS if audit.offences else Result.PASSES


def format_table(audits: Sequence[TaskAudit], listed: Collection[str]) -> str:
    """A line for each task, and below them what needs more words."""
    rows = [HEADINGS, *(_row(audit, verifier(audit, listed)) for audit in audits)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if heading in NUMBERS else cell.ljust(width)
            for cell, width, heading in zip(row, widths, HEADINGS, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join(
        [
            *lines,
            "",
            f"PAID: on this share of the items that answer earns {HIGH_SCORE:g} or more",
            *_notes(audits, listed),
        ]
    )


def _row(audit: TaskAudit, result: Result) -> tuple[str, ...]:
    worst = audit.worst
    return (
        audit.task,
        str(audit.items),
        _mean(audit.tallies.get(ORACLE)),
        _mean(audit.tallies.get(PERTURBED)),
        worst or "-",
        _mean(audit.tallies[worst]) if worst else "-",
        f"{audit.share(worst):.0%}" if worst else "-",
        f"{1000 * audit.slowest_s:.1f}",
        ", ".join(f"{reason.value} {count}" for reason, count in audit.escaped.items() if count) or "-",
        result.value,
    )


def _mean(tally: Tally | None) -> str:
    return "-" if tally is None else f"{tally.mean:.2f}"


def _notes(audits: Sequence[TaskAudit], listed: Collection[str]) -> list[str]:
    notes = [
        f"{audit.task}: {len(audit.failures)} problems failed, the first: {audit.failures[0]}"
        for audit in audits
        if audit.failures
    ]
    guesses = [
        f"{audit.task} ({audit.share(MOST_FREQUENT):.0%})"
        for audit in audits
        if audit.share(MOST_FREQUENT) > MOST and not audit.offences
    ]
    if guesses:
        notes.append(f"one and the same answer is good on most items of: {', '.join(guesses)}")
    cured = [audit.task for audit in audits if verifier(audit, listed) is Result.LISTED_PASSES]
    if cured:
        notes.append(f"no longer fails, and can be taken off the list: {', '.join(cured)}")
    return notes


def conclude(audits: Sequence[TaskAudit], listed: Collection[str]) -> str:
    """One line: that the audit passed, or which tasks fail it, with their worst kinds and numbers."""
    failed = [audit for audit in audits if verifier(audit, listed) is Result.FAILS]
    if not failed:
        probed = sum(verifier(audit, listed) in (Result.PASSES, Result.LISTED_PASSES) for audit in audits)
        return f"audit passed: {probed} of {len(audits)} tasks pay for no meaningless answer on most items"
    return f"audit failed: {'; '.join(map(_describe_failure, failed))}"


def _describe_failure(audit: TaskAudit) -> str:
    kind, *others = audit.offences
    tally = audit.tallies[kind]
    more = f" (and for {len(others)} more)" if others else ""
    return f"{audit.task} pays {tally.mean:.2f} for {kind!r}, and well on {tally.paid} of {audit.items} items{more}"


def make_report(audits: Sequence[TaskAudit], listed: Collection[str], library: LibraryInfo) -> dict[str, Any]:
    """Every number, in a form that JSON can hold."""
    return {
        "library": {"version": library.version, "path": library.path},
        "failed": [audit.task for audit in audits if verifier(audit, listed) is Result.FAILS],
        "tasks": {
            audit.task: {
                "result": verifier(audit, listed).value,
                "items": audit.items,
                "failures": list(audit.failures),
                "offences": audit.offences,
                "slowest_ms": 1000 * audit.slowest_s,
                "escaped": {reason.value: count for reason, count in audit.escaped.items()},
                "kinds": {kind: _numbers(audit, kind) for kind in ROLES if kind in audit.tallies},
            }
            for audit in audits
        },
    }


def _numbers(audit: TaskAudit, kind: str) -> dict[str, Any]:
    tally = audit.tallies[kind]
    best = tally.best
    return {
        "role": ROLES[kind].value,
        "items": len(tally.scores),
        "mean": tally.mean,
        "share_paid": audit.share(kind),
        "slowest_ms": 1000 * tally.slowest_s,
        "reasons": {reason.value: count for reason, count in sorted(tally.reasons.items())},
        "best": best
        and {"seed": tally.best_seed, "score": best.score, "answer": (best.answer or "")[:EXAMPLE_CHARACTERS]},
    }


def _save(path: Path, report: dict[str, Any]) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    os.replace(part, path)

"""The `audit` command: a table of what every task's verifier pays for right, nearly right and meaningless answers.

It fails when a task pays for one kind of meaningless answer on most problems, so that a new release of the library can
be checked by a machine.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..errors import ConfigError, WorkerError
from ..folders import find_checkout
from ..library_facts import COMPOSITE, gameable_tasks
from ..records import LibraryInfo
from ..tasks.sampling import evaluation_spec
from ..terminal import print_table
from ..workers.pool import PoolSettings
from .measuring import measure_each, open_library, run_measurement
from .verifier_probes import HIGH_SCORE, MOST, MOST_FREQUENT, ORACLE, PERTURBED, ROLES, Tally, TaskAudit, audit_task

DEFAULT_OUTPUT = "audit.json"
MAX_ITEMS = 10_000
TASKS_AT_ONCE = 6
"""Enough to keep all workers busy, few enough to bound what is kept in memory."""
EXAMPLE_CHARACTERS = 200
HEADINGS = ("TASK", "ITEMS", "ORACLE", "PERTURBED", "WORST ANSWER", "MEAN", "PAID", "MAX MS", "ESCAPED", "RESULT")
NUMBERS = {"ITEMS", "ORACLE", "PERTURBED", "MEAN", "PAID", "MAX MS"}
LEGEND = f"""
WORST ANSWER: the kind of meaningless answer that earns most, with its mean score
PAID: share of the items on which it earns {HIGH_SCORE:g} or more; ESCAPED: answers at which the verifier failed"""


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
    library, audits = run_measurement(lambda: _audit(settings, options.tasks, options.items, options.seed))
    if not any(audit.items for audit in audits):
        raise WorkerError(f"no problem of {len(audits)} tasks could be probed; the first: {audits[0].failures[0]}")
    listed = gameable_tasks(strict_rewards=True)
    results = {audit.task: result_of(audit, listed) for audit in audits}
    scores = "the library's own scores" if options.plain else "the scores of training"
    print(f"reasoning-gym {library.version} from {library.path}; {scores}\n")
    print_table(HEADINGS, [_row(audit, results[audit.task]) for audit in audits], numbers=NUMBERS)
    print(LEGEND, *_notes(audits, results), sep="\n")
    _save(output, {"scores": scores, "seed": options.seed, **make_report(audits, results, library)})
    print(f"\nall numbers are in {output}")
    print(conclude(audits, results))
    return int(Result.FAILS in results.values())


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


async def _audit(
    settings: PoolSettings, names: Sequence[str], items: int, seed: int
) -> tuple[LibraryInfo, list[TaskAudit]]:
    async with open_library(settings, names) as library:

        async def audit(task: str) -> TaskAudit:
            params = library.params.get(task)
            specs = [evaluation_spec(task, number, 0, run_seed=seed, params=params) for number in range(items)]
            return await audit_task(library.pools[0], task, specs)

        tasks = [task for task in library.tasks if names or task != COMPOSITE]
        return library.info, await measure_each("audit", tasks, audit, at_once=TASKS_AT_ONCE)


def result_of(audit: TaskAudit, listed: Collection[str]) -> Result:
    """Return the result of a task; `listed` are those that are known to fail."""
    if not audit.items:
        return Result.NOT_PROBED
    if audit.task in listed:
        return Result.LISTED if audit.exploits else Result.LISTED_PASSES
    return Result.FAILS if audit.exploits else Result.PASSES


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


def _notes(audits: Sequence[TaskAudit], results: Mapping[str, Result]) -> list[str]:
    notes = [
        f"{audit.task}: {len(audit.failures)} problems failed, the first: {audit.failures[0]}"
        for audit in audits
        if audit.failures
    ]
    guesses = [
        f"{audit.task} ({audit.share(MOST_FREQUENT):.0%})"
        for audit in audits
        if audit.share(MOST_FREQUENT) > MOST and not audit.exploits
    ]
    if guesses:
        notes.append(f"one and the same answer is good on most items of: {', '.join(guesses)}")
    fixed = [task for task, result in results.items() if result is Result.LISTED_PASSES]
    if fixed:
        notes.append(f"no longer fails, and can be taken off the list: {', '.join(fixed)}")
    return notes


def conclude(audits: Sequence[TaskAudit], results: Mapping[str, Result]) -> str:
    """Say in one line that the audit passed, or which tasks fail it, with their worst kinds and numbers."""
    failed = [audit for audit in audits if results[audit.task] is Result.FAILS]
    if not failed:
        passed = sum(result in (Result.PASSES, Result.LISTED_PASSES) for result in results.values())
        return f"audit passed: {passed} of {len(audits)} tasks pay for no meaningless answer on most items"
    return f"audit failed: {'; '.join(map(_describe_failure, failed))}"


def _describe_failure(audit: TaskAudit) -> str:
    kind, *others = audit.exploits
    tally = audit.tallies[kind]
    more = f" (and for {len(others)} more)" if others else ""
    return f"{audit.task} pays {tally.mean:.2f} for {kind!r}, and well on {tally.paid} of {audit.items} items{more}"


def make_report(audits: Sequence[TaskAudit], results: Mapping[str, Result], library: LibraryInfo) -> dict[str, Any]:
    """Return every number, in a form that JSON can hold."""
    return {
        "library": {"version": library.version, "path": library.path},
        "failed": [task for task, result in results.items() if result is Result.FAILS],
        "tasks": {
            audit.task: {
                "result": results[audit.task].value,
                "items": audit.items,
                "failures": list(audit.failures),
                "exploits": audit.exploits,
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

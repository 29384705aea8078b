"""The `rescore` command: judge the completions of dumps, process files and evaluations again, and show the changes."""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from ..data.verdict_files import judge_rows
from ..dumps.reader import DumpedGroup
from ..errors import ConfigError, GenerationError, InvalidReferenceError, ScoringError
from ..metrics.outcomes import Tally
from ..prompts.thinking import TAGS, named_thinking
from ..records import Problem, Verdict
from ..reports.runs import StoredRun, find_runs
from ..runtime.terminal import Table, print_json, progress_bar
from ..runtime.text import visible
from ..session import Session
from ..storage.folders import find_checkout
from .parser import Command, CommandParser
from .running import run_to_end
from .shared_options import add_config_option, add_selection_options, file_settings, read_selection


@dataclass(frozen=True)
class Change:
    """A completion whose score changed."""

    task: str
    seed: int | None
    before: float
    after: float
    reason: str
    answer: str | None


@dataclass
class Rescored:
    """Scores by task before and after, the completions whose score changed, and the groups left out, by reason."""

    before: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    after: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    changes: list[Change] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, group: DumpedGroup, verdicts: Sequence[Verdict]) -> None:
        task = group.item_id
        for rollout, verdict in zip(group.rollouts, verdicts, strict=True):
            before = rollout.judged_score
            self.before[task].add(before)
            self.after[task].add(verdict.score)
            if not math.isclose(verdict.score, before, abs_tol=1e-6):
                answer = verdict.answer or rollout.answer
                self.changes.append(Change(task, group.seed, before, verdict.score, verdict.reason.value, answer))

    def tables(self) -> dict[str, Table]:
        changed = Counter(change.task for change in self.changes)
        rows = [
            (task, before.count, before.mean, self.after[task].mean, changed[task])
            for task, before in sorted(self.before.items())
        ]
        scores = {"BEFORE": ".3f", "AFTER": ".3f"}
        changes = [astuple(change) for change in self.changes]
        return {
            "changes": Table({"TASK": "", "SEED": "d", **scores, "REASON": "", "ANSWER": ""}, changes),
            "tasks": Table({"TASK": "", "ROLLOUTS": "d", **scores, "CHANGED": "d"}, rows),
        }


def _add_options(parser: CommandParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file, or a folder of files")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the rows with their scores, or rows to train on (--keep); ends in .jsonl or .parquet",
    )
    add_selection_options(parser)
    add_config_option(parser)


def _rescore(options: argparse.Namespace, folder: Path) -> int:
    """Print each completion whose score changed, and a row for each task; or write rows with scores.

    Returns 1 if every row is left out, else 0.

    Raises ConfigError where there is no group, and WorkerError where the workers cannot be started.
    """
    selection = read_selection(vars(options))
    for name in ("keep", "pass_rate"):
        if getattr(options, name) is not None and options.out is None:
            raise ConfigError(f"--{name.replace('_', '-')} goes with --out")
    runs = find_runs(options.paths) if options.out is None else []
    settings = file_settings(options, {"worker_niceness": 0, "reference_deadline_s": 60.0}, {})
    if options.out is not None:
        session = Session(settings, checkout=find_checkout(folder))
        with progress_bar("rescore", None) as advance:
            card = run_to_end(
                lambda: judge_rows(
                    session,
                    options.paths,
                    options.out,
                    selection=selection,
                    command=options.command_line,
                    on_row=advance,
                )
            )
        _print_card(card, options.out)
        return 0 if card["rows"] or not card["left_out"] else 1
    rescored = run_to_end(lambda: rescore(runs, Session(settings, checkout=find_checkout(folder))))
    faults = [fault for run in runs for fault in run.faults]
    if not rescored.before and not rescored.left_out:
        raise ConfigError(
            "; ".join([f"{options.paths[0]} holds no group", *faults[:3]]),
            remedy="rows of completions need --out FILE, and a file of problems has no completions",
        )
    rescored.left_out.update(faults)
    tables = rescored.tables()
    if options.json:
        print_json({name: table.records() for name, table in tables.items()} | {"left_out": dict(rescored.left_out)})
        return 0
    for table in tables.values():
        table.print()
    for reason, count in rescored.left_out.items():
        print(f"left out: {count} x {visible(reason)}")
    rollouts = sum(tally.count for tally in rescored.before.values())
    print(f"{len(rescored.changes)} of {rollouts} answers are judged differently")
    return 0


def _print_card(card: Mapping[str, Any], out: Path) -> None:
    for reason, facts in card["left_out"].items():
        first = f"first in {visible(facts['first_file'])}, row {facts['first_row']}"
        print(f"left out: {facts['rows']} x {visible(reason)} ({first}: {visible(facts['first'])})")
    if card["without_score"]:
        print(f"{card['without_score']} rows could not be judged, and have no score")
    if card["outside"]:
        print(f"{card['outside']} rows have another pass rate than --pass-rate asks for")
    print(f"{out}: {card['rows']} rows")


async def rescore(runs: Sequence[StoredRun], session: Session[Problem]) -> Rescored:
    """Judge the completions of every group again, and close the session. A group that cannot be judged is left out."""
    rescored = Rescored()
    async with session:
        with progress_bar("rescore", None) as advance:
            for run in runs:
                for group in run.groups():
                    advance()
                    try:
                        rescored.add(group, await judge_again(session, group))
                    except InvalidReferenceError as error:
                        rescored.left_out[f"{group.item_id}: {error.problem}"] += 1
                    except (ConfigError, GenerationError, ScoringError) as error:
                        rescored.left_out[str(error)] += 1
    return rescored


async def judge_again(session: Session[Problem], group: DumpedGroup) -> Sequence[Verdict]:
    """Judge a line's completions.

    Raises the errors of `Session.judge`, and ConfigError for a line without a reference or without completions.
    """
    if not group.rollouts:
        raise ConfigError(f"{group.item_id}: the line has no completion")
    if group.reference is None:
        raise ConfigError(f"{group.item_id}: the line has no reference, from which its problem is made")
    texts = [rollout.conversation[-1]["content"] for rollout in group.rollouts]
    thinking = TAGS if group.thinking_formats is None else named_thinking(group.thinking_formats)
    return await session.judge(group.reference, texts, thinking=thinking)


rescore_command = Command(
    "rescore",
    "Judge stored completions again, and show the changes.",
    _add_options,
    _rescore,
)

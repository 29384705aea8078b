"""The `rescore` command: judge the answers of dumps, process files and evaluations again, and show what changed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ..dumps.reader import DumpedGroup
from ..errors import ConfigError, GenerationError, ScoringError
from ..library_facts import COMPOSITE
from ..metrics.outcomes import Tally
from ..prompts.thinking import TAGS, named_thinking
from ..records import ProblemSpec, Split, Verdict
from ..reports.library import OpenLibrary, open_library, run_measurement
from ..reports.runs import find_runs
from ..rewards import score_texts
from ..runtime.terminal import Table, print_json, progress_bar, visible
from ..settings import ReasoningSettings
from ..storage.folders import find_checkout
from ..workers.pool import PoolSettings
from .options import CommandParser


def rescore_command(argv: Sequence[str], folder: Path) -> int:
    """Print a row for each task and each answer that is judged differently; `folder` may hold a checkout.

    Raises ConfigError where there is nothing to judge, and WorkerError where the workers cannot be started.
    """
    parser = CommandParser(prog="rescore", description="Judge stored answers again, and show what changed.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file, or a folder of files")
    parser.add_argument("--plain", action="store_true", help="the library's own scores, not those of training")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(argv)
    runs = find_runs(options.paths)
    before, after = defaultdict[str, Tally](Tally), defaultdict[str, Tally](Tally)
    changes: list[tuple[Any, ...]] = []
    left_out: Counter[str] = Counter()

    async def judge_all() -> None:
        settings = PoolSettings(checkout=find_checkout(folder), strict_rewards=not options.plain, niceness=0)
        async with open_library(settings, []) as library:
            with progress_bar("rescore", None) as advance:
                for group in chain.from_iterable(run.groups() for run in runs):
                    advance()
                    try:
                        verdicts = await judge_again(library, group)
                    except (ConfigError, GenerationError, ScoringError) as error:
                        left_out[str(error)] += 1
                        continue
                    for rollout, verdict in zip(group.rollouts, verdicts, strict=True):
                        before[group.item_id].add(rollout.judged_score)
                        after[group.item_id].add(verdict.score)
                        if not math.isclose(verdict.score, rollout.judged_score, abs_tol=1e-6):
                            answer = verdict.answer or rollout.answer
                            scores = (rollout.judged_score, verdict.score)
                            changes.append((group.item_id, group.seed, *scores, verdict.reason.value, answer))

    run_measurement(judge_all)
    faults = [fault for run in runs for fault in run.faults]
    if not before and not left_out:
        raise ConfigError("; ".join([f"{options.paths[0]} holds no group", *faults[:3]]))
    left_out.update(faults)
    changed = Counter(task for task, *_ in changes)
    rows = [(task, before[task].count, before[task].mean, after[task].mean, changed[task]) for task in sorted(before)]
    scores = {"BEFORE": ".3f", "AFTER": ".3f"}
    tables = {
        "changes": Table({"TASK": "", "SEED": "d", **scores, "REASON": "", "ANSWER": ""}, changes),
        "tasks": Table({"TASK": "", "ROLLOUTS": "d", **scores, "CHANGED": "d"}, rows),
    }
    if options.json:
        print_json({name: table.records() for name, table in tables.items()} | {"left_out": dict(left_out)})
        return 0
    for table in tables.values():
        table.print()
    for reason, count in left_out.items():
        print(f"left out: {count} x {visible(reason)}")
    print(f"{len(changes)} of {sum(tally.count for tally in before.values())} answers are judged differently")
    return 0


async def judge_again(library: OpenLibrary, group: DumpedGroup) -> Sequence[Verdict]:
    """Make a line's problem again and judge its completions; raises ConfigError where that problem cannot be had."""
    if group.seed is None or not group.rollouts:
        raise ConfigError(f"a line of {group.item_id} has no seed or no completion")
    # The parameters that made the problem say everything but a composite's level, which its members follow.
    level = group.level if group.item_id == COMPOSITE else None
    spec = ProblemSpec(group.item_id, group.seed, Split.TRAIN, 0, params=group.params, level=level, as_is=True)
    if group.dataset_size:
        spec = replace(spec, item=group.item or 0, dataset_size=group.dataset_size)
    defaults = ReasoningSettings()
    problem = await library.pool.generate(spec, defaults.eval_generation_deadline_s)
    *prompt, _ = group.rollouts[0].conversation
    if not any(problem.question in message["content"] for message in prompt):
        raise ConfigError(f"{group.item_id} has another question now")
    texts = [rollout.conversation[-1]["content"] for rollout in group.rollouts]
    thinking = TAGS if group.thinking_formats is None else named_thinking(group.thinking_formats)
    return await score_texts(library.pool, problem, texts, defaults.max_answer_bytes, thinking)

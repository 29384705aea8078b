"""Measure what rejections cost and what they are for: `python -m tools.rejections --count 1000`.

Draws problems of each task that rejects some, or that is served with other parameters than the library's: as the
library makes them, and as they are served. Prints a table: how many draws are rejected and why, what is done, what a
served problem costs, and what the best single policy earns on both. Policies are the most frequent answer, copies of a
part of the question, and a tree over the question's surface that is learnt on half of the problems.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from reasoning_audit.learner import score_best_tree
from reasoning_env.answers.shortcuts import copies, same_content
from reasoning_env.records import ProblemRequest
from reasoning_env.sources.contract import Generated
from reasoning_env.tasks import Task
from reasoning_env.workers.library import Library

from .running import draw_parser, drawn_tasks, fast_library, run_tool

HEAD = """| task | draws rejected, by cause | what is done | ms | best policy, library's | served |
| --- | --- | --- | --- | --- | --- |"""


def main(argv: Sequence[str] | None = None) -> int:
    options = draw_parser(__doc__, count=1000).parse_args(argv)
    library = fast_library()
    print(HEAD)
    for task, seeds in drawn_tasks(library, options, "rejections"):
        if task.rejected or task.served_params or task.failure:
            print(_row(library, task, seeds, options.level), flush=True)
    return 0


def _row(library: Library, task: Task, seeds: Sequence[int], level: float | None) -> str:
    """Return the table's row of a task; problems with which the library ends in an error are no problems."""
    raw = []
    for seed in seeds:
        try:
            raw.append(library.generate(ProblemRequest(task.name, seed, {}, level, exact_seed=True)))
        except BaseException as error:
            if task.failure is None or not isinstance(error, task.failure.errors):
                raise
    start = time.process_time()
    served = [library.generate(ProblemRequest(task.name, seed, {}, level)) for seed in seeds]
    cost_ms = 1000 * (time.process_time() - start) / len(served)
    flawed = Counter[str]()
    for one in served:
        flawed.update(one.flawed)
    draws = len(served) + flawed.total()
    causes = ", ".join(f"{count / draws:.2f} {cause}" for cause, count in flawed.most_common())
    earned = f"{best_policy(task, raw)} | {best_policy(task, served)}"
    return f"| `{task.name}` | {causes or 'none'} | {what_is_done(task)} | {cost_ms:.1f} | {earned} |"


def what_is_done(task: Task) -> str:
    """Say what is rejected, how much of it is served all the same, and which parameters moved."""
    said = [f"{rule.reason} ({rule.served:g} served)" if rule.served else rule.reason for rule in task.rejected]
    said += [task.failure.reason] if task.failure is not None else []
    said += [", ".join(f"`{name}` {value}" for name, value in task.served_params.items())] if task.served_params else []
    return "; ".join(said)


def best_policy(task: Task, problems: Sequence[Generated]) -> str:
    """Return the policy that earns most and its share of right answers; a dash where no right answer is known."""
    answered = [(one.question, one.answer) for one in problems if one.answer is not None]
    if not answered:
        return "-"
    options = [option(task, one) for one in problems if one.answer is not None]
    frequent, times = Counter(options).most_common(1)[0]
    earned = {f"always {frequent[:12]}": times / len(options)}
    earned["a tree"] = fmean(score_best_tree([question for question, _ in answered], options))
    copied = Counter(name for question, answer in answered for name in _right_copies(question, answer))
    if not task.options and copied:
        name, count = copied.most_common(1)[0]
        earned[name] = count / len(answered)
    best = max(earned, key=earned.__getitem__)
    return f"{earned[best]:.2f} {best}"


def _right_copies(question: str, answer: str) -> list[str]:
    return [name for name, part in copies(question).items() if same_content(part, answer)]


def option(task: Task, one: Generated) -> str:
    """Return which option the right answer of a problem is."""
    metadata: Mapping[str, object] = json.loads(one.metadata_json)
    return task.option({"question": one.question, "answer": one.answer, "metadata": metadata})


if __name__ == "__main__":
    run_tool(main)

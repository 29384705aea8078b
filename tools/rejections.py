"""Measure the cost and the effect of rejections: `python -m tools.rejections --count 1000`.

Generates problems of each task that rejects some or has other parameters than the library's: as the library makes them,
and as they are served. Prints a table: the share of rejected draws by cause, the rules, the processor time of a served
problem, and what the best policy earns on both kinds of problems. The policies are the most frequent answer, copies of
a part of the question, and a decision tree over the question's surface, learned on half of the problems.
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

HEAD = """| task | rejected draws, by cause | rules | ms | best policy on the library's problems | on served problems |
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
    """Return the table's row of a task. Seeds on which the library raises an error do not count."""
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
    """Return the rules in words: what is rejected, which share is served nevertheless, and other parameters."""
    said = [f"{rule.reason} ({rule.served:g} served)" if rule.served else rule.reason for rule in task.rejected]
    said += [task.failure.reason] if task.failure is not None else []
    said += [", ".join(f"`{name}` {value}" for name, value in task.served_params.items())] if task.served_params else []
    return "; ".join(said)


def best_policy(task: Task, problems: Sequence[Generated]) -> str:
    """Return the best policy and its share of right answers; a dash if no right answer is known."""
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
    """Return the option that is the right answer of a problem."""
    metadata: Mapping[str, object] = json.loads(one.metadata_json)
    return task.option({"question": one.question, "answer": one.answer, "metadata": metadata})


if __name__ == "__main__":
    run_tool(main)

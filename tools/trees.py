"""Measure what trees over the surface of questions earn: `python -m tools.trees --level 0 --tasks aiw --count 2000`.

Draws served problems of each task, learns a tree on one half, has it name the answers of the other half, and the other
way round. Prints a row of the table in `docs/rewards.md` for each task in which a tree earns more than the bound: the
share of right answers, the bound, and what the tree of the first half asks. Text answers and boards seldom come twice:
no tree names them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from statistics import fmean

from reasoning_audit.learner import Leaf, Tree, learn, score_best_tree, surface_features
from reasoning_audit.scores import TaskAudit
from reasoning_env.records import ProblemRequest
from reasoning_env.seeds import hash_int
from reasoning_env.tasks import COMPOSITE, find_task
from reasoning_env.workers.faster import FasterGenerators
from reasoning_env.workers.library import Library

from .rejections import option
from .running import choose_tasks, run_tool

HEAD = """| task | level | problems | a tree earns | bound | the tree asks for |
| --- | --- | --- | --- | --- | --- |"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="*", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=2000, help="problems of each task (default: %(default)s)")
    parser.add_argument("--level", type=float, help="a level from 0 to 1 (default: the library's defaults)")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other problems (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help="print a row for each task, not only those over the bound")
    options = parser.parse_args(argv)
    library = Library(None)
    FasterGenerators(library.module, library.tasks).install()
    print(HEAD)
    for task in choose_tasks(options.tasks):
        if task == COMPOSITE or (options.level is not None and not library.tasks[task].has_levels):
            continue
        seeds = [hash_int("trees", options.seed, task, number) % (1 << 31) for number in range(options.count)]
        problems = [library.generate(ProblemRequest(task, seed, {}, options.level)) for seed in seeds]
        answered = [one for one in problems if one.answer is not None]
        if not answered:
            continue
        declared = find_task(task)
        named = [option(declared, one) for one in answered]
        questions = [one.question for one in answered]
        earned = fmean(score_best_tree(questions, named))
        bound = TaskAudit(task, options.level, 0, {}, options=declared.options).bound
        if options.all or earned > bound:
            level = "defaults" if options.level is None else f"{options.level:g}"
            half = len(named) // 2
            asked = "; ".join(dict.fromkeys(_features(learn(surface_features(questions[:half]), named[:half]))))
            print(f"| `{task}` | {level} | {len(named)} | {earned:.2f} | {bound:.2f} | {asked} |", flush=True)
    return 0


def _features(tree: Tree) -> Iterator[str]:
    """Yield the features that a tree asks for, from its first question on."""
    if not isinstance(tree, Leaf):
        yield tree.feature
        yield from _features(tree.below)
        yield from _features(tree.above)


if __name__ == "__main__":
    run_tool(main)

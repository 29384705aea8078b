"""Measure what decision trees earn: `python -m tools.trees --level 0 --tasks aiw --count 2000`.

Generates served problems of each task, learns a tree on one half and predicts the answers of the other half, and the
other way round. Prints a table row for each task in which a tree earns more than the bound: the share of right answers,
the bound, and the features of the first half's tree. A tree can only predict answers that repeat, so texts and boards
score nearly 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from reasoning_audit.learner import Leaf, Tree, learn, score_best_tree, surface_features
from reasoning_audit.scores import TaskAudit
from reasoning_env.records import ProblemRequest

from .rejections import option
from .running import draw_parser, drawn_tasks, fast_library, run_tool

HEAD = """| task | level | problems | a tree earns | bound | the tree uses |
| --- | --- | --- | --- | --- | --- |"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = draw_parser(__doc__, count=2000)
    parser.add_argument(
        "--all", action="store_true", help="print a row for each task, even if the tree earns at most the bound"
    )
    options = parser.parse_args(argv)
    library = fast_library()
    print(HEAD)
    for task, seeds in drawn_tasks(library, options, "trees"):
        problems = [library.generate(ProblemRequest(task.name, seed, {}, options.level)) for seed in seeds]
        answered = [one for one in problems if one.answer is not None]
        if not answered:
            continue
        named = [option(task, one) for one in answered]
        questions = [one.question for one in answered]
        earned = fmean(score_best_tree(questions, named))
        bound = TaskAudit(task.name, options.level, 0, {}, options=task.options).bound
        if options.all or earned > bound:
            level = "defaults" if options.level is None else f"{options.level:g}"
            half = len(named) // 2
            asked = "; ".join(dict.fromkeys(_features(learn(surface_features(questions[:half]), named[:half]))))
            print(f"| `{task.name}` | {level} | {len(named)} | {earned:.2f} | {bound:.2f} | {asked} |", flush=True)
    return 0


def _features(tree: Tree) -> Iterator[str]:
    """Yield the features that a tree uses, from its first test on."""
    if not isinstance(tree, Leaf):
        yield tree.feature
        yield from _features(tree.below)
        yield from _features(tree.above)


if __name__ == "__main__":
    run_tool(main)

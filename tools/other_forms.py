"""Count right answers in other forms: `python -m tools.other_forms FOLDER --tasks products,caesar_cipher`.

FOLDER has the result files of the published evaluations, MODEL/CATEGORY/TASK.json under `easy` and `hard`. The tool
scores each completion three times: with strict rewards, with strict rewards that read the answer as written, and with
the library's verifier. It prints the share of right answers that are rejected as written, by model and task. Then it
prints the forms of these answers: the removed formatting or the notation of the value.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reasoning_env.answers.scoring import Scorer
from reasoning_env.workers.library import Library

from .frozen_published import PRESETS, published_answers, scorers
from .running import choose_tasks, run_tool

TASKS = "simple_geometry,group_anagrams,simple_equations,caesar_cipher,products"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="published answers, in the files of a folder")
    parser.add_argument("--tasks", default=TASKS, metavar="NAME,NAME", help="patterns of tasks (default: %(default)s)")
    options = parser.parse_args(argv)
    tasks = choose_tasks(options.tasks)
    library = Library(None)
    right, refused, by_library = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    forms: dict[tuple[str, str], list[str]] = defaultdict(list)
    for preset in PRESETS:
        for task in tasks:
            by_question = scorers(library, preset, task)
            for one in published_answers(options.folder, preset, task):
                model, answer = one.evaluation.partition("_")[2].rsplit("_", 2)[0], one.answer
                scorer = by_question.get(one.question)
                if not isinstance(scorer, Scorer) or _score(scorer, answer) < 1.0:
                    continue
                form = ", ".join(scorer.frames) or "another notation"
                right[model, task] += 1
                by_library[model, task] += _score(replace(scorer, strict=False, accepts_forms=False), answer) < 1.0
                if _score(replace(scorer, accepts_forms=False), answer) < 1.0:
                    refused[model, task] += 1
                    forms[task, form].append(answer)
    _print_tables(tasks, right, refused, by_library, forms)
    return 0


def _score(scorer: Scorer, answer: str) -> float:
    try:
        return scorer.score(answer)
    except Exception:  # the library's verifier cannot read the text
        return 0.0


def _print_tables(
    tasks: Sequence[str],
    right: Counter[tuple[str, str]],
    refused: Counter[tuple[str, str]],
    by_library: Counter[tuple[str, str]],
    forms: dict[tuple[str, str], list[str]],
) -> None:
    models = sorted({model for model, _ in right})
    print(
        "| model | right answers | rejected as written | rejected by the library | "
        + " | ".join(f"`{task}`" for task in tasks)
        + " |"
    )
    print("| --- " * (4 + len(tasks)) + "|")
    for model in models:
        sums = [sum(count[model, task] for task in tasks) for count in (right, refused, by_library)]
        shares = [f"{refused[model, task] / (right[model, task] or 1):.2f}" for task in tasks]
        print(f"| {model} | {sums[0]} | {sums[1] / sums[0]:.2f} | {sums[2] / sums[0]:.2f} | {' | '.join(shares)} |")
    print("\n| task | form | answers | for example |\n| --- | --- | --- | --- |")
    for (task, form), answers in sorted(forms.items(), key=lambda row: (row[0][0], -len(row[1]))):
        example = " ".join(min(answers, key=len).split())[:60].replace("|", "/")
        print(f"| `{task}` | {form} | {len(answers)} | `{example}` |")


if __name__ == "__main__":
    run_tool(main)

"""Find published answers on which models agree, but which score nearly 0: `python -m tools.agreed_answers FOLDER`.

FOLDER has the result files of the presets' source. The files have no metadata, so the tool generates the problems again
from the presets' seeds and parameters, and skips questions that the library no longer makes. It prints a line of JSON
for each answer that at least three models gave and that scores at most 0.1. The line says whether the problem is
served, clarified or rejected today. At the end, the tool prints the number of such questions by task.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import pickle
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reasoning_env.answers.shortcuts import FORM_SCORE
from reasoning_env.records import ProblemRequest
from reasoning_env.sources.contract import Answers
from reasoning_env.tasks import find_task
from reasoning_env.tasks.serving import find_flaw
from reasoning_env.workers.library import Library
from tests.answers.frozen_answers import open_library, score_or_zero

from .frozen_published import PRESETS, preset_requests, published_answers
from .running import choose_tasks, run_tool

AGREEING = 3
"""The fewest models that must agree."""
FAILED = ("", "error")
"""The files have this text if a model gave no answer."""


@dataclass(frozen=True)
class Asked:
    """A problem of a preset: its scorer, the right answer, and whether it is served, clarified or rejected."""

    scorer: Answers
    right: str | None
    done: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="published answers, in the files of a folder")
    parser.add_argument("--tasks", default="*", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    options = parser.parse_args(argv)
    library = open_library()
    problems: Counter[str] = Counter()
    unpaid: Counter[str] = Counter()
    for preset in PRESETS:
        for task in choose_tasks(options.tasks):
            answers = _read_answers(options.folder, preset, task)
            for request in preset_requests(preset, task):
                try:
                    with contextlib.redirect_stdout(io.StringIO()):  # some generators print
                        question, asked = _ask(library, request)
                except Exception:  # the library fails to make some of its problems
                    continue
                given = answers.pop(question, {})  # keep the first of several problems with the same question
                problems[task] += bool(given)
                agreed = {key: text for key, (text, models) in given.items() if len(models) >= AGREEING}
                scores = {text: score_or_zero(asked.scorer, text) for key, text in agreed.items() if key not in FAILED}
                lost = {text: score for text, score in scores.items() if score <= FORM_SCORE}
                for text, score in lost.items():
                    told = {"preset": preset, "task": task, "done": asked.done, "score": score}
                    print(json.dumps({**told, "answer": text, "right": asked.right, "question": question}))
                unpaid[task] += bool(lost)
    for task, count in unpaid.most_common():
        print(f"{task:28} {count:4} of {problems[task]}")
    print(f"{unpaid.total()} of {problems.total()} questions")
    return 0


def _ask(library: Library, request: ProblemRequest) -> tuple[str, Asked]:
    """Return the published question of a problem, and the problem with today's right answer."""
    made = library.generate(replace(request, uncorrected=False, clarified=False))
    clarified = library.generate(replace(request, uncorrected=False, clarified=True))
    flaw = find_flaw(find_task(request.task), pickle.loads(made.entry), made.seed)
    done = "clarified" if clarified.question != made.question else "served"
    scorer = library.scorer(request.task, made.params, made.entry, made.level)
    return made.question, Asked(scorer, made.answer, done if flaw is None else f"rejected: {flaw.reason}")


def _read_answers(folder: Path, preset: str, task: str) -> defaultdict[str, dict[str, tuple[str, set[str]]]]:
    """Return the answers to each question. The key is the text in lower case without whitespace; the value has one
    spelling and the models that gave the answer."""
    found: defaultdict[str, dict[str, tuple[str, set[str]]]] = defaultdict(dict)
    for one in published_answers(folder, preset, task):
        answer = one.answer.strip()
        found[one.question].setdefault("".join(answer.split()).lower(), (answer, set()))[1].add(one.evaluation)
    return found


if __name__ == "__main__":
    run_tool(main)

"""Compare the scores of many answers with recorded ones: `python -m tools.frozen compare --tasks gcd`.

- `record` scores all answers and writes the scores to `tests/frozen/`, one file per kind of answers.
  `tests/answers/frozen_answers.py` makes the answers.
- `compare` scores the answers again. It prints a line for each difference: kind, task, level and seed, the name and
  text of the answer, the recorded score and today's score. The status is 1 if there is a difference.
- `judge --seed 4` scores answers to other problems. It prints right answers that it rejects because of their form, and
  wrong answers that score as right. The status is 1 if a wrong answer scores as right.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from reasoning_env.seeds import hash_int
from reasoning_env.tasks import COMPOSITE
from reasoning_env.workers.library import Library
from tests.answers.contract import CONTRACT, RIGHT, breaks_contract
from tests.answers.frozen_answers import (
    KINDS,
    RUN_SEED,
    FrozenProblem,
    frozen_problem,
    is_same_score,
    open_library,
    score_or_zero,
)
from tests.answers.near_misses import in_asked_digits, is_same_answer

from .frozen_published import PRESETS, published_answers, read_scores, scorers, write_scores
from .running import choose_tasks, run_tool

FOLDER = Path(__file__).parents[1] / "tests" / "frozen"
HASH_SEED = "0"
"""PYTHONHASHSEED of the workers: the problems of some tasks depend on the hash seed."""
ABSENT = "-"
"""Marks that a problem does not have this answer."""


@dataclass(frozen=True)
class Place:
    """Problems of a task at a level."""

    task: str
    level: float | None

    def __str__(self) -> str:
        return f"{self.task} {'defaults' if self.level is None else self.level}"


Row = Mapping[str, Sequence[str]]
"""The scores of a task at a level: by name of the answer, one for each problem."""


@dataclass
class Table:
    """The recorded scores of a kind, by task and level. `names` has all names of answers, in the order of the file."""

    problems: int
    names: list[str] = field(default_factory=list)
    rows: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, kind: str) -> Table | None:
        path = FOLDER / f"{kind}.json"
        return cls(**json.loads(path.read_text())) if path.exists() else None

    def write(self, kind: str) -> None:
        """Write a line for each task and level, so that a diff of the file shows where scores changed."""
        head = f'{{"problems": {self.problems},\n"names": {json.dumps(self.names, ensure_ascii=False)},\n"rows": {{\n'
        rows = [f"{json.dumps(place)}: {json.dumps(row)}" for place, row in sorted(self.rows.items())]
        (FOLDER / f"{kind}.json").write_text(head + ",\n".join(rows) + "\n}}\n")

    def set_row(self, place: Place, row: Row) -> None:
        self.names += [name for name in row if name not in self.names]
        absent = [ABSENT] * self.problems
        scores = [score for name in self.names for score in row.get(name, absent)]
        while scores and scores[-1] == ABSENT:  # omit them, as for names that are added later
            scores.pop()
        self.rows[str(place)] = _packed(scores)

    def row(self, place: Place) -> Row:
        """Return the recorded scores of a task at a level."""
        scores = _unpacked(self.rows.get(str(place), ""))
        scores += [ABSENT] * (self.problems * len(self.names) - len(scores))
        chunks = [scores[start : start + self.problems] for start in range(0, len(scores), self.problems)]
        return {name: chunk for name, chunk in zip(self.names, chunks, strict=True) if set(chunk) != {ABSENT}}


def _packed(scores: Iterable[str]) -> str:
    """Return scores as text: `1*57 0 0.25*2`."""
    runs = [(score, len(list(run))) for score, run in groupby(scores)]
    return " ".join(f"{score}*{length}" if length > 1 else score for score, length in runs)


def _unpacked(text: str) -> list[str]:
    scores = []
    for run in text.split():
        score, _, length = run.partition("*")
        scores += [score] * int(length or 1)
    return scores


@dataclass(frozen=True)
class Sample:
    """The answers to score: one of every `one_in`, to the first problems of a task at its levels."""

    problems: int | None
    one_in: int
    defaults_only: bool

    def has(self, place: Place, number: int, name: str) -> bool:
        return self.one_in == 1 or hash_int("sample", place, number, name) % self.one_in == 0


@dataclass(frozen=True)
class Difference:
    """An answer whose score differs from the recorded score."""

    what: str
    text: str
    right: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.what}: {self.text[:300]!r} had {self.old}, has {self.new}; right is {self.right[:200]!r}"


@dataclass
class Compared:
    """The differences of a task at a level, the number of compared scores, and answers that no longer exist."""

    differences: list[Difference] = field(default_factory=list)
    scores: int = 0
    not_made: int = 0


# ------------------------------------------------------------------ work of a process


@cache
def shared_library() -> Library:
    """Open the library in this process, in a new folder, because some generators write files."""
    os.chdir(tempfile.mkdtemp())
    return open_library()


def _answers(kind: str, place: Place, number: int, run_seed: int = RUN_SEED) -> tuple[FrozenProblem, Mapping[str, str]]:
    """Return a problem and its answers by name. If the library cannot make the problem, there are no answers."""
    problem = frozen_problem(shared_library(), place.task, place.level, number, run_seed)
    try:
        return problem, KINDS[kind].texts(problem)
    except ValueError as error:
        print(f"{place}, problem {number}: {error}", file=sys.stderr)
        return problem, {}


def _record_place(kind: str, place: Place) -> Row:
    count = KINDS[kind].problems
    row: dict[str, list[str]] = {}
    for number in range(count):
        problem, answers = _answers(kind, place, number)
        for name, text in answers.items():
            row.setdefault(name, [ABSENT] * count)[number] = KINDS[kind].measure(problem, text)
    return row


def _compare_place(kind: str, place: Place, recorded: Row, sample: Sample) -> Compared:
    compared = Compared()
    count = min(KINDS[kind].problems, sample.problems or KINDS[kind].problems)
    if KINDS[kind].make is None:
        sample = replace(sample, one_in=1)  # digests are cheap, so compare all
    for number in range(count):
        wanted = {
            name: scores[number]
            for name, scores in recorded.items()
            if scores[number] != ABSENT and sample.has(place, number, name)
        }
        if not wanted:
            continue
        problem, answers = _answers(kind, place, number)
        compared.not_made += len(wanted.keys() - answers.keys())
        for name in wanted.keys() & answers.keys():
            measure = KINDS[kind].measure(problem, answers[name])
            compared.scores += 1
            if not KINDS[kind].is_same(wanted[name], measure):
                what = f"{kind} {place} seed {problem.request.seed}, {name!r}"
                compared.differences.append(Difference(what, answers[name], problem.right or "", wanted[name], measure))
    return compared


def _rescore_published(folder: Path, place: tuple[str, str], recorded: Mapping[str, str]) -> Compared:
    preset, task = place
    by_question = scorers(shared_library(), preset, task)
    compared = Compared(not_made=len(recorded))
    for answer in {answer.key: answer for answer in published_answers(folder, preset, task)}.values():
        if answer.key in recorded and answer.question in by_question:
            score = f"{score_or_zero(by_question[answer.question], answer.answer):.4g}"
            compared.scores += 1
            compared.not_made -= 1
            if not is_same_score(recorded[answer.key], score):
                what = f"published {preset} {task} {answer.key}"
                old = recorded[answer.key]
                compared.differences.append(Difference(what, answer.answer, answer.right, old, score))
    return compared


# ------------------------------------------------------------------ all tasks and levels


def _places(kind: str, tasks: Iterable[str]) -> list[Place]:
    has_levels = {task for task, known in shared_library().tasks.items() if known.has_levels}
    return [Place(task, level) for task in tasks for level in KINDS[kind].levels if level is None or task in has_levels]


def _on_all_cores(jobs: int, work: Callable[..., Any], *arguments: Sequence[Any]) -> Iterator[Any]:
    """Call a function in `jobs` processes, and yield the results in order."""
    if jobs == 1:
        yield from map(work, *arguments)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        yield from pool.map(work, *arguments)


def record(kind: str, tasks: Sequence[str], jobs: int) -> None:
    """Score all answers of a kind to problems of some tasks, and write the scores to the file of the kind."""
    table = Table.read(kind)
    if table is None or table.problems != KINDS[kind].problems:
        table = Table(KINDS[kind].problems)
    places = _places(kind, tasks)
    for place, row in zip(places, _on_all_cores(jobs, _record_place, [kind] * len(places), places), strict=True):
        table.set_row(place, row)
        print(f"{kind} {place}", file=sys.stderr)
    table.write(kind)


def compare(kind: str, tasks: Sequence[str], jobs: int, sample: Sample) -> int:
    """Print the differences of a kind, and return their number."""
    table = Table.read(kind)
    if table is None:
        print(f"{kind}: nothing is recorded")
        return 1
    places = [place for place in _places(kind, tasks) if place.level is None or not sample.defaults_only]
    recorded = [table.row(place) for place in places]
    kinds, samples = [kind] * len(places), [sample] * len(places)
    return _tell(kind, _on_all_cores(jobs, _compare_place, kinds, places, recorded, samples))


def judge(kind: str, tasks: Sequence[str], jobs: int, run_seed: int, problems: int | None) -> int:
    """Print wrongly scored answers to problems of a seed, and return how many wrong answers score as right."""
    places = _places(kind, tasks)
    count = problems or KINDS[kind].problems
    scores = 0
    broken: list[Difference] = []
    for judged in _on_all_cores(
        jobs, _judge_place, [kind] * len(places), places, [run_seed] * len(places), [count] * len(places)
    ):
        scores += judged.scores
        broken += judged.differences
        print(*judged.differences, sep="\n", end="\n" if judged.differences else "", flush=True)
    print(f"{kind}: {scores} scored, {len(broken)} with a wrong score", flush=True)
    return 0 if kind == "forms" else len(broken)


def _judge_place(kind: str, place: Place, run_seed: int, count: int) -> Compared:
    judged = Compared()
    for number in range(count):
        problem, answers = _answers(kind, place, number, run_seed)
        if problem.right is None or not answers:
            continue
        scores = {name: score_or_zero(problem.scorer, text) for name, text in answers.items()}
        right = in_asked_digits(place.task, problem.right)
        if kind == "near_misses":
            if score_or_zero(problem.scorer, right) < RIGHT:
                continue  # the solver found a right answer with less than full marks
            scores = {name: score for name, score in scores.items() if not is_same_answer(answers[name], right)}
        if kind == "wrong_forms" and scores["bare"] >= RIGHT:
            continue  # the other answer is right too
        judged.scores += len(scores)
        for name, score in scores.items():
            if breaks_contract(kind, place.task, name, score):
                what = f"{kind} {place} seed {problem.request.seed}, {name!r}"
                may_earn = "1" if kind == "forms" else "less"
                judged.differences.append(Difference(what, answers[name], problem.right, may_earn, f"{score:.4g}"))
    return judged


def rescore_published(folder: Path, tasks: Sequence[str], jobs: int, *, record: bool) -> int:
    """Score the sample of published answers again. Record the scores, or print and count the differences."""
    scores = read_scores()
    places = [(preset, task) for task in tasks for preset in PRESETS if f"{preset} {task}" in scores]
    recorded = [scores[f"{preset} {task}"] for preset, task in places]
    rescored = _on_all_cores(jobs, _rescore_published, [folder] * len(places), places, recorded)
    if not record:
        return _tell("published", rescored)
    for (preset, task), compared in zip(places, rescored, strict=True):
        for difference in compared.differences:
            scores[f"{preset} {task}"][difference.what.split()[-1]] = difference.new
    write_scores(scores)
    return 0


def _tell(kind: str, all_compared: Iterable[Compared]) -> int:
    """Print each difference, then a line of counts, and return the number of differences."""
    scores = not_made = 0
    directions: Counter[str] = Counter()
    for compared in all_compared:
        print(*compared.differences, sep="\n", end="\n" if compared.differences else "", flush=True)
        directions.update(_direction(difference) for difference in compared.differences)
        scores += compared.scores
        not_made += compared.not_made
    found = "".join(f", {count} {direction}" for direction, count in sorted(directions.items()))
    differing = directions.total()
    print(f"{kind}: {scores} compared, {differing} differ{found}; {not_made} no longer exist", flush=True)
    return differing


def _direction(difference: Difference) -> str:
    if difference.what.startswith("digests"):
        return "another problem"
    old, new = float(difference.old), float(difference.new)
    if new >= RIGHT > old:
        return "newly right"
    if old >= RIGHT > new:
        return "no longer right"
    return "partial up" if new > old else "partial down"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare", "judge"))
    parser.add_argument("--tasks", default="*", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--kind", action="append", choices=KINDS, help=f"{', '.join(KINDS)}; repeatable (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument(
        "--problems", type=int, help="number of problems per task and level (default: all recorded problems)"
    )
    parser.add_argument("--seed", type=int, default=1, help="with `judge`: seed of the problems")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="compare only one answer in N")
    parser.add_argument("--defaults", action="store_true", help="compare only problems at the library's defaults")
    parser.add_argument("--published", type=Path, metavar="FOLDER", help="published answers, in the files of a folder")
    options = parser.parse_args(argv)
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        arguments = [sys.executable, "-m", "tools.frozen", *(sys.argv[1:] if argv is None else argv)]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": HASH_SEED})
    warnings.simplefilter("ignore")
    tasks = [task for task in choose_tasks(options.tasks) if task != COMPOSITE]
    if options.published is not None:
        return min(
            1, rescore_published(options.published.absolute(), tasks, options.jobs, record=options.action == "record")
        )
    if options.action == "judge":
        asked = [kind for kind in CONTRACT if not options.kind or kind in options.kind]
        return min(1, sum(judge(kind, tasks, options.jobs, options.seed, options.problems) for kind in asked))
    kinds = options.kind or list(KINDS)
    if options.action == "record":
        for kind in kinds:
            record(kind, tasks, options.jobs)
        return 0
    sample = Sample(options.problems, options.one_in, options.defaults)
    differences = sum(compare(kind, tasks, options.jobs, sample) for kind in kinds)
    print(f"{differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    run_tool(main)

"""Check that the recorded scores of right and wrong answers are within the limits of `contract.py`.

`test_frozen.py` computes some of these scores again. The files in `tests/frozen/` have the scores for at least two
problems of every task, with the default parameters and at one level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from reasoning_env.tasks import COMPOSITE
from reasoning_env.tasks import TASKS as DECLARED
from tools.frozen import ABSENT, Place, Table

from .contract import CONTRACT, REFUSED, RIGHT, breaks_contract
from .honest_forms import KINDS, kind_of
from .near_misses import DENIED, DOUBLED, NEAR, SIGNED, STILL_RIGHT

TASKS = sorted(DECLARED.keys() - {COMPOSITE})


@dataclass(frozen=True)
class Recorded:
    """The recorded score of one answer to one problem of a task."""

    place: Place
    name: str
    number: int
    score: float

    @property
    def pair(self) -> tuple[str, str]:
        return self.place.task, self.name


@cache
def recorded(kind: str) -> list[Recorded]:
    table = Table.read(kind)
    assert table is not None
    return list(_scores(table))


def _scores(table: Table) -> Iterator[Recorded]:
    for words in table.rows:
        task, _, level = words.partition(" ")
        place = Place(task, None if level == "defaults" else float(level))
        for name, scores in table.row(place).items():
            for number, score in enumerate(scores):
                if score != ABSENT:
                    yield Recorded(place, name, number, float(score))


@pytest.mark.parametrize("kind", CONTRACT)
def test_every_task_has_recorded_scores(kind: str) -> None:
    counts = dict.fromkeys(TASKS, 0)
    for one in recorded(kind):
        counts[one.place.task] += 1
    assert {task: count for task, count in counts.items() if count < 30} == {}


@pytest.mark.parametrize("kind", CONTRACT)
def test_recorded_scores_are_high_for_right_answers_and_low_for_wrong_answers(kind: str) -> None:
    broken = [one for one in recorded(kind) if breaks_contract(kind, one.place.task, one.name, one.score)]
    assert broken == []


def test_only_the_listed_notations_of_right_answers_are_rejected() -> None:
    assert {one.pair for one in recorded("forms") if one.score < RIGHT} == REFUSED.keys()


def test_table_of_harmless_changes_has_only_known_tasks_and_changes() -> None:
    ways = {*DOUBLED, *DENIED, *SIGNED, *NEAR}
    assert STILL_RIGHT.keys() <= set(TASKS)
    assert {way for row in STILL_RIGHT.values() for way in row} <= ways


def test_table_of_answer_kinds_lists_every_task_exactly_once() -> None:
    assert sorted(" ".join(tasks for _, tasks in KINDS.values()).split()) == TASKS
    assert kind_of("gcd") == "number"

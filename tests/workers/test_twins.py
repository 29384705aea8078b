"""Frequent answers are drawn less often: options come out even, and each flaw follows from the seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from reasoning_env.workers.library import Library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("library"))
        yield Library(None)


def _served(library: Library, task: str, level: float | None, count: int = 300) -> Counter[str]:
    made = [library.generate(task, 7_919 * seed, {}, level) for seed in range(count)]
    return Counter(str(one.answer) for one in made if one.flaw is None)


@pytest.mark.parametrize(("task", "level"), [("syllogism", None), ("syllogism", 0.0), ("circuit_logic", 0.5)])
def test_two_options_come_out_even(library: Library, task: str, level: float | None) -> None:
    """At level 0 all but one in twenty syllogisms hold."""
    answers = _served(library, task, level, 1500 if level == 0.0 else 300)
    assert len(answers) == 2
    assert max(answers.values()) < 0.65 * answers.total()


@pytest.mark.parametrize(("task", "level"), [("gcd", 1.0), ("shortest_path", 1.0), ("rotten_oranges", 1.0)])
def test_no_free_answer_is_frequent(library: Library, task: str, level: float) -> None:
    answers = _served(library, task, level, 150)
    assert max(answers.values()) < 0.35 * answers.total()


def test_flaw_follows_from_the_seed_whatever_was_made_before(library: Library) -> None:
    forth = [library.generate("syllogism", seed, {}).flaw for seed in range(40)]
    back = [library.generate("syllogism", seed, {}).flaw for seed in reversed(range(40))]
    assert forth == back[::-1]
    assert 5 < forth.count(None) < 35
    assert {library.generate("syllogism", seed, {}, as_is=True).flaw for seed in range(40)} == {None}

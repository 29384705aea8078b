"""The library as workers see it: levels and parameters of one task at a time, and what no item may leave behind."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.workers.library import Library

from .support import COMPOSITE, OVERRIDES, SCORED_BY_CONFIG, running_pool, spec


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The installed library, strict, in a folder of its own: some tasks write files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("library"))
        yield Library(None)


def test_level_between_two_steps_is_that_of_the_nearest(library: Library) -> None:
    first, second = (library.generate("chain_sum", 1, {}, level) for level in (0.3, 0.3125))
    assert (first.level, second.level) == (0.3125, 0.3125)
    assert first.question == second.question


def test_level_that_the_user_s_params_refuse_gives_way(library: Library) -> None:
    made = library.generate("chain_sum", 1, {"min_terms": 7}, 0.0)
    assert made.level == 0.5
    assert (made.params["min_terms"], made.params["max_terms"]) == (7, 7)


def test_params_that_no_level_goes_with_fail_by_name(library: Library) -> None:
    with pytest.raises(ValueError, match=r'chain_sum: no level works with \{"min_terms": 99\}'):
        library.generate("chain_sum", 1, {"min_terms": 99}, 0.5)


def test_answer_is_scored_at_the_level_that_is_given(library: Library) -> None:
    made = library.generate("decimal_arithmetic", 3, {}, 0.0)
    near = str(float(made.answer or "") + 0.00005)  # within the tolerance of 4 decimal places, not of 8
    scores = [library.scorer("decimal_arithmetic", {}, made.entry, level).score(near) for level in (0.0, 1.0, 0.0)]
    assert scores == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("level", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("task", SCORED_BY_CONFIG)
def test_answer_is_scored_by_the_params_of_the_user(library: Library, task: str, level: float | None) -> None:
    library.generate(task, 0, {})
    for seed in range(3):
        made = library.generate(task, seed, OVERRIDES[task], level)
        assert library.scorer(task, OVERRIDES[task], made.entry, level).score(str(made.answer)) == 1.0


def test_precision_of_one_task_does_not_round_the_numbers_of_another(library: Library) -> None:
    made = []
    for precision in (5, 28):
        library.generate("decimal_arithmetic", 1, {"precision": precision})
        made.append(library.generate("decimal_chain_sum", 5, {}, 1.0))
    assert made[0] == made[1]


def test_item_that_draws_from_numpy_is_the_same_each_time(library: Library) -> None:
    first, second = (library.generate("codeio", 585_942_654, {"input_prediction_probability": 0.5}) for _ in range(2))
    assert pickle.loads(first.entry) == pickle.loads(second.entry)


# ------------------------------------------------------------------ checks before a run

FAULTS: list[tuple[str, Mapping[str, Any], float | None, str]] = [
    ("gcd", {"max_valu": 3}, None, "gcd: there is no parameter 'max_valu'; there is max_value, "),
    ("gcd", {"size": 3}, 0.5, "gcd: size cannot be set: every problem gets its own"),
    ("gcd", {"min_value": 0}, None, 'gcd: the library refuses {"min_value": 0} (AssertionError: min_value must be '),
    ("gcd", {"max_value": 10}, 0.5, 'gcd: the library refuses {"max_value": 10} (ValueError: gcd: no level works '),
    ("countdown", {"min_target": 9999, "max_target": 9999}, None, "countdown: the library makes no problem with "),
    ("composite", {"datasets": [{"name": "gdc"}]}, None, "composite: there is no task 'gdc'; there is gcd"),
]


@pytest.mark.parametrize(("task", "params", "level", "message"), FAULTS)
def test_fault_is_told(
    library: Library, task: str, params: Mapping[str, Any], level: float | None, message: str
) -> None:
    assert str(library.check(task, params, level)).startswith(message)


def test_nothing_is_found_where_nothing_is_wrong(library: Library) -> None:
    fine = [(task, params, level) for task, params in OVERRIDES.items() for level in (None, 0.0, 1.0)]
    assert [library.check(*one) for one in [*fine, ("composite", COMPOSITE, 0.5)]] == [None] * (len(fine) + 1)


# ------------------------------------------------------------------ a library without curricula


async def test_level_changes_nothing_in_a_library_without_curricula(fake_library: Path) -> None:
    async with running_pool(fake_library) as pool:
        problem = await pool.generate(spec(level=0.5, width=3), 60.0)
        (verdict,) = await pool.score(problem, [str(problem.answer)])
        assert (problem.params, problem.level, problem.metadata_json) == ({"width": 3}, None, '{"width": 3}')
        assert verdict.score == 1.0


async def test_config_that_says_nothing_of_its_fields_is_asked_by_building_it(fake_library: Path) -> None:
    async with running_pool(fake_library) as pool:
        assert await pool.check([("ok", {"width": 3}, None), ("ok", {"width": 3}, 0.5)]) == []
        [fault] = await pool.check([("ok", {"self": 3}, None)])
    assert fault.startswith('ok: the library refuses {"self": 3} (TypeError')

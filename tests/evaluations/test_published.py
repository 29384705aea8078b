from __future__ import annotations

from dataclasses import replace

import pytest

from reasoning_env.evaluations.published import load_published, remarks_on
from reasoning_env.problems.plan import EvaluationPlan
from reasoning_env.problems.presets import FIRST_SEED, PRESET_SIZE
from reasoning_env.records import LibraryInfo
from tests.records import make_library

each_preset = pytest.mark.parametrize("name", ["rg-easy", "rg-hard"])


@pytest.mark.parametrize(("name", "tasks", "asked", "comparable"), [("rg-easy", 101, 88, 78), ("rg-hard", 100, 89, 79)])
def test_each_preset_has_as_many_tasks_as_its_published_evaluation(
    name: str, tasks: int, asked: int, comparable: int
) -> None:
    preset = load_published(name)
    assert len(preset.tasks) == tasks
    assert tasks - len(preset.other_questions) == asked
    assert len(preset.comparable) == comparable


@each_preset
def test_published_preset_lists_deviations_only_for_its_own_tasks(name: str) -> None:
    preset = load_published(name)
    assert preset.other_questions | preset.other_scoring | preset.params.keys() <= set(preset.tasks)
    assert preset.source


@each_preset
def test_every_published_model_has_complete_scores(name: str) -> None:
    preset = load_published(name)
    assert len(preset.published) == 10
    assert preset.short.keys() == preset.published.keys()
    for scores in preset.published.values():
        assert len(scores) >= len(preset.tasks) - 1
        assert all(0.0 <= score <= 1.0 for score in scores.values())


@pytest.mark.parametrize(("name", "mean"), [("rg-easy", 0.801), ("rg-hard", 0.6351)])
def test_means_computed_from_published_task_scores_equal_published_means(name: str, mean: float) -> None:
    scores = load_published(name).published["openai/o3-mini"]
    assert sum(scores.values()) / len(scores) == pytest.approx(mean, abs=5e-5)


RG_EASY = load_published("rg-easy")
PLAN = EvaluationPlan(RG_EASY.tasks, PRESET_SIZE, RG_EASY.repeats, FIRST_SEED, preset=RG_EASY)
LIBRARY = make_library(dict.fromkeys(RG_EASY.tasks, "games"), version=RG_EASY.library)


def test_evaluation_that_follows_the_published_protocol_has_no_deviation() -> None:
    assert list(remarks_on(PLAN, RG_EASY, LIBRARY, 0.6)) == []


@pytest.mark.parametrize(
    ("plan", "library", "temperature", "word"),
    [
        (PLAN, LIBRARY, 0.0, "temperature"),
        (replace(PLAN, samples_per_task=3), LIBRARY, 0.6, "3 problems"),
        (PLAN, replace(LIBRARY, version="0.2"), 0.6, "reasoning-gym 0.2 is installed"),
        (PLAN, replace(LIBRARY, tasks=LIBRARY.tasks[1:]), 0.6, "lacks"),
    ],
)
def test_deviation_of_an_evaluation_from_the_published_protocol_is_reported(
    plan: EvaluationPlan, library: LibraryInfo, temperature: float, word: str
) -> None:
    [remark] = remarks_on(plan, RG_EASY, library, temperature)
    assert word in remark

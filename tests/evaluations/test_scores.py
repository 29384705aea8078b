from __future__ import annotations

from typing import Any

from reasoning_env.evaluations.scores import score_lines


def results(step: int, score: float, **categories: float) -> Any:
    overall = {"mean_score": score, "mean_score_interval": [0.25, 0.5]}
    rows = {name: {"mean_score": value} for name, value in categories.items()}
    return {"step": step, "finished": True, "overall": overall, "categories": rows}


def test_log_lines_contain_the_score_of_each_category() -> None:
    assert score_lines(results(50, 0.375, games=0.5, algebra=0.25)) == [
        "evaluation at step 50: mean score 0.375 (95 % interval: 0.25 to 0.50)",
        "evaluation at step 50, by category: algebra 0.250, games 0.500",
    ]


def test_score_log_has_no_category_line_if_there_is_only_one_category() -> None:
    assert score_lines(results(50, 0.375, games=0.375)) == [
        "evaluation at step 50: mean score 0.375 (95 % interval: 0.25 to 0.50)"
    ]


def test_scores_of_an_interrupted_evaluation_are_not_logged() -> None:
    assert score_lines({**results(50, 0.375), "finished": False}) == []
    assert score_lines({**results(50, 0.375), "overall": None}) == []

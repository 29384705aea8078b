from __future__ import annotations

from typing import Any

from reasoning_env.evaluations.scores import scores_of


def results(step: int, score: float, fingerprint: str = "a", **categories: float) -> Any:
    overall = {"mean_score": score, "mean_score_interval": [0.25, 0.5]}
    rows = {name: {"mean_score": value} for name, value in categories.items()}
    return {"step": step, "finished": True, "fingerprint": fingerprint, "overall": overall, "categories": rows}


def test_lines_tell_changes() -> None:
    before = results(40, 0.4, games=0.25, algebra=0.5)
    scores = scores_of(results(50, 0.375, games=0.5, algebra=0.25), before)
    assert scores is not None
    assert scores.lines() == [
        "evaluation at step 50: mean score 0.375 (95 %: 0.25 to 0.50), -0.025 since step 40",
        "evaluation at step 50, by category: algebra 0.250 (-0.250), games 0.500 (+0.250)",
    ]


def test_first_evaluation_has_no_change() -> None:
    scores = scores_of(results(50, 0.375, games=0.375), None)
    assert scores is not None
    assert scores.lines() == ["evaluation at step 50: mean score 0.375 (95 %: 0.25 to 0.50)"]


def test_other_problems_give_no_change() -> None:
    scores = scores_of(results(50, 0.375), results(40, 0.4, fingerprint="b"))
    assert scores is not None
    assert scores.overall.change is None


def test_interrupted_evaluation_has_no_scores() -> None:
    assert scores_of({**results(50, 0.375), "finished": False}, None) is None
    assert scores_of({**results(50, 0.375), "overall": None}, None) is None

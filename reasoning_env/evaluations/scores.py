"""What a training reports of an evaluation: metrics, and scores with the change since the evaluation before."""

from __future__ import annotations

from dataclasses import dataclass

from .folder import Results


@dataclass(frozen=True)
class Score:
    """A mean score in [0, 1], and its change; None where no evaluation before asked the same problems."""

    score: float
    change: float | None = None

    def describe(self) -> str:
        """Return the score with the change in brackets: `0.412 (+0.031)`."""
        return f"{self.score:.3f}" if self.change is None else f"{self.score:.3f} ({self.change:+.3f})"


@dataclass(frozen=True)
class EvaluationScores:
    """The scores of a finished evaluation.

    `step` is the trainer's step, `since_step` the step of the evaluation before, from which changes count; None if
    unknown. `interval` is the 95 % interval of the overall score. `categories` are in name order.
    """

    step: int | None
    since_step: int | None
    overall: Score
    interval: tuple[float, float]
    categories: dict[str, Score]

    def lines(self) -> list[str]:
        """Return a line with the overall score and, with several categories, a line with the score of each."""
        title = "evaluation" if self.step is None else f"evaluation at step {self.step}"
        low, high = self.interval
        change = ""
        if self.overall.change is not None:
            since = "the evaluation before" if self.since_step is None else f"step {self.since_step}"
            change = f", {self.overall.change:+.3f} since {since}"
        lines = [f"{title}: mean score {self.overall.score:.3f} (95 %: {low:.2f} to {high:.2f}){change}"]
        if len(self.categories) > 1:
            scores = ", ".join(f"{name} {score.describe()}" for name, score in self.categories.items())
            lines.append(f"{title}, by category: {scores}")
        return lines


def scores_of(results: Results, before: Results | None) -> EvaluationScores | None:
    """Return the scores of an evaluation; None if the evaluation is not finished, or no completion was scored.

    Changes are since the evaluation `before`, if that evaluation had the same set of problems.
    """
    overall = results["overall"]
    if not results["finished"] or overall is None or "mean_score" not in overall:
        return None
    same = before is not None and before["fingerprint"] == results["fingerprint"]
    earlier = before if same else None
    earlier_overall = None if earlier is None or earlier["overall"] is None else earlier["overall"].get("mean_score")
    categories: dict[str, Score] = {}
    for name, row in sorted(results["categories"].items()):
        if "mean_score" in row:
            earlier_row = None if earlier is None else earlier["categories"].get(name)
            earlier_score = None if earlier_row is None else earlier_row.get("mean_score")
            categories[name] = _score(row["mean_score"], earlier_score)
    low, high = overall["mean_score_interval"]
    return EvaluationScores(
        step=results["step"],
        since_step=None if earlier is None else earlier["step"],
        overall=_score(overall["mean_score"], earlier_overall),
        interval=(low, high),
        categories=categories,
    )


def _score(score: float, before: float | None) -> Score:
    return Score(score, None if before is None else score - before)


def metrics(results: Results) -> dict[str, float]:
    """Return the metrics of an evaluation; figures that are not known are left out."""
    overall = results["overall"]
    assert overall is not None, "conclude() writes the row of all tasks"
    values: dict[str, float | None] = {
        "eval/mean_score": overall.get("mean_score"),
        "eval/share_correct": overall.get("accuracy"),
        "eval/library_score": overall.get("library_score"),
        "eval/mean_completion_tokens": overall.get("tokens"),
        "eval/problems": results["problems"],
        "eval/failed": results["problems"] - overall["problems"],
        "eval/not_made": overall["not_made"],
    }
    values |= {f"eval/pass_at/{k}": share for k, share in overall.get("pass_at", {}).items()}
    values |= {f"eval_reasons/{word}": share for word, share in overall.get("reasons", {}).items()}
    values |= {
        f"eval_categories/{name}/mean_score": row.get("mean_score") for name, row in results["categories"].items()
    }
    for task, row in results["tasks"].items():
        values |= {
            f"eval_tasks/{task}/mean_score": row.get("mean_score"),
            f"eval_tasks/{task}/share_correct": row.get("accuracy"),
        }
    return {name: value for name, value in values.items() if value is not None}

"""The metrics and log lines that a training reports for an evaluation."""

from __future__ import annotations

from .folder import Results


def score_lines(results: Results) -> list[str]:
    """Return a line with the overall score and, if there are several categories, a line for each category.

    Empty if the evaluation is not finished, or no completion was scored.
    """
    overall = results["overall"]
    if not results["finished"] or overall is None or "mean_score" not in overall:
        return []
    title = "evaluation" if results["step"] is None else f"evaluation at step {results['step']}"
    low, high = overall["mean_score_interval"]
    lines = [f"{title}: mean score {overall['mean_score']:.3f} (95 % interval: {low:.2f} to {high:.2f})"]
    rows = {name: row["mean_score"] for name, row in sorted(results["categories"].items()) if "mean_score" in row}
    if len(rows) > 1:
        lines.append(f"{title}, by category: {', '.join(f'{name} {score:.3f}' for name, score in rows.items())}")
    return lines


def metrics(results: Results) -> dict[str, float]:
    """Return the metrics of an evaluation by name, without metrics whose value is unknown."""
    overall = results["overall"]
    assert overall is not None, "internal error: the evaluation has no statistics over all tasks"
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

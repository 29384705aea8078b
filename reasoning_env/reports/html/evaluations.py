"""What the page shows of an evaluation's `results.json`, beside what its samples tell; there may be none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FACTS = ("model", "preset", "step", "started", "fingerprint")
SETTINGS = ("eval_temperature", "eval_top_p", "max_completion_tokens", "eval_seed", "eval_level")


def facts(results: Mapping[str, Any]) -> list[list[str]]:
    """Return names and values of what tells one evaluation from another; nothing of no results."""
    if not results:
        return []
    known = [(name, results[name]) for name in FACTS]
    known += [(name, results["settings"].get(name)) for name in SETTINGS]
    known += results["versions"].items()
    known += [("problems not made", (results["overall"] or {}).get("not_made") or None)]
    known += [("not as published", remark) for remark in results["remarks"]]
    unfinished = [] if results["finished"] else [["state", "not finished"]]
    return unfinished + [[name, str(value)] for name, value in known if value is not None]


def beside_published(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the published models' mean scores and this one's over the same tasks; None where there are none."""
    models = [
        {"name": name, "score": row["overall"], "tasks": row["tasks"]}
        for name, row in results.get("published", {}).items()
    ]
    if not models:
        return None
    overall = results["overall"]
    own = {"as published": overall.get("library_score"), "strict": overall.get("mean_score")}
    return {"models": models, "own": {name: score for name, score in own.items() if score is not None}}

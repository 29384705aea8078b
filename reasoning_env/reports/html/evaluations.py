"""What the page shows of an evaluation's `results.json`, beside what its samples tell; all of it may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FACTS = ("model", "preset", "step", "started", "fingerprint")
SETTINGS = ("eval_temperature", "eval_top_p", "max_completion_tokens", "eval_seed", "eval_level")


def facts(results: Mapping[str, Any]) -> list[list[str]]:
    """Return names and values of what tells one evaluation from another."""
    known = [(name, results.get(name)) for name in FACTS]
    known += [(name, _mapping(results, "settings").get(name)) for name in SETTINGS]
    known += _mapping(results, "versions").items()
    known += [("problems not made", _mapping(results, "overall").get("not_made") or None)]
    remarks = results.get("remarks")
    known += [("not as published", remark) for remark in (remarks if isinstance(remarks, list) else ())]
    unfinished = [["state", "not finished"]] if results.get("finished") is False else []
    return unfinished + [[str(name), str(value)] for name, value in known if isinstance(value, (str, int, float))]


def beside_published(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the published models' mean scores and this one's over the same tasks; None where there are none."""
    models = [
        {"name": str(name), "score": row["overall"], "tasks": _scores(_mapping(row, "tasks"))}
        for name, row in _mapping(results, "published").items()
        if isinstance(row, dict) and _is_score(row.get("overall"))
    ]
    overall = _mapping(results, "overall")
    own = {"as published": overall.get("library_score"), "strict": overall.get("mean_score")}
    return {"models": models, "own": _scores(own)} if models else None


def _mapping(results: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = results.get(name)
    return found if isinstance(found, dict) else {}


def _scores(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: score for name, score in found.items() if _is_score(score)}


def _is_score(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 <= value <= 1

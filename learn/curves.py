"""Write the curves of a run as JSON and as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PANELS = {
    "reward": "reward (dashed: share of right answers)",
    "signal": "share of groups with a signal",
    "length": "tokens of a completion",
    "entropy": "entropy of a token (nats)",
    "staleness": "steps behind the trainer",
    "level": "level of difficulty",
}
SMOOTHED = 5
"""Number of steps over which the moving average runs."""


def write_curves(folder: Path, history: Sequence[Mapping[str, Any]]) -> Path:
    """Write `curves.json` and `curves.png` to a folder; return the path of the picture."""
    (folder / "curves.json").write_text(json.dumps(history, indent=1))
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 7), layout="constrained")
    panels = list(figure.subplots(2, 4).flat)
    for panel, name in zip(panels, ("test", "pass@8"), strict=False):
        points = [entry for entry in history if name in entry]
        for task in sorted({task for entry in points for task in entry[name]}):
            panel.plot([at["completions"] for at in points], [at[name][task] for at in points], "o-", label=task)
        panel.set(title="test set, greedy" if name == "test" else f"test set, {name}", ylim=(0, 1.02))
        panel.legend(fontsize="small")
    for panel, (name, title) in zip(panels[2:], PANELS.items(), strict=True):
        _draw(panel, history, name)
        panel.set(title=title)
        panel.set_visible(any(entry.get(name) is not None for entry in history))
    _draw(panels[2], history, "right", "--")
    for panel in panels[4:]:
        panel.set_xlabel("completions")
    path = folder / "curves.png"
    figure.savefig(path, dpi=90)
    return path


def _draw(panel: Any, history: Sequence[Mapping[str, Any]], name: str, style: str = "-") -> None:
    """Draw the moving average of the figure `name` into a panel."""
    measured = [(entry["completions"], entry[name]) for entry in history if entry.get(name) is not None]
    values = [value for _, value in measured]
    windows = [values[max(0, end + 1 - SMOOTHED) : end + 1] for end in range(len(values))]
    panel.plot([at for at, _ in measured], [sum(window) / len(window) for window in windows], style)

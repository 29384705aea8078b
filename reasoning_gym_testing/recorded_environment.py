"""Run the environment's command line, and record in a journal which problems were returned and groups scored.

`journal.jsonl` in the working directory gets a line for each event: `{"event": "handed_out", "task": ..., "seed": ...,
"index": ..., "attempt": ..., "params": ..., "level": ..., "question": ...}` or `{"event": "scored",
"index": ..., "scores": ...}`. The scores are null for a group that is not sent.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

JOURNAL = "journal.jsonl"


def read_journal(folder: Path, event: str) -> list[dict[str, Any]]:
    """Return the lines of one kind of event in a working directory, in order."""
    path = folder / JOURNAL
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [line for line in map(json.loads, lines) if line["event"] == event]


def main() -> None:
    """Run the environment's command line."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    gc.disable()  # as `reasoning_gym_environment.py` does during its imports
    from reasoning_gym_environment import ReasoningGymEnv

    gc.enable()

    class RecordedEnv(ReasoningGymEnv):
        async def get_next_item(self) -> Any:
            item = await super().get_next_item()
            spec = item.problem.spec
            fields = ("task", "seed", "index", "attempt", "params", "level")
            question = {"question": item.problem.question}
            note("handed_out", {field: getattr(spec, field) for field in fields} | question)
            return item

        async def score(self, group: Any) -> Any:
            packed = await super().score(group)
            note("scored", {"index": group.problem.spec.index, "scores": packed and packed["scores"]})
            return packed

    def note(event: str, fields: dict[str, Any]) -> None:
        journal.write(json.dumps({"event": event, **fields}) + "\n")

    with Path(JOURNAL).open("a", buffering=1) as journal:
        RecordedEnv.cli()


if __name__ == "__main__":
    main()

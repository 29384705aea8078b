"""`score_reward` for TRL, over a bridge that only tells what it was asked, and without TRL's packages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from reasoning_env.records import Reason, Verdict


class AskedBridge:
    """Has no verdict on the completion `lost`, and keeps the rows."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    async def ajudge(self, row: dict[str, Any], completions: list[Any]) -> list[Verdict | None]:
        self.rows.append(row)
        lost = completions == ["lost"]
        return [None if lost else Verdict(0.5, Reason.SCORED, parts={"length": 3.0})]


@pytest.fixture
def score_reward(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    modules = {name: ModuleType(name) for name in ("torch", "torch.distributed", "datasets", "transformers")}
    modules["torch"].distributed = modules["torch.distributed"]  # type: ignore[attr-defined]
    modules["datasets"].IterableDataset = object  # type: ignore[attr-defined]
    modules["transformers"].TrainerCallback = object  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "reasoning_env.integrations.trl", raising=False)
    from reasoning_env.integrations.trl import score_reward

    yield score_reward
    sys.modules.pop("reasoning_env.integrations.trl", None)


async def test_rows_are_the_columns(score_reward: Any) -> None:
    bridge = AskedBridge()
    reward = score_reward(bridge, "math")
    extras: dict[str, Any] = {}
    metrics: dict[str, float] = {}
    found = await reward(
        prompts=["p", "q"],
        completions=["x", "lost"],
        completion_ids=[[1], [2]],
        answer=["1", "2"],
        trainer_state=object(),
        log_extra=extras.__setitem__,
        log_metric=metrics.__setitem__,
    )
    assert found == [0.5, None]
    assert bridge.rows == [{"prompt": "p", "answer": "1"}, {"prompt": "q", "answer": "2"}]
    assert extras["math/reason"] == ["scored", "fault"]
    assert [json.loads(parts) for parts in extras["math/parts"]] == [{"length": 3.0}, {}]
    assert (metrics["math/scored"], metrics["math/fault"]) == (0.5, 0.5)
    assert reward.__name__ == "math"

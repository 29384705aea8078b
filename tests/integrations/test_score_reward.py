"""Reward functions for TRL, with a mock bridge that records calls, and without TRL's packages."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from math import prod
from types import ModuleType
from typing import Any, ClassVar

import pytest

from reasoning_env.records import Reason, Verdict

REFERENCE = "gcd:train:1:-:0.1.25:0123456789abcdef:{}"


class AskedBridge:
    """A mock bridge that records rows, and that has no verdict for the completion `lost`."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    async def ajudge(self, row: dict[str, Any], completions: list[Any]) -> list[Verdict | None]:
        self.rows.append(row)
        lost = completions == ["lost"]
        return [None if lost else Verdict(0.5, Reason.SCORED, own_parts={"length": 3.0})]


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    modules = {name: ModuleType(name) for name in ("torch", "torch.distributed", "datasets", "transformers")}
    modules["torch"].distributed = modules["torch.distributed"]  # type: ignore[attr-defined]
    modules["datasets"].IterableDataset = object  # type: ignore[attr-defined]
    modules["transformers"].TrainerCallback = object  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "reasoning_env.integrations.trl", raising=False)
    from reasoning_env.integrations import trl

    yield trl
    sys.modules.pop("reasoning_env.integrations.trl", None)


async def test_dataset_columns_are_joined_into_the_rows_to_judge(adapter: Any) -> None:
    bridge = AskedBridge()
    reward = adapter.score_reward(bridge, "math")
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


class GradedBridge:
    """A mock bridge that counts calls and gives each completion its verdict; `lost` gets none."""

    VERDICTS: ClassVar[dict[str, Verdict | None]] = {
        "right": Verdict(1.0, Reason.SCORED),
        "near": Verdict(0.4, Reason.SCORED),
        "none": Verdict(0.0, Reason.NO_ANSWER),
        "lost": None,
    }

    def __init__(self) -> None:
        self.calls = 0

    async def ajudge(self, reference: str, completions: list[str]) -> list[Verdict | None]:
        self.calls += 1
        await asyncio.sleep(0)
        return [self.VERDICTS[completion] for completion in completions]


async def rewards_by_name(functions: list[Any], words: list[str], **given: Any) -> dict[str, list[float | None]]:
    """Call the reward functions as TRL calls them, and return their results by name."""
    given |= {"prompts": ["Q"] * len(words), "completions": words, "reference": [REFERENCE] * len(words)}
    returned = await asyncio.gather(*(function(**given) for function in functions))
    return {function.__name__: scores for function, scores in zip(functions, returned, strict=True)}


async def test_trl_reward_is_the_product_of_its_parts(adapter: Any) -> None:
    words = ["right", "near", "none"]
    gym = adapter.TrlEnvironment(GradedBridge())
    parts = await rewards_by_name(gym.rewards(), words)
    assert list(parts) == ["format", "answer", "length"]
    assert [prod(of_one) for of_one in zip(*parts.values(), strict=True)] == await gym.reward(words, [REFERENCE] * 3)


async def test_each_batch_is_judged_once_for_all_trl_reward_functions(adapter: Any) -> None:
    bridge = GradedBridge()
    functions = adapter.TrlEnvironment(bridge).rewards()
    logged: list[str] = []
    for words in (["right"], ["right"]):
        await rewards_by_name(functions, words, log_extra=lambda name, _: logged.append(name))
    assert bridge.calls == 2
    assert logged == ["reason", "reason"]


async def test_trl_reward_parts_are_none_for_a_completion_without_a_verdict(adapter: Any) -> None:
    parts = await rewards_by_name(adapter.TrlEnvironment(GradedBridge()).rewards(), ["right", "lost"])
    assert parts == {"format": [1.0, None], "answer": [1.0, None], "length": [1.0, None]}

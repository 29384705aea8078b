"""The example in the README: somebody's own test of the environment, against a mocked inference server."""

from __future__ import annotations

import sys

import pytest

import testing

EXAMPLE = """\
from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig
from reasoning_gym_testing import TOKENIZER, InferenceServer

async def test_right_and_wrong():
    async with InferenceServer() as server:
        config = ReasoningGymEnvConfig(tokenizer_name=TOKENIZER, tasks="chain_sum", group_size=2, use_wandb=False)
        env = ReasoningGymEnv(config, [server.config()])
        await env.setup()
        item = await env.get_next_item()
        server.policy = lambda request: ["<answer>?</answer>", f"<answer>{item.problem.answer}</answer>"]
        group, _ = await env.collect_trajectories(item)
        await env.close()
    assert group["scores"] == [0.0, 1.0]
"""


async def test_the_example_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym_testing", testing)
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    await names["test_right_and_wrong"]()

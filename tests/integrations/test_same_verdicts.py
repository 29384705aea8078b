"""The hostile corpus is judged alike by TRL's reward function and by Ray's actors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from reasoning_env.bridge import Bridge
from tests.hostile_groups import SETTINGS, Group, Outcome, differences, hostile_groups, outcomes

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def groups(pytestconfig: pytest.Config) -> Iterator[list[Group]]:
    with hostile_groups(pytestconfig) as (groups, _):
        yield groups


def test_reward_of_trl_judges_alike(groups: list[Group]) -> None:
    pytest.importorskip("trl", reason="needs the extra `trl`: make integrations")
    from reasoning_env.integrations.trl import TrlEnvironment

    async def judge(gym: TrlEnvironment, group: Group) -> list[Outcome]:
        completions = [[{"role": "assistant", "content": text}] for text in group.completions]
        reasons: list[str] = []
        scores = await gym.reward(
            completions, [group.reference] * len(completions), log_extra=lambda _, column: reasons.extend(column)
        )
        return [(-1.0 if score is None else score, reason) for score, reason in zip(scores, reasons, strict=True)]

    async def judge_all(gym: TrlEnvironment) -> list[list[Outcome]]:
        return [await judge(gym, group) for group in groups]

    with Bridge(SETTINGS) as bridge:
        judged = asyncio.run(judge_all(TrlEnvironment(bridge)))
    assert not differences(groups, judged)


def test_ray_judges_alike(groups: list[Group]) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra `ray`: make integrations")
    from reasoning_env.integrations.ray import RayJudges

    async def judge_all() -> list[list[Outcome]]:
        judges = RayJudges(SETTINGS)
        return [outcomes(await judges.judge(group.reference, group.completions)) for group in groups]

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        judged = asyncio.run(judge_all())
    finally:
        ray.shutdown()
    assert not differences(groups, judged)

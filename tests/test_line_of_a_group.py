"""The files that one group enters, traced over the rig."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import reasoning_env
from reasoning_gym_environment import ReasoningGymEnv
from reasoning_gym_testing import InferenceServer
from tests.front_door.conftest import WRONG, make_config
from tests.waiting import until

ROOT = Path(reasoning_env.__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"


class Trace:
    """Notes the project's files whose functions are called on this thread; the rig's and the tests' do not count."""

    def __init__(self) -> None:
        self.files: set[Path] = set()

    def __enter__(self) -> Trace:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(ROOT):
            top = file.relative_to(ROOT).parts[0]
            if top in ("reasoning_env", "reasoning_gym_environment.py"):
                self.files.add(file)


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Any]:
    """An environment over a served policy, which dumps, and whose workers and buffer are ready."""
    async with InferenceServer() as server:
        config = make_config(
            tasks=["chain_sum", "gcd", "lcm"],
            num_eval_samples_per_task=2,
            dump_rollouts=True,
            rollout_save_score_threshold=0.0,
            data_dumps_dir=str(tmp_path),
        )
        env: Any = ReasoningGymEnv(config, [server.config("vllm")])
        env.policy = server
        await env.setup()
        await env.get_next_item()
        await until(lambda: env._run.session.stats.ready == config.prefetch_problems)
        yield env
        await env.close()


async def test_group_enters_published_lines(env: Any) -> None:
    """Compare the traced files and their lines with the numbers that docs/architecture.md publishes, within a tenth.

    The numbers are a ceiling: no change raises them. A change that breaks this test finds a shorter way. If the way
    became shorter, the page publishes the lower numbers.
    """
    with Trace() as trace:
        item = await env.get_next_item()
        right = f"<answer>{item.problem.answer}</answer>"
        env.policy.policy = lambda request: [right, *[WRONG] * (request.n - 1)]
        group, _ = await env.collect_trajectories(item)
        # What is drawn in its place is drawn now.
        await asyncio.sleep(0.3)
    assert max(group["scores"]) == 1.0
    lines = {file.relative_to(ROOT).as_posix(): len(file.read_text().splitlines()) for file in trace.files}
    assert {"reasoning_gym_environment.py", "reasoning_env/session.py"} <= lines.keys()
    published = re.search(r"\*\*(\d+) files with ([\d,]+) lines\*\*", PAGE.read_text())
    assert published is not None
    files, total = (int(number.replace(",", "")) for number in published.groups())
    assert len(lines) == pytest.approx(files, rel=0.1), (sum(lines.values()), sorted(lines))
    assert sum(lines.values()) == pytest.approx(total, rel=0.1), (sum(lines.values()), lines)

"""verifiers and prime-rl: an endless taskset, whose rewards are judged in sandboxed processes.

Its id is `reasoning-gym-taskset`, in prime-rl too:

    vf-eval reasoning-gym-taskset -n 8 -r 4 --env.taskset.tasks gcd,chain_sum \\
        --env.agent.harness.id null --env.agent.runtime.type subprocess --no-push

Without the three last options its command line wants a paid runtime and uploads what it did. Rewards run in other
processes than `load`, and none of them sees whole groups: levels are fixed or random. With `REASONING_JUDGE_URL` they
share a `judge` server's processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import verifiers.v1 as vf

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ScoringError

__all__ = ["ReasoningGymTaskset"]


class ReasoningGymData(vf.TaskData):
    """What travels with a task: a reference, which any process makes the problem of."""

    reference: str


class ReasoningGymTask(vf.Task[ReasoningGymData]):
    @vf.reward
    async def judged(self, trace: Any) -> float:
        """Return the score of the last reply; raises ScoringError for a fault of ours, which is never a 0."""
        [verdict] = await _judge().ajudge(self.data.reference, [trace.last_reply or ""])
        if verdict is None:
            raise ScoringError("a completion could not be judged; the log above says why")
        trace.info["reason"] = verdict.reason.value
        return verdict.score


class ReasoningGymConfig(vf.TasksetConfig):
    """`tasks` are names, globs or categories, joined by commas; without `level` it is the library's own."""

    tasks: str = "all"
    seed: int = 42
    level: float | None = None


class ReasoningGymTaskset(vf.Taskset[ReasoningGymTask, ReasoningGymConfig]):
    INFINITE = True

    def load(self) -> Iterator[ReasoningGymTask]:
        config = self.config
        with Bridge(tasks=config.tasks, seed=config.seed, complexity_level=config.level) as bridge:
            while True:
                problem = bridge.next()
                by_role = {message["role"]: message["content"] for message in bridge.messages(problem)}
                yield ReasoningGymTask(
                    ReasoningGymData(
                        prompt=by_role["user"],
                        system_prompt=by_role.get("system"),
                        name=problem.task,
                        reference=problem.reference,
                    )
                )


@cache
def _judge() -> Bridge:
    """Return this process' bridge, started when it is first needed."""
    return Bridge(judge_url=os.environ.get("REASONING_JUDGE_URL"))

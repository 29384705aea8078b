"""verifiers and prime-rl: an endless taskset with rewards from sandboxed processes.

The taskset's id is `reasoning-gym-taskset`, in prime-rl too:

    vf-eval reasoning-gym-taskset -n 8 -r 4 --env.taskset.tasks gcd,chain_sum \\
        --client.base-url http://localhost:8000/v1 --client.api-key-var OPENAI_API_KEY \\
        --env.agent.harness.id null --env.agent.runtime.type subprocess --no-push

Without the options for the client, requests go to the hosted provider of the package's authors. Without the last three
options, the command line of verifiers needs a paid runtime and uploads the run. Rewards are computed in other processes
than `load`, and no process sees a whole group, so levels are fixed or random. With the variable `REASONING_JUDGE_URL`,
all reward processes share the processes of a `judge` server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import verifiers.v1 as vf

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ScoringError
from reasoning_env.sources.modules import absolute_entry

__all__ = ["ReasoningGymTaskset"]


class ReasoningGymData(vf.TaskData):
    """Data of a task. Any process makes the problem again: from its reference, with its module and library."""

    reference: str
    task_modules: str = ""
    checkout: str | None = None


class ReasoningGymTask(vf.Task[ReasoningGymData]):
    @vf.reward
    async def judged(self, trace: Any) -> float:
        """Return the score of the last reply. Raises ScoringError for an infrastructure error, never scored 0."""
        [verdict] = await _judge(self.data.task_modules, self.data.checkout).ajudge(
            self.data.reference, [trace.last_reply or ""]
        )
        if verdict is None:
            raise ScoringError("a completion could not be judged; the log above says why")
        trace.info["reason"] = verdict.reason.value
        return verdict.score


class ReasoningGymConfig(vf.TasksetConfig):
    """`tasks` are names, globs or categories, joined by commas. Without `level`, the library's default parameters.

    `task_modules`, joined by commas, add tasks of yours; `checkout` is the folder of another reasoning-gym.
    """

    tasks: str = "all"
    seed: int = 42
    level: float | None = None
    task_modules: str = ""
    checkout: str | None = None


class ReasoningGymTaskset(vf.Taskset[ReasoningGymTask, ReasoningGymConfig]):
    INFINITE = True

    def load(self) -> Iterator[ReasoningGymTask]:
        config = self.config
        # Rewards may be computed in another folder.
        modules = ",".join(absolute_entry(entry) for entry in config.task_modules.split(",") if entry)
        checkout = None if config.checkout is None else os.path.abspath(config.checkout)
        library: dict[str, Any] = {"task_modules": modules, "checkout": checkout}
        with Bridge(tasks=config.tasks, seed=config.seed, complexity_level=config.level, **library) as bridge:
            while True:
                problem = bridge.next()
                by_role = {message["role"]: message["content"] for message in bridge.messages(problem)}
                yield ReasoningGymTask(
                    ReasoningGymData(
                        prompt=by_role["user"],
                        system_prompt=by_role.get("system"),
                        name=problem.task,
                        reference=problem.reference,
                        **library,
                    )
                )


@cache
def _judge(task_modules: str = "", checkout: str | None = None) -> Bridge:
    """Return the bridge of this process. The bridge starts its workers at the first call, on its own thread."""
    url = os.environ.get("REASONING_JUDGE_URL")
    if url:
        return Bridge(judge_url=url, start=False)
    return Bridge(task_modules=task_modules, checkout=checkout, start=False)

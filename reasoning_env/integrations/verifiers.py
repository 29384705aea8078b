"""verifiers and prime-rl: a taskset of endless training problems or of the evaluation set.

The taskset's id is `reasoning-gym-taskset`, in prime-rl too:

    vf-eval reasoning-gym-taskset -n 8 -r 4 --env.taskset.tasks gcd,chain_sum \\
        --client.base-url http://localhost:8000/v1 --client.api-key-var OPENAI_API_KEY \\
        --env.agent.harness.id null --env.agent.runtime.type subprocess --no-push

`--env.taskset.evaluation true` or `--env.taskset.preset rg-easy` gives the finite set of an evaluation.

Without the options for the client, requests go to the provider that the authors of `verifiers` host. Without the last
three options, `vf-eval` needs a paid runtime and uploads the run. There is no curriculum: levels are fixed or random
(`--env.taskset.level random`). If `REASONING_JUDGE_URL` is set, all reward processes use one `judge` server.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any, Literal

import verifiers.v1 as vf
from pydantic import Field

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ConfigError
from reasoning_env.integrations import process_bridge
from reasoning_env.problems.references import Reference
from reasoning_env.records import Problem, Verdict
from reasoning_env.sources.modules import absolute_entry

__all__ = ["ReasoningGymTaskset"]


class ReasoningGymData(vf.TaskData):
    """A problem's reference, and `Bridge` settings to generate the problem again."""

    reference: str
    settings: dict[str, Any] = Field(default_factory=dict)


class ReasoningGymTask(vf.Task[ReasoningGymData]):
    def __init__(self, data: ReasoningGymData, config: vf.TaskConfig | None = None) -> None:
        super().__init__(data, config)
        self._verdicts: dict[str, Verdict] = {}
        """Verdicts that the method `parts` made, by trace id, until `judged` uses them."""

    @property
    def key(self) -> str:
        """The problem's reference: the same string in every run and on every machine."""
        reference: str = self.data.reference
        return reference

    @vf.metric
    async def parts(self, trace: Any) -> dict[str, float]:
        """Return `format`, `answer` and `length`, whose product is the reward."""
        verdict = self._verdicts[trace.id] = await self._verdict(trace.last_reply)
        return dict(verdict.parts)

    @vf.metric
    async def level(self) -> dict[str, float]:
        """Return the problem's level as the metric `level`; no metric if the problem has no level."""
        level = Reference.parse(self.data.reference).level
        return {} if level is None else {"level": level}

    @vf.reward
    async def judged(self, trace: Any) -> float:
        """Return the score of the model's last reply."""
        verdict = self._verdicts.pop(trace.id, None) or await self._verdict(trace.last_reply)
        trace.info["reason"] = verdict.reason.value
        return verdict.score

    async def validate(self, runtime: object) -> bool | None:
        """Return True if a right answer gets the full score; None if no right answer is known."""
        problem = await asyncio.to_thread(self._bridge().remake, self.data.reference)
        if problem.known_answer is None:
            return None
        return (await self._verdict(f"<answer>{problem.known_answer}</answer>")).correct

    async def _verdict(self, completion: str | None) -> Verdict:
        """Judge a completion. After an infrastructure error, raise ScoringError instead of returning a score of 0."""
        return await self._bridge().averdict(self.data.reference, completion)

    def _bridge(self) -> Bridge:
        return process_bridge(json.dumps(self.data.settings, sort_keys=True))


class ReasoningGymConfig(vf.TasksetConfig):
    """The options of the taskset.

    - `tasks`: names, globs or categories, separated by commas
    - `seed`: None means 42 for training, and 123 for evaluation.
    - `level`: a difficulty from 0 to 1, or `random` for a random level of each training problem. None means the
      library's default parameters.
    - `evaluation`: use the fixed evaluation set instead of endless training problems
    - `preset`: `rg-easy` or `rg-hard`, the set of a published evaluation
    - `num_eval_samples_per_task`: number of problems per task in an evaluation
    - `system_message`: replaces the system prompt; "" omits the system prompt
    - `task_modules`: modules with your own tasks, separated by commas
    - `checkout`: the folder of a clone of reasoning-gym, to use instead of the installed package
    - `settings`: more settings of `Bridge`, such as `{"rewards": "plain"}`
    """

    tasks: str = "all"
    seed: int | None = None
    level: float | Literal["random"] | None = None
    evaluation: bool = False
    preset: str | None = None
    num_eval_samples_per_task: int | None = None
    system_message: str | None = None
    task_modules: str = ""
    checkout: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)


class ReasoningGymTaskset(vf.Taskset[ReasoningGymTask, ReasoningGymConfig]):
    def __init__(self, config: ReasoningGymConfig) -> None:
        super().__init__(config)
        self.INFINITE = not config.evaluation and config.preset is None

    def load(self) -> Iterator[ReasoningGymTask]:
        config = self.config
        # Rewards may be computed in another working directory.
        modules = ",".join(absolute_entry(entry) for entry in config.task_modules.split(",") if entry)
        checkout = None if config.checkout is None else os.path.abspath(config.checkout)
        settings = {**config.settings, "task_modules": modules, "checkout": checkout}
        with Bridge(**{**settings, **self._chosen()}) as bridge:
            for problem in _endless(bridge) if self.INFINITE else bridge.evaluation_problems():
                by_role = {message["role"]: message["content"] for message in bridge.messages(problem)}
                system = by_role.get("system") if config.system_message is None else config.system_message
                data = ReasoningGymData(
                    prompt=by_role["user"],
                    system_prompt=system or None,
                    id=problem.reference,
                    name=problem.task,
                    reference=problem.reference,
                    settings=settings,
                )
                yield ReasoningGymTask(data, config.task)

    def _chosen(self) -> dict[str, Any]:
        """Return the settings that select the problems, except unset ones. Raises ConfigError for contradictions."""
        config = self.config
        if self.INFINITE:
            is_random = config.level == "random"
            chosen = {
                "seed": config.seed,
                "complexity_mode": "random" if is_random else None,
                "complexity_level": None if is_random else config.level,
            }
        else:
            if config.level == "random":
                raise ConfigError(
                    "level must be a number for evaluations, which have one level for all problems; `random` is for "
                    "training only"
                )
            chosen = {
                "eval_seed": config.seed,
                "eval_level": config.level,
                "eval_preset": config.preset,
                "num_eval_samples_per_task": config.num_eval_samples_per_task,
            }
        return {"tasks": config.tasks, **{name: value for name, value in chosen.items() if value is not None}}


def _endless(bridge: Bridge) -> Iterator[Problem]:
    while True:
        yield bridge.next()

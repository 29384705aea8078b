"""The environment: each session has its own problem, and all sessions share the workers of one `Bridge`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata
from pydantic import ValidationError

import reasoning_env
from reasoning_env import Bridge, ConfigError, JudgeClient, Problem, ReasoningEnvError

try:
    from ..models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState, ResetOptions
except ImportError:  # uvicorn runs in the parent folder, so the modules are imported without their package
    from models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState, ResetOptions

SETTINGS = "REASONING_SETTINGS"
"""Environment variable with the keyword arguments of `Bridge`, as a JSON object such as
{"tasks": "gcd,chain_sum", "complexity_level": 0.3}.

Instead of `judge`, it may have `judge_url`, the address of a `judge` server, and `judge_timeout_s`.
"""
TRAIN_TASKS = 2**31
"""The number of training tasks that the server reports: the number of training seeds. The stream itself is endless."""
LISTED_TASKS = 1000
"""Maximum number of tasks in one reply, which then has about 60 kB."""


class NoProblemError(ReasoningEnvError):
    """The client called `step` without a problem to answer."""

    def __init__(self) -> None:
        super().__init__(
            "there is no problem to answer: this session was not reset, or its problem was answered already",
            remedy="call reset first, in the same WebSocket session (/ws); each HTTP request has its own session",
        )


@cache
def bridge() -> Bridge:
    """Return the bridge of this process. The app calls this function when it starts."""
    given = os.environ.get(SETTINGS) or "{}"
    try:
        settings = json.loads(given)
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise ConfigError("must be a JSON object", setting=SETTINGS, got=given[:200])
    url = settings.pop("judge_url", None)
    timeout_s = settings.pop("judge_timeout_s", 120.0)
    judge = None if url is None else JudgeClient(url, timeout_s)
    return Bridge(**{"judge": judge, "group_size": 1, **settings})


@cache
def evaluation_set() -> Sequence[Problem]:
    """Return the evaluation set that the settings select. The first call generates all of its problems."""
    return bridge().evaluation_problems()


def close_bridge() -> None:
    """End the workers. The next call of `bridge` creates a new bridge, which starts new workers."""
    bridge().close()
    bridge.cache_clear()
    evaluation_set.cache_clear()


class ReasoningGymEnvironment(Environment[ReasoningGymAction, ReasoningGymObservation, ReasoningGymState]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._problem: Problem | None = None
        self._is_in_flight = False
        self._state = ReasoningGymState()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> ReasoningGymObservation:
        """Begin an episode, and return the problem's messages. For the options, see `ResetOptions`.

        Raises ReasoningEnvError if the options are wrong, or if the problem cannot be generated.
        """
        asked = read_options({"seed": seed, "episode_id": episode_id, **options})
        problem, is_in_flight = find_problem(asked)
        self.close()
        self._problem, self._is_in_flight = problem, is_in_flight
        self._state = ReasoningGymState(
            episode_id=asked.episode_id or str(uuid4()),
            task=problem.task,
            level=problem.level,
            reference=problem.reference,
        )
        return ReasoningGymObservation(messages=bridge().messages(problem))

    def step(
        self, action: ReasoningGymAction, timeout_s: float | None = None, **options: Any
    ) -> ReasoningGymObservation:
        """Return the reward of a completion and end the episode. `timeout_s` is ignored: workers have deadlines.

        Raises NoProblemError without a problem, and ScoringError after an infrastructure error, which is never scored
        0. After a ScoringError, the client may send the same step again.
        """
        problem = self._problem
        if problem is None:
            raise NoProblemError
        verdict = bridge().verdict(problem, action.text)
        if self._is_in_flight:
            bridge().observe(problem, [verdict])
        self._problem = None
        self._state.step_count += 1
        return ReasoningGymObservation(
            done=True, reward=verdict.score, reason=verdict.reason.value, parts=dict(verdict.parts)
        )

    @property
    def state(self) -> ReasoningGymState:
        return self._state

    def close(self) -> None:
        """Drop the problem of the session, if it has one."""
        if self._problem is not None and self._is_in_flight:
            bridge().observe(self._problem, [None])
        self._problem = None

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="reasoning_gym_environment",
            description="Procedural reasoning tasks of reasoning-gym, scored in sandboxed processes",
            version=reasoning_env.__version__,
        )

    # ---- tasks by split and index

    async def list_splits(self) -> list[str]:
        return ["train", "test"]

    async def num_tasks(self, split: str) -> int:
        if read_options({"split": split}).split == "train":
            return TRAIN_TASKS
        return len(await asyncio.to_thread(evaluation_set))

    async def get_task(self, split: str, index: int) -> dict[str, object]:
        """Return the description of a task. Raises IndexError if the split has no task with this index."""
        return describe(split, range(await self.num_tasks(split))[index])

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, object]]:
        chosen = range(await self.num_tasks(split))[start:stop]
        if len(chosen) > LISTED_TASKS:
            raise ConfigError(f"at most {LISTED_TASKS} tasks are listed at a time", setting="stop", got=stop)
        return [describe(split, index) for index in chosen]

    async def list_tasks(self, split: str) -> list[dict[str, object]]:
        """Return the first LISTED_TASKS tasks of a split; `num_tasks` returns the number of all tasks."""
        return await self.get_task_range(split, 0, LISTED_TASKS)


def describe(split: str, index: int) -> dict[str, object]:
    """Return a task's description for the HTTP routes that list tasks. Its split and index are options of `reset`."""
    task: dict[str, object] = {"id": f"{split}-{index}", "split": split, "index": index}
    if split == "test":
        problem = evaluation_set()[index]
        task |= {"task": problem.task, "reference": problem.reference}
    return task


def read_options(given: dict[str, Any]) -> ResetOptions:
    """Return the options of a reset. Raises ConfigError for unknown options and for a wrong combination of options."""
    try:
        asked = ResetOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigError(first["msg"], setting=name[:100], got=str(first["input"])[:100]) from None
    ways = {
        "reference": asked.reference is not None,
        "index": asked.index is not None,
        "task or level": asked.task is not None or asked.level is not None,
    }
    used = [way for way, is_used in ways.items() if is_used]
    if len(used) > 1:
        raise ConfigError(f"cannot be combined with {used[0]}", setting=used[1])
    return asked


def find_problem(asked: ResetOptions) -> tuple[Problem, bool]:
    """Return a problem, and whether it is in flight. With a reference or an index, the seed is ignored."""
    if asked.reference is not None:
        return bridge().remake(asked.reference), False
    if asked.index is not None:
        return find_task(asked.split, asked.index), False
    if asked.split == "test":
        raise ConfigError("is needed", setting="index", remedy="name a task of the split")
    if asked.seed is None and asked.task is None and asked.level is None:
        return bridge().next(), True
    number = uuid4().int if asked.seed is None else asked.seed
    return bridge().draw(number, task=asked.task, level=asked.level), False


def find_task(split: str | None, index: int) -> Problem:
    """Return the problem with an index. Raises ConfigError if the split is missing or has no such index."""
    if split is None:
        raise ConfigError("is needed beside an index", setting="split", remedy="train or test")
    if split == "train":
        return bridge().draw(index)
    problems = evaluation_set()
    if index >= len(problems):
        raise ConfigError(f"the split has {len(problems)} tasks", setting="index", got=index)
    return problems[index]

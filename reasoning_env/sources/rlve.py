"""The environments of RLVE-Gym (package `rlve-gym`) as tasks `rlve/NAME`. Runs in workers only.

Difficulty: RLVE counts steps from the easiest parameters, without an upper limit; its controllers turn a number of
steps into parameters. Level L in [0, 1] is `round(TOP * L)` steps, so level 0 and no level are the easiest, and levels
are multiples of 1 / TOP. A user's parameters (`task_params`) replace those of the steps.

Rewards: RLVE's lie in [-1, 1]. A reward of at least the environment's passing threshold scores 1. Any other reward
scores itself, or 0 if it is negative: wrong and malformed answers earn 0, and partial rewards stay partial.

RLVE hands a model's text to `sympify` and `eval` in some environments, and limits its own time with threads. Here the
text is scored in sandboxed verifier workers alone, and their deadline ends a verifier that hangs. torch, which RLVE
needs for its seed, is not imported.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pickle
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

from ..problems.giving_up import MAX_REJECTED
from ..problems.seeds import follow_seed
from ..records import ProblemRequest
from .contract import Generated, Source, SourceTask
from .rlve_facts import LEFT_OUT

PREFIX = "rlve/"
TOP = 8
"""Steps of RLVE's difficulty at level 1. Measured at 0, 4 and 8 steps, 12 problems each: 381 of the 400 environments
made each problem within a second, and 9 took over 4 seconds for some."""
REFERENCE = "reference_answer"
"""The parameter in which an environment keeps its right answer."""


def make_source() -> RlveSource:
    """Return the source; `task_modules: rlve` calls this function. Raises ImportError without the package."""
    return RlveSource()


class RlveSource(Source):
    """The environments of the installed package."""

    def __init__(self) -> None:
        environments, controllers = _import_gym()
        self._environments = environments
        self._controllers = controllers
        release = f"rlve@{importlib.metadata.version('rlve-gym')}"
        self._tasks = {
            f"{PREFIX}{name}": SourceTask("rlve", release, has_levels=True, left_out=LEFT_OUT.get(name, ""))
            for name in sorted(environments)
        }

    @property
    def tasks(self) -> Mapping[str, SourceTask]:
        return self._tasks

    def generate(self, request: ProblemRequest) -> Generated:
        for number in range(MAX_REJECTED):
            generated = self._make(replace(request, seed=follow_seed(request.seed, number)))
            # The answer rule takes no empty answer, so that nobody could be right.
            if request.as_is or generated.answer is None or generated.answer.strip():
                return replace(generated, flawed={"wrong": number} if number else {})
        raise ValueError(f"none of {MAX_REJECTED} problems may be served: their right answers are empty")

    def _make(self, request: ProblemRequest) -> Generated:
        """Make the problem of the request's own seed."""
        name = request.task.removeprefix(PREFIX)
        if request.params_are_whole:
            params: Mapping[str, Any] = request.params
            level = request.level
        else:
            steps = round(TOP * (request.level or 0.0))
            params = {**self._parameters(name, steps, request.seed), **request.params}
            level = None if request.level is None else steps / TOP
        environment = self._environments[name]()
        environment.seed = request.seed
        environment.parameter = json.loads(json.dumps(params))
        _seed_generators(request.seed)
        environment._generate()
        question = str(environment._prompt_generate())
        answer = environment.parameter.get(REFERENCE)
        state = environment.parameter, environment.passing_reward_threshold
        return Generated(
            question=question,
            answer=None if answer is None else str(answer),
            metadata_json="{}",
            entry=pickle.dumps((request.seed, *state)),
            seed=request.seed,
            params=params,
            level=level,
        )

    def scorer(
        self, task: str, params: Mapping[str, Any], entry: bytes, level: float | None, *, plainly: bool
    ) -> RlveAnswers:
        pickle.loads(entry)  # here, an unreadable entry is an infrastructure error; later, it would be the answer's
        return RlveAnswers(self._environments[task.removeprefix(PREFIX)], entry)

    def bare_scorer(
        self, task: str, params: Mapping[str, Any], entry: bytes, level: float | None
    ) -> Callable[[str], object]:
        answers = self.scorer(task, params, entry, level, plainly=True)

        def verify(answer: str) -> float:
            reward = answers.reward(answer)
            return answers.as_score(reward) if -1.0 <= reward <= 1.0 else reward

        return verify

    def check(self, task: str, params: Mapping[str, Any], level: float | None) -> str | None:
        known = self._parameters(task.removeprefix(PREFIX), 0, 0)
        unknown = [name for name in params if name not in known]
        if unknown:
            return f"{task}: there is no parameter {unknown[0]!r}; there is {', '.join(known) or 'none at all'}"
        return super().check(task, params, level)

    def describe(self, task: str) -> Mapping[str, Mapping[str, Any]]:
        name = task.removeprefix(PREFIX)
        at_levels = {str(level): self._parameters(name, round(TOP * level), 0) for level in (0.0, 0.5, 1.0)}
        return {
            parameter: {"default": default, "levels": {level: at[parameter] for level, at in at_levels.items()}}
            for parameter, default in at_levels["0.0"].items()
        }

    def _parameters(self, name: str, steps: int, seed: int) -> dict[str, Any]:
        """Return the parameters after a number of steps; the seed picks one of several."""
        controller = self._controllers[name]()
        for _ in range(steps):
            controller.update()
        choices = controller.get_parameter_list()
        return dict(json.loads(json.dumps(choices[seed % len(choices)])))


@dataclass(frozen=True)
class RlveAnswers:
    """The scorer of one problem. Each answer gets a fresh environment, since scoring may write into it."""

    environment: Callable[[], Any]
    entry: bytes

    def score(self, answer: str) -> float:
        reward = self.reward(answer)
        if not -1.0 <= reward <= 1.0:
            raise ValueError(f"the verifier returned {reward}")
        return self.as_score(reward)

    def as_score(self, reward: float) -> float:
        """Return the score of a reward in [-1, 1]."""
        _, _, threshold = pickle.loads(self.entry)
        return 1.0 if reward >= threshold - 1e-6 else max(0.0, reward)

    def reward(self, answer: str) -> float:
        """Return RLVE's own reward."""
        environment = self.environment()
        seed, environment.parameter, environment.passing_reward_threshold = pickle.loads(self.entry)
        environment.seed = seed
        # RLVE's own reader of answers looks for the tags, which are gone here.
        environment.processor = partial(_process, environment)
        _seed_generators(seed)
        return float(environment.scorer(answer))


def _process(environment: Any, answer: str) -> Any:
    return environment._process(answer)


def _seed_generators(seed: int) -> None:
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def _import_gym() -> tuple[Mapping[str, Callable[[], Any]], Mapping[str, Callable[[], Any]]]:
    """Import RLVE without torch and without its time limits, whose threads a sandboxed verifier may not start."""
    before = sys.modules.get("torch")
    sys.modules["torch"] = ModuleType("torch")
    try:
        base = importlib.import_module("Gym.environment")
    finally:
        if before is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = before
    base.timeout = lambda seconds: lambda function: function  # type: ignore[attr-defined]
    environments = importlib.import_module("Gym.environments").identifier2environment
    controllers = importlib.import_module("Gym.parameter_controllers").identifier2controller
    return environments, controllers

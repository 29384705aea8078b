"""Helpers of end-to-end tests: trainings, the journals of their environments, and parallel scenarios."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from demo.policy import ScriptedPolicy
from demo.rules import solve
from reasoning_gym_testing import GenerationRequest, LocalTraining, Policy, Process
from reasoning_gym_testing.recorded_environment import read_journal
from tests.waiting import wait_until

T = TypeVar("T")


def steady_policy(skill: float, seed: int = 1) -> Policy:
    """Return a policy with short answers that gives equal answers to equal prompts."""

    def answer(request: GenerationRequest) -> list[str]:
        chance, right = random.Random(f"{seed}:{request.question}"), solve(request.question)
        answers = [right if right and chance.random() < skill else chance.randrange(10) for _ in range(request.n)]
        return [f"<answer>{answer}</answer>" for answer in answers]

    return answer


def make_training(folder: Path, latency_s: float = 0.2, policy: Policy | None = None, **options: Any) -> LocalTraining:
    """Return a training whose environments run no evaluations. The default policy is scripted."""
    policy = policy or ScriptedPolicy(skill=0.6, seed=1)
    return LocalTraining(folder, policy, latency_s=latency_s, **{"steps_per_eval": 0, **options})


def wait_for_groups(training: LocalTraining, *, count: int = 1, since: float = 0.0) -> None:
    """Wait until `count` groups have arrived at run-api after a monotonic time."""
    wait_until(lambda: sum(one.at > since for one in list(training.proxy.delivered)) >= count, "a delivery")


@dataclass(frozen=True)
class Scored:
    """A scored group: its position in the stream, and its scores if the group is delivered."""

    index: int
    kept: tuple[float, ...] | None


def handed_out(environment: Process) -> list[dict[str, Any]]:
    """Return the journal's entries of served problems, in the order of serving."""
    return read_journal(environment.folder, "handed_out")


def scored(environment: Process) -> list[Scored]:
    """Return all groups in the order in which they were scored."""
    groups = read_journal(environment.folder, "scored")
    return [Scored(group["index"], group["scores"] and tuple(group["scores"])) for group in groups]


@contextmanager
def all_at_once(scenarios: Mapping[str, Callable[[], T]]) -> Iterator[Mapping[str, Future[T]]]:
    """Run scenarios in parallel threads. Each future has the result or error of one scenario."""
    with ThreadPoolExecutor(len(scenarios)) as executor:
        yield {name: executor.submit(scenario) for name, scenario in scenarios.items()}

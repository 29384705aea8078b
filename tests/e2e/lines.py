"""Lines for end-to-end tests, what their environments noted, and scenarios that run side by side."""

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
from reasoning_gym_testing import GenerationRequest, Line, Policy, Process
from reasoning_gym_testing.recorded_environment import read_journal
from tests.waiting import wait_until

T = TypeVar("T")


def steady_policy(skill: float, seed: int = 1) -> Policy:
    """Answer briefly, and the same prompt always in the same way."""

    def answer(request: GenerationRequest) -> list[str]:
        chance, right = random.Random(f"{seed}:{request.question}"), solve(request.question)
        answers = [right if right and chance.random() < skill else chance.randrange(10) for _ in range(request.n)]
        return [f"<answer>{answer}</answer>" for answer in answers]

    return answer


def make_line(folder: Path, latency_s: float = 0.2, policy: Policy | None = None, **options: Any) -> Line:
    """A line with the scripted policy, or another one, whose environments evaluate nothing."""
    policy = policy or ScriptedPolicy(skill=0.6, seed=1)
    return Line(folder, policy, latency_s=latency_s, **{"steps_per_eval": 0, **options})


def wait_for_groups(line: Line, *, count: int = 1, since: float = 0.0) -> None:
    """Wait until so many groups have arrived at run-api since a time."""
    wait_until(lambda: sum(one.at > since for one in list(line.proxy.delivered)) >= count, "a delivery")


@dataclass(frozen=True)
class Scored:
    """A group that was scored: its position in the stream, and its scores if it is to be delivered."""

    index: int
    kept: tuple[float, ...] | None


def handed_out(environment: Process) -> list[dict[str, Any]]:
    """The problems in the order in which they were handed out, with the fields that the journal has of them."""
    return read_journal(environment.folder, "handed_out")


def scored(environment: Process) -> list[Scored]:
    """All groups in the order in which they were scored."""
    groups = read_journal(environment.folder, "scored")
    return [Scored(group["index"], group["scores"] and tuple(group["scores"])) for group in groups]


@contextmanager
def all_at_once(scenarios: Mapping[str, Callable[[], T]]) -> Iterator[Mapping[str, Future[T]]]:
    """Run scenarios at the same time, on threads; each future's `result()` gives or raises what its scenario did."""
    with ThreadPoolExecutor(len(scenarios)) as executor:
        yield {name: executor.submit(scenario) for name, scenario in scenarios.items()}

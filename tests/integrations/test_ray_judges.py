"""`RayJudges` with a fake Ray, whose actors are objects of this process. `test_ray.py` uses a real cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, ClassVar

import pytest

from reasoning_env.errors import GeneratorFaultError, ScoringError, WorkerError
from reasoning_env.records import Reason, Verdict


class RayError(Exception):
    """Raised if an actor or its node has died."""


class RayTaskError(RayError):
    """Raised if an actor raised the error `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Method:
    """A method of an actor. Each call is an asyncio task, as in Ray's asynchronous actors."""

    def __init__(self, method: Any) -> None:
        self._method = method

    async def remote(self, *args: Any) -> Any:
        try:
            return await asyncio.create_task(self._method(*args))
        except RayError:
            raise
        except Exception as error:
            raise RayTaskError(error) from error


class Actors:
    """The fake of the class that `ray.remote` returns."""

    def __init__(self, actor_class: type) -> None:
        self._class = actor_class

    def options(self, **_: Any) -> Actors:
        return self

    def remote(self, *args: Any) -> Any:
        actor = ModuleType("actor")
        actor.judge = Method(self._class(*args).judge)  # type: ignore[attr-defined]
        return actor


class NodeSession:
    """A session of a node. Its first calls raise `errors`, one error per call."""

    errors: ClassVar[list[Exception]] = []

    def __init__(self, _: Any, score: str | None) -> None:
        self._score = score

    async def start(self) -> None:
        pass

    async def judge(self, reference: str, completions: Sequence[str]) -> list[Verdict]:
        if self.errors:
            raise self.errors.pop(0)
        return [Verdict(1.0, Reason.SCORED, text) for text in completions]


@pytest.fixture
def ray_judges(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter's class with a fake cluster of two nodes."""
    ray: Any = ModuleType("ray")
    ray.exceptions = ModuleType("ray.exceptions")
    ray.exceptions.RayError, ray.exceptions.RayTaskError = RayError, RayTaskError
    ray.nodes = lambda: [{"NodeID": "a", "Alive": True}, {"NodeID": "b", "Alive": True}]
    ray.remote = lambda **_: Actors
    strategies: Any = ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda *_, **__: None
    ray.data = ModuleType("ray.data")
    for module in (ray, ray.exceptions, ray.data, ModuleType("ray.util"), strategies):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "reasoning_env.integrations.ray", raising=False)
    from reasoning_env.integrations import ray as adapter

    monkeypatch.setattr(adapter, "Session", NodeSession)
    monkeypatch.setattr(NodeSession, "errors", [])
    yield adapter.RayJudges
    sys.modules.pop("reasoning_env.integrations.ray", None)


async def test_ray_node_returns_verdicts(ray_judges: Any) -> None:
    verdicts = await ray_judges().judge("reference", ["a", "b"])
    assert [verdict.answer for verdict in verdicts] == ["a", "b"]


async def test_failed_judgement_is_retried_on_a_second_node(ray_judges: Any) -> None:
    judges = ray_judges()
    NodeSession.errors = [WorkerError("no worker")]
    assert len(await judges.judge("reference", ["a"])) == 1
    assert judges.fault is None


@pytest.mark.parametrize("error", [WorkerError("no worker"), RayError("the node is gone")])
async def test_failure_of_all_ray_nodes_raises(
    ray_judges: Any, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    judges = ray_judges()
    assert judges.fault is None
    NodeSession.errors = [error, error]
    with pytest.raises(ScoringError, match="the judges on all nodes of the Ray cluster failed"):
        await judges.judge("reference", ["a"])
    assert judges.fault == "the judges on all nodes of the Ray cluster failed"
    monkeypatch.setattr(judges, "_resting_until", dict.fromkeys(judges._resting_until, 0.0))
    assert judges.fault is None


async def test_session_error_on_a_ray_node_is_raised_to_the_caller(ray_judges: Any) -> None:
    judges = ray_judges()
    NodeSession.errors = [GeneratorFaultError("unexpected")]
    with pytest.raises(GeneratorFaultError, match="unexpected"):
        await judges.judge("reference", ["a"])
    assert judges.fault is None

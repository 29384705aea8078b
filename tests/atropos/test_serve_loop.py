"""The loop of `serve` over an environment that only remembers what it was told."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos.config import RunMode
from reasoning_env.atropos.inference.client import Mode
from reasoning_env.atropos.modes import serve as serve_loop
from reasoning_env.atropos.modes.serve import serve
from reasoning_env.errors import ConfigError
from reasoning_env.records import Timeouts

STATUS = {"current_step": 0, "queue_size": 0, "self_queue_size": 0, "max_group_size": 4}
OVER = {**STATUS, "current_step": 101}
CONFIG = {
    "group_size": 4,
    "batch_size": 16,
    "total_steps": 100,
    "max_batches_offpolicy": 2,
    "min_batch_allocation": None,
}


class Env:
    """Tells run-api's states in turn, and has one worker."""

    def __init__(self, *statuses: dict[str, int], **config: Any) -> None:
        self.config = SimpleNamespace(**{**CONFIG, **config})
        self.told: list[str] = []
        self.last_loop_time = None
        self.mainloop_timings: list[float] = []
        self.max_num_workers = 2
        self.derived_batch_size = self.config.batch_size
        self.worker = asyncio.create_task(asyncio.Event().wait())
        self.workers = {self.worker}
        self.running_items = {"a": {"item": "an item"}}
        self.backlog: list[str] = []
        self._statuses = list(statuses)

    def __getattr__(self, name: str) -> Any:
        async def remember() -> None:
            self.told.append(name)

        return remember

    async def get_status(self) -> None:
        self.status_dict = self._statuses.pop(0)


class Run:
    """What `serve` needs of the collaborators."""

    mode = RunMode.IMPORTED

    def __init__(self) -> None:
        self.told: list[str] = []
        self.session = SimpleNamespace(wait_until_there=self._wait)
        self.inference = SimpleNamespace(mode=Mode.TOKENS)

    def timeouts(self) -> Timeouts:
        return Timeouts(None, math.inf if self.mode is RunMode.SERVE else 1.0)

    async def start_dumps(self) -> None:
        self.told.append("start_dumps")

    async def _wait(self, timeout_s: float) -> None:
        self.told.append(f"wait {timeout_s}")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_loop, "LOOP_PAUSE_S", 0.0)


async def served(env: Env) -> Run:
    run: Any = Run()
    await serve(env, run)
    return run  # type: ignore[no-any-return]


async def test_hooks_are_called_in_base_envs_order_once_run_api_is_there() -> None:
    env = Env(OVER)
    run = await served(env)
    assert (run.mode, run.told) == (RunMode.SERVE, ["start_dumps", "wait inf"])
    assert env.told == ["setup", "setup_wandb", "register_env", "get_server_info", "env_step_checks"]


@pytest.mark.parametrize(
    ("status", "over"),
    [
        ({"current_step": 100, "queue_size": 3}, False),
        ({"current_step": 100, "queue_size": 4}, True),
        ({"current_step": 101}, True),
        ({"current_step": 97, "queue_size": 15}, False),
        ({"current_step": 97, "queue_size": 16}, True),
    ],
)
async def test_it_ends_when_the_trainer_has_or_will_find_its_last_batch(status: dict[str, int], over: bool) -> None:
    env = Env({**STATUS, **status}, OVER)
    await served(env)
    assert (env.told.count("env_step_checks") == 1) is over
    await asyncio.wait([env.worker])
    assert env.worker.cancelled()


@pytest.mark.parametrize(
    ("config", "status", "enough"),
    [
        ({}, {"queue_size": 7}, False),
        ({}, {"queue_size": 8}, True),
        ({"min_batch_allocation": 0.5}, {"queue_size": 8, "self_queue_size": 3}, False),
        ({"min_batch_allocation": 0.5}, {"queue_size": 8, "self_queue_size": 4}, True),
        ({"min_batch_allocation": 0.5}, {"queue_size": 8, "self_queue_size": 3, "max_group_size": 8}, False),
        ({"min_batch_allocation": 0.5}, {"queue_size": 8, "self_queue_size": 4, "max_group_size": 8}, True),
        ({"batch_size": -1, "total_steps": 1000}, {}, True),
    ],
)
async def test_workers_are_put_back_when_run_api_has_enough_and_added_otherwise(
    config: dict[str, Any], status: dict[str, int], enough: bool
) -> None:
    env = Env({**STATUS, **status}, {**OVER, "current_step": 2000}, **config)
    await served(env)
    assert ("add_train_workers" in env.told) is not enough
    assert (env.backlog, env.running_items) == ((["an item"], {}) if enough else ([], {"a": {"item": "an item"}}))
    assert env.workers == (set() if enough else {env.worker})


async def test_no_worker_is_added_where_there_are_as_many_as_allowed() -> None:
    env = Env(STATUS, STATUS, OVER)
    env.max_num_workers = 1
    await served(env)
    assert "add_train_workers" not in env.told
    assert len(env.mainloop_timings) == 2


async def test_chat_servers_are_refused_before_anything_is_started() -> None:
    run: Any = Run()
    run.inference.mode = Mode.CHAT
    with pytest.raises(ConfigError, match="server_type"):
        await serve_loop.serve(Env(), run)
    assert run.told == []

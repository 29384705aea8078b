"""The main loop of `serve`, with a mock environment that records calls."""

from __future__ import annotations

import asyncio
import logging
import math
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from reasoning_env.atropos.modes.serve import Serve
from reasoning_env.errors import ConfigError
from reasoning_env.inference.formats.reply_format import ReplyKind

STATUS = {"current_step": 0, "queue_size": 0, "self_queue_size": 0, "max_group_size": 4}
OVER = {**STATUS, "current_step": 101}
CONFIG = {
    "group_size": 4,
    "batch_size": 16,
    "total_steps": 100,
    "max_batches_offpolicy": 2,
    "min_batch_allocation": None,
    "startup_timeout_s": None,
}


def make_env(*statuses: dict[str, int], **config: Any) -> Any:
    """Return an environment with one worker that gets the given states of run-api in order."""
    env = AsyncMock(
        config=SimpleNamespace(**{**CONFIG, **config}),
        last_loop_time=None,
        mainloop_timings=[],
        max_num_workers=2,
        workers={asyncio.create_task(asyncio.Event().wait())},
        running_items={"a": {"item": "an item"}},
        backlog=[],
    )
    env.derived_batch_size = env.config.batch_size
    left = iter(statuses)
    env.get_status.side_effect = lambda: setattr(env, "status_dict", next(left))
    return env


def make_run() -> Any:
    """Return mocks of the parts of a run that `serve` uses."""
    return AsyncMock(inference=SimpleNamespace(reply_kind=ReplyKind.TOKENS))


def told(mock: Any) -> list[str]:
    return [name for name, _, _ in mock.mock_calls if name != "get_status"]


async def test_serve_command_calls_the_environment_hooks_in_order() -> None:
    env, run = make_env(OVER), make_run()
    await Serve().run(env, run)
    assert told(run) == ["lifetime.start_dumps", "run_api.wait_until_there"]
    run.run_api.wait_until_there.assert_called_with(math.inf)
    assert told(env) == ["setup", "setup_wandb", "register_env", "get_server_info", "env_step_checks"]


@pytest.mark.parametrize(("steps", "who"), [(100, "env.total_steps"), (-1, "the trainer")])
async def test_final_log_line_names_the_source_of_total_steps(
    steps: int, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    env = make_env(OVER, total_steps=steps)
    env.register_env.side_effect = lambda: setattr(env.config, "total_steps", 100)
    with caplog.at_level(logging.INFO):
        await Serve().run(env, make_run())
    assert f"done: the trainer has received the batches of all 100 steps ({who})" in caplog.messages


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
async def test_serve_command_ends_after_the_last_batch(status: dict[str, int], over: bool) -> None:
    env = make_env({**STATUS, **status}, OVER)
    [worker] = env.workers
    await Serve().run(env, make_run())
    assert (env.env_step_checks.call_count == 1) is over
    await asyncio.wait([worker])
    assert worker.cancelled()


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
async def test_full_trainer_queue_cancels_workers_without_losing_their_problems(
    config: dict[str, Any], status: dict[str, int], enough: bool
) -> None:
    env = make_env({**STATUS, **status}, {**OVER, "current_step": 2000}, **config)
    await Serve().run(env, make_run())
    assert env.add_train_workers.called is not enough
    assert (env.backlog, env.running_items) == ((["an item"], {}) if enough else ([], {"a": {"item": "an item"}}))
    assert len(env.workers) == (0 if enough else 1)


async def test_serve_command_starts_no_worker_beyond_max_num_workers() -> None:
    env = make_env(STATUS, STATUS, OVER)
    env.max_num_workers = 1
    await Serve().run(env, make_run())
    assert not env.add_train_workers.called
    assert len(env.mainloop_timings) == 2


async def test_serve_command_rejects_a_server_that_offers_only_chat() -> None:
    run = make_run()
    run.inference.reply_kind = ReplyKind.CHAT
    with pytest.raises(ConfigError, match="server_type"):
        await Serve().run(make_env(), run)
    assert told(run) == []

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.atropos import run as run_module
from reasoning_env.atropos.config import RunMode
from reasoning_env.atropos.run import OUTAGE_LIMIT_S, Run
from reasoning_env.records import Sampling, Split, Timeouts
from reasoning_gym_environment import ReasoningGymEnvConfig


def make_run(tokenizer: Any, **fields: Any) -> Run:
    return Run(ReasoningGymEnvConfig(**fields), lambda: SimpleNamespace(servers=[]), tokenizer, Path("."))


@pytest.mark.parametrize(("own", "trainer", "limit"), [(700, -1, 700), (700, 600, 600), (600, 700, 600)])
def test_token_limit_is_the_smaller_of_ours_and_the_trainers(
    tokenizer: Any, own: int, trainer: int, limit: int
) -> None:
    sampling = make_run(tokenizer, max_token_length=own).sampling(Split.TRAIN, trainer)
    assert sampling == Sampling(temperature=1.0, top_p=1.0, token_limit=limit, split="train")


@pytest.mark.parametrize(
    ("fields", "mode", "startup_s", "timeouts"),
    [
        ({}, RunMode.SERVE, math.inf, Timeouts(600, math.inf)),
        ({}, RunMode.PROCESS, OUTAGE_LIMIT_S, Timeouts(600, OUTAGE_LIMIT_S)),
        ({"worker_timeout": -1, "startup_timeout_s": 5}, RunMode.SERVE, 5, Timeouts(None, math.inf)),
        ({"worker_timeout": -1, "startup_timeout_s": 5}, RunMode.EVALUATE, 5, Timeouts(None, 5)),
    ],
)
def test_only_serve_waits_for_ever_and_once_it_runs_whatever_it_is_told(
    tokenizer: Any, fields: dict[str, Any], mode: RunMode, startup_s: float, timeouts: Timeouts
) -> None:
    run = make_run(tokenizer, **fields)
    run.mode = mode
    assert (run.startup_timeout_s, run.timeouts()) == (startup_s, timeouts)


def test_before_setup_there_is_nothing_to_use_or_report(tokenizer: Any) -> None:
    run = make_run(tokenizer)
    with pytest.raises(RuntimeError, match="setup"):
        _ = run.backend
    assert (run.report(), run.worker_pids) == ({}, ())
    assert "groups=0" in run.progress_line()


async def test_state_is_saved_in_a_folder_regularly_while_it_changes_and_the_disk_keeps_up(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_module, "SAVE_INTERVAL_S", 0.0)
    run: Any = make_run(tokenizer)
    keeper = Mock(busy=False, folder=None)
    run._backend = SimpleNamespace(keeper=keeper, source=SimpleNamespace(state=dict, stats=None, in_flight=0))
    run._collect_state = lambda: {"own": 1}
    monkeypatch.setattr(run, "progress_line", str)
    run.save(5)
    assert not keeper.save.called
    keeper.folder = Path("folder")
    step = 1

    async def steps_saved() -> list[int]:
        """Return the steps that are saved once there were some more rounds, each of which takes one turn."""
        for _ in range(20):
            await asyncio.sleep(0)
        return [call.args[0] for call in keeper.save.call_args_list]

    saving = asyncio.create_task(run._save_regularly(lambda: step))
    assert await steps_saved() == [1]
    (_, state, waiting, delivered_up_to), options = keeper.save.call_args
    assert (state["own"], waiting, delivered_up_to, options) == (1, [], 0, {"latest": True})
    step, keeper.busy = 2, True
    assert await steps_saved() == [1]
    keeper.busy = False
    assert await steps_saved() == [1, 2]
    step, collect = 3, run._collect_state
    run._collect_state = lambda: 1 // 0
    assert await steps_saved() == [1, 2]
    assert "ZeroDivisionError" in caplog.text
    run._collect_state = collect
    assert await steps_saved() == [1, 2, 3]
    saving.cancel()
    await asyncio.wait([saving])

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos import run as run_module
from reasoning_env.atropos.config import RunMode
from reasoning_env.atropos.run import OUTAGE_LIMIT_S, Run
from reasoning_env.records import Sampling, Split, Timeouts
from reasoning_gym_environment import ReasoningGymEnvConfig


def make_run(tokenizer: Any, **fields: Any) -> Run:
    return Run(ReasoningGymEnvConfig(**fields), SimpleNamespace(servers=[]), tokenizer, Path("."))


@pytest.mark.parametrize(("own", "trainer", "limit"), [(700, -1, 700), (700, 600, 600), (600, 700, 600)])
def test_token_limit_is_the_smaller_of_ours_and_the_trainers(
    tokenizer: Any, own: int, trainer: int, limit: int
) -> None:
    sampling = make_run(tokenizer, max_token_length=own).sampling(Split.TRAIN, trainer)
    assert sampling == Sampling(temperature=1.0, top_p=1.0, token_limit=limit, split="train")


@pytest.mark.parametrize(
    ("fields", "mode", "timeouts"),
    [
        ({}, RunMode.SERVE, Timeouts(600, math.inf)),
        ({}, RunMode.PROCESS, Timeouts(600, OUTAGE_LIMIT_S)),
        ({"worker_timeout": -1, "startup_timeout_s": 5}, RunMode.SERVE, Timeouts(None, 5)),
    ],
)
def test_only_serve_waits_for_ever_unless_told_otherwise(
    tokenizer: Any, fields: dict[str, Any], mode: RunMode, timeouts: Timeouts
) -> None:
    run = make_run(tokenizer, **fields)
    run.mode = mode
    assert run.timeouts() == timeouts


def test_before_setup_there_is_nothing_to_use_or_report(tokenizer: Any) -> None:
    run = make_run(tokenizer)
    with pytest.raises(RuntimeError, match="setup"):
        _ = run.backend
    assert (run.report(), run.worker_pids) == ({}, ())
    assert "groups=0" in run.progress_line()


class Keeper:
    """Remembers what it was told to save."""

    def __init__(self, folder: Path | None = Path("folder")) -> None:
        self.folder = folder
        self.saved: list[tuple[int, bool]] = []
        self.busy = False

    def save(self, step: int, state: Any, waiting: Any, delivered_up_to: int, *, latest: bool) -> None:
        assert (state["own"], waiting, delivered_up_to) == (1, [], 0)
        self.saved.append((step, latest))


def make_saving(tokenizer: Any, keeper: Keeper) -> Run:
    run: Any = make_run(tokenizer)
    run._backend = SimpleNamespace(keeper=keeper, source=SimpleNamespace(state=dict, stats=None, in_flight=0))
    run._collect_state = lambda: {"own": 1}
    made: Run = run
    return made


async def test_nothing_is_saved_without_a_folder(tokenizer: Any) -> None:
    keeper = Keeper(folder=None)
    make_saving(tokenizer, keeper).save(5)
    assert keeper.saved == []


async def test_state_is_saved_regularly_while_it_changes_and_the_disk_keeps_up(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_module, "SAVE_INTERVAL_S", 0.0)
    keeper, steps = Keeper(), [1]
    run: Any = make_saving(tokenizer, keeper)
    monkeypatch.setattr(run, "progress_line", str)
    rounds = asyncio.Semaphore(0)

    def step() -> int:
        rounds.release()
        return steps[-1]

    async def some_rounds() -> None:
        while not rounds.locked():
            await rounds.acquire()
        for _ in range(5):
            await rounds.acquire()

    saving = asyncio.create_task(run._save_regularly(step))
    await some_rounds()
    assert keeper.saved == [(1, True)]
    steps.append(2)
    keeper.busy = True
    await some_rounds()
    assert keeper.saved == [(1, True)]
    keeper.busy = False
    await some_rounds()
    assert keeper.saved == [(1, True), (2, True)]
    steps.append(3)
    monkeypatch.setattr(run, "_collect_state", lambda: 1 // 0)
    await some_rounds()
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.setattr(run, "_collect_state", lambda: {"own": 1})
    await some_rounds()
    assert keeper.saved == [(1, True), (2, True), (3, True)]
    saving.cancel()
    await asyncio.wait([saving])

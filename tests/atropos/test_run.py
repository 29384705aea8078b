from __future__ import annotations

import asyncio
import math
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_env.atropos import Imported, Mode, Process, Serve
from reasoning_env.atropos.lifetime import Lifetime
from reasoning_env.atropos.run import Run
from reasoning_env.errors import ConfigError
from reasoning_env.inference.failures import Timeouts
from reasoning_env.records import Rollout, Sampling
from reasoning_env.runtime.concurrency import cancel_all
from reasoning_gym_environment import ReasoningGymEnvConfig
from tests.records import make_group, make_problem
from tests.waiting import until


def make_run(tokenizer: Any, *, trainer_limit: int = -1, **fields: Any) -> Run:
    manager = SimpleNamespace(servers=[])
    return Run(
        ReasoningGymEnvConfig(**fields),
        lambda: manager,
        tokenizer,
        Path("."),
        mode=Imported(),
        trainer_limit=lambda: trainer_limit,
        step=lambda: 1,
        collect_state=lambda: {"own": 1},
    )


@pytest.mark.parametrize(("own", "trainer", "limit"), [(700, -1, 700), (700, 600, 600), (600, 700, 600)])
def test_smaller_of_the_token_limits_of_trainer_and_environment_applies(
    tokenizer: Any, own: int, trainer: int, limit: int
) -> None:
    sampling = make_run(tokenizer, max_token_length=own, trainer_limit=trainer).sampling()
    assert sampling == Sampling(temperature=1.0, top_p=1.0, token_limit=limit, split="train")


@pytest.mark.parametrize(
    ("fields", "mode", "startup_s", "timeouts"),
    [
        ({}, Serve(), math.inf, Timeouts(600, math.inf)),
        ({}, Process(), 30.0, Timeouts(600, 30.0, away_s=600.0)),
        ({"worker_timeout": -1, "startup_timeout_s": 5}, Serve(), 5, Timeouts(None, math.inf)),
        ({"worker_timeout": -1, "startup_timeout_s": 5}, Process(), 5, Timeouts(None, 5, away_s=600.0)),
    ],
)
def test_serve_and_process_commands_have_different_timeouts(
    tokenizer: Any, fields: dict[str, Any], mode: Mode, startup_s: float, timeouts: Timeouts
) -> None:
    run = make_run(tokenizer, **fields)
    run.mode = mode
    assert (mode.startup_timeout_s(run.config), run.timeouts()) == (startup_s, timeouts)


@pytest.mark.parametrize(("answer", "fits"), [("number " * 50, True), ("number " * 300, False), (None, True)])
def test_problem_whose_answer_exceeds_the_token_limit_is_not_served(
    tokenizer: Any, answer: str | None, fits: bool
) -> None:
    run = make_run(tokenizer, max_token_length=500)
    prepared = run.prepare(make_problem(answer=answer))
    assert (prepared is not None) == fits


def test_problem_whose_prompt_exceeds_the_token_limit_is_not_served(tokenizer: Any) -> None:
    run = make_run(tokenizer, max_token_length=120)
    assert run.prepare(make_problem(question="What is 1 + 1? " * 30, answer="2")) is None


async def test_unwritable_dumps_folder_raises(tokenizer: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = make_run(tokenizer, dump_rollouts=True, data_dumps_dir=str(tmp_path / "file" / "dumps"))
    with pytest.raises(ConfigError, match=r"^data_dumps_dir: .*dumps cannot be made, because .*file is not a folder"):
        await run.lifetime.start_dumps()


async def test_packed_lists_equal_the_tokens_masks_and_logprobs_of_the_rollouts(tokenizer: Any) -> None:
    """Rollouts may begin differently, because a subclass may change them."""
    rollouts = [
        Rollout("", array("i", [*prompt, 7, 8]), array("i", [*masks, 7, 8]), array("d", [1.0, 1.0, -0.5, 0.0]), "stop")
        for prompt, masks in [((1, 1), (-100, -100)), ((1, 1), (-100, 1)), ((1, 2), (-100, -100))]
    ]
    packed: Any = await make_run(tokenizer).pack(make_group(rollouts), as_lists=True)
    assert packed["tokens"] == [[1, 1, 7, 8], [1, 1, 7, 8], [1, 2, 7, 8]]
    assert packed["masks"] == [[-100, -100, 7, 8], [-100, 1, 7, 8], [-100, -100, 7, 8]]
    assert str(packed["inference_logprobs"]) == str([[1.0, 1.0, -0.5, 0.0]] * 3)


def test_training_run_reports_no_metrics_before_setup(tokenizer: Any) -> None:
    run = make_run(tokenizer)
    assert run.report.interval() == {}
    assert "groups=0" in run.report.progress_line()


@pytest.fixture
def saving_run(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run that saves checkpoints without pauses to a store that only records the steps."""
    monkeypatch.setattr(Lifetime, "save_interval_s", 0.0)
    run: Any = make_run(tokenizer)
    run.lifetime.checkpoints = Mock(busy=False, folder=Path("folder"))
    run.session = Mock(state=dict)
    monkeypatch.setattr(run.report, "progress_line", str)
    return run


async def steps_saved(run: Any) -> list[int]:
    """Return the steps that were saved after some more turns of the event loop."""
    for _ in range(20):
        await asyncio.sleep(0)
    return [call.args[0] for call in run.lifetime.checkpoints.save.call_args_list]


async def test_unchanged_state_is_not_saved_again(saving_run: Any) -> None:
    saving = asyncio.create_task(saving_run.lifetime._save_regularly())
    assert await steps_saved(saving_run) == [1]
    saving_run.lifetime.checkpoints.save.assert_called_once_with(1, {"own": 1}, latest=True)
    await cancel_all([saving])


async def test_next_checkpoint_waits_until_the_previous_checkpoint_is_written(saving_run: Any) -> None:
    saving_run.lifetime.checkpoints.busy = True
    saving = asyncio.create_task(saving_run.lifetime._save_regularly())
    assert await steps_saved(saving_run) == []
    saving_run.lifetime.checkpoints.busy = False
    assert await steps_saved(saving_run) == [1]
    await cancel_all([saving])


async def test_error_in_collecting_subclass_state_does_not_stop_later_checkpoints(
    saving_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    saving_run.lifetime._collect_state = lambda: 1 // 0
    saving = asyncio.create_task(saving_run.lifetime._save_regularly())
    assert await steps_saved(saving_run) == []
    assert "ZeroDivisionError" in caplog.text
    saving_run.lifetime._collect_state = dict
    assert await steps_saved(saving_run) == [1]
    await cancel_all([saving])


def test_no_state_is_saved_if_there_is_no_checkpoint_folder(saving_run: Any) -> None:
    saving_run.lifetime.checkpoints.folder = None
    saving_run.lifetime.save(5)
    assert not saving_run.lifetime.checkpoints.save.called


async def test_warning_is_logged_if_a_run_makes_no_progress(
    tokenizer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.atropos.report.PROGRESS_INTERVAL_S", 0.01)
    caplog.set_level("INFO", "reasoning_env")
    run = make_run(tokenizer)
    logging_progress = asyncio.create_task(run.report.log_progress())
    await until(lambda: len(caplog.messages) >= 3)
    await cancel_all([logging_progress])
    assert caplog.messages[0].startswith("progress: ")
    assert caplog.messages[2] == "no group scored or dropped for 0 s; groups in flight: 0"


async def test_inference_outage_is_not_logged_again_with_each_progress_line(
    tokenizer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.atropos.report.PROGRESS_INTERVAL_S", 0.01)
    caplog.set_level("INFO", "reasoning_env")
    run = make_run(tokenizer)
    run.inference._patience._outage.note("no inference server answers")
    logging_progress = asyncio.create_task(run.report.log_progress())
    await until(lambda: len(caplog.messages) >= 2)
    await asyncio.sleep(0.1)
    await cancel_all([logging_progress])
    assert [message.partition(":")[0] for message in caplog.messages] == ["no inference server answers", "progress"]


@pytest.mark.parametrize(("groups", "logged"), [(0, []), (3, ["groups=3"])])
async def test_final_progress_line_is_logged_once(
    tokenizer: Any, caplog: pytest.LogCaptureFixture, groups: int, logged: list[str]
) -> None:
    caplog.set_level("INFO")
    run: Any = make_run(tokenizer)
    run.lifetime._background = [asyncio.create_task(asyncio.sleep(60))]
    run.report.progress = Mock(return_value={**run.report.progress(), "groups": groups})
    await run.lifetime.stop_background()
    assert [word for word in caplog.text.split() if word.startswith("groups=")] == logged

"""`serve` and `process` read exactly the settings that are declared for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reasoning_env.atropos import ReasoningGymEnvConfig
from reasoning_env.program.training import USED_BY
from reasoning_env.runtime.concurrency import cancel_all
from reasoning_gym_testing import InferenceServer
from tests.atropos.run_api.served import ServedRunApi
from tests.setting_reads import recorded_reads

from .conftest import make_env_object

ONLY_WITH_WANDB = {"num_rollouts_to_keep", "num_rollouts_per_group_for_logging", "wandb_name"}
WITHOUT_USE_IN_PROCESS = ("make_run_api_session", "Lifetime.start", "ModelEvaluations.choose_workers")
"""Functions that prepare parts that `process` never uses: run-api, checkpoints and evaluations."""


def used_by(command: str) -> set[str]:
    return {name for name in ReasoningGymEnvConfig.model_fields if command in USED_BY[f"env.{name}"]}


async def test_process_command_reads_exactly_its_declared_settings(server: InferenceServer, tmp_path: Path) -> None:
    path = str(tmp_path / "groups.jsonl")
    with recorded_reads(*WITHOUT_USE_IN_PROCESS) as read:
        env = make_env_object(
            [server.config()],
            total_steps=1,
            data_path_to_save_groups=path,
            dump_rollouts=True,
            data_dumps_dir=str(tmp_path),
        )
        await env.process_manager()
        await env.close()
    assert read == used_by("process") - ONLY_WITH_WANDB


async def test_serve_command_reads_exactly_its_declared_settings(
    server: InferenceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with ServedRunApi() as api:
        await api.train(batch_size=4)
        with recorded_reads() as read:
            env = make_env_object(
                [server.config()],
                rollout_server_url=api.url,
                ensure_scores_are_not_same=False,
                steps_per_eval=2,
                eval_handling="LIMIT_TRAIN",
                num_eval_samples_per_task=1,
                dump_rollouts=True,
                data_dumps_dir=str(tmp_path),
            )
            running = asyncio.create_task(env.env_manager())
            while env.results is None and not running.done():
                await asyncio.sleep(0.05)
                await api.call("GET", "/batch")
            await cancel_all([running])
            await env.close()
    assert read - ONLY_WITH_WANDB == used_by("serve") - ONLY_WITH_WANDB

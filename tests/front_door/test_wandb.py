"""What is reported, the rollout table, and wandb without an account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from aiohttp import web
from aiohttp.test_utils import TestServer

from .conftest import WRONG, Collect, MakeEnv, right


async def test_a_report_holds_the_metrics_of_every_part_and_those_it_is_given(
    make_env: MakeEnv, collect: Collect
) -> None:
    env = await make_env(task_sampling="adaptive")
    await collect(env, "right", WRONG, WRONG, WRONG)
    await env.wandb_log({"mine": 3})
    metrics = env.reported[-1]
    assert (metrics["mine"], metrics["train/mean_score"], metrics["train/task_mean_score/chain_sum"]) == (3, 0.25, 0.25)
    for name in (
        "perf/queued_jobs",
        "tasks/quarantined",
        "workers/crashes",
        "dropped/timed_out",
        "sampling/share/chain_sum",
    ):
        assert name in metrics
    assert "train/mean_score" not in await env.report()


@pytest.mark.parametrize(("per_group", "groups", "rows"), [(1, 32, 3), (-1, 32, 12), (-1, 2, 8), (9, 1, 4), (1, 0, 0)])
async def test_the_table_keeps_as_many_rollouts_as_it_should(
    make_env: MakeEnv, collect: Collect, per_group: int, groups: int, rows: int
) -> None:
    env = await make_env(num_rollouts_per_group_for_logging=per_group, num_rollouts_to_keep=groups, use_wandb=True)
    for _ in range(3):
        group, item = await collect(env, "right", WRONG, WRONG, WRONG)
        await env.add_rollouts_for_wandb(group, item)
    metrics = await env.create_rollout_table({"a": 1})
    assert ("train/rollouts" in metrics) is bool(rows)
    if rows:
        assert len(metrics["train/rollouts"].data) == rows
        text, score, expected, task = metrics["train/rollouts"].data[-min(4, rows // min(3, groups))]
        assert text == f"{item.prompt.text}{right(item)}<|im_end|>"
        assert (score, expected, task) == (1.0, item.problem.answer, "chain_sum")


@pytest.fixture
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of its own, and no trace of a wandb account; returns the directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL", "NETRC", "WANDB_MODE"):
        # Set and deleted, so that what a run sets is taken back at the end.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield tmp_path
    wandb.finish()
    wandb.teardown()


@pytest.mark.slow
async def test_without_an_account_metrics_and_table_are_kept_in_the_working_directory(
    make_env: MakeEnv, collect: Collect, no_account: Path
) -> None:
    async def wandb_info(_request: web.Request) -> web.Response:
        return web.json_response({"group": "a-group", "project": "a-project"})

    app = web.Application()
    app.router.add_get("/wandb_info", wandb_info)
    async with TestServer(app) as run_api:
        env = await make_env(group_size=2, use_wandb=True, rollout_server_url=str(run_api.make_url("")))
        await env.setup_wandb()
        group, item = await collect(env, "right", WRONG)
        await env.add_rollouts_for_wandb(group, item)
        await env.wandb_log()
    wandb.finish()
    wandb.teardown()  # ends wandb's own process, which writes the last of its file
    [run] = (no_account / "wandb").glob("offline-run-*")
    [table] = (run / "files" / "media" / "table" / "train").glob("rollouts_*.table.json")
    assert json.loads(table.read_text())["columns"] == ["text", "score", "expected_answer", "task"]
    [record] = run.glob("run-*.wandb")
    assert b"train/mean_score" in record.read_bytes()


async def test_without_wandb_nothing_is_started(make_env: MakeEnv, no_account: Path) -> None:
    env = await make_env(use_wandb=False, rollout_server_url="http://127.0.0.1:9")
    await env.setup_wandb()
    await env.wandb_log()
    assert not (no_account / "wandb").exists()

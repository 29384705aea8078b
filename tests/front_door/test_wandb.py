"""What is reported, the rollout table, and wandb without an account."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import wandb
from aiohttp import web
from aiohttp.test_utils import TestServer

from .conftest import MakeEnv
from .fakes import Reply, TokenEnv

WRONG = "<answer>nonsense</answer>"


async def collect_and_keep(env: TokenEnv, *replies: str | Reply) -> None:
    """Collect a group whose first reply is right, and keep it for the table as BaseEnv does."""
    item = await env.get_next_item()
    env.log.say(f"<answer>{item.problem.answer}</answer>", *replies)
    group, _ = await env.collect_trajectories(item)
    if group is not None:
        await env.add_rollouts_for_wandb(group, item)


# ---------------------------------------------------------------------------- metrics


async def test_scores_are_reported_overall_and_for_each_task(make_env: MakeEnv) -> None:
    env = await make_env(group_size=4)
    await collect_and_keep(env, WRONG, WRONG, WRONG)
    metrics = await env.report()
    assert metrics["train/share_correct"] == 0.25
    assert metrics["train/mean_score"] == metrics["train/task_mean_score/chain_sum"] == 0.25


async def test_verdict_reasons_are_reported_as_shares(make_env: MakeEnv) -> None:
    env = await make_env(group_size=4)
    await collect_and_keep(env, WRONG, "I do not know.", "<answer>1</answer><answer>2</answer>")
    metrics = await env.report()
    shares = {name.rpartition("/")[2]: value for name, value in metrics.items() if name.startswith("train/reason/")}
    assert sum(shares.values()) == 1.0
    assert (shares["scored"], shares["no_answer"], shares["several_answers"]) == (0.5, 0.25, 0.25)


async def test_groups_without_signal_are_reported_as_shares(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    await collect_and_keep(env, WRONG)
    item = await env.get_next_item()
    for text in (f"<answer>{item.problem.answer}</answer>", WRONG, WRONG):
        env.log.say(text, text)
        await env.collect_trajectories(item)
    metrics = await env.report()
    assert metrics["train/groups/kept"] == metrics["train/groups/all_right"] == 0.25
    assert metrics["train/groups/all_wrong"] == 0.5


async def test_truncation_and_lengths_are_reported(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    item = await env.get_next_item()
    env.log.say(Reply(WRONG, "length", tokens=[5] * 30), Reply(WRONG, tokens=[5] * 10))
    await env.collect_trajectories(item)
    metrics = await env.report()
    assert metrics["train/truncated_share"] == 0.5
    assert metrics["train/prompt_tokens_mean"] == len(item.prompt.tokens)
    assert (metrics["train/completion_tokens_mean"], metrics["train/completion_tokens_max"]) == (20, 30)


async def test_times_queues_and_quarantine_are_reported(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    await collect_and_keep(env, WRONG)
    metrics = await env.report()
    assert 0 < metrics["perf/generation_s_mean"] <= metrics["perf/generation_s_max"] < 10
    assert 0 <= metrics["perf/scoring_s_mean"] <= metrics["perf/scoring_s_max"] < 10
    assert metrics["perf/queued_jobs"] >= 0
    assert metrics["tasks/quarantined"] == 0


async def test_a_report_covers_the_time_since_the_last_one(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    await collect_and_keep(env, WRONG)
    await env.report()
    assert "train/mean_score" not in await env.report()


async def test_given_metrics_are_reported_beside_the_environments_own(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    await collect_and_keep(env, WRONG)
    await env.wandb_log({"mine": 3})
    assert (env.reported[-1]["mine"], env.reported[-1]["train/mean_score"]) == (3, 0.5)


# ---------------------------------------------------------------------------- the rollout table


async def test_the_table_has_text_score_expected_answer_and_task(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2, num_rollouts_per_group_for_logging=-1, use_wandb=True)
    item = await env.get_next_item()
    right = f"<answer>{item.problem.answer}</answer>"
    env.log.say(right, WRONG)
    group, _ = await env.collect_trajectories(item)
    await env.add_rollouts_for_wandb(group, item)
    table = (await env.create_rollout_table({}))["train/rollouts"]
    assert table.columns == ["text", "score", "expected_answer", "task"]
    end = "<|im_end|>"
    assert table.data == [
        [f"{item.prompt.text}{right}{end}", 1.0, item.problem.answer, "chain_sum"],
        [f"{item.prompt.text}{WRONG}{end}", 0.0, item.problem.answer, "chain_sum"],
    ]


@pytest.mark.parametrize(
    ("per_group", "groups", "rows"), [(1, 32, 5), (3, 32, 15), (-1, 32, 20), (-1, 2, 8), (9, 1, 4)]
)
async def test_the_table_keeps_as_many_rollouts_as_it_should(
    make_env: MakeEnv, per_group: int, groups: int, rows: int
) -> None:
    env = await make_env(num_rollouts_per_group_for_logging=per_group, num_rollouts_to_keep=groups, use_wandb=True)
    for _ in range(5):
        await collect_and_keep(env, WRONG, WRONG, WRONG)
    assert len((await env.create_rollout_table({}))["train/rollouts"].data) == rows


async def test_there_is_no_table_without_rollouts(make_env: MakeEnv) -> None:
    env = await make_env(num_rollouts_to_keep=0, use_wandb=True)
    await collect_and_keep(env, WRONG, WRONG, WRONG)
    assert await env.create_rollout_table({"a": 1}) == {"a": 1}


# ---------------------------------------------------------------------------- wandb itself


@pytest_asyncio.fixture(loop_scope="package")
async def run_api() -> AsyncIterator[str]:
    async def wandb_info(_request: web.Request) -> web.Response:
        return web.json_response({"group": "a-group", "project": "a-project"})

    app = web.Application()
    app.router.add_get("/wandb_info", wandb_info)
    async with TestServer(app) as server:
        yield str(server.make_url(""))


@pytest.fixture
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of its own, and no trace of a wandb account; returns the directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    # Set and deleted, so that what a run sets is taken back at the end.
    monkeypatch.setenv("WANDB_MODE", "")
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield tmp_path
    wandb.finish()
    wandb.teardown()


@pytest.mark.slow
async def test_offline_metrics_and_table_are_kept_in_the_working_directory(
    make_env: MakeEnv, run_api: str, no_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    env = await make_env(group_size=2, use_wandb=True, rollout_server_url=run_api)
    await env.setup_wandb()
    await collect_and_keep(env, WRONG)
    await env.wandb_log()
    wandb.finish()
    wandb.teardown()  # ends wandb's own process, which writes the last of its file
    [run] = (no_account / "wandb").glob("offline-run-*")
    [table] = (run / "files" / "media" / "table" / "train").glob("rollouts_*.table.json")
    assert json.loads(table.read_text())["columns"] == ["text", "score", "expected_answer", "task"]
    [record] = run.glob("run-*.wandb")
    assert b"train/mean_score" in record.read_bytes()


@pytest.mark.slow
async def test_without_an_account_a_run_goes_offline_and_says_so_once(
    make_env: MakeEnv, run_api: str, no_account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(use_wandb=True, rollout_server_url=run_api)
    for _ in range(2):
        await env.setup_wandb()
    assert list((no_account / "wandb").glob("offline-run-*"))
    assert len([record for record in caplog.records if "no wandb account" in record.getMessage()]) == 1


async def test_without_wandb_nothing_is_started_or_said(
    make_env: MakeEnv, no_account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(use_wandb=False, rollout_server_url="http://127.0.0.1:9")
    await env.setup_wandb()
    await env.wandb_log()
    assert "wandb" not in caplog.text
    assert not (no_account / "wandb").exists()

"""Report to wandb without an account."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb

from tests.atropos.run_api.served import ServedRunApi

from .conftest import WRONG, Collect, MakeEnv, right


@pytest.fixture
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new working directory without a wandb account; returns the directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL", "NETRC", "WANDB_MODE"):
        # Set, then deleted: monkeypatch removes a value that the run sets later.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield tmp_path
    wandb.finish()
    wandb.teardown()


@pytest.mark.slow
async def test_offline_wandb_run_needs_no_account(make_env: MakeEnv, collect: Collect, no_account: Path) -> None:
    async with ServedRunApi() as run_api:
        env = await make_env(
            group_size=2,
            use_wandb=True,
            rollout_server_url=run_api.url,
            task_sampling="adaptive",
            complexity_mode="curriculum",
            dump_rollouts=True,
            data_dumps_dir=str(no_account / "dumps"),
            num_rollouts_per_group_for_logging=1,
            num_rollouts_to_keep=2,
        )
        await env.setup_wandb()
        group, item = await collect(env, "right", WRONG)
        for _ in range(3):
            await env.add_rollouts_for_wandb(group, item)
        await env.wandb_log({"mine": 3})
        await env.evaluate()
    wandb.finish()
    wandb.teardown()  # ends the wandb process, which writes the last part of its file
    [run] = (no_account / "wandb").glob("offline-run-*")
    [table] = (run / "files" / "media" / "table" / "train").glob("rollouts_*.table.json")
    text = f"{item.prompt.text}{right(item)}<|im_end|>"
    assert json.loads(table.read_text())["data"] == [[text, 1.0, item.problem.answer, "chain_sum"]] * 2
    [record] = run.glob("run-*.wandb")
    assert b"train/mean_score" in record.read_bytes()
    logged = {name: value for metrics in env.reported for name, value in metrics.items()}
    assert (logged.pop("mine"), logged["train/mean_score"]) == (3, 0.5)
    known = metrics_of_the_docs()
    assert [key for key in logged if not ATROPOS(key) and not any(matches(key, name) for name in known)] == []
    missing = [name for name in known if not any(matches(key, name) for key in logged)]
    assert set(missing) <= NOT_HERE


NOT_HERE = {
    "answers/frame/NAME",
    "delivery/delivered",
    "delivery/waiting",
    "eval/library_score",
    "inference/ended/WORD",
    "problems/flawed/CAUSE",
    "problems/repeated/TASK",
    "trainer/step",
    "verdicts",
    "verdicts/REASON",
}
"""Metrics that this test does not create: they need `serve`, a preset evaluation, answers in formatting, interrupted
completions, rejected or repeated problems, or a score function.
"""
ATROPOS = re.compile(r"(train/(completion_lengths|items_)|train_perf/|server/|_)").match
"""Names of metrics that come from Atropos and wandb."""


def metrics_of_the_docs() -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    tables = re.findall(r"^\| (?:for wandb|name) \| .*\n(?:\|.*\n)*", page, flags=re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()[2:]]
    return ["train/rollouts", *(name for row in rows for name in re.findall("`([^`]+)`", row.split(" | ")[0]))]


def matches(key: str, name: str) -> bool:
    """Return True if the metric is the one in a row of the page. A word in capitals stands for any name."""
    return re.fullmatch(re.sub("[A-Z]+", "[^/]+", name), key) is not None


async def test_wandb_writes_nothing_if_use_wandb_is_false(make_env: MakeEnv, no_account: Path) -> None:
    env = await make_env(use_wandb=False, rollout_server_url="http://127.0.0.1:9")
    await env.setup_wandb()
    await env.wandb_log()
    assert not (no_account / "wandb").exists()

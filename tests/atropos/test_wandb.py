from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from atroposlib.envs.server_handling.openai_server import OpenAIServer
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from reasoning_env.atropos.wandb import (
    go_offline_without_account,
    has_account,
    length_metrics,
    rollout_table,
    table_rows,
    trim_timings,
)

HOST = "api.wandb.ai"


@pytest.fixture
def netrc_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only file in which a wandb account can be configured during the test."""
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL", "WANDB_MODE"):
        # Set, then deleted: monkeypatch removes a value that the test sets later.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return tmp_path / "netrc"


def login(host: str) -> str:
    return f"machine {host}\n  login user\n  password key\n"


@pytest.mark.parametrize(
    ("netrc", "variables", "expected"),
    [
        (None, {}, False),
        (None, {"WANDB_API_KEY": "x"}, True),
        (None, {"WANDB_IDENTITY_TOKEN_FILE": "x"}, True),
        (login(HOST), {}, True),
        (login("example.org"), {}, False),
        (login("wandb.example.org"), {"WANDB_BASE_URL": "https://wandb.example.org:8443/"}, True),
        (login(HOST), {"WANDB_BASE_URL": "https://wandb.example.org"}, False),
        ("machine\nlogin", {}, False),
    ],
)
def test_wandb_account_is_found_in_environment_variables_or_the_netrc_file(
    netrc_file: Path, monkeypatch: pytest.MonkeyPatch, netrc: str | None, variables: dict[str, str], expected: bool
) -> None:
    if netrc is not None:
        netrc_file.write_text(netrc)
        netrc_file.chmod(0o600)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_account() is expected


@pytest.mark.usefixtures("netrc_file")
@pytest.mark.parametrize(
    ("variables", "mode", "said"),
    [({}, "offline", 1), ({"WANDB_API_KEY": "x"}, None, 0), ({"WANDB_MODE": "online"}, "online", 0)],
)
def test_wandb_runs_offline_if_no_account_is_configured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variables: Any, mode: str | None, said: int
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        go_offline_without_account()
    assert (os.environ.get("WANDB_MODE"), len(caplog.records)) == (mode, said)


@pytest.mark.parametrize(("keep", "rows"), [(0, 0), (1, 1), (2, 2), (9, 3), (-1, 3)])
def test_wandb_rollout_table_has_a_row_per_rollout(keep: int, rows: int) -> None:
    group: Any = {"tokens": [[7], [8], [9]], "scores": [1.0, 0.5, 0.0]}
    kept = table_rows(group, keep, lambda tokens: f"text {tokens[0]}", "gcd", "11")
    table = rollout_table([kept, kept])["train/rollouts"]
    assert table.columns == ["text", "score", "expected_answer", "task"]
    one = [["text 7", 1.0, "11", "gcd"], ["text 8", 0.5, "11", "gcd"], ["text 9", 0.0, "11", "gcd"]][:rows]
    assert table.data == [*one, *one]
    assert rollout_table([]) == {}


def test_only_the_latest_request_timings_are_kept_for_wandb() -> None:
    server = OpenAIServer(APIServerConfig(base_url="http://127.0.0.1:9/v1", api_key="x", rolling_buffer_length=3))
    server.request_timings, server.attempts_list = [*range(10)], [1, 2]
    trim_timings([server])
    assert (server.request_timings, server.attempts_list) == ([7, 8, 9], [1, 2])


def test_length_metrics_describe_the_completion_lengths() -> None:
    assert length_metrics([], 100) == {}
    metrics = length_metrics([10, 20, 96], 100)
    named = {name.removeprefix("train/completion_lengths"): round(value, 2) for name, value in metrics.items()}
    assert named == {"": 42.0, "_std": 38.4, "_max": 96.0, "_min": 10.0, "_p95": 0.33}

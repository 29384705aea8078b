"""The `/metrics` route of a run, and the metrics page that `python -m tools.metrics_page` writes."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer, TestClient

from reasoning_env.errors import ConfigError
from reasoning_env.judging.server import JudgeServer
from reasoning_env.session import Session
from reasoning_gym_testing import InferenceServer
from tools import metrics_page

from .conftest import make_env_object

RUN_PAGE = Path(__file__).parents[2] / "docs" / "run.md"


async def scrape(url: str) -> dict[str, float]:
    """Return the values that Prometheus reads, by name with labels."""
    async with aiohttp.ClientSession() as client, client.get(url) as reply:
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = (await reply.text()).splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def names_of(scraped: Iterable[str]) -> set[str]:
    """Return the metric names as the page lists them: a histogram or summary has one name."""
    return {re.sub(r"_(bucket|sum|count)$", "", name.partition("{")[0]) for name in scraped}


@pytest.fixture
def url(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return the address of the metrics from the log."""
    return lambda: re.findall(r"http://\S+/metrics", caplog.text)[-1]


async def test_prometheus_metrics_count_groups(workers: Any, server: InferenceServer, url: Callable[[], str]) -> None:
    env = make_env_object([server.config()], pool=workers, metrics_port=0)
    async with env._run.report.serve_metrics():
        before = await scrape(url())
        await env.setup()
        await env.collect_trajectories(await env.get_next_item())
        after = await scrape(url())
    await env.close()
    assert {value for name, value in before.items() if re.match("reasoning_(train_|dropped)", name)} == {0}
    assert sum(value for name, value in after.items() if name.startswith("reasoning_train_groups_total")) == 1
    assert after['reasoning_group_duration_seconds_count{step="completions"}'] == 1
    assert after['reasoning_group_duration_seconds_count{step="verdicts"}'] == 1
    assert after['reasoning_train_tasks_score_count{task="chain_sum"}'] == after["reasoning_train_score_count"] == 4


async def test_metrics_port_is_closed_when_the_run_ends(
    workers: Any, server: InferenceServer, url: Callable[[], str]
) -> None:
    env = make_env_object([server.config()], pool=workers, metrics_port=0)
    async with env._run.report.serve_metrics():
        pass
    with pytest.raises(aiohttp.ClientConnectorError):
        await scrape(url())
    await env.close()


async def test_listening_on_a_metrics_port_in_use_raises(workers: Any, server: InferenceServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        env = make_env_object([server.config()], pool=workers, metrics_port=taken.getsockname()[1])
        with pytest.raises(
            ConfigError, match=r"env\.metrics_port: cannot listen on 127\.0\.0\.1: Address already in use"
        ):
            await env.env_manager()


async def test_documentation_page_on_metrics_lists_all_metrics(
    workers: Any, server: InferenceServer, tmp_path: Path, url: Callable[[], str]
) -> None:
    env = make_env_object(
        [server.config()], pool=workers, metrics_port=0, dump_rollouts=True, data_dumps_dir=str(tmp_path)
    )
    async with env._run.report.serve_metrics(), TestClient(RawTestServer(JudgeServer(Session()).handle)) as client:
        await env.setup()
        served = names_of(await scrape(url())) | names_of(await scrape(str(client.make_url("/metrics"))))
    await env.close()
    listed = re.findall(r"`((?:reasoning|process)_\w+)", metrics_page.PAGE.read_text())
    assert served - set(listed) == set()


def test_metrics_recommended_in_docs_exist() -> None:
    table = RUN_PAGE.read_text().split("## Watch a run")[1].split("## ")[0]
    watched = re.findall(r"^\| `([\w/]+)` \|", table, re.MULTILINE)
    names = re.findall(r"`(\w+/[\w/]+)`", metrics_page.PAGE.read_text())
    patterns = [re.sub("[A-Z]+", r"\\w+", name) for name in names]
    assert len(watched) == 12
    assert [name for name in watched if not any(re.fullmatch(pattern, name) for pattern in patterns)] == []


def test_documentation_page_on_metrics_is_up_to_date() -> None:
    text = metrics_page.PAGE.read_text()
    assert metrics_page.page(text) == text, "run `python -m tools.metrics_page`"

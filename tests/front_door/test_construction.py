"""Construct the environment: defaults, rejected configs and missing servers."""

from __future__ import annotations

import gc
import math
import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from reasoning_env.atropos.config import tune_garbage_collector
from reasoning_env.errors import ConfigError
from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig
from reasoning_gym_testing import TOKENIZER, InferenceServer
from reasoning_gym_testing.process_table import descendants, survivors
from tests.waiting import PATIENCE_S

from .conftest import MakeEnv, make_config, make_env_object

FIELDS = ReasoningGymEnvConfig.model_fields
FREE_NUMBERS = ("min_items_sent_before_logging",)
"""Settings of Atropos that may be any number: `if 0 or less, logs every time`."""
NUMBERS = [
    name
    for name, field in FIELDS.items()
    if field.annotation in (int, float, int | None, float | None) and name not in FREE_NUMBERS
]


# ---------------------------------------------------------------------------- the config


def test_number_setting_that_is_out_of_range_or_nan_raises() -> None:
    for field, value in product(NUMBERS, (-1_000_000, math.nan)):
        with pytest.raises(ConfigError, match=field):
            ReasoningGymEnvConfig(**{field: value})


@pytest.mark.parametrize(("group_size", "filtered"), [(1, False), (2, True)])
def test_groups_with_equal_scores_are_kept_by_default_if_group_size_is_1(group_size: int, filtered: bool) -> None:
    assert ReasoningGymEnvConfig(group_size=group_size).ensure_scores_are_not_same is filtered


def test_config_init_method_returns_the_default_settings_and_server() -> None:
    config, servers = ReasoningGymEnv.config_init()
    assert config == ReasoningGymEnvConfig()
    assert [(entry.server_type, entry.base_url) for entry in servers] == [("auto", "http://localhost:9001/v1")]


# ---------------------------------------------------------------------------- construction


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: (folder / "tokenizer_config.json").write_text("{}"), id="base model"),
        pytest.param(lambda folder: (folder / "tokenizer.json").write_text("{"), id="cut off"),
        pytest.param(shutil.rmtree, id="not there"),
    ],
)
def test_error_names_the_unusable_tokenizer(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    folder = Path(shutil.copytree(TOKENIZER, tmp_path / "tokenizer"))
    damage(folder)
    with pytest.raises(ConfigError) as raised:
        make_env_object(tokenizer_name=str(folder))
    assert str(folder) in str(raised.value)


def test_server_config_gets_the_tokenizer_name_of_the_environment() -> None:
    config = APIServerConfig(server_type="vllm", base_url="http://127.0.0.1:4711/v1", model_name="m")
    env = ReasoningGymEnv(make_config(), config)
    [server] = [entry.config for entry in env.server.servers]
    assert (server.base_url, server.tokenizer_name) == (config.base_url, TOKENIZER)


# ---------------------------------------------------------------------------- setup


async def test_failed_setup_leaves_no_worker_process() -> None:
    before = descendants(os.getpid())
    env = make_env_object(task_params={"chain_sum": {"min_term": 3}})
    try:
        with pytest.raises(ConfigError, match=r"task_params: chain_sum: .*'min_term'"):
            await env.setup()
        assert survivors(descendants(os.getpid()) - before, PATIENCE_S) == set()
        assert env.worker_pids == ()
    finally:
        await env.close()


async def test_atropos_testing_mode_needs_no_server(make_env: MakeEnv, server: InferenceServer) -> None:
    server.url = "http://127.0.0.1:9"
    env = await make_env(testing=True, startup_timeout_s=0.1)
    assert (await env.get_next_item()).problem.task == "chain_sum"


# ---------------------------------------------------------------------------- Python's garbage collector


@pytest.fixture
def own_thresholds() -> Iterator[None]:
    """Restore the thresholds of the garbage collector after a test."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("own_thresholds")
async def test_setup_excludes_imported_objects_from_garbage_collection(
    make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.atropos.lifetime.tune_garbage_collector", tune_garbage_collector)
    frozen_before = gc.get_freeze_count()
    await make_env()
    assert gc.get_freeze_count() > frozen_before


class Cycle:
    """An object that refers to itself, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("own_thresholds")
def test_full_garbage_collection_runs_after_100_000_new_objects() -> None:
    tune_garbage_collector()
    cycle = Cycle()
    freed = weakref.ref(cycle)
    gc.collect(1)  # moves the object to an older generation
    del cycle
    new: list[list[object]] = [[] for _ in range(100_000)]
    assert len(new) == 100_000
    assert freed() is None

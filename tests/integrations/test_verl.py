"""Score rows with verl's reward managers."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

pytest.importorskip("verl", reason="needs the extra `verl`: make integrations")

import numpy
import pandas
import ray
import torch
from hydra import compose, initialize_config_module
from tensordict import TensorDict
from transformers import AutoTokenizer, Qwen2Config

with warnings.catch_warnings(action="ignore"):
    from verl import DataProto
    from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
    from verl.trainer.ppo.reward import resolve_reward_manager_cls

from reasoning_env.bridge import Bridge
from reasoning_env.commands.problems import problems_command
from reasoning_env.errors import ScoringError
from reasoning_env.integrations import process_bridge
from reasoning_env.integrations import verl as adapter
from reasoning_gym_testing.completions import TOKENIZER

from .direct_judge import ARMS, judge_directly
from .shown import shown_block, shown_commands

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(adapter.__file__).parents[2]
TOKENS = AutoTokenizer.from_pretrained(TOKENIZER)
RESPONSE_TOKENS = 64


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("verl") / "train.parquet"
    problems_command(
        ["--format", "verl", "--count", "6", "--tasks", "gcd,chain_sum", "--seed", "1", "--out", str(path)], ROOT
    )
    return pandas.read_parquet(path)


def answers(rows: Any) -> list[str]:
    """The right answers to the rows, from problems that are generated again from the references."""
    with Bridge() as bridge:
        return [str(bridge.remake(row["ground_truth"]).answer) for row in rows["reward_model"]]


def item(row: Any, completion: str) -> DataProto:
    """Return a completion for a row, as verl's agent loop passes it to a reward manager, padded on the right."""
    encoded = TOKENS.encode(completion)
    padding = RESPONSE_TOKENS - len(encoded)
    batch = TensorDict(
        {
            "prompts": torch.zeros((1, 1), dtype=torch.long),
            "responses": torch.tensor([encoded + [0] * padding]),
            "attention_mask": torch.tensor([[1] * (1 + len(encoded)) + [0] * padding]),
        },
        batch_size=[1],
    )
    columns = ("data_source", "reward_model", "extra_info")
    # Copies, because verl's managers write into `extra_info`.
    others = {name: numpy.array([copy.deepcopy(row[name])], dtype=object) for name in columns}
    return DataProto(batch=batch, non_tensor_batch=others)


def test_verl_rows_have_the_documented_columns(rows: Any) -> None:
    assert set(rows.columns) >= {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert set(rows["ability"]) <= {"gcd", "chain_sum"}
    assert all(prompt[-1]["role"] == "user" for prompt in rows["prompt"])


def arguments(*more: str) -> Any:
    """Return the configuration that verl makes from the documented arguments and the test tokenizer."""
    *_, [_, _, _, *overrides] = shown_commands("main_ppo")
    model = f"actor_rollout_ref.model.path={TOKENIZER}"
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=[*overrides, model, *more])


async def scores_of(rows: Any, *more: str) -> list[float]:
    """Return the scores of verl's reward worker for right answers to the rows, and then for wrong answers."""
    texts = [f"<answer>{text}</answer>" for text in [*answers(rows), *["no"] * len(rows)]]
    return [found["reward_score"] for found in await judged(rows, texts, *more)]


async def judged(rows: Any, texts: list[str], *more: str) -> list[dict[str, Any]]:
    """Return the results of verl's reward worker for completions of the rows, equally many per row."""
    worker = RewardLoopWorker(arguments(*more))
    asked = [*rows.iloc] * (len(texts) // len(rows))
    data = DataProto.concat([item(row, text) for row, text in zip(asked, texts, strict=True)])
    return list(await worker.compute_score_batch(data))


@pytest.mark.parametrize("manager", ["naive", "dapo", "gdpo", "rate_limited"])
async def test_verl_reward_manager_scores_rows(rows: Any, manager: str) -> None:
    assert await scores_of(rows, f"reward.reward_manager.name={manager}") == [1.0] * 6 + [0.0] * 6


@pytest.mark.parametrize("rewards", ARMS)
async def test_verl_rewards_equal_the_scores_that_the_bridge_gives(rows: Any, rewards: str) -> None:
    expected = judge_directly(rewards)
    own = rows.iloc[[0] * len(expected)].assign(
        reward_model=[{"style": "rule", "ground_truth": one.reference} for one in expected]
    )
    settings = f"+reward.custom_reward_function.reward_kwargs.settings.rewards={rewards}"
    found = await judged(own, [one.completion for one in expected], settings)
    assert [each["reward_score"] for each in found] == pytest.approx([one.score for one in expected])


async def test_verl_remote_reward_manager_scores_rows(rows: Any) -> None:
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}})
    try:
        name = "reward.custom_reward_function.name=compute_score_blocking"
        scores = await scores_of(rows, "reward.reward_manager.name=remote", "reward.num_workers=1", name)
    finally:
        ray.shutdown()
    assert scores == [1.0] * 6 + [0.0] * 6


REWARDS = """
import os


def score(completion, ground_truth, **extra_info):
    if "crash" in completion:
        os.abort()
    return {"score": float(completion == f"<answer>{ground_truth}</answer>"), "length": len(completion)}
"""


@pytest.mark.parametrize("manager", ["naive", "remote"])
async def test_verl_rows_are_judged_by_a_score_function(rows: Any, manager: str, tmp_path: Path) -> None:
    """Use the documented arguments. For one completion, the score function ends its process."""
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    words = shown_block("text", "compute_score_of_row").replace("my_rewards", f"{tmp_path}/my_rewards.py").split()
    if manager == "remote":
        ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}})
        words = [word.replace("compute_score_of_row", "compute_score_of_row_blocking") for word in words]
    try:
        answered = [*map(str, range(6)), *["no"] * 5, "crash"]
        own = rows.assign(reward_model=[{"style": "rule", "ground_truth": text} for text in answered[:6]])
        texts = [f"<answer>{text}</answer>" for text in answered]
        found = await judged(own, texts, f"reward.reward_manager.name={manager}", "reward.num_workers=1", *words)
    finally:
        if manager == "remote":
            ray.shutdown()
    assert [each["reward_score"] for each in found] == [1.0] * 6 + [0.0] * 6
    assert found[-1]["reward_extra_info"]["reason"] == "crash"
    assert json.loads(found[0]["reward_extra_info"]["parts"]) == {"length": len("<answer>0</answer>")}


@pytest.mark.parametrize("manager", ["batch", "prime"])
def test_verl_rejects_the_reward_managers_of_its_older_versions(manager: str) -> None:
    with pytest.raises(ValueError, match="Unknown reward manager"):
        resolve_reward_manager_cls(arguments(f"reward.reward_manager.name={manager}"))


def test_documented_commands_write_verl_rows(tmp_path: Path) -> None:
    train, test, _ = shown_commands("main_ppo")
    for words in (train, test):
        script = str(ROOT / words[1])
        command = [sys.executable, script, *("12" if word == "10000" else word for word in words[2:])]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    tables = [pandas.read_parquet(tmp_path / f"{name}.parquet") for name in ("train", "test")]
    assert len(tables[0]) == 12
    trained, tested = ({prompt[-1]["content"] for prompt in table["prompt"]} for table in tables)
    assert tested
    assert not trained & tested


def test_documented_verl_command_runs_until_it_needs_a_gpu(rows: Any, tmp_path: Path) -> None:
    *_, [_, *words] = shown_commands("main_ppo")
    model = Qwen2Config(vocab_size=len(TOKENS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    model.architectures = ["Qwen2ForCausalLM"]
    model.save_pretrained(tmp_path / "model")
    TOKENS.save_pretrained(tmp_path / "model")
    for name in ("train", "test"):
        rows.to_parquet(tmp_path / f"{name}.parquet")
    # Use a local model, and fewer processors for verl's storage than its default.
    smaller = [
        "actor_rollout_ref.model.path=model",
        "data.train_batch_size=2",
        "ray_kwargs.ray_init.num_cpus=16",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    ]
    ended = subprocess.run(
        [sys.executable, *words, *smaller],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert "dataset len: 6" in ended.stdout, ended.stdout[-3000:]
    assert "Total available GPUs 0 is less than total desired GPUs 8" in ended.stdout, ended.stdout[-3000:]


async def test_repeated_infrastructure_error_is_raised_to_verl(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "RESTART_PAUSES_S", (0.0,))
    monkeypatch.setattr(process_bridge("{}"), "ajudge", AsyncMock(return_value=[None]))
    with pytest.raises(ScoringError, match="a completion could not be judged"):
        await adapter.compute_score("reasoning_gym", "x", rows["reward_model"][0]["ground_truth"])

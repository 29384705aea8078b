"""verl's own reward manager over rows that were written for it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

pandas = pytest.importorskip("pandas", reason="needs the extra `verl`: make integrations")
pytest.importorskip("verl", reason="needs the extra `verl`: make integrations")

import numpy
import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import AutoTokenizer

with warnings.catch_warnings(action="ignore"):
    from verl import DataProto
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo.reward import get_custom_reward_fn

from reasoning_env.bridge import Bridge
from reasoning_env.errors import ScoringError
from reasoning_env.integrations import verl as adapter
from reasoning_gym_testing.completions import TOKENIZER

from .shown import shown_commands

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(adapter.__file__).parents[2]
TOKENS = AutoTokenizer.from_pretrained(TOKENIZER)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("verl") / "train.parquet"
    adapter.write_parquet(str(path), 6, tasks="gcd,chain_sum", seed=1)
    return pandas.read_parquet(path)


def answers(rows: Any) -> list[str]:
    """The right answers of the rows, from problems made by reference."""
    with Bridge() as bridge:
        remake = bridge.session.remake
        return [str(bridge._run(remake(row["ground_truth"])).answer) for row in rows["reward_model"]]


def item(row: Any, answer: str) -> DataProto:
    """An answer to a row, in the form in which verl's agent loop calls a reward manager."""
    tokens = torch.tensor([TOKENS.encode(f"<answer>{answer}</answer>")])
    batch = TensorDict(
        {
            "prompts": torch.zeros((1, 1), dtype=torch.long),
            "responses": tokens,
            "attention_mask": torch.ones((1, tokens.shape[1] + 1), dtype=torch.long),
        },
        batch_size=[1],
    )
    columns = ("data_source", "reward_model", "extra_info")
    others = {name: numpy.array([row[name]], dtype=object) for name in columns}
    return DataProto(batch=batch, non_tensor_batch=others)


def test_columns_of_rows(rows: Any) -> None:
    assert set(rows.columns) >= {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert set(rows["ability"]) <= {"gcd", "chain_sum"}
    assert all(prompt[-1]["role"] == "user" for prompt in rows["prompt"])


def test_blocking_function_scores_in_verls_processes(rows: Any) -> None:
    row = rows.iloc[0]
    function = get_custom_reward_fn(
        OmegaConf.create(
            {
                "reward": {
                    "custom_reward_function": {
                        "path": "pkg://reasoning_env.integrations.verl",
                        "name": "compute_score_blocking",
                        "reward_kwargs": {},
                    }
                }
            }
        )
    )
    completions = [f"<answer>{answers(rows)[0]}</answer>", "no answer"]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        scores = [
            executor.submit(
                adapter.compute_score_blocking, row["data_source"], text, row["reward_model"]["ground_truth"]
            ).result()["score"]
            for text in completions
        ]
    assert scores == [1.0, 0.0]
    assert function(row["data_source"], completions[0], row["reward_model"]["ground_truth"])["score"] == 1.0


async def test_reward_manager_scores_rows(rows: Any) -> None:
    # The manager belongs to the event loop on which it is made, as in verl's own actors.
    manager = NaiveRewardManager(OmegaConf.create({}), TOKENS, adapter.compute_score)
    right = [
        await manager.run_single(item(row, answer))
        for (_, row), answer in zip(rows.iterrows(), answers(rows), strict=True)
    ]
    wrong = [await manager.run_single(item(row, "no")) for _, row in rows.iterrows()]
    assert [found["reward_score"] for found in (*right, *wrong)] == [1.0] * 6 + [0.0] * 6


def test_evaluation_set_is_written(tmp_path: Path) -> None:
    adapter.write_parquet(str(tmp_path / "test.parquet"), None, tasks="gcd", num_eval_samples_per_task=3)
    rows = pandas.read_parquet(tmp_path / "test.parquet")
    assert [row["ground_truth"].split(":")[1] for row in rows["reward_model"]] == ["eval"] * 3


def test_documented_commands(tmp_path: Path) -> None:
    train, test, _ = shown_commands("main_ppo")
    for words in (train, test):
        command = [sys.executable, *("12" if word == "10000" else word for word in words[1:])]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    tables = [pandas.read_parquet(tmp_path / f"{name}.parquet") for name in ("train", "test")]
    assert len(tables[0]) == 12
    trained, tested = ({prompt[-1]["content"] for prompt in table["prompt"]} for table in tables)
    assert tested
    assert not trained & tested


async def test_documented_arguments(rows: Any) -> None:
    *_, [_, _, _, *overrides] = shown_commands("main_ppo")
    with initialize_config_module("verl.trainer.config", version_base=None):
        reward = get_custom_reward_fn(compose("ppo_trainer", overrides=overrides))
    scored = await reward("reasoning_gym", "<answer>no</answer>", rows["reward_model"][0]["ground_truth"])
    assert (scored["score"], scored["reason"]) == (0.0, "scored")


async def test_lasting_fault_is_raised(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "RETRY_PAUSES_S", (0.0,))
    monkeypatch.setattr(adapter.judge(), "ajudge", AsyncMock(return_value=[None]))
    with pytest.raises(ScoringError, match="could not be judged"):
        await adapter.compute_score("reasoning_gym", "x", rows["reward_model"][0]["ground_truth"])

"""The fixed evaluation set, and what is reported and written about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import MakeEnv
from .fakes import Reply, TokenEnv

TASKS = "chain_sum,gcd,spell_backward"
SECOND_HALF = 2**31
"""Training seeds lie below, evaluation seeds from here on."""


async def evaluated(env: TokenEnv, folder: Path) -> list[dict[str, Any]]:
    """The lines of samples.jsonl after an evaluation."""
    env.config.data_dir_to_save_evals = str(folder)
    await env.evaluate()
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def questions(samples: list[dict[str, Any]]) -> list[str]:
    return [sample["messages"][-1]["content"] for sample in samples]


async def test_the_set_is_the_same_for_the_same_eval_seed(make_env: MakeEnv, tmp_path: Path) -> None:
    first = await evaluated(await make_env(tasks=TASKS, seed=1), tmp_path / "1")
    second = await evaluated(await make_env(tasks=TASKS, seed=2, group_size=8), tmp_path / "2")
    assert len(first) == 15
    assert questions(first) == questions(second)


async def test_the_set_is_another_for_another_eval_seed(make_env: MakeEnv, tmp_path: Path) -> None:
    first = await evaluated(await make_env(tasks=TASKS, eval_seed=1), tmp_path / "1")
    second = await evaluated(await make_env(tasks=TASKS, eval_seed=2), tmp_path / "2")
    assert not set(questions(first)) & set(questions(second))


async def test_the_set_is_the_same_in_every_evaluation_of_a_run(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(tasks=TASKS)
    first = await evaluated(env, tmp_path / "1")
    await env.collect_trajectories(await env.get_next_item())
    assert questions(await evaluated(env, tmp_path / "2")) == questions(first)


async def test_evaluation_shares_no_seed_with_training(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(tasks=TASKS, seed=7, eval_seed=7)
    training = [(await env.get_next_item()).problem.spec.seed for _ in range(50)]
    evaluation = [sample["seed"] for sample in await evaluated(env, tmp_path)]
    assert max(training) < SECOND_HALF <= min(evaluation)
    assert len(set(evaluation)) == len(evaluation)


async def test_each_task_gets_its_samples(make_env: MakeEnv, tmp_path: Path) -> None:
    samples = await evaluated(await make_env(tasks=TASKS, num_eval_samples_per_task=2), tmp_path)
    assert sorted(sample["task"] for sample in samples) == sorted(TASKS.split(",") * 2)


async def test_only_so_many_tasks_are_evaluated_as_were_chosen(make_env: MakeEnv, tmp_path: Path) -> None:
    samples = await evaluated(await make_env(tasks=TASKS, num_eval_tasks=2), tmp_path)
    assert len({sample["task"] for sample in samples}) == 2


async def test_each_problem_is_sampled_once_with_the_evaluations_own_temperature(make_env: MakeEnv) -> None:
    env = await make_env(tasks=TASKS, eval_temperature=0.25, eval_top_p=0.75, temperature=1.5)
    await env.evaluate()
    assert len(env.log.requests) == 15
    assert {(r["n"], r["temperature"], r["top_p"]) for r in env.log.requests} == {(1, 0.25, 0.75)}


# ---------------------------------------------------------------------------- what is reported


def spelled_backward(request: dict[str, Any]) -> list[Reply]:
    """Right for the task spell_backward, wrong for all others."""
    word = request["prompt"].rpartition("): ")[2].partition("<|im_end|>")[0]
    return [Reply(f"<answer>{word[::-1]}</answer>")]


async def test_scores_are_reported_overall_and_for_each_task(make_env: MakeEnv) -> None:
    env = await make_env(tasks="chain_sum,spell_backward")
    env.log.script = spelled_backward
    await env.evaluate()
    metrics = env.reported[-1]
    assert metrics["eval/spell_backward/mean_score"] == metrics["eval/spell_backward/share_correct"] == 1.0
    assert metrics["eval/chain_sum/mean_score"] == metrics["eval/chain_sum/share_correct"] == 0.0
    assert metrics["eval/mean_score"] == metrics["eval/share_correct"] == 0.5
    assert (metrics["eval/problems"], metrics["eval/failed"]) == (10, 0)


async def test_metrics_are_written_where_a_folder_is_named(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(tasks="spell_backward", eval_temperature=0.25, eval_top_p=0.75)
    env.log.script = spelled_backward
    await evaluated(env, tmp_path / "evals")
    written = json.loads((tmp_path / "evals" / "metrics.json").read_text())
    assert written["results"]["all"]["eval/mean_score"] == 1.0
    parameters = written["config_general"]["generation_parameters"]
    assert (parameters["temperature"], parameters["top_p"]) == (0.25, 0.75)


async def test_samples_say_what_was_asked_answered_and_earned(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(tasks="spell_backward", num_eval_samples_per_task=1, system_prompt="Be brief.")
    env.log.script = spelled_backward
    [sample] = await evaluated(env, tmp_path)
    assert [message["role"] for message in sample["messages"]] == ["system", "user"]
    assert sample["completion"] == f"<answer>{sample['expected_answer']}</answer>"
    assert sample["answer"] == sample["expected_answer"]
    assert (sample["task"], sample["score"], sample["reason"]) == ("spell_backward", 1.0, "scored")


async def test_a_request_that_fails_counts_as_failed_and_not_as_zero(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(tasks="chain_sum,spell_backward")
    env.config.startup_timeout_s = 0.1

    def fails_at_sums(request: dict[str, Any]) -> list[Reply]:
        if "Spell" not in request["prompt"]:
            raise ConnectionResetError("gone")
        return spelled_backward(request)

    env.log.script = fails_at_sums
    samples = await evaluated(env, tmp_path)
    metrics = env.reported[-1]
    assert (metrics["eval/problems"], metrics["eval/failed"], metrics["eval/mean_score"]) == (10, 5, 1.0)
    assert "eval/chain_sum/mean_score" not in metrics
    assert {(s["score"], s["reason"]) for s in samples if s["task"] == "chain_sum"} == {(None, "inference_failed")}


async def test_an_evaluation_that_fails_as_a_whole_does_not_end_training(
    make_env: MakeEnv, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(tasks="chain_sum", data_dir_to_save_evals=str(tmp_path / "evals"))
    env.config.startup_timeout_s = 0.1
    env.log.say_in_turn([])
    await env.evaluate()
    assert "the evaluation failed" in caplog.text
    assert not (tmp_path / "evals" / "metrics.json").exists()
    assert await env.get_next_item()


async def test_a_problem_whose_prompt_is_too_long_counts_as_failed(make_env: MakeEnv) -> None:
    env = await make_env(tasks="boxnet,spell_backward", max_token_length=600, num_eval_samples_per_task=2)
    env.log.script = spelled_backward
    await env.evaluate()
    metrics = env.reported[-1]
    assert (metrics["eval/problems"], metrics["eval/failed"], metrics["eval/mean_score"]) == (4, 2, 1.0)


async def test_evaluation_leaves_the_training_metrics_alone(make_env: MakeEnv) -> None:
    env = await make_env(tasks=TASKS)
    await env.evaluate()
    assert not [name for name in env.reported[-1] if name.startswith("train/")]

"""The fixed evaluation set, and what is reported and written about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from reasoning_env.atropos import RunMode
from reasoning_env.errors import ServerError
from testing import GenerationRequest, InferenceServer, cut, generations

from .conftest import WRONG, Env, MakeEnv


def spells_only(request: GenerationRequest) -> list[str]:
    """Right for the task spell_backward, wrong for all others."""
    word = request.question.rpartition("): ")[2]
    return [f"<answer>{word[::-1]}</answer>"] * request.n


async def evaluated(env: Env, root: Path) -> list[dict[str, Any]]:
    """The lines of samples.jsonl after an evaluation, by task and number."""
    env.config.data_dir_to_save_evals = str(root)
    await env.evaluate()
    (folder,) = root.iterdir()
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    return sorted(lines, key=lambda line: (line["item_id"], line["index"]))


def question(sample: dict[str, Any]) -> str:
    return str(sample["rollouts"][0]["conversation"][1]["content"])


async def test_set_is_the_same_whatever_training_is_and_another_for_another_seed(
    make_env: MakeEnv, tmp_path: Path
) -> None:
    asked = []
    harder = {"complexity_level": 1.0, "task_params": {"chain_sum": {"max_digits": 9}}, "group_size": 8, "seed": 2}
    for number, fields in enumerate(({}, harder, {"eval_seed": 1, "num_eval_tasks": 1})):
        env = await make_env(tasks="chain_sum,gcd", **fields)  # type: ignore[arg-type]
        await env.collect_trajectories(await env.get_next_item())
        asked.append([question(sample) for sample in await evaluated(env, tmp_path / str(number))])
    assert [len(questions) for questions in asked] == [10, 10, 5]
    assert asked[0] == asked[1]
    assert not set(asked[0]) & set(asked[2])


async def test_scores_are_reported_and_written_with_each_sample(
    make_env: MakeEnv, server: InferenceServer, tmp_path: Path
) -> None:
    sampling = {"eval_temperature": 0.25, "eval_top_p": 0.75, "eval_repeats": 2, "temperature": 1.5}
    env = await make_env(tasks="chain_sum,spell_backward", num_eval_samples_per_task=2, **sampling)
    server.policy = spells_only
    samples = await evaluated(env, tmp_path)
    assert {(request.n, request.temperature, request.top_p) for request in server.requests} == {(2, 0.25, 0.75)}
    metrics = env.reported[-1]
    tokens = metrics.pop("eval/completion_tokens_mean")
    assert tokens > 1
    assert {name: value for name, value in metrics.items() if name.startswith("eval/")} == {
        "eval/mean_score": 0.5,
        "eval/share_correct": 0.5,
        "eval/problems": 4,
        "eval/failed": 0,
        "eval/pass_at/1": 0.5,
        "eval/pass_at/2": 0.5,
        "eval/reason/right": 0.5,
        "eval/reason/wrong": 0.5,
        "eval/category/algorithmic/mean_score": 1.0,
        "eval/category/arithmetic/mean_score": 0.0,
        "eval/chain_sum/mean_score": 0.0,
        "eval/chain_sum/share_correct": 0.0,
        "eval/spell_backward/mean_score": 1.0,
        "eval/spell_backward/share_correct": 1.0,
    }
    assert not [name for name in metrics if name.startswith("train/")]
    scores = [(sample["item_id"], [rollout["score"] for rollout in sample["rollouts"]]) for sample in samples]
    assert scores == [*[("chain_sum", [0.0] * 2)] * 2, *[("spell_backward", [1.0] * 2)] * 2]
    (written,) = tmp_path.glob("*/results.json")
    results = json.loads(written.read_text())
    assert (results["finished"], results["overall"]["mean_score"], results["step"]) == (True, 0.5, None)
    settings = results["settings"]
    assert (settings["eval_temperature"], settings["eval_top_p"], settings["eval_seed"]) == (0.25, 0.75, 123)


async def test_problems_that_cannot_be_evaluated_count_as_failed_and_not_as_zero(
    make_env: MakeEnv, server: InferenceServer, tmp_path: Path
) -> None:
    env = await make_env(tasks="boxnet,chain_sum,spell_backward", max_token_length=600, num_eval_samples_per_task=2)
    env.config.startup_timeout_s = 0.01

    def fail_at_sums(request: GenerationRequest) -> list[str]:
        if "Spell" not in request.question:
            raise web.HTTPInternalServerError
        return spells_only(request)

    server.policy = fail_at_sums
    samples = await evaluated(env, tmp_path)
    metrics = env.reported[-1]
    assert (metrics["eval/problems"], metrics["eval/failed"], metrics["eval/mean_score"]) == (6, 4, 1.0)
    found = {sample["item_id"]: (len(sample["rollouts"]), sample["failed"], sample["dropped"]) for sample in samples}
    assert found == {
        "boxnet": (0, 1, "prompt_too_long"),
        "chain_sum": (0, 1, "inference_failed"),
        "spell_backward": (1, 0, None),
    }


async def test_evaluation_that_fails_as_a_whole_ends_the_command_and_not_a_training(
    make_env: MakeEnv, server: InferenceServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(data_dir_to_save_evals=str(tmp_path / "evals"))
    env.config.startup_timeout_s = 0.01
    server.fail(cut, only=generations)
    await env.evaluate()
    assert "ERROR" in [record.levelname for record in caplog.records]
    (written,) = tmp_path.glob("evals/*/results.json")
    assert json.loads(written.read_text())["finished"] is False
    env._run.mode = RunMode.EVALUATE
    with pytest.raises(ServerError):
        await env.evaluate()
    server.recover()
    server.policy = lambda request: [WRONG] * request.n
    assert (await env.collect_trajectories(await env.get_next_item()))[0] is None

"""Evaluate during training: requests, metrics and files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env.atropos import Serve
from reasoning_gym_testing import GenerationRequest, InferenceServer, cut, generations

from .conftest import GROUP_SIZE, WRONG, Env, MakeEnv, make_env_object


def spells_only(request: GenerationRequest) -> list[str]:
    """Answers problems of the task spell_backward right, and all other problems wrong."""
    word = request.question.rpartition("): ")[2]
    return [f"<answer>{word[::-1]}</answer>"] * request.n


async def evaluated(env: Env, root: Path) -> list[dict[str, Any]]:
    """Run an evaluation, and return the lines of samples.jsonl by task and number."""
    env.config.data_dir_to_save_evals = str(root)
    await env.evaluate()
    (folder,) = root.iterdir()
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    return sorted(lines, key=lambda line: (line["item_id"], line["index"]))


@dataclass(frozen=True)
class HalfRight:
    """An evaluation of four problems with two completions each. The model answers two problems right."""

    asked: set[tuple[int, float, float]]
    metrics: dict[str, Any]
    samples: list[dict[str, Any]]
    results: dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def half_right(workers: Any, tmp_path_factory: pytest.TempPathFactory) -> HalfRight:
    root = tmp_path_factory.mktemp("evals")
    sampling = {"eval_temperature": 0.25, "eval_repeats": 2, "temperature": 1.5}
    async with InferenceServer(spells_only) as server:
        env = make_env_object(
            [server.config()], pool=workers, tasks="chain_sum,spell_backward", num_eval_samples_per_task=2, **sampling
        )
        await env.setup()
        server.requests.clear()
        samples = await evaluated(env, root)
        await env.close()
        asked = {(request.n, request.temperature, request.top_p) for request in server.requests}
    [written] = root.glob("*/results.json")
    return HalfRight(asked, env.reported[-1], samples, json.loads(written.read_text()))


async def test_evaluation_requests_use_the_eval_sampling_settings(half_right: HalfRight) -> None:
    assert half_right.asked == {(2, 0.25, 0.95)}


async def test_evaluation_reports_metrics_for_each_task_and_category(half_right: HalfRight) -> None:
    metrics = dict(half_right.metrics)
    tokens = metrics.pop("eval/mean_completion_tokens")
    assert tokens > 1
    assert {name: value for name, value in metrics.items() if name.startswith("eval")} == {
        "eval/mean_score": 0.5,
        "eval/share_correct": 0.5,
        "eval/problems": 4,
        "eval/failed": 0,
        "eval/not_made": 0,
        "eval/pass_at/1": 0.5,
        "eval/pass_at/2": 0.5,
        "eval_reasons/right": 0.5,
        "eval_reasons/wrong": 0.5,
        "eval_categories/algorithmic/mean_score": 1.0,
        "eval_categories/arithmetic/mean_score": 0.0,
        "eval_tasks/chain_sum/mean_score": 0.0,
        "eval_tasks/chain_sum/share_correct": 0.0,
        "eval_tasks/spell_backward/mean_score": 1.0,
        "eval_tasks/spell_backward/share_correct": 1.0,
    }
    assert not [name for name in metrics if name.startswith("train/")]


async def test_evaluation_writes_one_line_of_samples_for_each_problem(half_right: HalfRight) -> None:
    scores = [(sample["item_id"], [one["score"] for one in sample["rollouts"]]) for sample in half_right.samples]
    assert scores == [*[("chain_sum", [0.0] * 2)] * 2, *[("spell_backward", [1.0] * 2)] * 2]


async def test_evaluation_writes_its_scores_and_settings_to_the_results_file(half_right: HalfRight) -> None:
    results = half_right.results
    assert (results["finished"], results["overall"]["mean_score"], results["step"]) == (True, 0.5, None)
    settings = results["settings"]
    assert (settings["eval_temperature"], settings["top_p"], settings["eval_seed"]) == (0.25, 0.95, 123)
    assert settings["rewards"] == "strict"


async def test_evaluation_logs_its_scores(
    make_env: MakeEnv, server: InferenceServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(tasks="chain_sum,spell_backward", num_eval_samples_per_task=1)
    env.config.data_dir_to_save_evals = str(tmp_path)
    env._run.mode = Serve()
    env.curr_step = 20
    caplog.set_level("INFO")
    server.policy = spells_only
    await env.evaluate()
    told = [record.message for record in caplog.records if record.message.startswith("evaluation at step 20")]
    assert told[0].startswith("evaluation at step 20: mean score 0.500 (95 % interval: ")
    assert told[1].endswith(": algorithmic 1.000, arithmetic 0.000")
    assert len(told) == 2


async def test_failed_evaluation_does_not_end_training(
    make_env: MakeEnv, server: InferenceServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(data_dir_to_save_evals=str(tmp_path / "evals"))
    env.config.startup_timeout_s = 0.01
    server.fail(cut, only=generations)
    await env.evaluate()
    assert "ERROR" in [record.levelname for record in caplog.records]
    assert list((tmp_path / "evals").iterdir()) == []
    server.recover()
    server.policy = lambda request: [WRONG] * request.n
    assert (await env.collect_trajectories(await env.get_next_item()))[0] is None


async def test_evaluation_with_eval_preset_works_over_a_chat_server(
    make_env: MakeEnv, server: InferenceServer, tmp_path: Path
) -> None:
    whole = {"tokenizer_name": "there/is-none", "eval_repeats": 2, "ensure_scores_are_not_same": False}
    preset = {"eval_preset": "rg-easy", "eval_tasks": "spell_backward", "num_eval_samples_per_task": 2}
    env = await make_env("chat", tasks="spell_backward", **whole, **preset)
    server.policy = lambda request: ["<answer>?</answer>" + spells_only(request)[0]]
    (first, _) = await evaluated(env, tmp_path)
    assert {(one.protocol, one.n, one.max_tokens) for one in server.requests} == {("chat", 1, 32_768)}
    conversation = first["rollouts"][0]["conversation"]
    assert (first["seed"], conversation[0]["content"]) == (45, env._run.session.library.system_prompt)
    scores = [(rollout["score"], rollout["library_score"], rollout["tokens"] > 1) for rollout in first["rollouts"]]
    assert scores == [(0.0, 1.0, True)] * 2
    metrics = env.reported[-1]
    assert (metrics["eval/mean_score"], metrics["eval/library_score"]) == (0.0, 1.0)
    server.policy = spells_only
    group, _ = await env.collect_trajectories(await env.get_next_item())
    assert (group["tokens"], group["scores"]) == ([[]] * GROUP_SIZE, [1.0] * GROUP_SIZE)
    assert (await env.report())["train/mean_completion_tokens"] > 1


async def test_each_evaluation_writes_its_own_folder(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(tasks="gcd", num_eval_samples_per_task=1, data_dir_to_save_evals=str(tmp_path))
    env._run.mode = Serve()
    for env.curr_step in (10, 20):
        await env.evaluate()
    found = [json.loads(path.read_text()) for path in tmp_path.glob("*/results.json")]
    assert sorted((results["step"], results["finished"]) for results in found) == [(10, True), (20, True)]


async def test_number_of_completions_and_tokens_is_logged_before_evaluation(
    make_env: MakeEnv, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(tasks="gcd,lcm", num_eval_samples_per_task=3, eval_repeats=2, eval_max_completion_tokens=50)
    with caplog.at_level("INFO"):
        await evaluated(env, tmp_path)
    [said] = [message for message in caplog.messages if "12 completions" in message]
    assert "6 problems of 2 tasks, 12 completions, at most 600 tokens of completions" in said
    assert "prompt: this environment's; temperature 0.6, top_p 0.95; at most 50 tokens a completion" in said

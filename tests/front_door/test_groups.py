"""Collect a group: from sampling a problem to the group that a trainer gets."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from reasoning_env.atropos import Process, Serve
from reasoning_env.dumps.reader import stream_groups
from reasoning_env.errors import ServerError
from reasoning_env.inference.failures import Timeouts
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_gym_testing import Completion, InferenceServer
from reasoning_gym_testing.completions import logprob_of
from tests.waiting import PATIENCE_S

from .conftest import WRONG, Collect, MakeEnv, right


@pytest.mark.parametrize("kind", ["auto", "vllm", "openai", "completions", "sglang"])
async def test_group_is_collected_from_each_server_type(
    make_env: MakeEnv, server: InferenceServer, collect: Collect, chat: ChatFormat, kind: str
) -> None:
    env = await make_env(kind, group_size=12, include_messages=True, system_prompt="Be brief.")
    truncated = Completion("<think>Well", "length")
    group, item = await collect(env, "right", truncated, *[WRONG] * 10)
    prompt = list(item.prompt.tokens)
    # Each completion is requested separately.
    requests = [1] * 12 if kind == "openai" else [12]
    assert [(request.n, len(request.prompt_ids)) for request in server.requests] == [(n, len(prompt)) for n in requests]
    texts = [right(item), truncated.text, *[WRONG] * 10]
    completions = [chat.completion_tokens(text, finished=text != truncated.text) for text in texts]
    expected = [[*prompt, *completion] for completion in completions]
    assert sorted(group["tokens"]) == sorted(expected)
    # Concurrent requests may arrive in any order.
    places = [group["tokens"].index(tokens) for tokens in expected]
    in_order = {name: [group[name][place] for place in places] for name in ("masks", "scores", "overrides")}
    assert in_order["masks"] == [[-100] * len(prompt) + completion for completion in completions]
    assert in_order["scores"] == [1.0, *[0.0] * 11]
    assert in_order["overrides"] == [{}, {"set_advantage_to_zero": True}, *[{}] * 10]
    roles = [[message["role"] for message in messages] for messages in group["messages"]]
    assert roles == [["system", "user", "assistant"]] * 12
    logprobs = [[1.0] * len(prompt) + [logprob_of(token) for token in completion] for completion in completions]
    assert group["inference_logprobs"] == (None if kind == "openai" else logprobs)


@pytest.mark.parametrize("kind", ["vllm", "openai"])
async def test_trainer_token_limit_truncates_completions(make_env: MakeEnv, server: InferenceServer, kind: str) -> None:
    env = await make_env(kind, group_size=2)
    item = await env.get_next_item()
    env.max_token_len = len(item.prompt.tokens) + 15  # run-api's reply sets this limit
    server.policy = lambda request: ["<think>" + " a" * 100] * request.n
    await env.collect_trajectories(item)
    assert (await env.report())["train/share_truncated"] == 1.0


@pytest.mark.parametrize(
    ("unfit", "missing"),
    [
        pytest.param(Completion("?", token_ids=(), logprobs=()), 1, id="no token"),
        pytest.param(Completion("?", token_ids=(10**6,), logprobs=(-0.5,)), 1, id="beyond the vocabulary"),
        pytest.param(Completion("?", token_ids=(10**12,), logprobs=(-0.5,)), 2, id="no token id"),
        pytest.param(Completion("?", token_ids=(7,), logprobs=(math.nan,)), 2, id="NaN"),
    ],
)
async def test_completions_with_invalid_tokens_are_requested_again(
    make_env: MakeEnv, server: InferenceServer, unfit: Completion, missing: int
) -> None:
    env = await make_env("completions", group_size=2, ensure_scores_are_not_same=False)
    replies = [[WRONG, unfit], [WRONG] * missing]
    server.policy = lambda request: replies[len(server.requests) - 1]
    group, _ = await env.collect_trajectories(await env.get_next_item())
    assert [request.n for request in server.requests] == [2, missing]
    assert group["tokens"][0] == group["tokens"][1]


@pytest.mark.parametrize(("reply", "score"), [("right", 1.0), (WRONG, 0.0)])
@pytest.mark.filterwarnings("ignore:Trainer requested to ignore max length")
async def test_group_with_a_single_completion_is_written_to_the_group_file(
    make_env: MakeEnv, collect: Collect, tmp_path: Path, reply: str, score: float
) -> None:
    env = await make_env(group_size=1, data_path_to_save_groups=str(tmp_path / "groups.jsonl"))
    group, _ = await collect(env, reply)
    await env.handle_send_to_api(group, do_send_to_api=False)
    await env.close()
    [line] = (tmp_path / "groups.jsonl").read_text().splitlines()
    assert json.loads(line)["scores"] == [score]


async def test_consecutive_failed_groups_end_the_process_command(
    make_env: MakeEnv, collect: Collect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.atropos.modes.process.MAX_FAILED_GROUPS", 2)
    env = await make_env(startup_timeout_s=60)
    env.config.startup_timeout_s = 0.01  # time for which requests are retried
    for _ in range(2):
        assert (await collect(env))[0] is None
    env._run.mode = Serve()
    assert await env.get_next_item()
    env._run.mode = Process()
    with pytest.raises(ServerError, match=r"\b2\b"):
        await env.get_next_item()


async def test_group_with_equal_scores_is_in_the_dump_but_not_sent(
    make_env: MakeEnv, collect: Collect, tmp_path: Path
) -> None:
    dumping = {"dump_rollouts": True, "dump_failed_rollouts": True, "data_dumps_dir": str(tmp_path)}
    env = await make_env(group_size=2, complexity_mode="random", **dumping)
    collected = [await collect(env, *replies) for replies in (("right", WRONG), ("right", "right"), (WRONG, WRONG))]
    await env.close()
    assert [group is None for group, _ in collected] == [False, True, True]
    [failed, passed] = sorted(tmp_path.iterdir())
    assert [group.scores for group in stream_groups(failed)] == [(0.0, 0.0)]
    assert [group.scores for group in stream_groups(passed)] == [(1.0, 0.0), (1.0, 1.0)]
    lines = [json.loads(line) for path in (passed, failed) for line in path.read_text().splitlines()]
    assert [(line["level"], line["params"]) for line in lines] == [
        (one.problem.level, one.problem.params) for _, one in collected
    ]
    assert len({line["level"] for line in lines} - {None}) == 3


ABORTED = Completion("<answer>", "abort", token_ids=(7, 8, 9), logprobs=(-0.5, -0.5, -0.5))


@pytest.mark.parametrize("kind", ["vllm", "sglang", "completions"])
async def test_completion_aborted_by_the_server_is_requested_again(
    make_env: MakeEnv, server: InferenceServer, collect: Collect, kind: str
) -> None:
    """A server that loads new weights ends running requests and returns the tokens generated so far."""
    env = await make_env(kind)
    item = await env.get_next_item()
    replies = [[right(item), ABORTED, WRONG, WRONG], [WRONG]]
    server.policy = lambda request: replies.pop(0)
    group, _ = await env.collect_trajectories(item)
    assert (group["scores"], replies) == ([1.0, 0.0, 0.0, 0.0], [])
    assert "inference/ended/abort" not in await env.report()


@pytest.mark.parametrize("kind", ["auto", "vllm", "sglang", "completions", "openai", "chat"])
async def test_group_is_dropped_if_the_server_aborts_every_completion(
    make_env: MakeEnv, server: InferenceServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = await make_env(kind)
    monkeypatch.setattr(env._run.inference, "_timeouts", lambda: Timeouts(None, PATIENCE_S, tries=1))
    item = await env.get_next_item()
    server.policy = lambda request: [ABORTED] * request.n
    group, _ = await env.collect_trajectories(item)
    report = await env.report()
    assert group is None
    assert (report["dropped/inference_failed"], report["inference/ended/abort"]) == (1, 1)


async def test_completion_stopped_by_a_content_filter_stays_in_the_group_with_score_0(
    make_env: MakeEnv, collect: Collect
) -> None:
    env = await make_env("completions")
    group, _ = await collect(env, "right", Completion(WRONG, "content_filter"), WRONG, WRONG)
    assert group["scores"] == [1.0, 0.0, 0.0, 0.0]
    assert (await env.report())["train_reasons/refused"] == 0.25

"""From a problem to the group that a trainer gets."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.atropos import RunMode
from reasoning_env.dumps import read_groups
from reasoning_env.errors import ConfigError, ServerError
from reasoning_env.records import Problem

from .conftest import MakeEnv
from .fakes import END_OF_TURN, TOKENIZER, Reply, TextEnv, TokenEnv, logprob

WRONG = "<answer>nonsense</answer>"


def right(item: Any) -> str:
    return f"<think>I know it.</think><answer>{item.problem.answer}</answer>"


async def collect(env: TokenEnv, *replies: str | Reply) -> Any:
    """The group that these replies make, or None; the word "right" stands for a right reply."""
    item = await env.get_next_item()
    env.log.say(*(right(item) if reply == "right" else reply for reply in replies))
    group, backlog = await env.collect_trajectories(item)
    assert backlog == []
    return group


def long_reply(item: Any, tokens: int, text: str) -> Reply:
    """A reply that makes prompt and completion together `tokens` long."""
    filler = TOKENIZER.encode(" a", add_special_tokens=False)[:1]
    end = [*TOKENIZER.encode(text, add_special_tokens=False), END_OF_TURN]
    padding = tokens - len(item.prompt.tokens) - len(end)
    return Reply(text, tokens=[*filler * padding, *end])


# ---------------------------------------------------------------------------- what a group holds


async def test_a_group_has_one_entry_a_rollout_in_every_list(make_env: MakeEnv) -> None:
    env = await make_env(group_size=4, include_messages=True)
    group = await collect(env, "right", WRONG, WRONG, "I do not know.")
    lists = ("tokens", "masks", "scores", "inference_logprobs", "overrides", "messages")
    assert {name: len(group[name]) for name in lists} == dict.fromkeys(lists, 4)
    assert group["scores"] == [1.0, 0.0, 0.0, 0.0]


async def test_masks_hide_the_prompt_and_repeat_the_completion(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    item = await env.get_next_item()
    replies = [Reply(right(item)), Reply(WRONG)]
    env.log.say(*replies)
    group, _ = await env.collect_trajectories(item)
    prompt = list(item.prompt.tokens)
    assert group["tokens"] == [[*prompt, *reply.output] for reply in replies]
    assert group["masks"] == [[-100] * len(prompt) + reply.output for reply in replies]


async def test_logprobs_are_the_servers_over_the_completion_and_one_over_the_prompt(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    item = await env.get_next_item()
    replies = [Reply(right(item)), Reply(WRONG)]
    env.log.say(*replies)
    group, _ = await env.collect_trajectories(item)
    prompt = [1.0] * len(item.prompt.tokens)
    assert group["inference_logprobs"] == [[*prompt, *map(logprob, reply.output)] for reply in replies]


async def test_the_prompt_is_the_chat_template_over_system_prompt_and_question(make_env: MakeEnv) -> None:
    env = await make_env(system_prompt="Be brief.", custom_thinking_prompt="Think first.")
    item = await env.get_next_item()
    assert item.prompt.text == (
        "<|im_start|>system\nThink first.\n\nBe brief.<|im_end|>\n"
        f"<|im_start|>user\n{item.problem.question}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert TOKENIZER.decode(item.prompt.tokens) == item.prompt.text


async def test_messages_hold_the_conversation_when_they_are_asked_for(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2, include_messages=True, system_prompt="Be brief.")
    item = await env.get_next_item()
    env.log.say(right(item), WRONG)
    group, _ = await env.collect_trajectories(item)
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": item.problem.question}]
    texts = (right(item), WRONG)
    assert group["messages"] == [[*prompt, {"role": "assistant", "content": text}] for text in texts]


async def test_a_group_is_plain_json(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    group = await collect(env, "right", WRONG)
    assert json.loads(json.dumps(group)) == group


async def test_a_group_is_asked_for_in_one_request(make_env: MakeEnv) -> None:
    env = await make_env(group_size=16, temperature=0.7, top_p=0.9)
    assert len((await collect(env, "right", *[WRONG] * 15))["scores"]) == 16
    [request] = env.log.requests
    assert (request["n"], request["temperature"], request["top_p"]) == (16, 0.7, 0.9)


# ---------------------------------------------------------------------------- which groups are sent


@pytest.mark.parametrize("reply", ["right", WRONG])
async def test_a_group_with_equal_scores_is_not_sent(make_env: MakeEnv, reply: str) -> None:
    env = await make_env(group_size=2)
    assert await collect(env, reply, reply) is None


async def test_a_group_with_equal_scores_is_kept_in_process(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2, ensure_scores_are_not_same=False)
    env._run.mode = RunMode.PROCESS
    assert (await collect(env, WRONG, WRONG))["scores"] == [0.0, 0.0]


async def test_process_counts_a_group_without_signal_even_where_the_filter_drops_it(make_env: MakeEnv) -> None:
    # `process_manager` would repeat for ever on None.
    env = await make_env(group_size=2, ensure_scores_are_not_same=True)
    env._run.mode = RunMode.PROCESS
    assert (await collect(env, WRONG, WRONG))["scores"] == [0.0, 0.0]


@pytest.mark.parametrize("reply", ["right", WRONG])
@pytest.mark.filterwarnings("ignore:Trainer requested to ignore max length")
async def test_a_group_of_one_gets_through_the_filters(make_env: MakeEnv, tmp_path: Path, reply: str) -> None:
    env = await make_env(group_size=1, data_path_to_save_groups=str(tmp_path / "groups.jsonl"))
    group = await collect(env, reply)
    await env.handle_send_to_api(group, do_send_to_api=False)
    await env.close()
    [line] = (tmp_path / "groups.jsonl").read_text().splitlines()
    assert json.loads(line)["scores"] == [1.0 if reply == "right" else 0.0]


@pytest.mark.parametrize(("mask", "override"), [(True, {"set_advantage_to_zero": True}), (False, {})])
async def test_a_truncated_rollout_is_overridden_when_it_should_be(
    make_env: MakeEnv, mask: bool, override: dict[str, Any]
) -> None:
    env = await make_env(group_size=3, mask_too_long_completions=mask)
    group = await collect(env, Reply("<think>Well", "length"), "right", WRONG)
    assert group["overrides"] == [override, {}, {}]


async def test_long_rollouts_of_a_group_that_is_all_right_lose_score(make_env: MakeEnv) -> None:
    env = await make_env(group_size=3, max_token_length=1000)
    item = await env.get_next_item()
    env.log.say(right(item), long_reply(item, 750, right(item)), long_reply(item, 900, right(item)))
    group, _ = await env.collect_trajectories(item)
    assert [len(tokens) for tokens in group["tokens"][1:]] == [750, 900]
    assert group["scores"] == pytest.approx([1.0, 1.0, 0.4])


async def test_length_costs_nothing_in_a_group_with_a_wrong_rollout(make_env: MakeEnv) -> None:
    env = await make_env(group_size=3, max_token_length=1000)
    item = await env.get_next_item()
    env.log.say(right(item), WRONG, long_reply(item, 900, right(item)))
    group, _ = await env.collect_trajectories(item)
    assert group["scores"] == [1.0, 0.0, 1.0]


# ---------------------------------------------------------------------------- token budget


@pytest.mark.parametrize(("own", "trainer", "limit"), [(700, -1, 700), (700, 600, 600), (600, 700, 600)])
async def test_prompt_and_completion_stay_below_both_token_limits(
    make_env: MakeEnv, own: int, trainer: int, limit: int
) -> None:
    env = await make_env(max_token_length=own)
    env.max_token_len = trainer  # as run-api tells it
    item = await env.get_next_item()
    await env.collect_trajectories(item)
    [request] = env.log.requests
    assert limit - 10 < len(item.prompt.tokens) + request["max_tokens"] < limit


@pytest.mark.parametrize("cls", [TokenEnv, TextEnv])
async def test_a_completion_over_the_limit_is_never_sent(make_env: MakeEnv, cls: type[TokenEnv]) -> None:
    env = await make_env(cls, group_size=2, max_token_length=700)
    item = await env.get_next_item()
    room = 700 - len(item.prompt.tokens)
    too_long = Reply(" a" * room, "length")
    assert len(too_long.output) >= room
    fitting = [Reply(right(item)), Reply(WRONG)]
    env.log.say_in_turn([too_long, fitting[0]], fitting[1:] * 2)
    group, _ = await env.collect_trajectories(item)
    assert len(group["tokens"]) == 2
    assert max(map(len, group["tokens"])) < 700


async def test_problems_whose_prompts_are_too_long_are_skipped_and_counted(
    make_env: MakeEnv, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env(tasks="chain_sum,boxnet", max_token_length=600)
    items = [await env.get_next_item() for _ in range(10)]
    assert {item.problem.task for item in items} == {"chain_sum"}
    skipped = items[-1].problem.spec.index + 1 - len(items)
    assert 0 < skipped == (await env.report())["dropped/prompt_too_long"]
    assert [record.getMessage() for record in caplog.records if "are skipped" in record.getMessage()] == [
        "problems of boxnet are skipped when their prompts leave too few of 600 tokens; "
        "raise max_token_length to train on them"
    ]


async def test_a_token_limit_that_fits_no_prompt_at_all_is_an_error(make_env: MakeEnv) -> None:
    env = await make_env(max_token_length=64, prefetch_problems=64)
    with pytest.raises(ConfigError, match="max_token_length=64"):
        await env.get_next_item()


# ---------------------------------------------------------------------------- replies that cannot be used


def unusable(kind: str) -> Reply:
    return {
        "no tokens": Reply("", "length", tokens=[]),
        "infinite log-probability": Reply("a", tokens=[5, 6], logprobs=[-math.inf, -1.0]),
        "log-probability that is no number": Reply("a", tokens=[5, 6], logprobs=[math.nan, -1.0]),
    }[kind]


@pytest.mark.parametrize("kind", ["no tokens", "infinite log-probability", "log-probability that is no number"])
async def test_an_unusable_completion_is_asked_for_again(make_env: MakeEnv, kind: str) -> None:
    env = await make_env(group_size=3)
    item = await env.get_next_item()
    env.log.say_in_turn([Reply(right(item)), unusable(kind), Reply(WRONG)], [Reply("I do not know.")])
    group, _ = await env.collect_trajectories(item)
    assert [request["n"] for request in env.log.requests] == [3, 1]
    assert group["scores"] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("cls", [TokenEnv, TextEnv])
async def test_completions_that_a_server_leaves_out_are_asked_for_again(make_env: MakeEnv, cls: type[TokenEnv]) -> None:
    env = await make_env(cls, group_size=4)
    item = await env.get_next_item()
    env.log.say_in_turn([Reply(right(item)), Reply(WRONG)], [Reply(WRONG)])
    group, _ = await env.collect_trajectories(item)
    assert [request["n"] for request in env.log.requests] == [4, 2, 1]
    assert group["scores"] == [1.0, 0.0, 0.0, 0.0]


async def test_more_completions_than_asked_for_are_left_out(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    item = await env.get_next_item()
    env.log.say_in_turn([Reply(right(item))] + [Reply(WRONG)] * 3)
    group, _ = await env.collect_trajectories(item)
    assert group["scores"] == [1.0, 0.0]


async def test_a_group_that_stays_incomplete_is_dropped_and_counted(make_env: MakeEnv) -> None:
    env = await make_env(group_size=4)
    env.config.startup_timeout_s = 0.1  # how long requests are tried again
    env.log.say_in_turn([])
    assert (await env.collect_trajectories(await env.get_next_item()))[0] is None
    assert (await env.report())["dropped/inference_failed"] == 1


async def test_a_group_whose_request_fails_is_dropped_and_counted(
    make_env: MakeEnv, caplog: pytest.LogCaptureFixture
) -> None:
    env = await make_env()
    env.config.startup_timeout_s = 0.1  # how long requests are tried again

    def refuse(request: dict[str, Any]) -> list[Reply]:
        raise ConnectionRefusedError("nobody is there")

    env.log.script = refuse
    item = await env.get_next_item()
    assert (await env.collect_trajectories(item))[0] is None
    metrics = await env.report()
    assert metrics["dropped/inference_failed"] == 1
    assert "train/mean_score" not in metrics
    assert "nobody is there" in caplog.text


async def test_process_ends_when_group_after_group_fails(make_env: MakeEnv) -> None:
    env = await make_env(max_failed_groups_in_a_row=2)
    env.config.startup_timeout_s = 0.1  # how long requests are tried again
    env._run.mode = RunMode.PROCESS
    env.log.say_in_turn([])
    for _ in range(2):
        await env.collect_trajectories(await env.get_next_item())
    with pytest.raises(ServerError, match="2 groups in a row failed"):
        await env.get_next_item()


async def test_a_group_that_is_scored_ends_a_row_of_failures(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2, max_failed_groups_in_a_row=2)
    env.config.startup_timeout_s = 0.1  # how long requests are tried again
    env._run.mode = RunMode.PROCESS
    for replies in ((), ("right", WRONG), ()):
        await collect(env, *replies)
    assert await env.get_next_item()


def without_readable_entry(problem: Problem) -> Problem:
    return dataclasses.replace(problem, entry=b"not an entry")


def without_buildable_task(problem: Problem) -> Problem:
    return dataclasses.replace(problem, spec=dataclasses.replace(problem.spec, params={"no_such_parameter": 1}))


@pytest.mark.parametrize("damage", [without_readable_entry, without_buildable_task])
async def test_a_group_that_we_cannot_score_is_dropped_and_never_scored_zero(
    make_env: MakeEnv, damage: Callable[[Problem], Problem]
) -> None:
    env = await make_env(group_size=2)
    item = await env.get_next_item()
    env.log.say(right(item), WRONG)
    group, _ = await env.collect_trajectories(dataclasses.replace(item, problem=damage(item.problem)))
    metrics = await env.report()
    assert group is None
    assert metrics["dropped/scoring_failed"] == 1
    assert "train/mean_score" not in metrics


async def test_scoring_goes_on_after_a_group_that_we_could_not_score(make_env: MakeEnv) -> None:
    env = await make_env(group_size=2)
    item = await env.get_next_item()
    env.log.say(right(item), WRONG)
    await env.collect_trajectories(dataclasses.replace(item, problem=without_buildable_task(item.problem)))
    group, _ = await env.collect_trajectories(item)
    assert group["scores"] == [1.0, 0.0]


# ---------------------------------------------------------------------------- servers that give text


async def test_text_is_tokenized_with_the_end_of_turn_and_masked_like_the_servers_own(make_env: MakeEnv) -> None:
    env = await make_env(TextEnv, group_size=2)
    item = await env.get_next_item()
    env.log.say(right(item), WRONG)
    group, _ = await env.collect_trajectories(item)
    prompt = list(item.prompt.tokens)
    completions = [[*TOKENIZER.encode(text, add_special_tokens=False), END_OF_TURN] for text in (right(item), WRONG)]
    assert group["tokens"] == [[*prompt, *completion] for completion in completions]
    assert group["masks"] == [[-100] * len(prompt) + completion for completion in completions]
    assert group["inference_logprobs"] is None
    assert group["scores"] == [1.0, 0.0]


async def test_truncated_text_has_no_end_of_turn(make_env: MakeEnv) -> None:
    env = await make_env(TextEnv, group_size=2)
    group = await collect(env, "right", Reply("<think>Well", "length"))
    assert [tokens[-1] == END_OF_TURN for tokens in group["tokens"]] == [True, False]
    assert group["overrides"] == [{}, {"set_advantage_to_zero": True}]


async def test_an_end_of_turn_that_the_server_left_in_the_text_is_not_doubled(make_env: MakeEnv) -> None:
    env = await make_env(TextEnv, group_size=2)
    item = await env.get_next_item()
    env.log.say(right(item) + "<|im_end|>", WRONG)
    group, _ = await env.collect_trajectories(item)
    assert group["tokens"][0].count(END_OF_TURN) == list(item.prompt.tokens).count(END_OF_TURN) + 1
    assert group["scores"] == [1.0, 0.0]


@pytest.mark.parametrize("empty", [Reply(""), Reply("", "length"), Reply(None, "length")])  # type: ignore[arg-type]
async def test_an_empty_text_never_makes_a_rollout_without_completion(make_env: MakeEnv, empty: Reply) -> None:
    env = await make_env(TextEnv, group_size=2)
    item = await env.get_next_item()
    env.log.say_in_turn([Reply(right(item)), empty], [Reply(WRONG)])
    group, _ = await env.collect_trajectories(item)
    assert all(any(mask != -100 for mask in masks) for masks in group["masks"])


# ---------------------------------------------------------------------------- dumps and the end


async def test_dumps_are_complete_once_the_environment_is_closed(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(group_size=2, dump_rollouts=True, dump_failed_rollouts=True, data_dumps_dir=str(tmp_path))
    await collect(env, "right", WRONG)
    await collect(env, "right", "right")
    await collect(env, WRONG, WRONG)
    await env.close()
    [failed, passed] = sorted(tmp_path.iterdir())
    assert failed.name.startswith("reasoning_gym_environment_FAILED_rollouts_")
    assert [group.scores for group in read_groups(failed)] == [(0.0, 0.0)]
    assert passed.name.startswith("reasoning_gym_environment_rollouts_")
    assert [group.scores for group in read_groups(passed)] == [(1.0, 0.0), (1.0, 1.0)]


async def test_nothing_is_dumped_unless_it_is_asked_for(make_env: MakeEnv, tmp_path: Path) -> None:
    env = await make_env(group_size=2, data_dumps_dir=str(tmp_path / "dumps"))
    await collect(env, "right", WRONG)
    await env.close()
    assert not (tmp_path / "dumps").exists()


async def test_close_ends_the_workers_and_may_be_called_twice(make_env: MakeEnv) -> None:
    env = await make_env(own_workers=True)
    await collect(env, "right", WRONG, WRONG, WRONG)  # after which the verifier worker must be there, too
    workers = env.worker_pids
    await env.close()
    await env.close()
    assert len(workers) == 2
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]

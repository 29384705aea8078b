"""`process` and `evaluate` as processes, run by the script from another working directory."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.batch_checks import check_batch
from reasoning_env.dumps import read_groups

from .processes import TOKENIZER, Run, Runs, free_port, is_alive, server_flags, wait_until
from .servers import UnreliablePolicy, running

pytestmark = pytest.mark.slow

STEPS = 6
GROUP_SIZE = 3
BAD_REQUESTS = (3, 4, 5, 8)
"""Three in a row are all the tries of one group; the single one is made good by the next try."""


def flaky(port: int, runs: Runs) -> Run:
    """`process` with settings from a file and from the command line."""
    settings = {
        "env": {
            "tokenizer_name": str(TOKENIZER),
            "group_size": GROUP_SIZE,
            "total_steps": 99,
            "tasks": ["gcd"],
            "use_wandb": False,
            "system_prompt": "From the file.",
            "dump_rollouts": True,
            "dump_failed_rollouts": True,
            "rollout_save_score_threshold": 0.0,
        },
        "openai": {
            "server_type": "vllm",
            "base_url": f"http://127.0.0.1:{port}/v1",
            "api_key": "x",
            "model_name": "scripted-policy",
        },
    }
    config = runs.folder / "settings.yaml"
    config.write_text(yaml.safe_dump(settings))
    return runs.start_environment(
        "flaky",
        *("process", "--config", config),
        *("--env.total_steps", str(STEPS)),
        *("--env.tasks", "chain_sum,lcm"),
        *("--env.data_path_to_save_groups", "out/groups.jsonl"),
        *("--env.data_dumps_dir", "dumps"),
    )


def gone(port: int, runs: Runs) -> Run:
    return runs.start_environment(
        "gone",
        *("process", *server_flags(port, "openai")),
        *("--env.group_size", "2"),
        *("--env.tasks", "chain_sum"),
        *("--env.use_wandb", "False"),
        *("--env.startup_timeout_s", "2"),
        *("--env.max_failed_groups_in_a_row", "2"),
        *("--env.data_path_to_save_groups", "groups.jsonl"),
    )


def evaluate(port: int, runs: Runs) -> Run:
    return runs.start_environment(
        "evaluate",
        *("evaluate", *server_flags(port, "openai")),
        *("--env.tasks", "chain_sum,gcd"),
        *("--env.num_eval_samples_per_task", "10"),
        *("--env.data_dir_to_save_evals", "evals"),
    )


def waiting(port: int, runs: Runs) -> Run:
    """`process` without an inference server."""
    return runs.start_environment(
        "waiting",
        *("process", *server_flags(port, "vllm")),
        *("--env.use_wandb", "False"),
        *("--env.startup_timeout_s", "600"),
        *("--env.data_path_to_save_groups", "groups.jsonl"),
    )


@dataclass(frozen=True)
class Outcome:
    run: Run
    exit_code: int

    @property
    def folder(self) -> Path:
        return self.run.folder

    def groups(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / path).read_text().splitlines()]


@pytest.fixture(scope="module")
def outcomes(runs: Runs) -> Iterator[dict[str, Outcome]]:
    """How all four end; they run at the same time, because most of each is the start."""
    with ExitStack() as stack:

        def port_of(policy: UnreliablePolicy) -> int:
            return stack.enter_context(running(policy.make_app()))

        started = {
            "flaky": flaky(port_of(UnreliablePolicy(fails=lambda number: number in BAD_REQUESTS)), runs),
            "gone": gone(port_of(UnreliablePolicy(gone_after=3)), runs),
            "evaluate": evaluate(port_of(UnreliablePolicy()), runs),
            "waiting": waiting(free_port(), runs),
        }
        late = started["waiting"]
        wait_until(lambda: "waiting for an inference server" in late.stderr, 60, "the wait for a server")
        late.see_descendants()
        late.process.send_signal(signal.SIGTERM)
        yield {name: Outcome(run, run.end()) for name, run in started.items()}


def test_process_gets_through_a_server_that_fails_now_and_then(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["flaky"]
    assert outcome.exit_code == 0
    assert outcome.run.stderr.count("inference_failed") == 0


def test_process_writes_as_many_groups_as_it_should(outcomes: dict[str, Outcome]) -> None:
    groups = outcomes["flaky"].groups("out/groups.jsonl")
    assert len(groups) == STEPS
    # Equal scores are kept here, so each group is checked for all else.
    for group in groups:
        check_batch(
            [{**group, "scores": [number / 10 for number in range(GROUP_SIZE)]}],
            batch_size=GROUP_SIZE,
            group_size=GROUP_SIZE,
            max_token_len=2048,
        )
        assert all(0.0 <= score <= 1.0 for score in group["scores"])


def test_settings_of_the_file_are_used(outcomes: dict[str, Outcome]) -> None:
    groups = outcomes["flaky"].groups("out/groups.jsonl")
    assert {len(group["scores"]) for group in groups} == {GROUP_SIZE}
    assert {messages[0]["content"] for group in groups for messages in group["messages"]} == {"From the file."}


def test_the_command_line_wins_over_the_file(outcomes: dict[str, Outcome]) -> None:
    # 6 steps instead of 99, and other tasks, as one text with a comma.
    outcome = outcomes["flaky"]
    assert len(outcome.groups("out/groups.jsonl")) == STEPS
    dumped = [group.item_id for group in read_groups(outcome.folder / "dumps")]
    assert len(dumped) == STEPS
    assert set(dumped) == {"chain_sum", "lcm"}


def test_a_folder_for_dumps_is_taken_from_the_working_directory(outcomes: dict[str, Outcome]) -> None:
    assert list((outcomes["flaky"].folder / "dumps").glob("*.jsonl"))


def test_process_ends_with_an_error_when_the_server_is_gone_for_good(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["gone"]
    assert outcome.exit_code == 1
    assert outcome.run.error_lines == [
        "reasoning_gym_environment process: 2 groups in a row failed; the log above says why"
    ]
    assert "Traceback" not in outcome.run.stderr


def test_what_was_processed_before_the_server_went_is_kept(outcomes: dict[str, Outcome]) -> None:
    assert len(outcomes["gone"].groups("groups.jsonl")) == 3


def test_evaluate_ends_well(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["evaluate"].exit_code == 0
    assert "Traceback" not in outcomes["evaluate"].run.stderr


def test_evaluate_writes_metrics(outcomes: dict[str, Outcome]) -> None:
    metrics = json.loads((outcomes["evaluate"].folder / "evals" / "metrics.json").read_text())["results"]["all"]
    assert (metrics["eval/problems"], metrics["eval/failed"]) == (20, 0)
    assert 0.0 < metrics["eval/mean_score"] < 1.0
    assert {"eval/chain_sum/share_correct", "eval/gcd/share_correct"} <= set(metrics)


def test_evaluate_writes_every_sample(outcomes: dict[str, Outcome]) -> None:
    samples = outcomes["evaluate"].groups("evals/samples.jsonl")
    assert sorted(sample["task"] for sample in samples) == ["chain_sum"] * 10 + ["gcd"] * 10
    metrics = json.loads((outcomes["evaluate"].folder / "evals" / "metrics.json").read_text())["results"]["all"]
    assert sum(sample["score"] for sample in samples) / 20 == pytest.approx(metrics["eval/mean_score"])


def test_evaluate_shows_its_progress(outcomes: dict[str, Outcome]) -> None:
    assert "20/20" in outcomes["evaluate"].run.stderr


def test_without_an_account_wandb_goes_offline_and_that_is_said_once(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["evaluate"]
    assert outcome.run.stderr.count("no wandb account is configured") == 1
    [record] = (outcome.folder / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"eval/mean_score" in record.read_bytes()


def test_a_signal_while_it_waits_for_a_server_ends_it_with_one_line(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["waiting"]
    assert outcome.exit_code == 143
    assert outcome.run.error_lines == ["reasoning_gym_environment process: stopped by SIGTERM"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_signal_while_it_waits_for_a_server_leaves_no_process(outcomes: dict[str, Outcome]) -> None:
    workers = outcomes["waiting"].run.seen
    assert workers
    assert not [worker for worker in workers if is_alive(worker)]


@pytest.mark.parametrize("name", ["flaky", "gone", "evaluate", "waiting"])
def test_no_temporary_folder_is_left(outcomes: dict[str, Outcome], name: str) -> None:
    assert outcomes[name].run.left_behind == []

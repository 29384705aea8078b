"""`process` and `evaluate` as processes, run by the script from another working directory."""

from __future__ import annotations

import json
import re
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from reasoning_env.dumps import read_groups
from testing import TOKENIZER, Process, Processes, free_port, server_settings
from testing.batch_checks import check_group
from testing.process_table import descendants, survivors
from tests.waiting import PATIENCE_S, wait_until

from .policies import unreliable_server
from .processes import error_lines, left_behind, server_flags, start_script

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]

STEPS = 6
KEY = "sk-nobody-must-see-this"
GROUP_SIZE = 3
BAD_REQUESTS = (3, 4, 5, 8)
"""Three in a row are all the tries of one group; the single one is made good by the next try."""


def flaky(url: str, processes: Processes) -> Process:
    """`process` with settings from a file and from the command line."""
    settings = {
        "env": {
            "tokenizer_name": TOKENIZER,
            "group_size": GROUP_SIZE,
            "total_steps": 99,
            "tasks": ["gcd"],
            "use_wandb": False,
            "system_prompt": "From the file.",
            "dump_rollouts": True,
            "dump_failed_rollouts": True,
            "rollout_save_score_threshold": 0.0,
        },
        "openai": {**server_settings(url, "vllm"), "api_key": KEY},
    }
    config = processes.folder / "settings.yaml"
    config.write_text(yaml.safe_dump(settings))
    return start_script(
        *(processes, "flaky"),
        *("process", "--config", config),
        *("--env.total_steps", str(STEPS)),
        *("--env.tasks", "chain_sum,lcm"),
        *("--env.data_path_to_save_groups", "out/groups.jsonl"),
        *("--env.data_dumps_dir", "dumps"),
        *("--keep", "all"),
    )


def gone(url: str, processes: Processes) -> Process:
    return start_script(
        *(processes, "gone"),
        *("process", *server_flags(url, "openai")),
        *("--env.group_size", "2", "--env.max_num_workers", "1"),
        *("--env.tasks", "chain_sum"),
        *("--env.use_wandb", "False"),
        *("--env.startup_timeout_s", "8"),
        *("--env.max_failed_groups_in_a_row", "2"),
        *("--env.data_path_to_save_groups", "groups.jsonl"),
    )


def evaluate(url: str, processes: Processes) -> Process:
    return start_script(
        *(processes, "evaluate"),
        *("evaluate", *server_flags(url, "openai")),
        *("--env.tasks", "chain_sum,gcd"),
        *("--env.num_eval_samples_per_task", "10"),
        *("--openai.api_key", KEY, "--env.debug_logging", "true"),
    )


def waiting(url: str, processes: Processes) -> Process:
    """`process` without an inference server."""
    return start_script(
        *(processes, "waiting"),
        *("process", *server_flags(url, "vllm")),
        *("--env.use_wandb", "False"),
        *("--env.startup_timeout_s", "600"),
        *("--env.data_path_to_save_groups", "groups.jsonl"),
    )


@dataclass(frozen=True)
class Outcome:
    process: Process
    exit_code: int
    workers_of_waiting: set[int]

    @property
    def folder(self) -> Path:
        return self.process.folder

    def groups(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / path).read_text().splitlines()]


@pytest.fixture(scope="module")
def outcomes(processes: Processes) -> Iterator[dict[str, Outcome]]:
    """How all four end; they run at the same time, because most of each is the start."""
    with (
        unreliable_server(fails=lambda number: number in BAD_REQUESTS) as flaky_server,
        unreliable_server(gone_after=3) as gone_server,
        unreliable_server() as server,
    ):
        started = {
            "flaky": flaky(flaky_server.url, processes),
            "gone": gone(gone_server.url, processes),
            "evaluate": evaluate(server.url, processes),
            "waiting": waiting(f"http://127.0.0.1:{free_port()}", processes),
        }
        late = started["waiting"]
        wait_until(lambda: len(descendants(late.pid)) >= 5, "the start of the workers")
        workers = descendants(late.pid)
        late.send(signal.SIGTERM)
        yield {name: Outcome(process, process.end(), workers) for name, process in started.items()}


def test_process_writes_all_groups_though_a_server_fails_now_and_then(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["flaky"].exit_code == 0
    groups = outcomes["flaky"].groups("out/groups.jsonl")
    assert [group["index"] for group in groups] == list(range(STEPS))
    for group in groups:
        check_group(group, group_size=GROUP_SIZE, max_token_len=2048)


@pytest.mark.parametrize("name", ["flaky", "evaluate"])
def test_no_key_is_in_anything_that_was_printed_or_written(outcomes: dict[str, Outcome], name: str) -> None:
    files = [path for path in outcomes[name].folder.rglob("*") if path.is_file()]
    assert {"stdout.log", "stderr.log"} <= {path.name for path in files}
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_process_ends_with_a_table_and_says_where_its_groups_are(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["flaky"]
    lines = outcome.process.stdout.splitlines()
    assert lines[0].split()[:2] == ["TASK", "GROUPS"]
    assert next(line for line in lines if line.startswith("all ")).split()[1] == str(STEPS)
    assert f"{STEPS} groups are in out/groups.jsonl" in outcome.process.stdout
    assert len(outcome.groups("out/groups-all.jsonl")) == STEPS * GROUP_SIZE


def test_settings_of_the_file_are_used_and_the_command_line_wins_over_it(outcomes: dict[str, Outcome]) -> None:
    # 6 steps instead of 99, other tasks, as one text with a comma, and a folder from the working directory.
    outcome = outcomes["flaky"]
    messages = [messages for group in outcome.groups("out/groups.jsonl") for messages in group["messages"]]
    assert {one[0]["content"] for one in messages} == {"From the file."}
    dumped = [group.item_id for group in read_groups(outcome.folder / "dumps")]
    assert (len(dumped), set(dumped)) == (STEPS, {"chain_sum", "lcm"})


def test_process_ends_with_an_error_and_its_groups_when_the_server_is_gone_for_good(
    outcomes: dict[str, Outcome],
) -> None:
    outcome = outcomes["gone"]
    assert outcome.exit_code == 1
    [line] = error_lines(outcome.process)
    assert re.match(r"reasoning_gym_environment process: \d+ groups in a row failed; the last: .*(503|healthy)", line)
    assert "Traceback" not in outcome.process.stderr
    assert len(outcome.groups("groups.jsonl")) == 3


def test_evaluate_writes_results_and_every_sample(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["evaluate"].exit_code == 0
    assert "Traceback" not in outcomes["evaluate"].process.stderr
    (path,) = (outcomes["evaluate"].folder / "evals").glob("policy-*/results.json")
    results = json.loads(path.read_text())
    assert (results["problems"], results["finished"], results["overall"]["failed"]) == (20, True, 0)
    samples = [json.loads(line) for line in path.with_name("samples.jsonl").read_text().splitlines()]
    assert sorted(sample["item_id"] for sample in samples) == ["chain_sum"] * 10 + ["gcd"] * 10
    scores = [rollout["score"] for sample in samples for rollout in sample["rollouts"]]
    assert 0.0 < sum(scores) / 20 == pytest.approx(results["overall"]["mean_score"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_evaluate_ends_with_a_table_and_the_folder(outcomes: dict[str, Outcome]) -> None:
    lines = [line.split() for line in outcomes["evaluate"].process.stdout.splitlines()]
    assert {line[0] for line in lines if line[1:2] in (["10"], ["TASKS"])} == {"chain_sum", "gcd", "ALL"}
    assert "evals/policy-" in outcomes["evaluate"].process.stdout


def test_without_an_account_wandb_goes_offline(outcomes: dict[str, Outcome]) -> None:
    [record] = (outcomes["evaluate"].folder / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"eval/mean_score" in record.read_bytes()


def test_a_signal_while_it_waits_for_a_server_ends_it_with_one_line_and_leaves_nothing(
    outcomes: dict[str, Outcome],
) -> None:
    outcome = outcomes["waiting"]
    assert outcome.exit_code == 143
    assert error_lines(outcome.process) == ["reasoning_gym_environment process: stopped by SIGTERM"]
    assert not survivors(outcome.workers_of_waiting, PATIENCE_S)


@pytest.mark.parametrize("name", ["flaky", "gone", "evaluate", "waiting"])
def test_no_temporary_folder_is_left(outcomes: dict[str, Outcome], name: str) -> None:
    assert left_behind(outcomes[name].process) == []

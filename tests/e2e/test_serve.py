"""The full line: two environments, an inference server, Atropos' run-api and a trainer, each a process of its own."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.policy import ScriptedPolicy
from demo.rules import RULES
from reasoning_env.dumps import DumpedGroup, read_groups
from testing import (
    TOKENIZER,
    InferenceServer,
    Process,
    Processes,
    RunApi,
    Trainer,
    server_settings,
    wait_until,
)
from testing import start_environment as rig_start_environment
from testing.process_table import descendants, is_alive

from .processes import error_lines, left_behind

pytestmark = pytest.mark.slow

GROUP_SIZE = 4
BATCH_SIZE = 16
MAX_TOKEN_LEN = 1024
LEAST_BATCHES = 8
THRESHOLD = 0.7
KINDS = ("vllm", "openai")
SIGNALS = {"vllm": signal.SIGTERM, "openai": signal.SIGINT}
EXIT_CODES = {"vllm": 143, "openai": 130}


@dataclass(frozen=True)
class Ended:
    """An environment after its end."""

    process: Process
    exit_code: int
    workers: set[int]
    dumps: Path

    @property
    def passed(self) -> list[DumpedGroup]:
        return [group for path in sorted(self.dumps.glob("*_environment_rollouts_*")) for group in read_groups(path)]

    @property
    def failed(self) -> list[DumpedGroup]:
        return [group for path in sorted(self.dumps.glob("*_FAILED_*")) for group in read_groups(path)]


@dataclass(frozen=True)
class Line:
    """What a trainer got from the two environments, and how they ended."""

    batches: list[list[dict[str, Any]]]
    environments: dict[str, Ended]

    def groups_of(self, kind: str) -> list[dict[str, Any]]:
        """The groups of one environment; those with log-probabilities come from vLLM's protocol."""
        groups = [group for batch in self.batches for group in batch]
        return [group for group in groups if (group["inference_logprobs"] is not None) == (kind == "vllm")]


STREAMS = ("*_environment_rollouts_*", "*_FAILED_*")


def has_dumped(folder: Path) -> bool:
    """Whether a group of each stream has been written, to a file that need not be finished."""
    return all(any(path.stat().st_size for path in folder.glob(stream)) for stream in STREAMS)


def start_environment(processes: Processes, kind: str, server: InferenceServer, url: str, dumps: Path) -> Process:
    settings = {
        "tokenizer_name": TOKENIZER,
        "rollout_server_url": url,
        "group_size": GROUP_SIZE,
        "tasks": sorted(RULES),
        "max_num_workers": 4,
        "use_wandb": False,
        "dump_rollouts": True,
        "dump_failed_rollouts": True,
        "data_dumps_dir": dumps,
        "rollout_save_score_threshold": THRESHOLD,
        "startup_timeout_s": 60,
    }
    return rig_start_environment(processes, kind, settings, [server_settings(server.url, kind)])


@pytest.fixture(scope="module")
def line(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Line:
    folders = {kind: tmp_path_factory.mktemp(f"dumps_{kind}") for kind in KINDS}
    run_api = RunApi(processes)
    run_api.start(wait=False)  # the environments and the trainer wait for it by themselves
    registration = {"batch_size": BATCH_SIZE, "max_token_len": MAX_TOKEN_LEN}
    with (
        InferenceServer(ScriptedPolicy(skill=0.6, seed=1), latency_s=0.01) as server,
        Trainer(run_api.url, group_size=GROUP_SIZE, keep=dict, **registration) as trainer,
    ):
        started = {
            kind: start_environment(processes, kind, server, run_api.url, folder) for kind, folder in folders.items()
        }

        def enough() -> bool:
            senders = {group["env_id"] for group in trainer.received}
            delivered = len(trainer.batches) >= LEAST_BATCHES and len(senders) == len(KINDS)
            return trainer.error is not None or (delivered and all(map(has_dumped, folders.values())))

        wait_until(enough, 90, "enough batches and dumps of both environments")
        assert trainer.error is None
        workers = {kind: descendants(process.pid) for kind, process in started.items()}
        for kind, process in started.items():
            process.send(SIGNALS[kind])
        ended = {kind: Ended(process, process.end(), workers[kind], folders[kind]) for kind, process in started.items()}
    return Line(trainer.batches, ended)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
each_kind = pytest.mark.parametrize("kind", KINDS)


def test_every_batch_passed_the_trainers_checks(line: Line) -> None:
    # A batch that does not pass ends the fixture with an error; here, that there were any.
    assert len(line.batches) >= LEAST_BATCHES
    assert {sum(len(group["scores"]) for group in batch) for batch in line.batches} == {BATCH_SIZE}


@each_kind
def test_groups_arrive_from_both_kinds_of_server(line: Line, kind: str) -> None:
    assert len({group["env_id"] for group in line.groups_of(kind)}) == 1


def test_the_two_environments_share_no_problem(line: Line) -> None:
    seeds = [{group.seed for group in (*ended.passed, *ended.failed)} for ended in line.environments.values()]
    assert all(len(each) >= 10 for each in seeds)
    assert not seeds[0] & seeds[1]


@each_kind
def test_a_signal_ends_it_with_the_usual_status_and_one_line(line: Line, kind: str) -> None:
    ended = line.environments[kind]
    assert ended.exit_code == EXIT_CODES[kind]
    assert error_lines(ended.process) == [f"reasoning_gym_environment serve: stopped by {SIGNALS[kind].name}"]
    assert "Traceback" not in ended.process.stderr


@needs_proc
@each_kind
def test_no_process_is_left(line: Line, kind: str) -> None:
    workers = line.environments[kind].workers
    assert len(workers) >= 5  # the fork server, two generators, two verifier workers
    assert not [worker for worker in workers if is_alive(worker)]


@each_kind
def test_no_temporary_folder_is_left(line: Line, kind: str) -> None:
    assert left_behind(line.environments[kind].process) == []


@each_kind
def test_dump_files_are_finished(line: Line, kind: str) -> None:
    names = sorted(path.name for path in line.environments[kind].dumps.iterdir())
    pattern = r"reasoning_gym_environment_(FAILED_)?rollouts_[0-9a-f-]{36}_\d{4}\.jsonl"
    assert len(names) >= 2
    assert all(re.fullmatch(pattern, name) for name in names), names


@each_kind
@pytest.mark.parametrize(("stream", "capacity"), [(STREAMS[0], 100), (STREAMS[1], 50)])
def test_dump_files_hold_as_many_groups_as_they_should(line: Line, kind: str, stream: str, capacity: int) -> None:
    files = sorted(line.environments[kind].dumps.glob(stream))
    counts = [len(path.read_text().splitlines()) for path in files]
    assert counts[:-1] == [capacity] * (len(counts) - 1)
    assert 0 < counts[-1] <= capacity


@each_kind
def test_every_dumped_line_is_a_whole_group(line: Line, kind: str) -> None:
    for path in line.environments[kind].dumps.iterdir():
        for text in path.read_text().splitlines():
            group = json.loads(text)
            assert group["item_id"] in RULES
            assert len(group["rollouts"]) == GROUP_SIZE
            for rollout in group["rollouts"]:
                assert [message["role"] for message in rollout["conversation"]] == ["system", "user", "assistant"]
                assert 0.0 <= rollout["score"] <= 1.0


@each_kind
def test_each_stream_holds_what_belongs_there(line: Line, kind: str) -> None:
    ended = line.environments[kind]
    assert all(max(group.scores) > THRESHOLD for group in ended.passed)
    assert all(not any(group.scores) for group in ended.failed)


@each_kind
def test_every_good_group_that_the_trainer_got_was_dumped(line: Line, kind: str) -> None:
    good = [group for group in line.groups_of(kind) if max(group["scores"]) > THRESHOLD]
    dumped = [group.scores for group in line.environments[kind].passed]
    assert good
    for group in good:
        dumped.remove(tuple(group["scores"]))  # raises where one is missing


@each_kind
def test_the_log_says_where_the_library_came_from_and_how_it_goes(line: Line, kind: str) -> None:
    log = line.environments[kind].process.stderr
    assert f"{len(RULES)} of 106 tasks selected" in log
    assert re.search(r"\((the installed package|the checkout beside this module)\)", log)
    assert re.search(r"progress: groups=\d+ kept=\d+ .*mean_score=0\.\d+", log)

"""The full line: two environments, an inference server, Atropos' run-api and a trainer, each a process of its own."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
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
    start_environment,
)
from tests.waiting import wait_until

from .processes import error_lines

pytestmark = pytest.mark.slow

GROUP_SIZE = 4
BATCH_SIZE = 16
TOGETHER = 60
"""Groups that arrive once both environments have delivered."""
THRESHOLD = 0.7
KINDS = ("vllm", "openai")
PASSED, FAILED = STREAMS = ("*_environment_rollouts_*", "*_FAILED_*")


@dataclass(frozen=True)
class Ended:
    """An environment after its end, and what is in its dumps."""

    process: Process
    dumped: Mapping[str, list[DumpedGroup]]


@dataclass(frozen=True)
class Line:
    """What a trainer got from the two environments, and how they ended."""

    batches: list[list[dict[str, Any]]]
    environments: dict[str, Ended]

    def groups_of(self, kind: str) -> list[dict[str, Any]]:
        """The groups of one environment; those with log-probabilities come from vLLM's protocol."""
        groups = [group for batch in self.batches for group in batch]
        return [group for group in groups if (group["inference_logprobs"] is not None) == (kind == "vllm")]


def senders_together(batches: Sequence[Sequence[Mapping[str, Any]]]) -> list[int]:
    """The numbers of the environments that sent the groups, from the first group of the later one on."""
    numbers = [group["env_id"] for batch in batches for group in batch]
    return numbers[max(map(numbers.index, numbers)) :] if len(set(numbers)) == len(KINDS) else []


def start(processes: Processes, kind: str, server: InferenceServer, url: str) -> Process:
    settings = {
        "tokenizer_name": TOKENIZER,
        "rollout_server_url": url,
        "group_size": GROUP_SIZE,
        "tasks": sorted(RULES),
        "max_num_workers": 4,
        "use_wandb": False,
        "dump_rollouts": True,
        "dump_failed_rollouts": True,
        "data_dumps_dir": "dumps",
        "rollout_save_score_threshold": THRESHOLD,
    }
    return start_environment(processes, kind, settings, [server_settings(server.url, kind)])


@pytest.fixture(scope="module")
def line(processes: Processes) -> Line:
    run_api = RunApi(processes)
    run_api.start(wait=False)  # the environments and the trainer wait for it by themselves
    registration = {"batch_size": BATCH_SIZE, "max_token_len": 1024}
    with (
        InferenceServer(ScriptedPolicy(skill=0.6, seed=1), latency_s=0.01) as server,
        Trainer(run_api.url, group_size=GROUP_SIZE, keep=dict, **registration) as trainer,
    ):
        started = {kind: start(processes, kind, server, run_api.url) for kind in KINDS}
        folders = {kind: process.folder / "dumps" for kind, process in started.items()}

        def enough() -> bool:
            delivered = len(senders_together(list(trainer.batches))) >= TOGETHER
            streams = [folder.glob(stream) for folder in folders.values() for stream in STREAMS]
            dumped = all(any(path.stat().st_size for path in stream) for stream in streams)
            return trainer.error is not None or (delivered and dumped)

        wait_until(enough, "enough batches and dumps of both environments")
        assert trainer.error is None
        for process in started.values():
            process.end(signal.SIGTERM)

    def dumped(folder: Path) -> dict[str, list[DumpedGroup]]:
        paths = {stream: sorted(folder.glob(stream)) for stream in STREAMS}
        return {stream: [group for path in found for group in read_groups(path)] for stream, found in paths.items()}

    return Line(trainer.batches, {kind: Ended(process, dumped(folders[kind])) for kind, process in started.items()})


each_kind = pytest.mark.parametrize("kind", KINDS)


def test_every_batch_passed_the_trainers_checks(line: Line) -> None:
    # A batch that does not pass ends the fixture with an error; here, that there were any.
    assert len(line.batches) >= TOGETHER * GROUP_SIZE // BATCH_SIZE
    assert {sum(len(group["scores"]) for group in batch) for batch in line.batches} == {BATCH_SIZE}


@each_kind
def test_groups_arrive_from_both_kinds_of_server(line: Line, kind: str) -> None:
    assert len({group["env_id"] for group in line.groups_of(kind)}) == 1


def test_each_environment_delivers_a_good_part_of_the_groups(line: Line) -> None:
    counts = Counter(senders_together(line.batches))
    assert min(counts.values()) > counts.total() / 4, counts


def test_the_two_environments_share_no_problem(line: Line) -> None:
    seeds = [{group.seed for groups in one.dumped.values() for group in groups} for one in line.environments.values()]
    assert all(len(each) >= 10 for each in seeds)
    assert not seeds[0] & seeds[1]


@each_kind
def test_a_signal_ends_it_with_one_line(line: Line, kind: str) -> None:
    assert error_lines(line.environments[kind].process) == ["reasoning_gym_environment serve: stopped by SIGTERM"]


@each_kind
def test_dumps_hold_whole_groups_where_they_belong_and_all_that_the_trainer_got(line: Line, kind: str) -> None:
    dumped = line.environments[kind].dumped
    for group in (*dumped[PASSED], *dumped[FAILED]):
        assert group.item_id in RULES
        conversations = [[message["role"] for message in one.conversation] for one in group.rollouts]
        assert conversations == [["system", "user", "assistant"]] * GROUP_SIZE
    assert all(max(group.scores) > THRESHOLD for group in dumped[PASSED])
    assert all(not any(group.scores) for group in dumped[FAILED])
    good = [group for group in line.groups_of(kind) if max(group["scores"]) > THRESHOLD]
    passed = [group.scores for group in dumped[PASSED]]
    assert good
    for group in good:
        passed.remove(tuple(group["scores"]))  # raises where one is missing

"""End an environment by Ctrl-C and SIGTERM while rollouts are in flight."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from demo.policy import ScriptedPolicy
from reasoning_env.dumps.format import DumpedGroup
from reasoning_env.dumps.reader import stream_groups
from reasoning_env.storage.checkpoints import read_checkpoint
from reasoning_gym_testing import GenerationRequest, LocalTraining, Process
from reasoning_gym_testing.process_table import descendants, survivors
from tests.preloaded_library import FRESH_VARIABLE
from tests.waiting import PATIENCE_S, wait_until

from .processes import error_lines, left_behind, needs_proc
from .training_runs import all_at_once, handed_out, make_training, scored, wait_for_groups

pytestmark = [pytest.mark.slow, needs_proc]

IN_FLIGHT = 4


@dataclass(frozen=True)
class Ended:
    """An environment that has ended, and its training.

    `in_flight`: positions of problems that were sampled but not scored when the first signal arrived. `put_back`:
    positions that a resumed run serves first, according to the saved state.
    """

    training: LocalTraining
    environment: Process
    in_flight: frozenset[int]
    put_back: frozenset[int]
    dumped: tuple[DumpedGroup, ...]
    left_processes: set[int]


def under_way(environment: Process) -> frozenset[int]:
    """Return the positions of problems that were sampled but not scored."""
    return frozenset(
        {problem["index"] for problem in handed_out(environment)} - {group.index for group in scored(environment)}
    )


def end(folder: Path, signals: tuple[signal.Signals, ...], *, finish: bool) -> Ended:
    """End an environment while all rollouts are in flight. With `finish`, the rollouts finish after the signal."""
    dumps, checkpoints = folder / "dumps", folder / "checkpoints"
    gate, held, scripted = threading.Event(), [], ScriptedPolicy(skill=0.6, seed=1)

    async def policy(request: GenerationRequest) -> list[str]:
        if not gate.is_set():
            held.append(request)
        while not gate.is_set():  # noqa: ASYNC110 - it is opened from another thread
            await asyncio.sleep(0.01)
        return scripted(request)

    gate.set()
    with make_training(folder, policy=policy) as training:
        training.start_trainer(checkpoint_dir=str(checkpoints), save_checkpoint_interval=2)
        environment = training.start_environment(
            "environment",
            variables={FRESH_VARIABLE: "1"},
            max_num_workers=IN_FLIGHT,
            dump_rollouts=True,
            dump_failed_rollouts=True,
            rollout_save_score_threshold=0.0,
            data_dumps_dir=dumps,
        )
        wait_for_groups(training, count=10)
        # The process may be killed before the first regular checkpoint.
        wait_until(lambda: any(checkpoints.glob("*/*/latest.json")), "the first checkpoint")
        gate.clear()
        wait_until(lambda: len(held) == len(under_way(environment)) == IN_FLIGHT, "all rollouts held back")
        below, in_flight = descendants(environment.pid), under_way(environment)
        assert len(below) >= 5  # the fork server, two generators, two verifier workers
        for number in signals[:-1]:
            logged = len(environment.stderr)
            environment.send(number)
            wait_until(lambda logged=logged: len(environment.stderr) > logged, "a word on the first signal")
        environment.send(signals[-1])
        if finish:
            gate.set()
        environment.end()
        dumped = tuple(group for path in sorted(dumps.iterdir()) for group in stream_groups(path))
        [latest] = checkpoints.glob("*/*/latest.json")
        put_back = frozenset(position[0] for position in read_checkpoint(latest).state["stream"]["positions"])
        return Ended(training, environment, in_flight, put_back, dumped, survivors(below, PATIENCE_S))


SCENARIOS: Mapping[str, Callable[[Path], Ended]] = {
    "SIGTERM, time to finish": partial(end, signals=(signal.SIGTERM,), finish=True),
    "SIGTERM, too slow": partial(end, signals=(signal.SIGTERM,), finish=False),
    "twice SIGINT": partial(end, signals=(signal.SIGINT, signal.SIGINT), finish=False),
}
ORDERLY = {"SIGTERM, time to finish": True, "SIGTERM, too slow": False}
"""For each way to end a run, True if the rollouts in flight finish."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Ended]]]:
    started = {name: partial(work, tmp_path_factory.mktemp("training")) for name, work in SCENARIOS.items()}
    with all_at_once(started) as futures:
        yield futures


Futures = Mapping[str, Future[Ended]]
each_orderly_end = pytest.mark.parametrize("name", ORDERLY)


each_end = pytest.mark.parametrize("name", SCENARIOS)


@each_end
def test_exit_status_says_which_signal_ended_the_run(ended: Futures, name: str) -> None:
    environment = ended[name].result().environment
    assert environment.exit_status == (143 if "SIGTERM" in name else 130)
    assert "Traceback" not in environment.stderr


@each_end
def test_ended_environment_leaves_no_process_or_file(ended: Futures, name: str) -> None:
    end = ended[name].result()
    assert (end.left_processes, left_behind(end.environment)) == (set(), [])


@each_end
def test_dump_of_an_ended_run_contains_every_scored_group(ended: Futures, name: str) -> None:
    end = ended[name].result()
    # With a threshold of 0, every group is dumped as passed or as failed.
    assert sorted(group.index or 0 for group in end.dumped) == sorted(group.index for group in scored(end.environment))


@each_orderly_end
def test_groups_with_unequal_scores_are_delivered_before_the_run_ends(ended: Futures, name: str) -> None:
    end = ended[name].result()
    kept = [group.kept for group in scored(end.environment) if group.kept is not None]
    assert [delivery.scores for delivery in end.training.proxy.delivered] == kept


@each_orderly_end
def test_environment_ended_by_a_signal_logs_the_signal_and_disconnects(ended: Futures, name: str) -> None:
    end = ended[name].result()
    assert end.training.proxy.disconnected == [0]
    [told] = error_lines(end.environment)
    assert "SIGTERM" in told


@pytest.mark.parametrize(("name", "finished"), ORDERLY.items())
def test_problems_in_flight_when_a_run_ends_are_finished_or_saved(ended: Futures, name: str, finished: bool) -> None:
    end = ended[name].result()
    done = {group.index for group in scored(end.environment)}
    assert end.in_flight <= (done if finished else end.put_back)
    assert not end.in_flight & (end.put_back if finished else done)

"""Stopped, killed and resumed runs serve the problems of an uninterrupted run.

All delivered groups are dumped, except those of the last second before a kill. No scored group is dumped twice.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.reader import stream_groups
from reasoning_gym_testing import Delivery, LocalTraining, Trainer
from reasoning_gym_testing.trainer import key_of_messages
from tests.waiting import wait_until

from .training_runs import all_at_once, handed_out, make_training, scored, steady_policy

Problem = dict[str, Any]

pytestmark = pytest.mark.slow

ALONE, EMPTIED = "run-api left alone", "run-api emptied"
TERM, KILL = signal.SIGTERM, signal.SIGKILL
CYCLES = ((TERM, ALONE), (KILL, EMPTIED), (TERM, ALONE))
"""How each run ends, and what happens to run-api before the next run starts."""
SETTINGS = {
    "seed": 7,
    "complexity_mode": "random",
    "tasks": "chain_sum,gcd,count_bits,products",
}
DUMPING = {"dump_rollouts": True, "dump_failed_rollouts": True, "rollout_save_score_threshold": 0.0}
SKILL = 0.7
LATENCY_S = 0.15
BATCH_SIZE = 4
INTERVAL = 2
STEPS_A_CYCLE = 4
MOST_S = 1.0
LAST_MOMENT_S = 1.0
"""Seconds before a kill in which delivered groups may be missing from the dumps."""
REFERENCE = 150
"""Number of problems of the uninterrupted run, which is more than all cycles serve together."""


@dataclass(frozen=True)
class Piece:
    """The problems that one run served, and the positions of the groups that it scored.

    For `end` and `between` see CYCLES. `ended_at` is the monotonic time of the signal.
    """

    handed_out: tuple[Problem, ...]
    scored: frozenset[int]
    end: signal.Signals
    between: str
    ended_at: float

    @property
    def positions(self) -> list[int]:
        return [problem["index"] for problem in self.handed_out]


def run_through(folder: Path) -> tuple[Problem, ...]:
    """Return the problems of an uninterrupted run."""
    with make_training(folder, LATENCY_S, steady_policy(SKILL), **SETTINGS) as training:
        training.start_trainer(batch_size=BATCH_SIZE)
        environment = training.start_environment("reference")
        wait_until(lambda: len(handed_out(environment)) >= REFERENCE, "the end of the reference")
        return tuple(handed_out(environment)[:REFERENCE])


def has_checkpoint(folder: Path, after: int, until: int) -> bool:
    return any(after < int(path.stem.partition("-")[2]) <= until for path in folder.glob("*/*/step-*.json"))


def run_piece(training: LocalTraining, trainer: Trainer, folder: Path, number: int) -> Piece:
    """Run until the trainer has passed a checkpoint of this run, then end the run at a random time."""
    end, between = CYCLES[number]
    begin = trainer.step
    environment = training.start_environment(f"run-{number}", **DUMPING, data_dumps_dir=folder / "dumps")
    wait_until(
        lambda: trainer.step >= begin + STEPS_A_CYCLE and has_checkpoint(folder / "checkpoints", begin, trainer.step),
        f"the checkpoint of run {number}",
    )
    time.sleep(random.Random(number).uniform(0, MOST_S))
    before = len(handed_out(environment))
    wait_until(lambda: len(handed_out(environment)) > before, "another problem, which is in flight then")
    ended_at = time.monotonic()
    environment.end(end)
    done = frozenset(group.index for group in scored(environment))
    return Piece(tuple(handed_out(environment)), done, end, between, ended_at)


@dataclass(frozen=True)
class Stopped:
    """A run that was stopped several times, with its deliveries and dumps, and an uninterrupted run to compare."""

    pieces: list[Piece]
    delivered: Sequence[Delivery]
    dumps: Path
    reference: tuple[Problem, ...]

    @property
    def kills(self) -> list[float]:
        return [piece.ended_at for piece in self.pieces if piece.end is KILL]


def stop_and_resume(folder: Path) -> tuple[list[Piece], Sequence[Delivery], Path]:
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    with make_training(folder, LATENCY_S, steady_policy(SKILL), **SETTINGS) as training:
        trainer = training.start_trainer(
            batch_size=BATCH_SIZE, checkpoint_dir=str(checkpoints), save_checkpoint_interval=INTERVAL
        )
        pieces = []
        for number, (_, between) in enumerate(CYCLES):
            pieces.append(run_piece(training, trainer, folder, number))
            if between == EMPTIED:
                training.run_api.reset_data()
    return pieces, training.proxy.delivered, folder / "dumps"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    works = {
        work.__name__: partial(work, tmp_path_factory.mktemp("training")) for work in (stop_and_resume, run_through)
    }
    with all_at_once(works) as futures:
        return Stopped(*futures["stop_and_resume"].result(), futures["run_through"].result())


def test_resumed_runs_serve_the_same_problems_as_an_uninterrupted_run(stopped: Stopped) -> None:
    for piece in stopped.pieces:
        assert piece.positions == sorted(set(piece.positions))
        expected = [stopped.reference[position] for position in piece.positions]
        for what in ("index", "task", "seed", "question"):
            assert [problem[what] for problem in piece.handed_out] == [problem[what] for problem in expected]


def test_resumed_run_skips_only_problems_that_were_scored_before(stopped: Stopped) -> None:
    done: set[int] = set()
    for piece in stopped.pieces:
        left_out = set(range(piece.positions[-1])) - set(piece.positions)
        assert left_out <= done
        done |= piece.scored


def test_resumed_run_serves_no_finished_problem_again(stopped: Stopped) -> None:
    for before, after in pairwise(stopped.pieces):
        assert after.positions[0] >= before.positions[0]  # the first problem may still be in flight
        assert set(before.positions) & set(range(after.positions[-1])) - set(after.positions)


def test_run_resumed_after_sigterm_repeats_no_scored_problem(stopped: Stopped) -> None:
    for before, after in pairwise(stopped.pieces):
        if (before.end, before.between) == (signal.SIGTERM, ALONE):
            assert not set(after.positions) & before.scored


def test_problems_are_in_flight_when_the_runs_are_stopped(stopped: Stopped) -> None:
    # Otherwise the tests above would pass even for a run that saves no state.
    assert any(set(piece.positions) - piece.scored for piece in stopped.pieces)
    assert len({problem["level"] for problem in stopped.reference[: stopped.pieces[-1].positions[-1]]}) > 2


def test_groups_delivered_before_the_run_was_killed_are_dumped_once(stopped: Stopped) -> None:
    groups = list(stream_groups(stopped.dumps))
    dumped = {key_of_messages(one.conversation for one in group.rollouts) for group in groups}
    undumped = [one for one in stopped.delivered if one.key not in dumped]
    assert len(undumped) < len(stopped.delivered) / 10
    assert all(any(0 <= killed - one.at < LAST_MOMENT_S for killed in stopped.kills) for one in undumped)
    served = Counter(position for piece in stopped.pieces for position in piece.positions)
    assert Counter(group.index for group in groups) <= served
    assert len({path.stem.split("_")[-2] for path in stopped.dumps.iterdir()}) == len(CYCLES)  # the uuids of the runs

"""Stopped and resumed again and again, an environment hands out the problems of one that was never stopped."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testing import Line, Process, Trainer, wait_until

from .outages import all_at_once, handed_out, quiet_line, scored
from .policies import steady_policy

Problem = dict[str, Any]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Where outcomes decide what comes next they must come in the order of the problems, so one at a time.
MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {"max_num_workers": 4},
    "random": {"max_num_workers": 4, "complexity_mode": "random", "shutdown_grace_s": 0},
    "curriculum, adaptive": {"max_num_workers": 1, "complexity_mode": "curriculum", "task_sampling": "adaptive"},
}
ALONE, RESTARTED, EMPTIED = "run-api left alone", "run-api restarted", "run-api emptied"
CYCLES = (
    (signal.SIGTERM, ALONE),
    (signal.SIGKILL, ALONE),
    (signal.SIGTERM, RESTARTED),
    (signal.SIGKILL, RESTARTED),
    (signal.SIGTERM, EMPTIED),
    (signal.SIGKILL, EMPTIED),
    (signal.SIGKILL, ALONE),
    (signal.SIGTERM, ALONE),
    (signal.SIGKILL, RESTARTED),
    (signal.SIGTERM, ALONE),
)
"""How a run ends, and what happens to run-api before the next one starts."""
SETTINGS = {
    "seed": 7,
    "prefetch_problems": 4,  # so that outcomes soon have an effect on what comes next
    "tasks": "chain_sum,gcd,count_bits,products",
}
SKILL = 0.7
LATENCY_S = 0.15
BATCH_SIZE = 4
INTERVAL = 3
STEPS_A_CYCLE = 6
MOST_S = 1.0
REFERENCE = 300
"""More problems than all cycles hand out together."""


@dataclass(frozen=True)
class Piece:
    """What one run handed out, and the positions of the groups that it scored; `end` and `between` are as in CYCLES."""

    handed_out: tuple[Problem, ...]
    scored: frozenset[int]
    end: signal.Signals
    between: str

    @property
    def positions(self) -> list[int]:
        return [problem["index"] for problem in self.handed_out]


@dataclass(frozen=True)
class Seen:
    """The pieces of a run that was stopped again and again, and one that was not."""

    pieces: tuple[Piece, ...]
    reference: tuple[Problem, ...]


def start(line: Line, name: str, mode: str) -> Process:
    return line.start_environment(name, **MODES[mode])


def run_through(folder: Path, mode: str) -> tuple[Problem, ...]:
    """What a run hands out that nobody stops."""
    with quiet_line(folder, LATENCY_S, steady_policy(SKILL), **SETTINGS) as line:
        line.start_trainer(batch_size=BATCH_SIZE)
        environment = start(line, "reference", mode)
        wait_until(lambda: len(handed_out(environment)) >= REFERENCE, 200, "the end of the reference")
        return tuple(handed_out(environment)[:REFERENCE])


def has_checkpoint(folder: Path, after: int, until: int) -> bool:
    return any(after < int(path.stem.partition("-")[2]) <= until for path in folder.glob("*/*/step-*.json"))


def run_piece(line: Line, trainer: Trainer, checkpoints: Path, number: int, mode: str) -> Piece:
    """Run until there is a checkpoint of this run that the trainer has come to, and end it some moment later."""
    end, between = CYCLES[number]
    begin = trainer.step
    environment = start(line, f"run-{number}", mode)
    wait_until(
        lambda: trainer.step >= begin + STEPS_A_CYCLE and has_checkpoint(checkpoints, begin, trainer.step),
        90,
        f"the checkpoint of run {number} ({mode})",
    )
    time.sleep(random.Random(f"{mode}:{number}").uniform(0, MOST_S))
    environment.end(end)
    return Piece(tuple(handed_out(environment)), frozenset(group.index for group in scored(environment)), end, between)


def disturb(line: Line, between: str) -> None:
    if between == RESTARTED:
        line.run_api.kill()
        line.run_api.start()
    elif between == EMPTIED:
        line.run_api.reset_data()


def stop_and_resume(folder: Path, mode: str) -> tuple[Piece, ...]:
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    with quiet_line(folder, LATENCY_S, steady_policy(SKILL), **SETTINGS) as line:
        trainer = line.start_trainer(
            batch_size=BATCH_SIZE, checkpoint_dir=str(checkpoints), save_checkpoint_interval=INTERVAL
        )
        pieces = []
        for number, (_, between) in enumerate(CYCLES):
            pieces.append(run_piece(line, trainer, checkpoints, number, mode))
            disturb(line, between)
        return tuple(pieces)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Any]]]:
    works = {f"{mode}, resumed": partial(stop_and_resume, mode=mode) for mode in MODES}
    works |= {f"{mode}, reference": partial(run_through, mode=mode) for mode in MODES}
    with all_at_once({name: partial(work, tmp_path_factory.mktemp("line")) for name, work in works.items()}) as futures:
        yield futures


def of(seen: Mapping[str, Future[Any]], mode: str) -> Seen:
    return Seen(seen[f"{mode}, resumed"].result(), seen[f"{mode}, reference"].result())


each_mode = pytest.mark.parametrize("mode", MODES)


@each_mode
def test_each_position_gets_the_problem_of_a_run_that_was_never_stopped(
    seen: Mapping[str, Future[Any]], mode: str
) -> None:
    both = of(seen, mode)
    for piece in both.pieces:
        assert list(piece.handed_out) == [both.reference[position] for position in piece.positions]


@each_mode
def test_each_run_hands_out_in_order(seen: Mapping[str, Future[Any]], mode: str) -> None:
    for piece in of(seen, mode).pieces:
        assert piece.positions == sorted(set(piece.positions))


@each_mode
def test_no_position_is_left_out(seen: Mapping[str, Future[Any]], mode: str) -> None:
    done: set[int] = set()
    for piece in of(seen, mode).pieces:
        left_out = set(range(piece.positions[-1])) - set(piece.positions)
        assert left_out <= done
        done |= piece.scored


@each_mode
def test_a_run_that_was_told_to_end_is_resumed_where_it_stopped(seen: Mapping[str, Future[Any]], mode: str) -> None:
    pieces = of(seen, mode).pieces
    for before, after in pairwise(pieces):
        if (before.end, before.between) == (signal.SIGTERM, ALONE):
            assert not set(after.positions) & before.scored


@each_mode
def test_a_run_that_was_killed_is_resumed_after_its_beginning(seen: Mapping[str, Future[Any]], mode: str) -> None:
    pieces = of(seen, mode).pieces
    print(mode, [(piece.positions[0], piece.positions[-1]) for piece in pieces])
    for before, after in pairwise(pieces):
        assert after.positions[0] > before.positions[0]


@each_mode
def test_problems_were_in_flight_at_ends(seen: Mapping[str, Future[Any]], mode: str) -> None:
    # Otherwise nothing above would show what becomes of them.
    assert any(set(piece.positions) - piece.scored for piece in of(seen, mode).pieces)


@pytest.mark.parametrize("mode", ["random", "curriculum, adaptive"])
def test_levels_changed_on_the_way(seen: Mapping[str, Future[Any]], mode: str) -> None:
    both = of(seen, mode)
    reached = both.pieces[-1].positions[-1]
    assert len({problem["level"] for problem in both.reference[:reached]}) > 2


def test_adaptive_sampling_drew_other_tasks_than_uniform_sampling(seen: Mapping[str, Future[Any]]) -> None:
    tasks = {mode: [problem["task"] for problem in of(seen, mode).reference] for mode in MODES}
    assert tasks["default"] == tasks["random"] != tasks["curriculum, adaptive"]

"""Ctrl-C and SIGTERM while rollouts are in flight: what becomes of them, and that nothing is left behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from reasoning_env.checkpoints import read_checkpoint
from reasoning_env.dumps import DumpedGroup, read_groups
from testing import Process, generations, slow
from testing.process_table import descendants, survivors

from .outages import Scored, all_at_once, handed_out, quiet_line, scored, wait_for_groups
from .processes import left_behind

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]

IN_FLIGHT = 4
LATENCY_S = 0.2
SLOW_S = 4.0
NEVER_S = 600.0
GRACE_S = 2.0
LEFT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Ended:
    """An environment after its end, which came `took_s` seconds after the last signal.

    `in_flight` holds the positions that were handed out and not scored when the first signal came, `put_back` those
    that a resumed run serves first, by the state that was saved.
    """

    exit_code: int
    took_s: float
    in_flight: frozenset[int]
    scored: tuple[Scored, ...]
    put_back: frozenset[int]
    delivered: tuple[tuple[float, ...], ...]
    disconnected: tuple[int, ...]
    dumped: tuple[DumpedGroup, ...]
    left_processes: frozenset[int]
    left_folders: tuple[str, ...]
    dump_names: tuple[str, ...]
    log: str


def under_way(environment: Process) -> frozenset[int]:
    """Positions that were handed out and not scored."""
    return frozenset(
        {problem["index"] for problem in handed_out(environment)} - {group.index for group in scored(environment)}
    )


def end(folder: Path, signals: tuple[signal.Signals, ...], slow_s: float, grace_s: float) -> Ended:
    """End an environment whose rollouts in flight take so long; a second after the first signal comes the second."""
    dumps, checkpoints = folder / "dumps", folder / "checkpoints"
    with quiet_line(folder, LATENCY_S) as line:
        line.start_trainer(checkpoint_dir=str(checkpoints), save_checkpoint_interval=2)
        environment = line.start_environment(
            "environment",
            max_num_workers=IN_FLIGHT,
            shutdown_grace_s=grace_s,
            dump_rollouts=True,
            dump_failed_rollouts=True,
            rollout_save_score_threshold=0.0,
            data_dumps_dir=dumps,
        )
        wait_for_groups(line, count=10)
        line.servers[0].fail(slow(slow_s), only=generations)
        time.sleep(1.5)  # by now all that is in flight is slow
        below, in_flight = descendants(environment.pid), under_way(environment)
        assert len(below) >= 5  # the template, two makers, two judges
        for number in signals[:-1]:
            environment.send(number)
            time.sleep(1)
        began = time.monotonic()
        exit_code = environment.end(signals[-1])
        took_s = time.monotonic() - began
        return Ended(
            exit_code=exit_code,
            took_s=took_s,
            in_flight=in_flight,
            scored=tuple(scored(environment)),
            put_back=put_back(checkpoints),
            delivered=tuple(delivery.scores for delivery in line.proxy.delivered),
            disconnected=tuple(line.proxy.disconnected),
            dumped=tuple(group for path in sorted(dumps.iterdir()) for group in read_groups(path)),
            left_processes=frozenset(survivors(below, LEFT_TIMEOUT_S)),
            left_folders=tuple(left_behind(environment)),
            dump_names=tuple(path.name for path in dumps.iterdir()),
            log=environment.stderr,
        )


def put_back(checkpoints: Path) -> frozenset[int]:
    [latest] = checkpoints.glob("*/*/latest.json")
    state = read_checkpoint(latest).state
    return frozenset(spec["index"] for spec in state["stream"]["owed"])


SCENARIOS: Mapping[str, Callable[[Path], Ended]] = {
    "SIGTERM, time to finish": partial(end, signals=(signal.SIGTERM,), slow_s=SLOW_S, grace_s=30.0),
    "SIGINT, time to finish": partial(end, signals=(signal.SIGINT,), slow_s=SLOW_S, grace_s=30.0),
    "SIGTERM, too slow": partial(end, signals=(signal.SIGTERM,), slow_s=NEVER_S, grace_s=GRACE_S),
    "twice SIGINT": partial(end, signals=(signal.SIGINT, signal.SIGINT), slow_s=NEVER_S, grace_s=30.0),
}
TIME_TO_FINISH = ["SIGTERM, time to finish", "SIGINT, time to finish"]
ORDERLY = [*TIME_TO_FINISH, "SIGTERM, too slow"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Ended]]]:
    started = {name: partial(work, tmp_path_factory.mktemp("line")) for name, work in SCENARIOS.items()}
    with all_at_once(started) as futures:
        yield futures


Futures = Mapping[str, Future[Ended]]
each_end = pytest.mark.parametrize("name", SCENARIOS)
each_orderly_end = pytest.mark.parametrize("name", ORDERLY)


@each_end
def test_the_exit_status_tells_the_signal(ended: Futures, name: str) -> None:
    assert ended[name].result().exit_code == (143 if "SIGTERM" in name else 130)


@each_end
def test_rollouts_were_in_flight(ended: Futures, name: str) -> None:
    assert len(ended[name].result().in_flight) == IN_FLIGHT


@pytest.mark.parametrize("name", TIME_TO_FINISH)
def test_rollouts_in_flight_are_finished(ended: Futures, name: str) -> None:
    end = ended[name].result()
    assert end.in_flight <= {group.index for group in end.scored}
    assert not end.in_flight & end.put_back


@each_orderly_end
def test_every_group_worth_sending_is_delivered(ended: Futures, name: str) -> None:
    end = ended[name].result()
    assert end.delivered == tuple(group.kept for group in end.scored if group.kept is not None)


def test_what_does_not_finish_in_time_is_put_back(ended: Futures) -> None:
    end = ended["SIGTERM, too slow"].result()
    assert end.in_flight <= end.put_back
    assert not end.in_flight & {group.index for group in end.scored}


def test_the_end_waits_no_longer_than_the_grace(ended: Futures) -> None:
    end = ended["SIGTERM, too slow"].result()
    print(f"ended {end.took_s:.1f} s after the signal")
    assert end.took_s < GRACE_S + 8


def test_a_second_signal_ends_at_once(ended: Futures) -> None:
    end = ended["twice SIGINT"].result()
    print(f"ended {end.took_s:.2f} s after the second signal")
    assert end.took_s < 3


@each_orderly_end
def test_run_api_is_told(ended: Futures, name: str) -> None:
    assert ended[name].result().disconnected == (0,)


@each_end
def test_no_process_is_left(ended: Futures, name: str) -> None:
    assert ended[name].result().left_processes == frozenset()


@each_end
def test_no_temporary_folder_is_left(ended: Futures, name: str) -> None:
    assert ended[name].result().left_folders == ()


@each_orderly_end
def test_dump_files_are_finished(ended: Futures, name: str) -> None:
    names = ended[name].result().dump_names
    assert names
    assert all(name.endswith(".jsonl") for name in names)


@each_end
def test_every_group_that_was_scored_is_dumped_whole(ended: Futures, name: str) -> None:
    end = ended[name].result()
    # At a threshold of 0 one of the two streams takes it, whatever its scores are.
    assert sorted(group.index or 0 for group in end.dumped) == sorted(group.index for group in end.scored)


@each_end
def test_it_ends_without_a_traceback(ended: Futures, name: str) -> None:
    assert "Traceback" not in ended[name].result().log

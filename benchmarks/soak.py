"""A line under load with a fault every 15 to 20 seconds: what is lost, doubled or torn, and what grows.

`python -m benchmarks.soak [--minutes 10] [--seed N]` runs Atropos' run-api, a scripted policy, a trainer and two
environments with dumps and checkpoints on, over loopback. After a warm-up, faults are drawn from `_faults.KINDS`; at
the end the line is left alone to recover, the environments are stopped with SIGTERM, and the books are balanced:

- lost: groups with unequal scores that were dumped and never delivered, and groups that were delivered and are not in
  the dumps. What an environment had dumped and not yet sent when it was killed with SIGKILL is counted apart.
- duplicated: groups that were delivered twice, or are in the dumps twice; also problems that both environments served.
  `repeated` counts apart what was sent again because its connection broke or its environment was killed, as it may be.
- torn: dumps and checkpoints that do not parse.
- growth: of the resident memory, open files and processes of the environment that lives through it all, from the end of
  the warm-up to the end, in percent. The warm-up holds an outage of each kind in which groups wait in memory. Both
  measures end with the servers away for a moment, so that connections in use do not count, and those that leak do.

Prints one line of JSON, progress goes to stderr. Exits with 1 when anything was lost, duplicated or torn, when a fault
was not recovered from, when an environment ended with another status than SIGTERM's, or when growth is over 5 %.
Memory is in megabytes, recovery in seconds from the end of a fault to the next delivery. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from demo.policy import ScriptedPolicy
from reasoning_env.dumps import DumpFormatError, read_groups
from testing import Delivery, Line, refuse, wait_until
from testing.recorded_environment import read_journal
from testing.trainer import key_of_messages

from ._faults import AT_ONCE_S, Scene, inject, run_of_dump, schedule
from ._usage import Sampler, Usage, growth

ROOT = Path(__file__).resolve().parent.parent
TASKS = "chain_sum,gcd,lcm,count_bits,products,letter_counting,spell_backward,word_sorting"
LATENCY_S = 0.1
WARM_UP_SHARE = 0.15
MIN_WARM_UP_S = 15.0
WARM_UP_FAULTS = ("dumps_blocked", "run_api_unreachable")
"""Outages in which groups wait in memory: the room that this takes stays with the process, and is no growth."""
MEASURE_S = 15.0
AWAY_S = 4.0
SETTLE_S = 10.0
FAULT_INTERVAL_S = (15.0, 20.0)
START_TIMEOUT_S = 120.0
GROWTH_LIMIT_PERCENT = 5.0
ENDED_BY_SIGTERM = 143


# ---------------------------------------------------------------------------- what was lost, doubled or torn


@dataclass(frozen=True)
class DumpedGroup:
    """A group in the dumps: what identifies it, the run that wrote it, and whether it had to be delivered."""

    key: str
    run: str
    has_signal: bool


@dataclass(frozen=True)
class Balance:
    """What became of groups; all but `undelivered_at_kill` and `repeated` should be 0."""

    never_delivered: int
    never_dumped: int
    undelivered_at_kill: int
    delivered_twice: int
    dumped_twice: int
    repeated: int = 0


def balance(
    delivered: Iterable[Delivery],
    dumped: Sequence[DumpedGroup],
    killed_runs: Collection[str],
    broken: Collection[tuple[float, float]] = (),
) -> Balance:
    """Compare delivered groups with the dumps; `broken` holds the times of what may have been sent again."""
    times, dumps = defaultdict(list), Counter(group.key for group in dumped)
    for delivery in delivered:
        times[delivery.key].append(delivery.at)
    deliveries = times.keys()
    again = [at for ats in times.values() for at in sorted(ats)[:-1]]
    excused = sum(any(began <= at <= ended for began, ended in broken) for at in again)
    missing = [group for group in dumped if group.has_signal and group.key not in deliveries]
    at_kill = [group for group in missing if group.run in killed_runs]
    return Balance(
        never_delivered=len(missing) - len(at_kill),
        never_dumped=len(deliveries - dumps.keys()),
        undelivered_at_kill=len(at_kill),
        delivered_twice=len(again) - excused,
        dumped_twice=dumps.total() - len(dumps),
        repeated=excused,
    )


def read_dumps(folders: Iterable[Path], torn: list[str]) -> Iterator[DumpedGroup]:
    """The groups of all files; what does not parse, but for the torn last line of a killed run, is named in `torn`."""
    for path in sorted(path for folder in folders for path in folder.iterdir()):
        run = run_of_dump(path)
        if run is None:
            continue
        try:
            for group in read_groups(path):
                key = key_of_messages(rollout.conversation for rollout in group.rollouts)
                yield DumpedGroup(key, run, len(set(group.scores)) > 1)
        except DumpFormatError as error:
            torn.append(str(error))


def torn_checkpoints(folder: Path) -> list[str]:
    """Checkpoints that are no JSON."""
    torn = []
    for path in folder.rglob("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            torn.append(str(path))
    return torn


def served_by_both(scene: Scene) -> int:
    """Problems that were handed out by both environments."""
    served = [
        {
            (one["task"], one["seed"], str(one["params"]))
            for environment in environments
            for one in read_journal(environment.folder, "handed_out")
        }
        for environments in scene.environments.values()
    ]
    return len(set.intersection(*served))


# ---------------------------------------------------------------------------- the run


def soak(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Run for about so long, with faults drawn by the seed; returns what is printed."""
    chance = random.Random(seed)
    policy = ScriptedPolicy(skill=0.6, seed=seed)
    with Line(folder / "runs", policy, latency_s=LATENCY_S, tasks=TASKS) as line:
        scene = Scene(line, folder)
        for name in scene.environments:
            has_delivered = partial(scene.first_delivery, name, 0.0)
            wait_until(has_delivered, START_TIMEOUT_S, f"the first group of {name}")
        sampler = Sampler(scene.lasting.pid)
        started = time.monotonic()
        warm_up_s = max(MIN_WARM_UP_S, WARM_UP_SHARE * seconds)
        _tell(started, f"both environments deliver; warming up for {warm_up_s:.0f} s")
        time.sleep(warm_up_s)
        for kind in WARM_UP_FAULTS:
            inject(scene, kind, chance)
            time.sleep(SETTLE_S)
        before = _measure(scene, sampler)
        time.sleep(SETTLE_S)
        recoveries = _let_faults_happen(scene, chance, started, started + seconds - 2 * SETTLE_S - MEASURE_S)
        _tell(started, "no more faults")
        line.proxy.recover()
        time.sleep(SETTLE_S)
        after = _measure(scene, sampler)
        sampler.stop()
        time.sleep(SETTLE_S)
        _tell(started, "stopping the environments")
        scene.statuses += [scene.restarted.end(signal.SIGTERM), scene.lasting.end(signal.SIGTERM)]
        return _report(scene, folder, started, recoveries, growth(before, after))


def _measure(scene: Scene, sampler: Sampler) -> list[Usage]:
    """Samples of normal work and, at the end, of a moment without any server to be connected to."""
    first = len(sampler.samples)
    time.sleep(MEASURE_S - AWAY_S)
    away = time.monotonic()
    scene.line.servers[0].fail(refuse)
    scene.line.proxy.fail(refuse)
    time.sleep(AWAY_S)
    scene.line.servers[0].recover()
    scene.line.proxy.recover()
    scene.broken.append((away - AT_ONCE_S, time.monotonic()))
    return sampler.samples[first:]


def _let_faults_happen(
    scene: Scene, chance: random.Random, started: float, until: float
) -> dict[str, list[float | None]]:
    recoveries: dict[str, list[float | None]] = defaultdict(list)
    for kind in schedule(chance):
        next_at = time.monotonic() + chance.uniform(*FAULT_INTERVAL_S)
        if next_at > until:
            return recoveries
        recovery = inject(scene, kind, chance)
        recoveries[kind].append(recovery)
        outcome = "NOT RECOVERED" if recovery is None else f"recovered in {recovery:.1f} s"
        _tell(started, f"{kind}: {outcome}; {len(scene.line.proxy.delivered)} groups delivered")
        time.sleep(max(0.0, next_at - time.monotonic()))
    raise AssertionError("the schedule has no end")


def _report(
    scene: Scene,
    folder: Path,
    started: float,
    recoveries: Mapping[str, Sequence[float | None]],
    grown: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    took_s = time.monotonic() - started
    dump_folders = [scene.dumps, *scene.moved_dumps]
    for dumps in dump_folders:
        _recover(dumps)
    torn = torn_checkpoints(folder / "checkpoints")
    dumped = list(read_dumps(dump_folders, torn))
    deliveries = scene.line.proxy.delivered
    balanced = balance(deliveries, dumped, scene.killed_runs, scene.broken)
    both = served_by_both(scene)
    complaints = {
        level: sum(one.stderr.count(f" {level} ") for all_of in scene.environments.values() for one in all_of)
        for level in ("WARNING", "ERROR")
    }
    for name in torn:
        print(f"torn: {name}", file=sys.stderr)
    return {
        "minutes": round(took_s / 60, 1),
        "groups_delivered": len(deliveries),
        "groups_per_s": round(len(deliveries) / took_s, 1),
        "groups_dumped": len(dumped),
        "lost": balanced.never_delivered + balanced.never_dumped,
        "duplicated": balanced.delivered_twice + balanced.dumped_twice + both,
        "torn": len(torn),
        "balance": {**asdict(balanced), "served_by_both": both},
        "faults": {
            kind: {"count": len(times), "recovery_max_s": round(max((t for t in times if t is not None), default=0), 2)}
            for kind, times in sorted(recoveries.items())
        },
        "run_api_resets": scene.resets,
        "unrecovered": sum(times.count(None) for times in map(list, recoveries.values())),
        "wrong_exit_statuses": [status for status in scene.statuses if status != ENDED_BY_SIGTERM],
        "log_lines": complaints,
        "growth": grown,
    }


def _recover(dumps: Path) -> None:
    command = [sys.executable, "reasoning_gym_environment.py", "recover", str(dumps)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)


def passes(result: Mapping[str, Any]) -> bool:
    """Whether nothing went wrong that must not."""
    faultless = not any(result[key] for key in ("lost", "duplicated", "torn", "unrecovered", "wrong_exit_statuses"))
    return faultless and all(one["percent"] <= GROWTH_LIMIT_PERCENT for one in result["growth"].values())


def _tell(started: float, text: str) -> None:
    print(f"[{time.monotonic() - started:6.1f} s] {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long, at least 1")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults")
    options = parser.parse_args()
    if options.minutes < 1:
        parser.error("--minutes must be at least 1")
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"logs and dumps are in {folder}; they stay there when the run fails", file=sys.stderr)
    result = {"benchmark": "soak", "cores": os.cpu_count(), "seed": options.seed}
    result |= soak(folder, 60 * options.minutes, options.seed)
    print(json.dumps(result))
    if not passes(result):
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

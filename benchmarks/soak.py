"""Train locally for some minutes with a fault every 15 to 20 seconds; count lost, repeated and torn groups, and growth.

`python -m benchmarks.soak [--minutes 10] [--seed N]` runs run-api behind a proxy that records deliveries, a scripted
policy, a trainer, and two environments with dumps and checkpoints, over loopback. After a warm-up, faults are drawn
from `_faults.KINDS`. At the end, the training recovers without faults, SIGTERM stops the environments, and deliveries,
dumps and journals are compared:

- lost: groups with unequal scores that were dumped but not delivered, and delivered groups that are not in the dumps.
  Three cases count separately. `put_back`: groups that could not be delivered within the grace period of a SIGTERM, if
  the next run of this environment got their problems again. `undelivered_at_kill`: groups that a killed environment
  (SIGKILL) had dumped but neither sent nor saved. `undumped_at_kill`: groups delivered in the last second before a kill
  and not dumped.
- repeated: further deliveries of a group. A repetition is allowed after a fault that broke connections or ended an
  environment, if the first delivery was shortly before the fault. Other repetitions count as `repeated_without_cause`.
- dumped_twice: groups that are in the dumps twice
- served_by_both: problems that both environments served
- torn: dumps and checkpoints that do not parse
- shared_number: groups that arrived under a number that run-api had last assigned to the other environment. After a
  restart run-api assigns the same numbers again, and does not say to whom.
- growth: of resident memory, open files and processes of the environment that lives through all faults, from the end of
  the warm-up to the end, in percent. The warm-up has an outage of each kind in which groups wait in memory. Both
  measurements end while the servers are away, so that connections in use do not count, but leaked connections do.

Prints one line of JSON, and progress to stderr. `memory_mb` is the resident memory of the lasting environment, at the
start and then every quarter of an hour. Exits with 1 if a count of MUST_BE_ZERO is not 0 (which include
faults without recovery, and exit statuses other than SIGTERM's) or growth is over 5 %. Memory is in megabytes, recovery
in seconds from the end of a fault to the next delivery. Needs Linux.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from demo.policy import ScriptedPolicy
from reasoning_env.dumps.reader import DumpFormatError, stream_groups
from reasoning_env.storage.checkpoints import CheckpointError, read_checkpoint
from reasoning_gym_testing import LocalTraining, Process, RunApiProxy, wait_until
from reasoning_gym_testing.recorded_environment import read_journal
from reasoning_gym_testing.trainer import key_of_messages

from ._faults import KINDS, SERVERS_AWAY, FaultyTraining, inject, recovery_s, schedule
from ._usage import Sampler, Usage, growth, resident_mb

LATENCY_S = 0.1
WARM_UP_SHARE = 0.15
MIN_WARM_UP_S = 15.0
WARM_UP_FAULTS = ("dumps_blocked", "run_api_unreachable")
"""Outages in which groups wait in memory. The process keeps this memory, which does not count as growth."""
MEMORY_INTERVAL_S = 900.0
MEASURE_S = 11.0
SETTLE_S = 10.0
LAST_S = 2 * SETTLE_S + MEASURE_S
FAULT_INTERVAL_S = (15.0, 20.0)
START_TIMEOUT_S = 120.0
GROWTH_LIMIT_PERCENT = 5.0
UNSAVED_S = 30.0
"""A killed environment saved at most this long before the kill. Groups delivered since then arrive again."""
ENDED_BY_SIGTERM = 143
MUST_BE_ZERO = (
    "lost",
    "repeated_without_cause",
    "dumped_twice",
    "served_by_both",
    "torn",
    "unrecovered",
    "wrong_exit_statuses",
)


# ---------------------------------------------------------------------------- the run


def soak(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Run for about this time, with faults by seed, and return the figures."""
    chance = random.Random(seed)
    policy = ScriptedPolicy(skill=0.6, seed=seed)
    with LocalTraining(folder / "runs", policy, latency_s=LATENCY_S) as training:
        scene = FaultyTraining(training, folder)
        for name in scene.environments:
            has_delivered = partial(scene.first_delivery, name, 0.0)
            wait_until(has_delivered, START_TIMEOUT_S, f"the first group of {name}")
        sampler = Sampler(scene.lasting.pid)
        started, first_mb = time.monotonic(), resident_mb(scene.lasting.pid)
        warm_up_s = max(MIN_WARM_UP_S, WARM_UP_SHARE * seconds)
        _log_progress(started, f"both environments deliver; warming up for {warm_up_s:.0f} s")
        time.sleep(warm_up_s)
        for fault in WARM_UP_FAULTS:
            recovery_s(scene, KINDS[fault], inject(scene, KINDS[fault], chance))
            time.sleep(SETTLE_S)
        before = _measure(scene, sampler, chance)
        memory_mb = [first_mb]
        recoveries = _inject_faults(scene, chance, started, started + seconds - LAST_S, memory_mb)
        _log_progress(started, "no more faults")
        time.sleep(SETTLE_S)
        after = _measure(scene, sampler, chance)
        sampler.stop()
        _log_progress(started, "stopping the environments")
        scene.statuses += [scene.restarted.end(signal.SIGTERM), scene.lasting.end(signal.SIGTERM)]
        took_s = time.monotonic() - started
        return {
            "minutes": round(took_s / 60, 1),
            "groups_per_s": round(len(scene.delivered) / took_s, 1),
            **compare_deliveries(scene),
            "faults": {
                fault: {"count": len(times), "recovery_max_s": round(max(filter(None, times), default=0.0), 2)}
                for fault, times in sorted(recoveries.items())
            },
            "unrecovered": sum(times.count(None) for times in recoveries.values()),
            "wrong_exit_statuses": [status for status in scene.statuses if status != ENDED_BY_SIGTERM],
            "growth": growth(before, after),
            "memory_mb": [round(megabytes) for megabytes in memory_mb],
        }


def _measure(scene: FaultyTraining, sampler: Sampler, chance: random.Random) -> list[Usage]:
    """Return samples of normal work and, at the end, samples while no server is reachable."""
    first = len(sampler.samples)
    time.sleep(MEASURE_S)
    inject(scene, SERVERS_AWAY, chance)
    samples = sampler.samples[first:]
    time.sleep(SETTLE_S)
    return samples


def _inject_faults(
    scene: FaultyTraining, chance: random.Random, started: float, until: float, memory_mb: list[float]
) -> dict[str, list[float | None]]:
    """Return the times of recovery by kind. Append the lasting environment's memory every MEMORY_INTERVAL_S."""
    recoveries: dict[str, list[float | None]] = defaultdict(list)
    for fault in schedule(chance):
        next_at = time.monotonic() + chance.uniform(*FAULT_INTERVAL_S)
        if next_at > until:
            break
        recovery = recovery_s(scene, KINDS[fault], inject(scene, KINDS[fault], chance))
        recoveries[fault].append(recovery)
        outcome = "NOT RECOVERED" if recovery is None else f"recovered in {recovery:.1f} s"
        megabytes = resident_mb(scene.lasting.pid)
        if time.monotonic() - started >= MEMORY_INTERVAL_S * len(memory_mb):
            memory_mb.append(megabytes)
        _log_progress(started, f"{fault}: {outcome}; {len(scene.delivered)} groups delivered; {megabytes:.0f} MB")
        time.sleep(max(0.0, next_at - time.monotonic()))
    return recoveries


# ---------------------------------------------------------------------------- comparing deliveries and dumps


Scored = tuple[int | None, tuple[float, ...]]
"""The seed of a problem and the scores of its group, which identify the group in dumps and journals."""


def compare_deliveries(scene: FaultyTraining) -> dict[str, Any]:
    """Compare deliveries with the dumps and with the environments' journals."""
    arrivals: dict[str, list[float]] = defaultdict(list)
    for delivery in scene.delivered:
        arrivals[delivery.key].append(delivery.at)
    torn: list[str] = []
    dumped = list(read_dumps([scene.dumps, *scene.moved_dumps], torn))
    keys = Counter(key for key, _ in dumped)
    missing = [group for key, group in dumped if len(set(group[1])) > 1 and key not in arrivals]
    of_killed = set(itertools.chain(*map(scored_by, scene.killed)))
    at_kill = [group for group in missing if group in of_killed]
    given_again = set(itertools.chain(*(put_back(runs, scene.killed) for runs in scene.environments.values())))
    waiting = [group for group in missing if group in given_again - of_killed]
    undumped = arrivals.keys() - keys.keys()
    undumped_at_kill = {key for key in undumped if is_just_before_a_kill(scene.kills, min(arrivals[key]))}
    repeats = [pair for times in arrivals.values() for pair in itertools.pairwise(sorted(times))]
    served = [set(map(_problem, itertools.chain(*map(handed_out, all_of)))) for all_of in scene.environments.values()]
    return {
        "groups_arrived": len(arrivals),
        "groups_dumped": len(keys),
        "lost": len(missing) - len(at_kill) - len(waiting) + len(undumped - undumped_at_kill),
        "put_back": len(waiting),
        "undelivered_at_kill": len(at_kill),
        "undumped_at_kill": len(undumped_at_kill),
        "repeated": len(repeats),
        "repeated_without_cause": sum(not has_cause(scene.breaks, *times) for times in repeats),
        "dumped_twice": len(dumped) - len(keys),
        "served_by_both": len(set.intersection(*served)),
        "torn": [*torn, *torn_checkpoints(scene.checkpoints)],
        "shared_number": sum(shares_number(proxy, scene.proxies.values()) for proxy in scene.proxies.values()),
    }


def has_cause(breaks: Sequence[tuple[float, float]], first: float, again: float) -> bool:
    """Return True if connections broke between two arrivals of a group, soon after the first."""
    return any(began - UNSAVED_S <= first <= ended and began <= again for began, ended in breaks)


def is_just_before_a_kill(kills: Sequence[float], arrived: float) -> bool:
    """Return True if a group was delivered so shortly before a kill that its line may be missing."""
    return any(killed - 1.0 <= arrived <= killed + 1.0 for killed in kills)


def read_dumps(folders: Sequence[Path], torn: list[str]) -> Iterator[tuple[str, Scored]]:
    """Yield the groups of all files with their keys. Append lines that do not parse to `torn`."""
    for path in sorted(path for folder in folders for path in folder.glob("*.jsonl")):
        try:
            for group in stream_groups(path):
                key = key_of_messages(rollout.conversation for rollout in group.rollouts)
                yield key, (group.seed, group.scores)
        except DumpFormatError as error:
            torn.append(str(error))


def torn_checkpoints(folder: Path) -> list[str]:
    torn = []
    for path in folder.rglob("*.json"):
        try:
            read_checkpoint(path)
        except CheckpointError as error:
            torn.append(str(error))
    return torn


def shares_number(proxy: RunApiProxy, proxies: Collection[RunApiProxy]) -> int:
    """Count the deliveries through a proxy whose number run-api last assigned through another proxy."""
    assigned = [(entry.at, entry.env_id, other) for other in proxies for entry in other.registered]
    count = 0
    for delivery in proxy.delivered:
        owners = [(at, other) for at, env_id, other in assigned if env_id == delivery.env_id and at <= delivery.at]
        count += max(owners, key=lambda owner: owner[0])[1] is not proxy
    return count


def handed_out(process: Process) -> list[dict[str, Any]]:
    return read_journal(process.folder, "handed_out")


def put_back(runs: Sequence[Process], killed: Collection[Process]) -> Iterator[Scored]:
    """Yield the groups of terminated runs whose problems the next run of the environment got again."""
    for ended, following in itertools.pairwise(runs):
        if ended not in killed:
            again = set(map(_problem, handed_out(following)))
            yield from (group for problem, group in scored_problems(ended) if _problem(problem) in again)


def scored_by(process: Process) -> Iterator[Scored]:
    """Yield the groups that an environment scored for sending, as problem seeds and scores."""
    return (group for _, group in scored_problems(process))


def scored_problems(process: Process) -> Iterator[tuple[Mapping[str, Any], Scored]]:
    """Yield the groups that an environment scored for sending, each after its problem in the journal."""
    problems = {problem["index"]: problem for problem in handed_out(process)}
    for scored in read_journal(process.folder, "scored"):
        if scored["scores"]:
            problem = problems[scored["index"]]
            yield problem, (problem["seed"], tuple(scored["scores"]))


def _problem(handed: Mapping[str, Any]) -> tuple[Any, ...]:
    return handed["task"], handed["seed"], str(handed["params"])


# ---------------------------------------------------------------------------- the command


def passes(result: Mapping[str, Any]) -> bool:
    """Return True if all counts of MUST_BE_ZERO are 0."""
    grown = (measured["percent"] for measured in result["growth"].values())
    return not any(result[name] for name in MUST_BE_ZERO) and max(grown) <= GROWTH_LIMIT_PERCENT


def _log_progress(started: float, text: str) -> None:
    print(f"[{time.monotonic() - started:6.1f} s] {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the run, at least 2")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults")
    options = parser.parse_args()
    if options.minutes < 2:
        parser.error("--minutes must be at least 2")
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"logs and dumps are in {folder}; they stay there if the run fails", file=sys.stderr)
    result = {"benchmark": "soak", "cores": os.cpu_count(), "seed": options.seed}
    result |= soak(folder, 60 * options.minutes, options.seed)
    print(json.dumps(result))
    if not passes(result):
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

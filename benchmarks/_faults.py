"""Faults that happen to a line: what each kind breaks, and a seeded schedule of them.

Two environments work on the line. LASTING lives through everything, so that what grows in it can be measured;
RESTARTED is the one that is ended and started again.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testing import Delivery, Line, Process, cut_reply, generations, refuse, respond, slow
from testing.inference_server import FAULTS
from testing.process_table import descendants, is_alive
from testing.run_api import sends

LASTING = "lasting"
RESTARTED = "restarted"
MIN_FAULT_S = 2.0
MAX_FAULT_S = 6.0
RECOVERY_TIMEOUT_S = 90.0
"""After so long without a delivery a fault counts as one that was not recovered from."""
POLL_S = 0.05
TRAINER_RETURNS_S = 5.0
SETTINGS: Mapping[str, Any] = {
    "max_num_workers": 16,
    "total_steps": 1_000_000,
    "steps_per_eval": 0,
    "dump_rollouts": True,
    "dump_failed_rollouts": True,
    "rollout_save_score_threshold": 0.0,
}
DUMP_NAME = re.compile(r"reasoning_gym_environment_(?:FAILED_)?rollouts_(?P<run>.+)_\d{4,}\.jsonl")


def run_of_dump(path: Path) -> str | None:
    """The run that a file of dumps belongs to, or None for any other file."""
    match = DUMP_NAME.fullmatch(path.name)
    return match["run"] if match else None


class Scene:
    """A line with its trainer and the two environments, and what was done to them."""

    def __init__(self, line: Line, folder: Path) -> None:
        self.line = line
        self.dumps = folder / "dumps"
        self.moved_dumps: list[Path] = []
        self.killed_runs: set[str] = set()
        """Runs of environments that were killed: what they had written and not yet sent cannot arrive."""
        self.resets = 0
        """How often run-api had to be emptied; see `_reset`."""
        self.broken: list[tuple[float, float]] = []
        """From and to when groups were sent that may arrive again."""
        self.statuses: list[int] = []
        """How environments ended that were asked to."""
        self.environments: dict[str, list[Process]] = {LASTING: [], RESTARTED: []}
        self.trainer = line.start_trainer(
            batch_size=64, checkpoint_dir=str(folder / "checkpoints"), save_checkpoint_interval=50
        )
        for name in self.environments:
            self.start(name)

    @property
    def lasting(self) -> Process:
        return self.environments[LASTING][-1]

    @property
    def restarted(self) -> Process:
        return self.environments[RESTARTED][-1]

    def start(self, name: str) -> None:
        started = self.environments[name]
        started.append(
            self.line.start_environment(
                f"{name}-{len(started)}", wandb_name=name, data_dumps_dir=self.dumps, **SETTINGS
            )
        )

    def first_delivery(self, name: str, after: float) -> float | None:
        """When the environment of that name first delivered a group after a moment; None when it did not yet."""
        first = None
        for delivery in reversed(self.line.proxy.delivered):
            if delivery.at <= after:
                break
            if self._sender(delivery) == name:
                first = delivery.at
        return first

    def _sender(self, delivery: Delivery) -> str | None:
        # Numbers are given anew by a run-api that was restarted, so the newest registration before it counts.
        for registration in reversed(self.line.proxy.registered):
            if registration.env_id == delivery.env_id and registration.at <= delivery.at:
                return registration.name.rpartition("_")[0]
        return None


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `begin` and `end` act on the scene; `victim` is the environment that has to recover."""

    begin: Callable[[Scene, random.Random], None]
    end: Callable[[Scene], None] = lambda scene: None
    victim: str = LASTING


def _reset(scene: Scene, _chance: random.Random) -> None:
    """Empty run-api, again where it was given a group before the trainer had come back: it takes no trainer then.

    No environment can rule that out, because run-api knows no request that is only taken when a trainer is there.
    """
    url = scene.line.run_api.url
    while True:
        registrations = scene.trainer.registrations
        scene.line.run_api.reset_data()
        scene.resets += 1
        deadline = time.monotonic() + TRAINER_RETURNS_S
        while time.monotonic() < deadline and scene.trainer.registrations == registrations:
            time.sleep(POLL_S)
        with urllib.request.urlopen(f"{url}/info", timeout=TRAINER_RETURNS_S) as reply:
            if json.load(reply)["batch_size"] != -1:
                return


def _kill_worker(scene: Scene, chance: random.Random) -> None:
    alive = sorted(filter(is_alive, descendants(scene.lasting.pid)))
    if alive:
        os.kill(chance.choice(alive), signal.SIGKILL)


def _move_dumps(scene: Scene, _chance: random.Random) -> None:
    """As if the folder had been removed, but what was in it can be counted in the end."""
    away = scene.dumps.with_name(f"dumps-moved-{len(scene.moved_dumps)}")
    scene.dumps.rename(away)
    scene.moved_dumps.append(away)


def _block_dumps(scene: Scene, chance: random.Random) -> None:
    """A file in the place of the folder; permissions would not stop a superuser."""
    while not scene.dumps.is_file():
        _move_dumps(scene, chance)
        with contextlib.suppress(IsADirectoryError):  # made again in between
            scene.dumps.write_text("in the way")


def _terminate(scene: Scene, _chance: random.Random) -> None:
    scene.statuses.append(scene.restarted.end(signal.SIGTERM))


def _kill(scene: Scene, _chance: random.Random) -> None:
    scene.killed_runs |= open_runs(scene.restarted.pid)
    scene.restarted.end(signal.SIGKILL)


def open_runs(pid: int) -> set[str]:
    """The runs whose dumps a process has open."""
    runs = set()
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            runs.add(run_of_dump(descriptor.readlink()))
        except OSError:  # closed in the meantime
            continue
    return {run for run in runs if run is not None}


def _inference_fault(*fault: Any, **only: Any) -> Fault:
    return Fault(
        lambda scene, _: scene.line.servers[0].fail(*fault, **only), lambda scene: scene.line.servers[0].recover()
    )


def _proxy_fault(*fault: Any, **only: Any) -> Fault:
    return Fault(lambda scene, _: scene.line.proxy.fail(*fault, **only), lambda scene: scene.line.proxy.recover())


KINDS: Mapping[str, Fault] = {
    "inference_down": _inference_fault(refuse),
    "inference_errors": _inference_fault(respond(500)),
    "inference_garbage": _inference_fault(FAULTS["garbage"], only=generations),
    "inference_slow": _inference_fault(slow(5.0), only=generations),
    "run_api_killed": Fault(lambda scene, _: scene.line.run_api.kill(), lambda scene: scene.line.run_api.start()),
    "run_api_reset": Fault(_reset),
    "run_api_paused": Fault(lambda scene, _: scene.line.run_api.pause(), lambda scene: scene.line.run_api.go_on()),
    "run_api_unreachable": _proxy_fault(refuse),
    "run_api_errors": _proxy_fault(respond(500), only=sends),
    "replies_cut": _proxy_fault(cut_reply, only=sends),
    "worker_killed": Fault(_kill_worker),
    "trainer_paused": Fault(lambda scene, _: scene.trainer.pause(), lambda scene: scene.trainer.go_on()),
    "dumps_removed": Fault(_move_dumps),
    "dumps_blocked": Fault(_block_dumps, lambda scene: scene.dumps.unlink()),
    "environment_terminated": Fault(_terminate, lambda scene: scene.start(RESTARTED), RESTARTED),
    "environment_killed": Fault(_kill, lambda scene: scene.start(RESTARTED), RESTARTED),
}

AT_ONCE_S = 1.0
BREAKING: Mapping[str, float] = {
    "run_api_killed": AT_ONCE_S,
    "run_api_paused": AT_ONCE_S,
    "run_api_unreachable": AT_ONCE_S,
    "replies_cut": AT_ONCE_S,
    "environment_killed": 15.0,  # what it delivered is saved every 10 s
}
"""Kinds after which groups that arrived may be sent again, and how long before they may have arrived, in seconds."""


def schedule(chance: random.Random) -> Iterator[str]:
    """Kinds without end, in random order; none comes again before all others came."""
    while True:
        yield from chance.sample(sorted(KINDS), len(KINDS))


def inject(scene: Scene, kind: str, chance: random.Random) -> float | None:
    """Let a fault happen and end; the seconds from its end to the next delivery, or None where none came in time."""
    fault = KINDS[kind]
    began = time.monotonic()
    fault.begin(scene, chance)
    time.sleep(chance.uniform(MIN_FAULT_S, MAX_FAULT_S))
    ended = time.monotonic()
    fault.end(scene)
    if kind in BREAKING:
        scene.broken.append((began - BREAKING[kind], ended))
    while (delivered := scene.first_delivery(fault.victim, ended)) is None:
        if (
            time.monotonic() - ended > RECOVERY_TIMEOUT_S
            or scene.environments[fault.victim][-1].exit_status is not None
        ):
            return None
        time.sleep(POLL_S)
    return delivered - ended

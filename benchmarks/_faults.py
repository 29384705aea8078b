"""Faults for a local training: what each kind breaks, and a seeded schedule.

Two environments serve the training. LASTING runs through all faults, to measure growth. RESTARTED is stopped and
started again. Each has its own proxy before run-api, which shows the sender of each group.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reasoning_gym_testing import (
    Delivery,
    LocalTraining,
    Process,
    RunApiProxy,
    cut_reply,
    generations,
    refuse,
    respond,
    slow,
)
from reasoning_gym_testing.process_table import descendants, is_alive
from reasoning_gym_testing.run_api import sends

LASTING = "lasting"
RESTARTED = "restarted"
MIN_FAULT_S = 2.0
MAX_FAULT_S = 6.0
RECOVERY_TIMEOUT_S = 90.0
"""Seconds without a delivery after which a fault counts as not recovered."""
BREAK_ENDS_S = 5.0
"""Seconds after the end of a fault in which a failing request may still be in flight."""
POLL_S = 0.05
SETTINGS: Mapping[str, Any] = {
    "max_num_workers": 16,
    "total_steps": 1_000_000,
    "steps_per_eval": 0,
    "dump_rollouts": True,
    "dump_failed_rollouts": True,
    "rollout_save_score_threshold": 0.0,
}


class FaultyTraining:
    """A local training with its trainer and two environments, and a record of the faults."""

    def __init__(self, training: LocalTraining, folder: Path) -> None:
        self.training = training
        self.dumps = folder / "dumps"
        self.checkpoints = folder / "checkpoints"
        self.moved_dumps: list[Path] = []
        self.killed: list[Process] = []
        self.kills: list[float] = []
        """When each was killed (monotonic)."""
        self.statuses: list[int] = []
        """Exit statuses of stopped environments."""
        self.breaks: list[tuple[float, float]] = []
        """From when to when (monotonic) connections to run-api broke."""
        self.environments: dict[str, list[Process]] = {LASTING: [], RESTARTED: []}
        self.proxies: dict[str, RunApiProxy] = {LASTING: training.proxy, RESTARTED: training.add_proxy()}
        self.trainer = training.start_trainer(
            batch_size=64, checkpoint_dir=str(self.checkpoints), save_checkpoint_interval=50
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
        started, instance = self.environments[name], list(self.environments).index(name)
        started.append(
            self.training.start_environment(
                f"{name}-{len(started)}",
                wandb_name=name,
                instance=instance,
                rollout_server_url=self.proxies[name].url,
                data_dumps_dir=self.dumps,
                **SETTINGS,
            )
        )

    @property
    def delivered(self) -> list[Delivery]:
        """The delivered groups of both environments."""
        return [delivery for proxy in self.proxies.values() for delivery in list(proxy.delivered)]

    def first_delivery(self, name: str, after: float) -> float | None:
        """Return when the named environment first delivered a group after a moment; None if not yet."""
        first = None
        for delivery in reversed(self.proxies[name].delivered):
            if delivery.at <= after:
                break
            first = delivery.at
        return first


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `begin` and `end` act on the scene; the environment `victim` has to recover."""

    begin: Callable[[FaultyTraining, random.Random], None]
    end: Callable[[FaultyTraining], None] = lambda scene: None
    victim: str = LASTING
    breaks_connections: bool = False
    """True if the fault can break the connection to run-api after a group was sent, so that the group arrives twice."""


def _kill_worker(scene: FaultyTraining, chance: random.Random) -> None:
    alive = sorted(filter(is_alive, descendants(scene.lasting.pid)))
    if alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(alive), signal.SIGKILL)


def _move_dumps(scene: FaultyTraining, _chance: random.Random) -> None:
    """Like a removed folder, whose files can still be counted at the end."""
    away = scene.dumps.with_name(f"dumps-moved-{len(scene.moved_dumps)}")
    scene.dumps.rename(away)
    scene.moved_dumps.append(away)


def _block_dumps(scene: FaultyTraining, chance: random.Random) -> None:
    """Put a file in the place of the folder, because permissions do not stop a superuser."""
    while not scene.dumps.is_file():
        _move_dumps(scene, chance)
        with contextlib.suppress(IsADirectoryError):  # made again in between
            scene.dumps.write_text("in the way")


def _terminate(scene: FaultyTraining, _chance: random.Random) -> None:
    scene.statuses.append(scene.restarted.end(signal.SIGTERM))


def _kill(scene: FaultyTraining, _chance: random.Random) -> None:
    scene.kills.append(time.monotonic())
    scene.restarted.end(signal.SIGKILL)
    scene.killed.append(scene.restarted)


def _disconnect_servers(scene: FaultyTraining, _chance: random.Random) -> None:
    scene.training.servers[0].fail(refuse)
    for proxy in scene.proxies.values():
        proxy.fail(refuse)


def _reconnect_servers(scene: FaultyTraining) -> None:
    scene.training.servers[0].recover()
    for proxy in scene.proxies.values():
        proxy.recover()


def _inference_fault(*fault: Any, **only: Any) -> Fault:
    return Fault(lambda scene, _: scene.training.servers[0].fail(*fault, **only), _reconnect_servers)


def _proxy_fault(*fault: Any, breaks_connections: bool = False, **only: Any) -> Fault:
    def begin(scene: FaultyTraining, _chance: random.Random) -> None:
        for proxy in scene.proxies.values():
            proxy.fail(*fault, **only)

    return Fault(begin, _reconnect_servers, breaks_connections=breaks_connections)


KINDS: Mapping[str, Fault] = {
    "inference_down": _inference_fault(refuse),
    "inference_errors": _inference_fault(respond(500)),
    "inference_garbage": _inference_fault(respond(200, {"choices": "none", "text": {"a": 1}}), only=generations),
    "inference_slow": _inference_fault(slow(5.0), only=generations),
    "run_api_killed": Fault(
        lambda scene, _: scene.training.run_api.kill(),
        lambda scene: scene.training.run_api.start(),
        breaks_connections=True,
    ),
    "run_api_reset": Fault(lambda scene, _: scene.training.run_api.reset_data()),
    "run_api_paused": Fault(
        lambda scene, _: scene.training.run_api.pause(), lambda scene: scene.training.run_api.go_on()
    ),
    "run_api_unreachable": _proxy_fault(refuse, breaks_connections=True),
    "run_api_errors": _proxy_fault(respond(500), only=sends),
    "replies_cut": _proxy_fault(cut_reply, only=sends, breaks_connections=True),
    "worker_killed": Fault(_kill_worker),
    "trainer_paused": Fault(lambda scene, _: scene.trainer.pause(), lambda scene: scene.trainer.go_on()),
    "dumps_removed": Fault(_move_dumps),
    "dumps_blocked": Fault(_block_dumps, lambda scene: scene.dumps.unlink()),
    "environment_terminated": Fault(_terminate, lambda scene: scene.start(RESTARTED), RESTARTED, True),
    "environment_killed": Fault(_kill, lambda scene: scene.start(RESTARTED), RESTARTED, True),
}
SERVERS_AWAY = Fault(_disconnect_servers, _reconnect_servers, breaks_connections=True)


def schedule(chance: random.Random) -> Iterator[str]:
    """Yield kinds endlessly, in random order. No kind repeats before all others occurred."""
    while True:
        yield from chance.sample(sorted(KINDS), len(KINDS))


def inject(scene: FaultyTraining, fault: Fault, chance: random.Random) -> float:
    """Start and end a fault, and return when its end began (monotonic)."""
    began = time.monotonic()
    fault.begin(scene, chance)
    time.sleep(chance.uniform(MIN_FAULT_S, MAX_FAULT_S))
    ended = time.monotonic()
    fault.end(scene)
    if fault.breaks_connections:
        scene.breaks.append((began, time.monotonic() + BREAK_ENDS_S))
    return ended


def recovery_s(scene: FaultyTraining, fault: Fault, ended: float) -> float | None:
    """Wait for the victim's next delivery. Return the seconds until then; None if there is none in time."""
    while (delivered := scene.first_delivery(fault.victim, ended)) is None:
        gone = scene.environments[fault.victim][-1].exit_status is not None
        if gone or time.monotonic() - ended > RECOVERY_TIMEOUT_S:
            return None
        time.sleep(POLL_S)
    return delivered - ended

"""Run run-api, a scripted policy, the environment and a trainer, and show the groups that flow between them.

Each part except the trainer runs in its own process, on a free port of the loopback interface, as in a real training
run. All processes end with the command.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import reasoning_gym_testing as rig

from .display import Display
from .options import ALL_TASKS, Options, describe_tasks
from .policy import ScriptedPolicy
from .rollouts import Rollouts

GROUPS_PER_BATCH = 4
MAX_TOKEN_LENGTH = 2048
POLICY_LATENCY_S = 0.3
LEARNS_IN = 80
"""Requests after which the policy has reached its full skill. A demo of ten batches makes about 100 requests."""
TRAINING_STEP_S = 1.0
"""Seconds that the trainer pauses after each batch, so that you can watch the batches arrive."""
POLL_INTERVAL_S = 0.1
VARIABLES = {"WANDB_MODE": "offline", "TOKENIZERS_PARALLELISM": "false", "NO_PROXY": rig.HOST, "no_proxy": rig.HOST}
ROOT = Path(__file__).parents[1]


class Ended(Exception):
    """The demo received a signal to end."""


def run_training(options: Options, environment_file: Path) -> int:
    """Run the demo and return the exit status.

    After an error, the folder with the logs remains, and the error names the folder.
    """
    received: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: received.append(signal.Signals(number)))
    log_folder = Path(tempfile.mkdtemp(prefix="reasoning-gym-demo-"))
    status = 0
    try:
        _run(options, environment_file, log_folder, received)
    except Ended:
        print(f"demo: ended by {received[0].name}; all processes have ended", file=sys.stderr)
        status = 128 + received[0]
    except rig.ProcessError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except (rig.BatchError, OSError) as error:  # a TimeoutError is an OSError
        print(f"demo: {error}; the logs are in {log_folder}", file=sys.stderr)
        return 1
    shutil.rmtree(log_folder, ignore_errors=True)
    return status


def _run(options: Options, environment_file: Path, log_folder: Path, received: Sequence[signal.Signals]) -> None:
    """Start all processes, let the trainer take its batches, stop all processes, and print a summary."""
    dumps_folder = options.dumps_dir.resolve()
    dumps_folder.mkdir(parents=True, exist_ok=True)
    rollouts = Rollouts(dumps_folder)
    with rig.Processes(log_folder, VARIABLES) as processes:
        run_api = rig.RunApi(processes)
        policy_port = rig.free_port()
        trainer = _make_trainer(options, run_api.url)
        display = Display(options.batches, trainer, rollouts)
        with trainer, display.live():
            display.print_line(describe_tasks(options))
            run_api.start(wait=False)
            policy = _start_policy(processes, options, policy_port)
            servers = [rig.server_settings(f"http://{rig.HOST}:{policy_port}", options.server_type)]
            settings = _settings(options, dumps_folder, run_api.url)
            environment = rig.start_environment(processes, "environment", settings, servers, script=environment_file)
            display.print_line(
                f"Starting Atropos' run-api, the scripted policy and the environment; logs: {log_folder}"
            )
            deadline = time.monotonic() + options.timeout_s
            while len(trainer.batches) < options.batches:
                _check([run_api.process, policy, environment], trainer, received)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the demo did not finish within {options.timeout_s:.0f} s")
                rollouts.read_new_groups()
                display.update()
                time.sleep(POLL_INTERVAL_S)
            display.update()
            display.print_line("Stopping the environment; it writes its remaining dumps.")
            environment.end(signal.SIGTERM)
    rollouts.read_new_groups()
    print(f"\n{display.summary()}")
    _print_dumps(rollouts)
    _write_report(rollouts, environment_file)


def _make_trainer(options: Options, url: str) -> rig.Trainer:
    return rig.Trainer(
        url,
        group_size=options.group_size,
        max_batches=options.batches,
        pause_s=TRAINING_STEP_S,
        batch_size=GROUPS_PER_BATCH * options.group_size,
        max_token_len=MAX_TOKEN_LENGTH,
    )


def _start_policy(processes: rig.Processes, options: Options, port: int) -> rig.Process:
    command = [sys.executable, "-m", rig.__name__, "--port", str(port)]
    command += ["--policy", f"{ScriptedPolicy.__module__}:{ScriptedPolicy.__name__}"]
    command += ["--options", json.dumps({"skill": options.skill, "seed": options.seed, "learns_in": LEARNS_IN})]
    command += ["--latency-s", str(POLICY_LATENCY_S)]
    search_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return processes.start("policy", command, variables={"PYTHONPATH": search_path})


def _settings(options: Options, dumps_folder: Path, run_api_url: str) -> dict[str, Any]:
    chosen = {} if options.tasks == ALL_TASKS else {"tasks": options.tasks}
    return {
        **chosen,
        "tokenizer_name": rig.TOKENIZER,
        "rollout_server_url": run_api_url,
        "group_size": options.group_size,
        "max_token_length": MAX_TOKEN_LENGTH,
        "seed": options.seed,
        "use_wandb": False,
        "dump_rollouts": True,
        "dump_failed_rollouts": True,
        "rollout_save_score_threshold": 0.0,
        "data_dumps_dir": str(dumps_folder),
    }


def _check(processes: Sequence[rig.Process], trainer: rig.Trainer, received: Sequence[signal.Signals]) -> None:
    """Raise the error that ends the demo, if any: a signal, an ended process, or a bad batch."""
    if received:
        raise Ended
    for process in processes:
        process.check()
    if trainer.error is not None:
        raise trainer.error


def _print_dumps(rollouts: Rollouts) -> None:
    print("\nThe rollouts, with one line of JSON per group:")
    for path, groups in rollouts.files.items():
        print(f"  {path}  (groups: {groups})")
    if example := rollouts.example:
        print("\nA problem with its best and worst rollout, and their scores:")
        print(textwrap.indent(example.text, "  "))
        print(
            f"The whole group: sed -n {example.line}p {shlex.quote(str(example.path))} | {sys.executable} -m json.tool"
        )


def _write_report(rollouts: Rollouts, environment_file: Path) -> None:
    """Run `report` on all rollouts, as a user would, and print the path of the page."""
    if rollouts.files:
        print("\nA page with all rollouts and figures:", flush=True)
        page = rollouts.folder / "report.html"
        command = [sys.executable, str(environment_file), "report", *map(str, rollouts.files), "-o", str(page)]
        # On Ctrl-C, the terminal sends the signal to the child too, and the child's status shows the signal.
        status = subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode
        if status:
            print(f"demo: `report` did not write the page (status {status})", file=sys.stderr)

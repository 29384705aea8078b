"""The demo command: starts run-api, a scripted policy, the environment and a toy trainer, and shows what flows.

Everything but the trainer runs in a process of its own, on free ports of the loopback interface, as it would in a
real training run. Whatever happens, no process outlives the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import textwrap
from collections.abc import Coroutine, Sequence, Set
from pathlib import Path
from typing import Any

from .batch_checks import BatchError
from .display import Display
from .generation import TOKENIZER_FOLDER
from .options import ALL_TASKS, Options, describe_tasks, read_options
from .policy_server import MODEL_NAME, PORT_LINE
from .processes import Child, ChildError, Children
from .progress import newest_progress
from .rollout_files import find_dumps, find_example, measure
from .toy_trainer import TrainerError, TrainerSettings, pull_batches

GROUPS_PER_BATCH = 4
MAX_TOKEN_LENGTH = 2048
POLICY_LATENCY_S = 0.3
TRAINING_STEP_S = 1.0
"""Stands in for the time that a real trainer would spend on a batch, so that there is something to watch."""
START_TIMEOUT_S = 60.0
PROGRESS_INTERVAL_S = 1
SHUTDOWN_GRACE_S = 1
FOLLOW_INTERVAL_S = 0.25
DEATH_NOTICE_S = 0.5
"""How long after a failed request a child's end is looked for, to name the cause rather than the symptom."""
CHILD_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}
PACKAGE_FOLDER = Path(__file__).parent


class DemoError(Exception):
    """The demo could not be run to its end; the message is for the user."""


def main(argv: Sequence[str], *, environment_file: Path) -> int:
    """Run the demo with the options in `argv`, on the environment in `environment_file`; return the exit status."""
    options = read_options(argv)
    try:
        return asyncio.run(_run_until_signal(options, environment_file))
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


async def _run_until_signal(options: Options, environment_file: Path) -> int:
    task = asyncio.current_task()
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        received.append(number)
        if task and len(received) == 1:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await _run(options, environment_file)
    except asyncio.CancelledError:
        if not received:
            raise
        print(f"demo: ended by {received[0].name}; nothing is left running", file=sys.stderr)
        return 128 + received[0]
    return 0


async def _run(options: Options, environment_file: Path) -> None:
    """Run the demo; keep the log folder only when something failed, since the error then points to it."""
    log_folder = Path(tempfile.mkdtemp(prefix="reasoning-gym-demo-"))
    try:
        dumps_folder = _make_folder(options.dumps_dir)
        await asyncio.wait_for(_deliver(options, environment_file, dumps_folder, log_folder), options.timeout_s)
    except TimeoutError as error:
        raise DemoError(f"not done after {options.timeout_s:.0f} s; the logs are in {log_folder}") from error
    except OSError as error:
        raise DemoError(f"{error}; the logs are in {log_folder}") from error
    except ChildError as error:
        raise DemoError(str(error)) from error
    except (TrainerError, BatchError) as error:
        raise DemoError(f"{error}; the logs are in {log_folder}") from error
    except asyncio.CancelledError:
        shutil.rmtree(log_folder, ignore_errors=True)
        raise
    shutil.rmtree(log_folder, ignore_errors=True)


def _make_folder(path: Path) -> Path:
    path = path.resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


async def _deliver(options: Options, environment_file: Path, dumps_folder: Path, log_folder: Path) -> None:
    """Start everything, let the trainer pull its batches, stop everything and print what came of it."""
    earlier_dumps = find_dumps(dumps_folder)
    display = Display(options.batches)
    with Children(log_folder, CHILD_ENVIRONMENT) as children:
        with display:
            display.say(describe_tasks(options))
            api_url, policy_url = await _start_servers(children, options, display)
            command = _environment_command(options, environment_file, dumps_folder, api_url, policy_url)
            environment = children.start("environment", command)
            display.say("The environment is starting; the first batch takes some 10 seconds.")
            train = _train(options, api_url, environment, display)
            await _do_while(train, children.watch(), _follow(environment, display))
        display.say("Stopping the environment, which writes out what it holds.")
        children.stop(environment)
        display.show_progress(newest_progress(environment.log_end()))
    print(f"\n{display.summary()}")
    _print_dumps(find_dumps(dumps_folder) - earlier_dumps)


async def _start_servers(children: Children, options: Options, display: Display) -> tuple[str, str]:
    """Start run-api and the policy server side by side; return their addresses, in this order."""
    run_api = children.start(
        "run-api", [sys.executable, "-m", "atroposlib.cli.run_api", "--host", "127.0.0.1", "--port", "0"]
    )
    policy_command = [sys.executable, "-m", f"{PACKAGE_FOLDER.name}.policy_server", "--port", "0"]
    policy_command += ["--skill", str(options.skill), "--seed", str(options.seed), "--latency-s", str(POLICY_LATENCY_S)]
    search_path = os.pathsep.join([str(PACKAGE_FOLDER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    policy = children.start("policy server", policy_command, {"PYTHONPATH": search_path})
    policy_port = await children.wait_for_line(policy, rf"{PORT_LINE}(\d+)\n", START_TIMEOUT_S)
    display.say(f"The scripted policy answers on http://127.0.0.1:{policy_port[1]}")
    api_port = await children.wait_for_line(run_api, r"running on http://127\.0\.0\.1:(\d+) ", START_TIMEOUT_S)
    display.say(f"Atropos' run-api listens on http://127.0.0.1:{api_port[1]}")
    return f"http://127.0.0.1:{api_port[1]}", f"http://127.0.0.1:{policy_port[1]}"


def _environment_command(
    options: Options, environment_file: Path, dumps_folder: Path, api_url: str, policy_url: str
) -> list[str]:
    settings = {
        "env.tokenizer_name": TOKENIZER_FOLDER,
        "env.rollout_server_url": api_url,
        "env.group_size": options.group_size,
        "env.max_token_length": MAX_TOKEN_LENGTH,
        "env.seed": options.seed,
        "env.use_wandb": False,
        "env.dump_rollouts": True,
        "env.dump_failed_rollouts": True,
        "env.shutdown_grace_s": SHUTDOWN_GRACE_S,
        "env.data_dumps_dir": dumps_folder,
        "env.progress_interval_s": PROGRESS_INTERVAL_S,
        "openai.server_type": options.server_type,
        "openai.base_url": f"{policy_url}/v1",
        "openai.model_name": MODEL_NAME,
        "openai.api_key": "none-needed",
    }
    if options.tasks != ALL_TASKS:
        settings["env.tasks"] = options.tasks
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    return [sys.executable, str(environment_file.resolve()), "serve", *flags]


async def _train(options: Options, api_url: str, environment: Child, display: Display) -> None:
    settings = TrainerSettings(
        batch_size=GROUPS_PER_BATCH * options.group_size,
        group_size=options.group_size,
        max_token_len=MAX_TOKEN_LENGTH,
        batch_timeout_s=options.timeout_s,
    )
    async with contextlib.aclosing(pull_batches(api_url, settings, batches=options.batches)) as records:
        async for record in records:
            display.show_progress(newest_progress(environment.log_end()))
            display.show_batch(record)
            await asyncio.sleep(TRAINING_STEP_S)


async def _follow(environment: Child, display: Display) -> None:
    while True:
        display.show_progress(newest_progress(environment.log_end()))
        await asyncio.sleep(FOLLOW_INTERVAL_S)


async def _do_while(work: Coroutine[Any, Any, None], *background: Coroutine[Any, Any, None]) -> None:
    """Do the work while the endless `background` runs; an error there counts more than what it caused in the work."""
    work_task = asyncio.ensure_future(work)
    background_tasks = [asyncio.ensure_future(coroutine) for coroutine in background]
    tasks = [*background_tasks, work_task]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if work_task.done() and work_task.exception():
            await asyncio.sleep(DEATH_NOTICE_S)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _print_dumps(paths: Set[Path]) -> None:
    files = measure(paths)
    print("\nThe rollouts, one line of JSON for each group:")
    for file in files:
        print(f"  {file.path}  ({file.groups} groups)")
    if example := find_example(files):
        print("\nOne of the problems, its best rollout and its worst, with their scores:")
        print(textwrap.indent(example.text, "  "))
        print(f"In full: sed -n {example.line}p {shlex.quote(str(example.path))} | {sys.executable} -m json.tool")

"""The `judge` command: serve verdicts over HTTP, with worker processes on this machine or on a Ray cluster."""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import math
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..judging.limits import JudgeLimits
from ..judging.messages import TOKEN_VARIABLE
from ..program.parser import Command, CommandParser
from ..program.running import Interrupted, run_until_signal, start_log
from ..program.shared_options import (
    add_config_option,
    add_score_options,
    check_score_options,
    default_text,
    file_settings,
    given_settings,
    range_text,
    score_function,
)
from ..settings.given import description_line, make_settings
from ..storage.folders import find_checkout, install_command

if TYPE_CHECKING:
    from ..judging.server import Judge
    from ..records import Problem
    from ..session import Session
    from ..settings import ReasoningSettings
    from ..sources.score_function import ScoreFunction

logger = logging.getLogger(__name__)


def _judge(options: argparse.Namespace, folder: Path) -> int:
    """Serve verdicts until Ctrl-C or SIGTERM; returns 0.

    Raises ConfigError if

    - the port is out of range or in use,
    - other machines can reach the address, but there is no token,
    - HTTP does not allow the token's characters,
    - a limit is out of range,
    - --ray is given, but Ray is not installed or no cluster is found, or
    - the score function cannot be used.
    """
    # These imports take a third of a second, so `judge --help` skips them.
    from ..inference.addresses import is_loopback
    from ..judging.client import judge_token
    from ..runtime.listening import ListenAddress, check_address
    from ..session import Session

    check_score_options(options)
    if options.score is not None:
        _refuse_options_of_tasks(options)
    if not 0 <= options.port <= MAX_PORT:
        raise ConfigError(f"must be a number from 0 to {MAX_PORT}", setting="--port", got=options.port)
    token = judge_token()
    if not token and not is_loopback(options.host):
        raise ConfigError(
            f"other machines can reach {options.host}, so the server needs a secret token",
            setting="--host",
            remedy=f"put a token into the environment variable {TOKEN_VARIABLE}",
        )
    start_log([token] if token else [], as_json=options.log_json)
    settings = file_settings("judge", options, {}, given_settings(options))
    limits = make_settings(JudgeLimits, {name: getattr(options, name) for name in JudgeLimits.model_fields})
    function = None if options.score is None else score_function(options)
    asyncio.run(check_address(ListenAddress(options.host, options.port)))
    session = Session(settings, checkout=find_checkout(folder), score=function)
    # Ray replaces signal handlers when it starts, so it must start before the server sets its own handlers.
    cluster = None if options.ray is None else _join_cluster(options.ray, settings, function)
    # At the default switch interval of 5 ms, the event loop waits twice as long while a thread parses a large body.
    sys.setswitchinterval(0.001)
    try:
        asyncio.run(_serve(options, cluster, session, limits, token))
    except Interrupted:
        return 0
    return 0


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help=f"address to listen on (default: %(default)s). If other machines can reach it, put a token into the "
        f"environment variable {TOKEN_VARIABLE}",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8400,
        metavar="N",
        help="port to listen on; 0 chooses a free port (default: %(default)s)",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="score on the nodes of the Ray cluster at this address; `auto` finds this machine's cluster",
    )
    parser.add_argument("--log-json", action="store_true", help="log each line as a JSON object")
    parser.add_argument(
        "--generators",
        dest="num_generators",
        type=int,
        metavar="N",
        help="number of processes that generate problems (default: half of the cores, at least 2 and at most 8)",
    )
    parser.add_argument(
        "--verifiers",
        dest="num_verifiers",
        type=int,
        metavar="N",
        help="number of processes that score, on each node (default: half of the cores, at least 2 and at most 8)",
    )
    group = parser.add_argument_group("your own score function instead of reasoning-gym's verifiers")
    group.add_argument(
        "--score",
        metavar="MODULE:FUNCTION",
        help="score rows with your function score(completion, **row), which returns a number from 0 to 1, or a dict "
        "with `score`. MODULE is an importable name, or the path of a .py file",
    )
    add_score_options(group)
    limits = parser.add_argument_group("limits of requests")
    for name, field in JudgeLimits.model_fields.items():
        facts = f"{range_text(field)}; default: {default_text(field)}"
        limits.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            metavar="N",
            help=f"{description_line(field)} ({facts})",
        )
    add_config_option(parser)


def _refuse_options_of_tasks(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that have no effect with a score function."""
    unused = {
        "--config": options.config,
        "--generators": options.num_generators,
        "--task-modules": options.task_modules,
        "--checkout": options.checkout,
        "--rewards": options.rewards,
    }
    given = [option for option, value in unused.items() if value]
    if given:
        fault = f"--score cannot be combined with {', '.join(given)}, which are for reasoning-gym's tasks"
        raise ConfigError(fault, remedy="omit --score, or omit these options")


MAX_PORT = 65_535


async def _serve(
    options: argparse.Namespace,
    cluster: Judge | None,
    session: Session[Problem],
    limits: JudgeLimits,
    token: str | None,
) -> None:
    from .. import __version__
    from ..judging.server import JudgeServer
    from ..metrics.prometheus import build_info
    from ..runtime.listening import ListenAddress, listen

    server = JudgeServer(cluster or session, token=token, limits=limits)
    runner = server.runner()

    async def work() -> None:
        _log_accept_errors_once(asyncio.get_running_loop())
        if cluster is None:
            await session.start()
            server.metrics.pool = session.pool
            server.metrics.build = build_info(__version__, session.library)
        port = await listen(runner, ListenAddress(options.host, options.port))
        while cluster is None and session.fault is not None:  # noqa: ASYNC110 - `/health` reports the fault meanwhile
            await asyncio.sleep(0.05)
        print(f"judging on http://{options.host}:{port}", flush=True)
        await asyncio.Event().wait()

    async def close() -> None:
        await runner.cleanup()
        await session.close()

    await run_until_signal(work, close)


def _log_accept_errors_once(loop: asyncio.AbstractEventLoop) -> None:
    """While connections cannot be accepted because too many files are open, log a warning once per minute.

    Without this handler, asyncio would log 128 tracebacks per second.
    """
    warned = -math.inf

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        nonlocal warned
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            if time.monotonic() - warned >= 60:
                warned = time.monotonic()
                logger.warning(
                    "cannot accept more connections: %s; raise the limit on open files with ulimit -n", error.strerror
                )
        # After the server has closed its socket, asyncio still retries to accept, and each retry raises this error.
        elif not (isinstance(error, ValueError) and "_start_serving" in str(context["message"])):
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


def _join_cluster(address: str, settings: ReasoningSettings, function: ScoreFunction | None) -> Judge:
    """Join a Ray cluster and return a judge with a session on each node. Raises ConfigError if there is no cluster."""
    try:
        import ray

        from ..integrations.ray import RayJudges
    except ModuleNotFoundError as error:
        raise ConfigError("Ray is not installed", setting="--ray", remedy=f"run `{install_command('ray')}`") from error
    _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        fault = f"{address}: {str(error).splitlines()[0]}"
        raise ConfigError(fault, setting="--ray", remedy="start a Ray cluster, or pass the address of one") from error
    return RayJudges(settings, score=function)


def _check_reachable(address: str) -> None:
    """Raise ConfigError if nothing listens at `host:port` or `ray://host:port`. Ignore addresses in other forms.

    Ray itself would try to connect for minutes without printing anything.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"no Ray cluster answers at {address} ({error})", setting="--ray", remedy="check the address"
        ) from error


judge_command = Command(
    "judge",
    "Run a reward server for trainers. It answers POST requests to /score, /rm (slime, miles) and /get_reward "
    "(OpenRLHF). Press Ctrl-C to stop.",
    _add_options,
    _judge,
)

"""The `judge` command: serve verdicts over HTTP, from processes of this machine or of a Ray cluster."""

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

from .. import __version__
from ..errors import ConfigError
from ..inference.addresses import is_loopback
from ..judging.client import TOKEN_VARIABLE, judge_token
from ..judging.limits import JudgeLimits
from ..judging.server import Judge, JudgeServer
from ..metrics.prometheus import build_info
from ..program.parser import Command, CommandParser
from ..program.running import Interrupted, run_until_signal, start_log
from ..program.settings import default_text, range_text
from ..program.shared_options import (
    add_config_option,
    add_score_options,
    check_score_options,
    file_settings,
    given_settings,
    score_function,
)
from ..records import Problem
from ..runtime.listening import ListenAddress, check_address, listen
from ..session import Session
from ..settings import ReasoningSettings
from ..settings.given import make_settings, meaning
from ..sources.score_function import ScoreFunction
from ..storage.folders import find_checkout, install_command

logger = logging.getLogger(__name__)


def _judge(options: argparse.Namespace, folder: Path) -> int:
    """Serve verdicts until Ctrl-C or SIGTERM; returns 0.

    Raises ConfigError:

    - a port out of range, or in use
    - an address beyond this machine without a token, or a token that HTTP does not carry
    - a limit out of range
    - --ray without Ray, or without a cluster
    - a score function that cannot be used
    """
    check_score_options(options)
    if options.score is not None:
        _refuse_options_of_tasks(options)
    if not 0 <= options.port <= MAX_PORT:
        raise ConfigError(f"must be from 0 to {MAX_PORT}", setting="--port", got=options.port)
    token = judge_token()
    if not token and not is_loopback(options.host):
        raise ConfigError(
            f"{options.host} can be reached from other machines, so a token is needed",
            setting="--host",
            remedy=f"set the variable {TOKEN_VARIABLE}",
        )
    start_log([token] if token else [], as_json=options.log_json)
    settings = file_settings(options, {}, given_settings(options))
    limits = make_settings(JudgeLimits, {name: getattr(options, name) for name in JudgeLimits.model_fields})
    function = None if options.score is None else score_function(options)
    asyncio.run(check_address(ListenAddress(options.host, options.port)))
    session = Session(settings, checkout=find_checkout(folder), score=function)
    # Before the server's own signal handlers, because Ray replaces signal handlers when it starts.
    cluster = None if options.ray is None else _join_cluster(options.ray, settings, function)
    # A thread reads large bodies meanwhile. With 5 ms, the default, the event loop gets its turns twice as late.
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
        help=f"address to listen on (default: %(default)s). If other machines can reach it, set a token in the "
        f"environment variable {TOKEN_VARIABLE}",
    )
    parser.add_argument(
        "--port", type=int, default=8400, help="port to listen on; 0 chooses a free port (default: %(default)s)"
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="score on the nodes of this Ray cluster; `auto` finds the cluster of this machine",
    )
    parser.add_argument("--log-json", action="store_true", help="log each line as a JSON object")
    add_config_option(parser)
    parser.add_argument(
        "--generators",
        dest="num_generators",
        type=int,
        help="number of processes that generate problems (default: half of the cores, 2 to 8)",
    )
    parser.add_argument(
        "--verifiers",
        dest="num_verifiers",
        type=int,
        help="number of processes that score, on each node (default: half of the cores, 2 to 8)",
    )
    group = parser.add_argument_group("a score function of your own in place of reasoning-gym's tasks")
    group.add_argument(
        "--score",
        metavar="MODULE:FUNCTION",
        help="score rows with your function score(completion, **row); it returns a number from 0 to 1, or a dict with "
        "`score`; "
        "MODULE is a name that Python can import, or the path of a .py file",
    )
    add_score_options(group)
    limits = parser.add_argument_group("limits of requests")
    for name, field in JudgeLimits.model_fields.items():
        facts = f"{range_text(field)}; default: {default_text(field)}"
        limits.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(field.default),
            default=field.default,
            help=f"{meaning(field)} ({facts})",
        )


def _refuse_options_of_tasks(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that a score function has no use for."""
    unused = {
        "--config": options.config,
        "--generators": options.num_generators,
        "--task-modules": options.task_modules,
        "--checkout": options.checkout,
    }
    given = [option for option, value in unused.items() if value]
    if given:
        raise ConfigError(f"--score does not go with {', '.join(given)}")


MAX_PORT = 65_535


async def _serve(
    options: argparse.Namespace,
    cluster: Judge | None,
    session: Session[Problem],
    limits: JudgeLimits,
    token: str | None,
) -> None:
    server = JudgeServer(cluster or session, token=token, limits=limits)
    runner = server.runner()

    async def work() -> None:
        _calm_accept_errors(asyncio.get_running_loop())
        if cluster is None:
            await session.start()
            server.metrics.pool = session.pool
            server.metrics.build = build_info(__version__, session.library)
        port = await listen(runner, ListenAddress(options.host, options.port))
        while cluster is None and session.fault is not None:  # noqa: ASYNC110 - `/health` tells the reason meanwhile
            await asyncio.sleep(0.05)
        print(f"judging on http://{options.host}:{port}", flush=True)
        await asyncio.Event().wait()

    async def close() -> None:
        await runner.cleanup()
        await session.close()

    await run_until_signal(work, close)


def _calm_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Warn once a minute that connections cannot be accepted, because no file descriptor is left.

    asyncio logs 128 tracebacks a second meanwhile, and as many at the end, when it goes on with a closed socket.
    """
    warned = -math.inf

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        nonlocal warned
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            if time.monotonic() - warned >= 60:
                warned = time.monotonic()
                logger.warning("further connections wait: %s; raise the limit with ulimit -n", error.strerror)
        elif not (isinstance(error, ValueError) and "_start_serving" in str(context["message"])):
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


def _join_cluster(address: str, settings: ReasoningSettings, function: ScoreFunction | None) -> Judge:
    """Join a Ray cluster, each node of which judges with a session of its own."""
    try:
        import ray

        from ..integrations.ray import RayJudges
    except ModuleNotFoundError as error:
        raise ConfigError("Ray is not installed", setting="--ray", remedy=install_command("ray")) from error
    _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise ConfigError(f"{address}: {str(error).splitlines()[0]}", setting="--ray") from error
    return RayJudges(settings, score=function)


def _check_reachable(address: str) -> None:
    """Raise ConfigError when nothing listens at `host:port` or `ray://host:port`. Other addresses are left to Ray.

    Ray itself would try to connect for minutes and print nothing.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no Ray cluster can be reached at {address} ({error})", setting="--ray") from error


judge_command = Command(
    "judge",
    "Run a reward server over HTTP: POST /score, /rm (slime, miles), /get_reward (OpenRLHF).",
    _add_options,
    _judge,
)

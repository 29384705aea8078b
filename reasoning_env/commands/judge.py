"""The `judge` command: serve verdicts over HTTP, from processes of this machine or of a Ray cluster."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from ..errors import ConfigError
from ..runtime.signals import Interrupted, run_until_signal
from ..server import Judge, JudgeServer
from ..session import Session
from ..settings import ReasoningSettings, make_settings
from ..storage.folders import find_checkout
from .options import CommandParser

TOKEN = "REASONING_JUDGE_TOKEN"


def judge_command(argv: Sequence[str], folder: Path) -> int:
    """Serve verdicts until Ctrl-C or SIGTERM; returns 0.

    `folder` may hold a checkout of the library. Raises ConfigError for an address beyond this machine without a token,
    and for --ray without Ray or without a cluster.
    """
    options = _parse(argv)
    token = os.environ.get(TOKEN)
    if not token and not _is_loopback(options.host):
        raise ConfigError(
            f"{options.host} can be reached from other machines, which need a token",
            setting="--host",
            remedy=f"set the variable {TOKEN}",
        )
    workers = {"num_generators": options.generators, "num_verifiers": options.verifiers}
    settings = make_settings(ReasoningSettings, workers)
    # Before the server's own signal handlers, because Ray replaces signal handlers when it starts.
    cluster = None if options.ray is None else _join_cluster(options.ray, settings)
    try:
        asyncio.run(_serve(options, cluster, settings, token, folder))
    except Interrupted:
        return 0
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    defaults = ReasoningSettings()
    parser = CommandParser(
        prog="judge", description="Serve verdicts over HTTP: POST /score, /rm (slime, miles), /get_reward (OpenRLHF)."
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help=f"address to listen at; one beyond this machine needs a token in the variable {TOKEN}",
    )
    parser.add_argument("--port", type=int, default=8400, help="0 takes a free port (default: %(default)s)")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="judge on this Ray cluster; `auto` finds the cluster of this machine"
    )
    parser.add_argument("--generators", type=int, default=defaults.num_generators, help="processes that make problems")
    parser.add_argument("--verifiers", type=int, default=defaults.num_verifiers, help="processes that judge, on a node")
    return parser.parse_args(argv)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(
    options: argparse.Namespace, cluster: Judge | None, settings: ReasoningSettings, token: str | None, folder: Path
) -> None:
    session = Session(settings, checkout=find_checkout(folder))
    runner: web.AppRunner | None = None

    async def work() -> None:
        nonlocal runner
        if cluster is None:
            await session.start()
        runner = web.AppRunner(JudgeServer(cluster or session, token=token or None).app(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, options.host, options.port)
        await site.start()
        [(_, port, *_), *_] = runner.addresses
        print(f"judging on http://{options.host}:{port}", flush=True)
        await asyncio.Event().wait()

    async def close() -> None:
        if runner is not None:
            await runner.cleanup()
        await session.close()

    await run_until_signal(work, close)


def _join_cluster(address: str, settings: ReasoningSettings) -> Judge:
    try:
        import ray

        from ..integrations.ray import RayJudges
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Ray is not installed", setting="--ray", remedy="pip install 'reasoning-gym-environment[ray]'"
        ) from error
    _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise ConfigError(f"{address}: {str(error).splitlines()[0]}", setting="--ray") from error
    return RayJudges(settings)


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

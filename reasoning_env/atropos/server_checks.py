"""Ask every inference server at startup for one token, the way training will."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from ..errors import ServerError
from ..outage_log import OutageLog
from .inference import Mode, address, describe_failure

logger = logging.getLogger(__name__)

POLL_S = 1.0
PROBE_TIMEOUT_S = 30.0
"""How long a server may take for its first token, where nothing else limits it."""
OTHERS_S = 2.0
"""How much longer the other servers are waited for once one has answered."""
NO_REPLY = "it accepts requests and does not reply"
UNREACHABLE_STATUS = (429, 500, 502, 503, 504)


async def check_servers(servers: Sequence[Any], mode: Mode, timeout_s: float) -> None:
    """Return when one of the servers has given a token.

    Raises ServerError when a server answers but cannot do what its type promises, or when none is there in time;
    `timeout_s` may be infinite.
    """
    deadline = time.monotonic() + timeout_s
    absent = OutageLog(logger)
    problems: list[str | None] = [None] * len(servers)
    while True:
        timeout_left_s = min(PROBE_TIMEOUT_S, max(POLL_S, deadline - time.monotonic()))
        replies = await _probe_all(servers, mode, timeout_left_s)
        # A probe cut short tells less than the one before it.
        problems = [
            known if reply == NO_REPLY and known else reply for reply, known in zip(replies, problems, strict=True)
        ]
        silent = [(server, problem) for server, problem in zip(servers, problems, strict=True) if problem]
        if len(silent) < len(servers):
            absent.over("an inference server answers")
            for server, problem in silent:
                logger.warning("the inference server at %s does not answer yet: %s", address(server), problem)
            return
        summary = "; ".join(f"{address(server)}: {problem}" for server, problem in silent)
        if time.monotonic() >= deadline:
            raise ServerError(
                f"no inference server answered within {timeout_s:g} s ({summary}); "
                "start one, or correct openai.base_url"
            )
        absent.note(f"waiting for an inference server ({summary})")
        await asyncio.sleep(min(POLL_S, timeout_s))


async def _probe_all(servers: Sequence[Any], mode: Mode, timeout_left_s: float) -> list[str | None]:
    """What is wrong with each server, None where nothing is; one that is well does not wait long for the others."""
    probes = [asyncio.ensure_future(_probe(server, mode)) for server in servers]
    left, deadline = set(probes), time.monotonic() + timeout_left_s
    try:
        while left and (wait_s := deadline - time.monotonic()) > 0:
            done, left = await asyncio.wait(left, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if any(probe.result() is None for probe in done):
                deadline = min(deadline, time.monotonic() + OTHERS_S)
        return [probe.result() if probe.done() else NO_REPLY for probe in probes]
    finally:
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)


async def _probe(server: Any, mode: Mode) -> str | None:
    """None when the server works, a word on why when it is not there; raises ServerError when it never will."""
    arguments = {"model": server.config.model_name, "prompt": "1 + 1 =", "n": 1, "max_tokens": 1, "temperature": 1.0}
    try:
        if mode is Mode.TEXT:
            reply = await server._completion_wrapper(**arguments)
            usable = bool(reply.choices)
        else:
            _, outputs, _, _ = await server._tokens_and_logprobs_completion_wrapper(**arguments)
            usable = bool(outputs) and bool(outputs[0])
    except Exception as error:
        return _explain(server, mode, error)
    if usable:
        return None
    raise ServerError(f"the inference server at {address(server)} answered a request for one token with none")


def _explain(server: Any, mode: Mode, error: Exception) -> str:
    status = getattr(error, "status_code", None) or getattr(error, "status", None)
    description = describe_failure(error)
    unreachable = isinstance(error, (OSError, TimeoutError)) or type(error).__name__ in (
        "APIConnectionError",
        "APITimeoutError",
        "ServerDisconnectedError",
    )
    if status in UNREACHABLE_STATUS or (status is None and unreachable):
        return description
    wanted = "POST /generate with tokens and log-probabilities" if mode is Mode.TOKENS else "POST /v1/completions"
    raise ServerError(
        f"the inference server at {address(server)} cannot be used: it does not answer {wanted} ({description}); "
        f"check openai.server_type (now {getattr(server.config, 'server_type', 'unknown')!r}; 'openai' works with any "
        "OpenAI-compatible server), openai.model_name and openai.api_key"
    ) from error

"""A trainer that trains nothing: it registers with Atropos' run-api, pulls batches and checks every one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import aiohttp

from .batch_checks import check_batch

REQUEST_TIMEOUT_S = 30.0


class TrainerError(Exception):
    """The run-api cannot be reached, refuses the registration, or delivers no batch in time."""


@dataclass(frozen=True)
class TrainerSettings:
    """What the trainer registers with, and how patiently it waits.

    Args:
        batch_size: rollouts in a batch; a multiple of the group size.
        group_size: rollouts in every group, as the environment was told; for the checks.
        max_token_len: bound on the tokens of a rollout; longer ones must not come.
        num_steps: steps the run-api is told of.
        checkpoint_dir: folder that environments are told to save into.
        save_checkpoint_interval: steps between two checkpoints of the environments; -1 for none.
        wandb_group, wandb_project: passed on to environments.
        batch_timeout_s: longest wait for one batch.
        poll_interval_s: pause between two looks for a batch.
    """

    batch_size: int = 32
    group_size: int = 8
    max_token_len: int = 2048
    num_steps: int = 1000
    checkpoint_dir: str = ""
    save_checkpoint_interval: int = -1
    wandb_group: str = "demo"
    wandb_project: str = "demo"
    batch_timeout_s: float = 60.0
    poll_interval_s: float = 0.2


@dataclass(frozen=True)
class BatchRecord:
    """What is worth knowing of a batch that passed the checks; `number` counts from 1."""

    number: int
    sequences: int
    groups: int
    mean_score: float
    tokens: int


async def pull_batches(url: str, settings: TrainerSettings, *, batches: int) -> AsyncGenerator[BatchRecord, None]:
    """Register at the run-api at `url`, then yield a record for each of the next `batches` batches.

    Raises BatchError for a batch that breaks a rule and TrainerError for everything that keeps batches from coming.
    """
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        await _register(session, url, settings)
        for number in range(1, batches + 1):
            batch = await _next_batch(session, url, settings)
            check_batch(
                batch,
                batch_size=settings.batch_size,
                group_size=settings.group_size,
                max_token_len=settings.max_token_len,
            )
            yield _summarize(number, batch)


async def _register(session: aiohttp.ClientSession, url: str, settings: TrainerSettings) -> None:
    registration = {
        "wandb_group": settings.wandb_group,
        "wandb_project": settings.wandb_project,
        "batch_size": settings.batch_size,
        "max_token_len": settings.max_token_len,
        "checkpoint_dir": settings.checkpoint_dir,
        "save_checkpoint_interval": settings.save_checkpoint_interval,
        "starting_step": 0,
        "num_steps": settings.num_steps,
    }
    reply = await _request(session, "POST", f"{url}/register", registration)
    if "uuid" not in reply:
        raise TrainerError(f"run-api at {url}: expected a uuid for the registration, got {reply!r:.200}")


async def _next_batch(session: aiohttp.ClientSession, url: str, settings: TrainerSettings) -> list[dict[str, Any]]:
    deadline = time.monotonic() + settings.batch_timeout_s
    while time.monotonic() < deadline:
        reply = await _request(session, "GET", f"{url}/batch")
        batch: list[dict[str, Any]] | None = reply.get("batch")
        if batch is not None:
            return batch
        await asyncio.sleep(settings.poll_interval_s)
    raise TrainerError(
        f"run-api at {url}: no batch of {settings.batch_size} within {settings.batch_timeout_s:.0f} s;"
        " is an environment registered, and does its group size divide the batch size?"
    )


async def _request(
    session: aiohttp.ClientSession, method: str, url: str, body: dict[str, object] | None = None
) -> dict[str, Any]:
    try:
        async with session.request(method, url, json=body) as response:
            if response.status != 200:
                raise TrainerError(f"{method} {url}: status {response.status}: {(await response.text())[:200]}")
            reply = await response.json()
    except (TimeoutError, aiohttp.ClientError, ValueError) as error:
        raise TrainerError(f"{method} {url}: {type(error).__name__} {error}") from error
    if not isinstance(reply, dict):
        raise TrainerError(f"{method} {url}: expected a JSON object, got {reply!r:.200}")
    return reply


def _summarize(number: int, batch: list[dict[str, Any]]) -> BatchRecord:
    scores = [score for group in batch for score in group["scores"]]
    tokens = sum(len(rollout) for group in batch for rollout in group["tokens"])
    return BatchRecord(number, len(scores), len(batch), sum(scores) / len(scores), tokens)

"""wandb: whether there is an account, the start of a run, the table of rollouts, Atropos' timings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import netrc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import wandb
from atroposlib.envs.base import ScoredDataGroup

logger = logging.getLogger(__name__)


def has_account() -> bool:
    """Tell whether wandb would find a key in the environment or in netrc, where `wandb login` puts it."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(str(path)).authenticators(host) is not None
    return False


def go_offline_without_account() -> None:
    """Have wandb keep metrics in files, and log so once, if there is no account and WANDB_MODE is unset."""
    if "WANDB_MODE" not in os.environ and not has_account():
        os.environ["WANDB_MODE"] = "offline"
        os.environ.setdefault("WANDB_SILENT", "true")
        logger.warning("no wandb account is configured; metrics are kept offline in ./wandb (`wandb sync` sends them)")


async def start_run(name: str | None, run_uuid: str, project: str | None, group: str | None, config: Any) -> None:
    """Start a wandb run, in a thread because that takes a second or more."""
    await asyncio.to_thread(
        wandb.init,
        name=f"{name}-{time.strftime('%Y-%m-%d')}-{run_uuid[:6]}" if name else None,
        project=project,
        group=group,
        config=config.model_dump(mode="json"),
    )


def table_rows(
    group: ScoredDataGroup, keep: int, decode: Callable[[Sequence[int]], str], task: str, expected: str
) -> list[tuple[str, float, str, str]]:
    """Return the table's rows of a group's first `keep` rollouts, of all for -1."""
    count = len(group["tokens"]) if keep == -1 else min(keep, len(group["tokens"]))
    return [(decode(group["tokens"][number]), group["scores"][number], expected, task) for number in range(count)]


def rollout_table(groups: Sequence[Sequence[tuple[Any, ...]]]) -> Mapping[str, Any]:
    """Return the table of kept rollouts as a metric, or nothing where none were kept."""
    if not groups:
        return {}
    table = wandb.Table(columns=["text", "score", "expected_answer", "task"])
    for group in groups:
        for row in group:
            table.add_data(*row)
    return {"train/rollouts": table}


def trim_timings(servers: Sequence[Any]) -> None:
    """Shorten each server's timings to its `rolling_buffer_length`; Atropos only ever adds to them."""
    for server in servers:
        keep = getattr(getattr(server, "config", None), "rolling_buffer_length", 0) or 1
        for name in ("request_timings", "attempts_list", "eval_request_timings", "eval_attempts_list"):
            del getattr(server, name, [])[:-keep]

"""Measure `process` beside the loop that BaseEnv has for it, with a server that takes a second for each request.

The time is that of the loop alone, without the start of the workers; both write the same lines to a file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import tempfile
import time
import warnings
from pathlib import Path

from atroposlib.envs.base import BaseEnv

from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig
from testing import TOKENIZER, InferenceServer

from ._policies import canned

UNDER_WAY = 64
LATENCY_S = 1.0


async def groups_per_s(manager: type[BaseEnv], groups: int, folder: str) -> float:
    """Have one of the two loops write some groups."""
    async with InferenceServer(canned(200), latency_s=LATENCY_S) as server:
        path = Path(folder) / f"{manager.__name__}.jsonl"
        settings = {"group_size": 8, "total_steps": groups, "max_num_workers": UNDER_WAY, "include_messages": True}
        settings |= {"tokenizer_name": TOKENIZER, "use_wandb": False, "ensure_scores_are_not_same": False}
        config = ReasoningGymEnvConfig(**settings, data_path_to_save_groups=str(path), tasks="chain_sum,gcd,lcm")
        env = ReasoningGymEnv(config, [server.config()])
        env.n_groups_to_process, env.group_size_to_process = groups, config.group_size
        await env.setup()
        env.setup = lambda: asyncio.sleep(0)
        began = time.perf_counter()
        with contextlib.redirect_stdout(None):  # BaseEnv names the page that it makes
            await manager.process_manager(env)
        took_s = time.perf_counter() - began
        await env.close()
        assert len(path.read_text().splitlines()) == groups
    return groups / took_s


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.processing", description=__doc__.split("\n")[0])
    parser.add_argument("--groups", type=int, default=320, help="how many `process` writes")
    groups = parser.parse_args().groups
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        base = asyncio.run(groups_per_s(BaseEnv, 5, folder))
        own = asyncio.run(groups_per_s(ReasoningGymEnv, groups, folder))
    print(
        json.dumps({"base_groups_per_s": round(base, 2), "groups_per_s": round(own, 2), "times": round(own / base, 1)})
    )


if __name__ == "__main__":
    main()

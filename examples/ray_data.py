"""Generate problems, sample completions and score them on a Ray cluster; write the rows as Parquet.

    python -m examples.ray_data URL MODEL FOLDER

URL is an OpenAI-compatible server (http://host:8000/v1). On a cluster with GPUs, you can
replace `Complete` with Ray's own stage for vLLM.
"""

import asyncio
import sys

import aiohttp
import pyarrow
import ray

from reasoning_env import ReasoningSettings
from reasoning_env.data.problems import RowPlan
from reasoning_env.integrations.ray import JudgeRows, problem_rows

SETTINGS = ReasoningSettings(tasks=["gcd", "chain_sum"], num_generators=1, num_verifiers=1)


class Complete:
    """Add four completions to each row."""

    def __init__(self, url: str, model: str) -> None:
        self.url, self.model = url, model

    async def __call__(self, batch: pyarrow.Table):
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(600)) as http:
            requests = (self.complete(http, messages) for messages in batch["messages"].to_pylist())
            completions = await asyncio.gather(*requests)
        yield batch.append_column("completions", pyarrow.array(completions))

    async def complete(self, http: aiohttp.ClientSession, messages: list) -> list[str]:
        request = {"model": self.model, "messages": messages, "n": 4, "max_tokens": 2000}
        async with http.post(f"{self.url}/chat/completions", json=request, raise_for_status=True) as reply:
            return [choice["message"]["content"] or "" for choice in (await reply.json())["choices"]]


if __name__ == "__main__":
    url, model, folder = sys.argv[1:]
    ray.init()
    one = ray.data.ActorPoolStrategy(size=1)
    rows = problem_rows(SETTINGS, RowPlan(count=100, levels=(0.25, 0.5)), parts=2)
    sampled = rows.map_batches(
        Complete, fn_constructor_args=(url, model), batch_size=32, batch_format="pyarrow", compute=one
    )
    judged = sampled.map_batches(JudgeRows, fn_constructor_args=(SETTINGS,), batch_format="pyarrow", compute=one)
    judged.write_parquet(folder)

"""Score completions on a Ray cluster: each node has verifier processes, and `judge` chooses a node for each call.

Run this example on a cluster's head (`ray start --head`). Without a cluster, Ray starts on this machine.
"""

from __future__ import annotations

import asyncio

import ray

from reasoning_env import ReasoningSettings
from reasoning_env.bridge import Bridge
from reasoning_env.integrations.ray import RayJudges


async def main() -> None:
    ray.init()
    judges = RayJudges(ReasoningSettings(num_generators=1, num_verifiers=1))
    with Bridge(tasks=["gcd", "chain_sum"], seed=1, num_generators=1, num_verifiers=1) as bridge:
        for _ in range(4):
            problem = await bridge.anext()
            # Only the reference is sent. The node generates the problem from the reference.
            verdicts = await judges.judge(problem.reference, [f"<answer>{problem.answer}</answer>", "no answer"])
            print(problem.task, [verdict.score for verdict in verdicts])
    ray.shutdown()


if __name__ == "__main__":
    asyncio.run(main())

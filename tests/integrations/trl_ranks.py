"""One rank of a TRL run on CPUs, started by `torch.distributed.run`.

It writes its observations as JSON. The run has three steps of four groups of 8 completions. Each of the two ranks
samples half of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.trl_cpu import make_trainer
from reasoning_env.bridge import Bridge
from reasoning_env.integrations.trl import TrlEnvironment
from reasoning_env.records import Problem, Verdict


class Watched(TrlEnvironment):
    def __init__(self, bridge: Bridge) -> None:
        super().__init__(bridge)
        self.drawn: list[str] = []
        self.judged = 0

    def draw(self) -> dict[str, Any]:
        row = super().draw()
        self.drawn.append(row["reference"])
        return row

    async def reward(
        self, completions: Any, reference: Any, log_extra: Any = None, **others: Any
    ) -> list[float | None]:
        self.judged += len(completions)
        return await super().reward(completions, reference, log_extra=log_extra, **others)


def main(folder: Path) -> None:
    with Bridge(tasks=["gcd", "chain_sum"], seed=1, num_generators=1, num_verifiers=1) as bridge:
        observed: list[int] = []
        observe = bridge.observe

        def watch(problem: Problem, verdicts: Sequence[Verdict | None], **more: Any) -> None:
            observed.append(len(verdicts))
            observe(problem, verdicts, **more)

        bridge.observe = watch  # type: ignore[method-assign]
        gym = Watched(bridge)
        make_trainer(gym, folder / "output", 3, accumulation=2).train()
    seen = {"drawn": gym.drawn, "observed": observed, "judged": gym.judged}
    (folder / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(seen))


main(Path(sys.argv[1]))

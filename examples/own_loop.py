"""Write your own training loop: draw a problem, sample completions, judge them, and update the curriculum.

Here a script replaces the model: its answers are right more and more often. Replace `sample` and `train` with your own.
"""

from __future__ import annotations

import random

from reasoning_env.bridge import Bridge
from reasoning_env.records import Problem

GROUP_SIZE = 8
chance = random.Random(1)


def sample(problem: Problem, step: int) -> list[str]:
    """Return completions of the problem. Your function sends `bridge.messages(problem)` to a model."""
    skill = min(0.9, 0.2 + 0.02 * step)
    answers = [problem.answer if chance.random() < skill else "no idea" for _ in range(GROUP_SIZE)]
    return [f"<think>...</think><answer>{answer}</answer>" for answer in answers]


def train(problem: Problem, completions: list[str], scores: list[float | None]) -> None:
    """Take a training step. Leave out completions whose score is None: an infrastructure error prevented scoring."""


def main(steps: int = 40) -> None:
    with Bridge(tasks=["gcd", "chain_sum"], seed=1, complexity_mode="curriculum") as bridge:
        for step in range(steps):
            problem = bridge.next()
            completions = sample(problem, step)
            verdicts = bridge.judge(problem, completions)
            bridge.observe(problem, verdicts)
            train(problem, completions, [verdict.score if verdict else None for verdict in verdicts])
        report = bridge.report()
    print(f"{steps} groups, mean score {report['train/mean_score']:.2f}, mean level {report['sampler/mean_level']:.2f}")


if __name__ == "__main__":
    main()

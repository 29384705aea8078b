"""Scores directly from a bridge. Tests compare them with the rewards inside another framework."""

from __future__ import annotations

from typing import Any, NamedTuple

from reasoning_env import Bridge

ARMS = ("strict", "library")


def arm(rewards: str) -> dict[str, Any]:
    """Return settings of a bridge. The answer 0 to `coin_flip` has a different reward for each value in ARMS."""
    return {"rewards": rewards, "tasks": "coin_flip,gcd", "num_eval_samples_per_task": 2, "seed": 3}


class Scored(NamedTuple):
    """A completion with the reference of its problem and its score."""

    reference: str
    completion: str
    score: float


def judge_directly(rewards: str) -> list[Scored]:
    """Judge the right answer, the answer 0 and a completion without an answer for each evaluation problem of `arm`."""
    found = []
    with Bridge(**arm(rewards), num_generators=1, num_verifiers=1) as bridge:
        for problem in bridge.evaluation_problems():
            completions = [f"<answer>{problem.answer}</answer>", "<answer>0</answer>", "no answer"]
            for completion, verdict in zip(completions, bridge.judge(problem, completions), strict=True):
                assert verdict is not None
                found.append(Scored(problem.reference, completion, verdict.score))
    of_coins = [score for reference, completion, score in found if "coin_flip" in reference and ">0<" in completion]
    assert all((score > 0.5) == (rewards == "library") for score in of_coins), "the arms do not differ"
    return found

"""The scripted policy of the demo gives right answers at the rate that its skill sets."""

from __future__ import annotations

import random
import re

import pytest
import reasoning_gym

from demo.policy import ScriptedPolicy
from demo.rules import RULES


def answer_of(text: str) -> str | None:
    """Return the content of the only answer block outside the thinking; None if there is none."""
    visible = re.sub(r"<think>.*?(</think>|$)", "", text, flags=re.DOTALL)
    answers: list[str] = re.findall(r"<answer>(.+?)</answer>", visible, re.DOTALL)
    return answers[0] if len(answers) == 1 else None


@pytest.mark.parametrize("task", RULES)
def test_scripted_policy_with_skill_1_gives_right_answers(task: str) -> None:
    policy, rng = ScriptedPolicy(skill=1.0, seed=5), random.Random(5)
    dataset = reasoning_gym.create_dataset(task, size=20, seed=321)
    for item in dataset:
        text = policy.answer(item["question"], rng)
        assert re.fullmatch(r"<think>[^<]+</think>\n<answer>[^<]+</answer>", text)
        assert dataset.score_answer(answer_of(text), item) == 1.0


@pytest.mark.parametrize("task", RULES)
def test_scripted_policy_with_skill_0_gives_wrong_answers(task: str) -> None:
    policy, rng = ScriptedPolicy(skill=0.0, seed=5), random.Random(5)
    dataset = reasoning_gym.create_dataset(task, size=40, seed=321)
    for item in dataset:
        answer = answer_of(policy.answer(item["question"], rng))
        if answer is not None and not (task == "prime_factorization" and "believe" in answer):  # this verifier raises
            assert dataset.score_answer(answer, item) < 1.0, answer

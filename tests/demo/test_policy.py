"""The scripted policy: its skill, and its mistakes."""

from __future__ import annotations

import random
import re

import pytest
import reasoning_gym
from hypothesis import given
from hypothesis import strategies as st

from demo.policy import SETTLED_SHARE, ScriptedPolicy, nearly
from demo.rules import RULES
from reasoning_gym_testing import GenerationRequest

QUESTION = "Find the Greatest Common Divisor (GCD) of these numbers: 760, 368. Give only the GCD as your final answer."
KNOWN_QUESTIONS = [f"How many 1 bits are there in the binary representation of the number {n}?" for n in range(2000)]


def answer_of(text: str) -> str | None:
    """Return the content of the only answer block outside the thoughts; None without one."""
    visible = re.sub(r"<think>.*?(</think>|$)", "", text, flags=re.DOTALL)
    answers: list[str] = re.findall(r"<answer>(.+?)</answer>", visible, re.DOTALL)
    return answers[0] if len(answers) == 1 else None


@pytest.mark.parametrize("task", RULES)
def test_full_skill_is_always_right(task: str) -> None:
    policy, rng = ScriptedPolicy(skill=1.0, seed=5), random.Random(5)
    dataset = reasoning_gym.create_dataset(task, size=20, seed=321)
    for item in dataset:
        text = policy.answer(item["question"], rng)
        assert re.fullmatch(r"<think>[^<]+</think>\n<answer>[^<]+</answer>", text)
        assert dataset.score_answer(answer_of(text), item) == 1.0


@pytest.mark.parametrize("task", RULES)
def test_no_skill_is_never_right(task: str) -> None:
    policy, rng = ScriptedPolicy(skill=0.0, seed=5), random.Random(5)
    dataset = reasoning_gym.create_dataset(task, size=40, seed=321)
    for item in dataset:
        answer = answer_of(policy.answer(item["question"], rng))
        if answer is not None and not (task == "prime_factorization" and "believe" in answer):  # its verifier raises
            assert dataset.score_answer(answer, item) < 1.0, answer


@pytest.mark.parametrize("skill", [0.2, 0.6, 0.9])
def test_skill_is_share_of_right(skill: float) -> None:
    policy = ScriptedPolicy(skill=skill, seed=1)
    chances = [policy.chance_right(question) for question in KNOWN_QUESTIONS]
    assert sum(chances) / len(chances) == pytest.approx(skill, abs=0.04)
    settled = sum(chance in (0.0, 1.0) for chance in chances) / len(chances)
    assert settled == pytest.approx(SETTLED_SHARE, abs=0.04)


@given(st.text(alphabet="ab1x0-[], ×", min_size=1), st.integers())
def test_near_miss_is_wrong(answer: str, seed: int) -> None:
    assert nearly(answer, random.Random(seed)) != answer


def request(temperature: float) -> GenerationRequest:
    return GenerationRequest("vllm", QUESTION, (9,), n=20, max_tokens=99, temperature=temperature, top_p=1.0)


def test_temperature_zero_is_deterministic() -> None:
    policy = ScriptedPolicy(0.5, 3)
    assert len({*policy(request(0.0)), *policy(request(0.0))}) == 1


def test_learning_policy_reaches_its_skill() -> None:
    policy = ScriptedPolicy(skill=0.9, seed=1, learns_in=3)
    skills = []
    for _ in range(5):
        skills.append(policy.skill)
        policy(request(1.0))
    assert skills == pytest.approx([0.3, 0.5, 0.7, 0.9, 0.9])

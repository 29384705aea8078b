"""The scripted policy: it replaces a language model and needs no weights.

The policy answers the tasks of `rules.RULES` with a chosen skill. Its mistakes are those of language models: slightly
wrong results; answers without tags, in two pairs of tags, unclosed, empty, or inside prose; thinking that does not end
before the token limit. The policy guesses the answers of other tasks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import reasoning_gym_testing as rig

from .rules import solve

SETTLED_SHARE = 0.3
"""Share of questions that the policy always answers right, or always wrong. The groups of these questions have equal
scores, like most groups in the training of a model. The mean score over all questions stays `skill`."""
RAMBLE_CHARS = 12_000
"""Length of a rollout without an answer. It exceeds the usual token limits, so the rollout is truncated."""
GUESS_WINDOW_CHARS = 2000
NEAR_MISSES = (-10, -2, -1, 1, 2, 10)
OPENINGS = ("Let me work this out.", "First I write down what is given.", "This looks familiar, so I go step by step.")
STEPS = (
    "I take the parts in order and keep an eye on the signs.",
    "One part is done, the next one follows in the same way.",
    "That agrees with a rough estimate.",
    "I check the result by going backwards.",
)
DOUBTS = (
    "Wait, let me check that again.",
    "On the other hand, I may have misread the question.",
    "That gives the same thing as before, but I am not convinced.",
)


class ScriptedPolicy:
    """A policy that is right with probability `skill` (0 to 1), on average over the tasks of `rules.RULES`.

    The same seed and the same requests in the same order give the same rollouts. At temperature 0, the same seed and
    question give the same rollout. With `learns_in`, the policy starts with a third of its skill, and reaches the full
    skill after this many requests.
    """

    def __init__(self, skill: float, seed: int, learns_in: int = 0) -> None:
        self._skill = skill
        self._learns_in = learns_in
        self._asked = 0
        self._seed = seed
        self._chance = random.Random(seed)

    def __call__(self, request: rig.GenerationRequest) -> list[str]:
        if request.temperature == 0:
            return [self.answer(request.question, random.Random(f"{self._seed}:greedy"))] * request.n
        self._asked += 1
        return [self.answer(request.question, self._chance) for _ in range(request.n)]

    @property
    def skill(self) -> float:
        """The current probability of a right answer, on average over the tasks of `rules.RULES`."""
        if self._asked >= self._learns_in:
            return self._skill
        return self._skill * (1 + 2 * self._asked / self._learns_in) / 3

    def answer(self, question: str, rng: random.Random) -> str:
        """Return the text of a rollout, sampled with `rng`. Which questions are settled depends only on the seed."""
        right = solve(question)
        if right is not None and rng.random() < self.chance_right(question):
            return f"{_think(rng)}\n<answer>{right}</answer>"
        if right is None:
            words: list[str] = re.findall(r"\w+", question[-GUESS_WINDOW_CHARS:])
            right = wrong = rng.choice(words or ["unknown"])
        else:
            wrong = wrong_answer_like(right, rng)
        (mistake,) = rng.choices(list(MISTAKES), weights=list(MISTAKES.values()))
        return mistake(right, wrong, rng)

    def chance_right(self, question: str) -> float:
        """Return the probability that a rollout for a question is right: `skill`, or 0 or 1 for a settled question."""
        draw = random.Random(f"{self._seed}:{question}").random()
        if draw >= SETTLED_SHARE:
            return self.skill
        return 1.0 if draw < SETTLED_SHARE * self.skill else 0.0


def wrong_answer_like(answer: str, rng: random.Random) -> str:
    """Return a wrong answer that looks like the right answer."""
    if re.fullmatch(r"-?\d+", answer):
        return str(int(answer) + rng.choice(NEAR_MISSES))
    items = answer.strip("[]").split(", ")
    if len(items) > 1:
        return answer.replace(", ".join(items), ", ".join(_disorder(items, rng)))
    if numbers := list(re.finditer(r"\d+", answer)):
        last = numbers[-1]
        return f"{answer[: last.start()]}{int(last[0]) + 1}{answer[last.end() :]}"
    return "".join(_disorder(list(answer), rng))


def _disorder(items: list[str], rng: random.Random) -> list[str]:
    """Return the items with two neighbours swapped. If all items are equal, repeat the last item instead."""
    indices = [index for index in range(len(items) - 1) if items[index] != items[index + 1]]
    if not indices:
        return [*items, items[-1]]
    index = rng.choice(indices)
    return [*items[:index], items[index + 1], items[index], *items[index + 2 :]]


def _think(rng: random.Random) -> str:
    return f"<think>{' '.join([rng.choice(OPENINGS), *rng.sample(STEPS, rng.randint(1, len(STEPS)))])}</think>"


def _ramble(_right: str, _wrong: str, rng: random.Random) -> str:
    sentences = rng.choices(DOUBTS + STEPS, k=RAMBLE_CHARS // min(map(len, DOUBTS + STEPS)))
    return f"<think>{' '.join(sentences)}"


MISTAKES: dict[Callable[[str, str, random.Random], str], float] = {
    lambda right, wrong, rng: f"{_think(rng)}\n<answer>{wrong}</answer>": 10,
    lambda right, wrong, rng: f"{_think(rng)}\nThe answer is {right}.": 2,
    lambda right, wrong, rng: f"{_think(rng)}\n<answer>I believe that it is {wrong}, but please check.</answer>": 2,
    lambda right, wrong, rng: (
        f"{_think(rng)}\n<answer>{wrong}</answer>\n{rng.choice(DOUBTS)}\n<answer>{right}</answer>"
    ): 1,
    lambda right, wrong, rng: f"{_think(rng)}\n<answer>{right}": 1,
    lambda right, wrong, rng: f"{_think(rng).removesuffix('</think>')}\n<answer>{right}</answer>": 1,
    lambda right, wrong, rng: f"{_think(rng)}\n<answer></answer>": 1,
    _ramble: 1,
}
"""Functions that return a completion with a mistake, given a right and a wrong answer; each with its frequency."""

"""The scripted policy: a stand-in for a language model that needs no weights.

It answers the tasks of `rules.RULES` with a chosen skill and errs otherwise, in the ways that language models err: a
result that is slightly off, an answer without tags, twice, unclosed or empty, prose around it, or thoughts that go on
until the token limit. Questions of other tasks get a guess.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from .rules import solve

SETTLED_SHARE = 0.3
"""Share of questions that the policy always gets right or always wrong, as a model does with most of what it sees in
training. They make groups whose scores are all equal, without changing the mean over questions."""

RAMBLE_CHARS = 12_000
"""Length of a rollout that never comes to an answer: beyond the usual token limits, so that it is cut off there."""

GUESS_WINDOW_CHARS = 2000
NEAR_MISSES = (-10, -2, -1, 1, 2, 10)
OPENINGS = (
    "Let me work this out.",
    "First I write down what is given.",
    "This looks familiar, so I go step by step.",
    "I read the question again to be sure what is asked for.",
)
STEPS = (
    "I take the parts in order and keep an eye on the signs.",
    "One part is done, the next one follows in the same way.",
    "That agrees with a rough estimate.",
    "I check the result by going backwards.",
    "Nothing is left over, so this should be it.",
)
DOUBTS = (
    "Wait, let me check that again.",
    "On the other hand, I may have misread the question.",
    "Let me start from the beginning.",
    "That gives the same thing as before, but I am not convinced.",
    "Perhaps there is a better way to see it.",
)


@dataclass(frozen=True)
class Policy:
    """A policy whose rollouts are right with probability `skill` (0 to 1), on average over the questions it knows."""

    skill: float
    seed: int

    def __post_init__(self) -> None:
        if not 0.0 <= self.skill <= 1.0:
            raise ValueError(f"skill must lie between 0 and 1, got {self.skill}")

    def complete(self, question: str, rng: random.Random) -> str:
        """Return the text of one rollout; all chance comes from `rng` and, for what is settled, from the seed."""
        answer = solve(question)
        if answer is None:
            return _err(_guess(question, rng), rng, known=False)
        if rng.random() < self.chance_right(question):
            return f"{_think(rng)}\n<answer>{answer}</answer>"
        return _err(answer, rng, known=True)

    def chance_right(self, question: str) -> float:
        """Return the probability that a rollout for this known question is right: `skill`, or 0 or 1 where settled."""
        draw = random.Random(f"{self.seed}:{question}").random()
        if draw >= SETTLED_SHARE:
            return self.skill
        return 1.0 if draw < SETTLED_SHARE * self.skill else 0.0


def _think(rng: random.Random) -> str:
    steps = rng.sample(STEPS, rng.randint(1, len(STEPS)))
    return f"<think>{' '.join([rng.choice(OPENINGS), *steps])}</think>"


def _guess(question: str, rng: random.Random) -> str:
    words: list[str] = re.findall(r"\w+", question[-GUESS_WINDOW_CHARS:])
    return rng.choice(words or ["unknown"])


def _err(answer: str, rng: random.Random, *, known: bool) -> str:
    """Return a rollout that goes wrong around `answer`, which is the right one if the question is `known`."""
    (mistake,) = rng.choices(list(MISTAKES), weights=list(MISTAKES.values()))
    return mistake(answer, nearly(answer, rng) if known else answer, rng)


def nearly(answer: str, rng: random.Random) -> str:
    """Return a text that looks like the answer and is not equal to it."""
    if re.fullmatch(r"-?\d+", answer):
        return str(int(answer) + rng.choice(NEAR_MISSES))
    if re.fullmatch(r"-?0x[0-9a-f]+", answer):
        return hex(int(answer, 16) + rng.choice(NEAR_MISSES))
    items = answer.strip("[]").split(", ")
    if len(items) > 1:
        return answer.replace(", ".join(items), ", ".join(_disorder(items, rng)))
    if numbers := list(re.finditer(r"\d+", answer)):
        last = numbers[-1]
        return f"{answer[: last.start()]}{int(last[0]) + 1}{answer[last.end() :]}"
    return "".join(_disorder(list(answer), rng))


def _disorder(items: list[str], rng: random.Random) -> list[str]:
    """Return the items with two neighbours exchanged, or with one more where that would change nothing."""
    places = [place for place in range(len(items) - 1) if items[place] != items[place + 1]]
    if not places:
        return [*items, items[-1]]
    place = rng.choice(places)
    return [*items[:place], items[place + 1], items[place], *items[place + 2 :]]


def _wrong_answer(_answer: str, wrong: str, rng: random.Random) -> str:
    return f"{_think(rng)}\n<answer>{wrong}</answer>"


def _no_tags(answer: str, _wrong: str, rng: random.Random) -> str:
    return f"{_think(rng)}\nThe answer is {answer}."


def _two_answers(answer: str, wrong: str, rng: random.Random) -> str:
    return f"{_think(rng)}\n<answer>{wrong}</answer>\n{rng.choice(DOUBTS)}\n<answer>{answer}</answer>"


def _unclosed_answer(answer: str, _wrong: str, rng: random.Random) -> str:
    return f"{_think(rng)}\n<answer>{answer}"


def _unclosed_thought(answer: str, _wrong: str, rng: random.Random) -> str:
    return f"{_think(rng).removesuffix('</think>')}\n<answer>{answer}</answer>"


def _empty_answer(_answer: str, _wrong: str, rng: random.Random) -> str:
    return f"{_think(rng)}\n<answer></answer>"


def _prose_answer(_answer: str, wrong: str, rng: random.Random) -> str:
    return f"{_think(rng)}\n<answer>I believe that it is {wrong}, but please check.</answer>"


def _ramble(_answer: str, _wrong: str, rng: random.Random) -> str:
    sentences, length = ["<think>" + rng.choice(OPENINGS)], 0
    while length < RAMBLE_CHARS:
        sentences.append(rng.choice(DOUBTS + STEPS))
        length += len(sentences[-1]) + 1
    return " ".join(sentences)


MISTAKES: dict[Callable[[str, str, random.Random], str], float] = {
    _wrong_answer: 10,
    _no_tags: 2,
    _prose_answer: 2,
    _two_answers: 1,
    _unclosed_answer: 1,
    _unclosed_thought: 1,
    _empty_answer: 1,
    _ramble: 1,
}
"""The ways to err and how often each is chosen, as weights."""

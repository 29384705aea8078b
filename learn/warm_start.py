"""Supervised learning until the model knows the format and a good part of the answers, and no further."""

from __future__ import annotations

import itertools
import random
import re
import string
from collections.abc import Callable, Sequence
from typing import Any

import torch

from reasoning_env import Problem

from .evaluation import accuracies
from .model import prompt_tokens
from .problems import Problems

PROBLEMS_PER_TASK = 6000
CHECKED = 40
"""Problems a task, of the same stream, that tell when a task is known well enough."""
BATCH = 64
CHECK_INTERVAL = 5
LEARNING_RATE = 2e-3
RAMP_STEPS = 20
WRONG = 0.4
"""Share of examples whose answer has a mistake. They keep the model unsure, so that its samples differ."""
NAN = 0.2
"""Share of the mistakes in lists of numbers that are a nan, which the library's verifier takes for right."""
KNOWN = 0.35
"""Share of right greedy answers to end at, in the mean over tasks; none may have less than half of it."""
REHEARSAL = 0.15
"""How often a task that is known already is drawn, beside 1 for the others."""


def warm_start(
    model: Any, tokenizer: Any, problems: Problems, seed: int, max_steps: int, say: Callable[[str], None]
) -> None:
    """Train on right and wrong answers until the tasks are known a little; one that is known already is rehearsed."""
    chance = random.Random(seed)
    drawn = {
        task: problems.warm(task, place * PROBLEMS_PER_TASK, PROBLEMS_PER_TASK)
        for place, task in enumerate(problems.tasks)
    }
    checked = [problem for made in drawn.values() for problem in made[:CHECKED]]
    weights = dict.fromkeys(drawn, 1.0)
    left = {task: itertools.cycle(made[CHECKED:]) for task, made in drawn.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(1, max_steps + 1):
        chosen = chance.choices(list(weights), list(weights.values()), k=BATCH)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, step / RAMP_STEPS)
        optimizer.zero_grad()
        loss = 0.0
        for task in sorted(set(chosen)):  # alike in length, so that there is little padding
            asked = [next(left[task]) for _ in range(chosen.count(task))]
            part = imitation_loss(model, [example(tokenizer, problem, chance) for problem in asked])
            part = part * len(asked) / BATCH
            part.backward()
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % CHECK_INTERVAL == 0:
            right = accuracies(model, tokenizer, problems, checked)
            shown = ", ".join(f"{task} {share:.2f}" for task, share in right.items())
            say(f"warm start, step {step}: loss {loss:.3f}, right: {shown}")
            if sum(right.values()) >= KNOWN * len(right) and min(right.values()) >= KNOWN / 2:
                return
            weights = {task: 1.0 if share < KNOWN else REHEARSAL for task, share in right.items()}


def example(tokenizer: Any, problem: Problem, chance: random.Random) -> tuple[list[int], list[int]]:
    """Return the tokens of a prompt, and those of a reply to it."""
    answer = problem.answer or ""
    if chance.random() < WRONG:
        answer = spoil(answer, chance)
    reply = tokenizer.encode(f"<answer>{answer}</answer>", add_special_tokens=False)
    return prompt_tokens(tokenizer, problem.question), [*reply, tokenizer.eos_token_id]


def spoil(answer: str, chance: random.Random) -> str:
    """Return an answer with one letter or digit changed or, where it holds numbers, one in five times with a nan."""
    place = chance.choice([index for index, character in enumerate(answer) if character.isalnum()])
    if answer.startswith("[") and chance.random() < NAN:
        return re.sub(r"\d", "nan", answer, count=1).replace("nan.0", "nan")
    others = string.digits if answer[place].isdigit() else string.ascii_lowercase
    other = chance.choice(others.replace(answer[place].lower(), ""))
    return f"{answer[:place]}{other}{answer[place + 1 :]}"


def imitation_loss(model: Any, examples: Sequence[tuple[list[int], list[int]]]) -> Any:
    """Return the mean cross-entropy of the replies' tokens."""
    width = max(len(prompt) + len(reply) for prompt, reply in examples)
    rows = [[*prompt, *reply] + [0] * (width - len(prompt) - len(reply)) for prompt, reply in examples]
    marks = [[-100] * len(prompt) + reply + [-100] * (width - len(prompt) - len(reply)) for prompt, reply in examples]
    tokens, labels = torch.tensor(rows, device=model.device), torch.tensor(marks, device=model.device)
    logits = model(tokens[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)

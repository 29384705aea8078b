"""Supervised learning until pass@8 is 70 %. The model then knows the answer format, and solves part of the problems."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from reasoning_env import Problem

from .evaluation import K, accuracies
from .model import prompt_tokens
from .problems import Problems

PROBLEMS_PER_TASK = 6000
CHECK_PROBLEMS = 40
"""Problems per task with which pass@8 is measured. They come from the warm start's stream and are not trained on."""
BATCH = 64
CHECK_INTERVAL = 20
LEARNING_RATE = 2e-3
RAMP_STEPS = 20
MISTAKE_SHARE = 0.6
"""Share of examples whose answer has a mistake (see `with_mistake`), which the model repeats until RL corrects it."""
PASS_GOAL = 0.7
"""The warm start ends when the mean pass@8 over tasks reaches this value, and no task is more than 0.1 below it."""


def warm_start(
    model: Any, tokenizer: Any, problems: Problems, seed: int, max_steps: int, log: Callable[[str], None]
) -> None:
    """Train on right and wrong answers until PASS_GOAL or `max_steps` is reached."""
    rng = random.Random(seed)
    drawn = problems.warm(PROBLEMS_PER_TASK)
    checked = [problem for made in drawn.values() for problem in made[:CHECK_PROBLEMS]]
    left = {task: itertools.cycle(made[CHECK_PROBLEMS:]) for task, made in drawn.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(1, max_steps + 1):
        chosen = rng.choices(list(drawn), k=BATCH)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, step / RAMP_STEPS)
        optimizer.zero_grad()
        loss = 0.0
        for task in sorted(set(chosen)):  # examples of a task have similar lengths, so padding is short
            asked = [next(left[task]) for _ in range(chosen.count(task))]
            part = imitation_loss(model, [example(tokenizer, problem, rng) for problem in asked])
            part = part * len(asked) / BATCH
            part.backward()
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % CHECK_INTERVAL == 0:
            right = accuracies(model, tokenizer, problems, checked, repeats=K)
            shown = ", ".join(f"{task} {share:.2f}" for task, share in right.items())
            log(f"warm start, step {step}: loss {loss:.3f}, pass@{K}: {shown}")
            if sum(right.values()) >= PASS_GOAL * len(right) and min(right.values()) >= PASS_GOAL - 0.1:
                return


def example(tokenizer: Any, problem: Problem, rng: random.Random) -> tuple[list[int], list[int]]:
    """Return the tokens of a problem's prompt and of a reply, whose answer is right or, often, has a mistake."""
    answer = problem.answer or ""
    if rng.random() < MISTAKE_SHARE:
        answer = with_mistake(answer)
    reply = tokenizer.encode(f"<answer>{answer}</answer>", add_special_tokens=False)
    return prompt_tokens(tokenizer, problem.question), [*reply, tokenizer.eos_token_id]


def with_mistake(answer: str) -> str:
    """Return an answer with its last two letters or numbers swapped."""
    parts = re.findall(r"[a-zA-Z]|[\d.-]+|[^\w.-]+", answer)
    *_, last, end = (place for place, part in enumerate(parts) if part[0].isalnum())
    parts[last], parts[end] = parts[end], parts[last]
    return "".join(parts)


def imitation_loss(model: Any, examples: Sequence[tuple[list[int], list[int]]]) -> Any:
    """Return the mean cross-entropy of the replies' tokens."""
    width = max(len(prompt) + len(reply) for prompt, reply in examples)
    rows = [[*prompt, *reply] + [0] * (width - len(prompt) - len(reply)) for prompt, reply in examples]
    marks = [[-100] * len(prompt) + reply + [-100] * (width - len(prompt) - len(reply)) for prompt, reply in examples]
    tokens, labels = torch.tensor(rows, device=model.device), torch.tensor(marks, device=model.device)
    logits = model(tokens[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)

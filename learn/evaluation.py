"""Measure the accuracy of a model on the test set: of greedy completions, and as pass@8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reasoning_env import Problem

from .model import prompt_tokens
from .problems import Problems
from .sampling import sample, text_of

COMPLETION_TOKENS = 24
BATCH = 512
K = 8


def accuracies(
    model: Any, tokenizer: Any, problems: Problems, asked: Sequence[Problem], *, repeats: int = 0
) -> Mapping[str, float]:
    """Return the share of solved problems of each task, rounded to four digits.

    Without `repeats`, a problem counts as solved if the greedy completion is right. With `repeats`, it counts as solved
    if at least one of `repeats` samples is right.
    """
    prompts = [prompt_tokens(tokenizer, problem.question) for problem in asked for _ in range(repeats or 1)]
    texts: list[str] = []
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH]
        limits = [COMPLETION_TOKENS] * len(batch)
        samples = sample(model, tokenizer, batch, limits, temperature=1.0 if repeats else 0.0)
        texts += [text_of(tokenizer, sample) for sample in samples]
    each = [texts[start : start + (repeats or 1)] for start in range(0, len(texts), repeats or 1)]
    right: dict[str, list[float]] = {}
    for problem, verdicts in zip(asked, problems.verdicts(asked, each), strict=True):
        right.setdefault(problem.task, []).append(float(any(verdict.correct for verdict in verdicts)))
    return {task: round(sum(shares) / len(shares), 4) for task, shares in sorted(right.items())}

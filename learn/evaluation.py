"""How well a model does on the test set: greedy answers, and the chance that one of eight is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reasoning_env.records import CORRECT_SCORE, Problem
from reasoning_env.statistics import pass_at_k

from .model import prompt_tokens
from .problems import Problems
from .sampling import sample, text_of

COMPLETION_TOKENS = 24
BATCH = 512
K = 8


def accuracies(
    model: Any, tokenizer: Any, problems: Problems, asked: Sequence[Problem], *, repeats: int = 0
) -> Mapping[str, float]:
    """Return each task's share of right answers: greedy or, with `repeats`, the chance of one in K right."""
    prompts = [prompt_tokens(tokenizer, problem.question) for problem in asked for _ in range(repeats or 1)]
    texts: list[str] = []
    for start in range(0, len(prompts), BATCH):
        batch = prompts[start : start + BATCH]
        limits = [COMPLETION_TOKENS] * len(batch)
        samples = sample(model, tokenizer, batch, limits, temperature=1.0 if repeats else 0.0)
        texts += [text_of(tokenizer, one) for one in samples]
    each = [texts[start : start + (repeats or 1)] for start in range(0, len(texts), repeats or 1)]
    right: dict[str, list[float]] = {}
    for problem, scores in zip(asked, problems.scores(asked, each), strict=True):
        correct = sum(score >= CORRECT_SCORE for score in scores)
        right.setdefault(problem.task, []).append(pass_at_k(len(scores), correct, min(K, len(scores))))
    return {task: round(sum(shares) / len(shares), 4) for task, shares in sorted(right.items())}

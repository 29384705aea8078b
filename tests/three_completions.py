"""A right, a wrong and a hostile completion. Every way to judge must give them these scores."""

from __future__ import annotations

from reasoning_env import Problem

HOSTILE = "<answer>__import__('os').abort() \x00 \x1b[2J \ud800 \U0001f600</answer>"
"""Code, and characters that JSON, pickle or text encodings may drop or reject."""
SCORES = [1.0, 0.0, 0.0]


def three_completions(problem: Problem) -> list[str]:
    """Return the three completions for a problem with a single right answer, in the order of `SCORES`."""
    return [f"<answer>{problem.answer}</answer>", "<answer>wrong</answer>", HOSTILE]

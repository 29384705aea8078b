"""Prompts: the default system message and the conversation that asks a problem's question."""

from __future__ import annotations

from collections.abc import Mapping

SYSTEM_PROMPT = """\
You solve reasoning problems. Work the problem out step by step first, and put all of that work between <think> and \
</think>. After it, state your final answer exactly once, between <answer> and </answer>.

Inside the answer tags write the bare answer in the form that the question asks for: no explanation, no restating of \
the question, nothing else. A reply without exactly one pair of answer tags earns nothing."""


def build_messages(system_prompt: str, question: str) -> tuple[Mapping[str, str], ...]:
    """The conversation up to the model's turn; a blank system prompt is left out."""
    user = {"role": "user", "content": question}
    if not system_prompt.strip():
        return (user,)
    return ({"role": "system", "content": system_prompt}, user)

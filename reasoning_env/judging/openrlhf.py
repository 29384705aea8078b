"""Find the completion in a query of OpenRLHF, which consists of a prompt and its completion."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

PROMPT_END = 160
"""Number of bytes at the end of a prompt, without whitespace, that the server searches for in a query.

Chat templates append at most 79 bytes to a question (cohere2, among 108 templates of TRL 1.16 and axolotl 0.19), so at
least half of these bytes belong to the question.
"""
_WHITESPACE = b" \t\n\r\x0b\x0c"


def completion_behind(prompt: str, query: str) -> str | None:
    """Return the completion in a query of OpenRLHF; None if the query does not contain the prompt.

    A query is decoded from tokens, so its prompt may differ from `prompt`: it may start with a BOS token, its spaces
    may differ (`clean_up_tokenization_spaces` changes ` . .` to `..`), and a long prompt is truncated on the left.
    Therefore the function searches the query for the end of the prompt, ignoring whitespace. If the prompt contains
    this end twice, a longer end is used.

    The first match counts, so that the whole completion is judged even if the model repeats the prompt. A match that
    starts beyond the length of the prompt is a part of the completion and is ignored.
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    raw = query.encode()
    seen = raw.translate(None, _WHITESPACE)
    asked = prompt.encode().translate(None, _WHITESPACE)
    length = min(PROMPT_END, len(asked))
    while asked.find(asked[-length:]) < len(asked) - length:
        length = min(2 * length, len(asked))
    start = seen.find(asked[-length:], 0, len(asked) + PROMPT_END) if asked else -1
    if start == -1:
        return None
    # The position in `raw` at which the prompt ends: before it are `start + length` bytes that are not whitespace.
    place = bisect_left(
        range(len(raw)), start + length, key=lambda at: at - sum(raw.count(b, 0, at) for b in _WHITESPACE)
    )
    return raw[place:].decode().lstrip()


def completions_behind(prompts: Sequence[str], queries: Sequence[str]) -> list[str | None]:
    """Return the completion in each query, as `completion_behind` does."""
    return [completion_behind(prompt, query) for prompt, query in zip(prompts, queries, strict=True)]

"""Find the completion in a query of OpenRLHF. A query is a prompt followed by its completion."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

PROMPT_END = 160
"""Number of bytes at the end of a prompt, not counting whitespace, for which a query is searched."""
# Chat templates append at most 79 bytes to a question (cohere2, among 108 templates of TRL 1.16 and axolotl 0.19), so
# at least half of these bytes belong to the question.
_WHITESPACE = b" \t\n\r\x0b\x0c"


def completion_behind(prompt: str, query: str) -> str | None:
    """Return the completion in a query of OpenRLHF; None if the query does not contain the prompt.

    A query is decoded from tokens, so the prompt in the query may differ from `prompt`. The query may start with a BOS
    token, its spaces may differ (`clean_up_tokenization_spaces` changes ` . .` to `..`), and a long prompt is truncated
    on the left. So the function searches the query for the end of the prompt, ignoring whitespace.
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    raw = query.encode()
    seen = raw.translate(None, _WHITESPACE)
    asked = prompt.encode().translate(None, _WHITESPACE)
    length = min(PROMPT_END, len(asked))
    while asked.find(asked[-length:]) < len(asked) - length:  # the prompt contains this end twice, so use a longer end
        length = min(2 * length, len(asked))
    # Use the first match, because the model may repeat the prompt. A match that begins later is in the completion.
    start = seen.find(asked[-length:], 0, len(asked) + PROMPT_END) if asked else -1
    if start == -1:
        return None
    # The position in `raw` at which the prompt ends: before it are `start + length` bytes that are not whitespace.
    place = bisect_left(
        range(len(raw)), start + length, key=lambda at: at - sum(raw.count(b, 0, at) for b in _WHITESPACE)
    )
    return raw[place:].decode().lstrip()


def completions_behind(prompts: Sequence[str], queries: Sequence[str]) -> list[str | None]:
    """Return the completion in each query; None if the query lacks its prompt."""
    return [completion_behind(prompt, query) for prompt, query in zip(prompts, queries, strict=True)]

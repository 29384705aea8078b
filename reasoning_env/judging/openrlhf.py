"""Find the completion in a query of OpenRLHF, which holds a prompt and its completion."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

PROMPT_END = 160
"""Bytes of a prompt's end, without blanks, that a query must hold.

The longest text that a chat template writes behind a question has 79 (cohere2, of the 108 templates of TRL 1.16 and
axolotl 0.19), so that at least half of the end is of the question.
"""
_BLANKS = b" \t\n\r\x0b\x0c"


def completion_behind(prompt: str, query: str) -> str | None:
    """Return the completion in a query of OpenRLHF, a prompt and its completion; None if the prompt is not there.

    A query is tokens that were decoded, so that its prompt may differ from `prompt`: a beginning-of-text mark stands in
    front, blanks are lost or added (decoders with `clean_up_tokenization_spaces` change ` . .` to `..`), and a prompt
    that is too long is cut on the left. The prompt's end is then searched for without blanks; where the prompt holds
    this end twice, a longer end is searched for.

    A model may repeat the prompt, followed by an answer. The first match counts, so that all of the model's text is
    judged. A first match that lies deeper in the query than the prompt is long is the model's own, and is ignored.
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    raw = query.encode()
    seen = raw.translate(None, _BLANKS)
    asked = prompt.encode().translate(None, _BLANKS)
    length = min(PROMPT_END, len(asked))
    while asked.find(asked[-length:]) < len(asked) - length:
        length = min(2 * length, len(asked))
    start = seen.find(asked[-length:], 0, len(asked) + PROMPT_END) if asked else -1
    if start == -1:
        return None
    # The place in `raw` behind as many bytes that are no blanks.
    place = bisect_left(range(len(raw)), start + length, key=lambda at: at - sum(raw.count(b, 0, at) for b in _BLANKS))
    return raw[place:].decode().lstrip()


def completions_behind(prompts: Sequence[str], queries: Sequence[str]) -> list[str | None]:
    """Return the completion in each query, as `completion_behind` does."""
    return [completion_behind(prompt, query) for prompt, query in zip(prompts, queries, strict=True)]

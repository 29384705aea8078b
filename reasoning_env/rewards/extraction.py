"""The strict answer rule: what a completion's one final answer is, or why it has none.

Everything here is linear in the length of the text, which is hostile.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from ..records import Reason

# ASCII: otherwise the long s and the Kelvin sign count as spellings of s and k.
THINK_TAG = re.compile(r"<(/?)think>", re.IGNORECASE | re.ASCII)
ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE | re.ASCII)

OPENING_TAG = re.compile(r"<answer>", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Extraction:
    """Either the `answer`, or None and the `reason` for which the rollout scores 0."""

    answer: str | None
    reason: Reason | None = None


def extract_answer(text: str, max_bytes: int) -> Extraction:
    """Find the one answer of a completion.

    Thinking is removed first; what remains must hold exactly one pair of answer tags, no further answer tag, and
    something other than blanks between them. The answer comes back stripped of surrounding whitespace, and is refused
    above `max_bytes` of UTF-8.
    """
    rest = remove_thinking(text)
    # The third tag decides; a text may hold a hundred thousand.
    tags = list(itertools.islice(ANSWER_TAG.finditer(rest), 3))
    opening = [tag for tag in tags if not tag[1]]
    if not opening and not (len(tags) == 3 and OPENING_TAG.search(rest)):
        return Extraction(None, Reason.NO_ANSWER)
    if len(opening) > 1 or len(tags) > 2:
        return Extraction(None, Reason.SEVERAL_ANSWERS)
    if tags[-1] is opening[0]:
        return Extraction(None, Reason.UNCLOSED_ANSWER)
    answer = rest[opening[0].end() : tags[-1].start()].strip()
    if not answer:
        return Extraction(None, Reason.EMPTY_ANSWER)
    if len(answer) > max_bytes or len(answer.encode("utf-8", "surrogatepass")) > max_bytes:
        return Extraction(None, Reason.TOO_LONG)
    return Extraction(answer)


def remove_thinking(text: str) -> str:
    """Drop closed think blocks, everything up to a stray closing tag, and everything after an unclosed opening tag.

    Templates that open the block in the prompt produce completions with only the closing tag.
    """
    kept: list[str] = []
    kept_to = 0
    thinking = False
    for tag in THINK_TAG.finditer(text):
        if not tag[1]:
            if not thinking:
                kept.append(text[kept_to : tag.start()])
            thinking = True
        else:
            if not thinking:
                kept.clear()
            thinking = False
            kept_to = tag.end()
    if not thinking:
        kept.append(text[kept_to:])
    return "".join(kept)

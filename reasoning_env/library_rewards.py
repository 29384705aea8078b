"""Score completions as the library's own evaluation does, for `rewards: library` and for published evaluations."""

from __future__ import annotations

from collections.abc import Sequence

from .records import Pool, Problem, Reason, Verdict
from .rewards import MAX_ANSWER_BYTES
from .runtime.concurrency import in_background


async def score_texts_as_library(verifier: Pool, problem: Problem, texts: Sequence[str]) -> list[Verdict]:
    """Score the last tagged answer of each completion, as the library's own evaluation does; 0 if there is none."""
    answers = await in_background(lambda: [extract_last_answer(text, MAX_ANSWER_BYTES) for text in texts])
    scored = iter(await verifier.score(problem, [said for said in answers if said is not None], plainly=True))
    reasons = [Reason.NO_ANSWER if text.strip() else Reason.NO_TEXT for text in texts]
    return [
        Verdict(0.0, reason) if said is None else next(scored) for said, reason in zip(answers, reasons, strict=True)
    ]


def extract_last_answer(text: str, max_bytes: int) -> str | None:
    """Return the content of the last pair of answer tags, as the library's evaluation does. Tags in thinking count too.

    Return None if there is no pair, or if the content is longer than `max_bytes` bytes of UTF-8. Takes linear time.
    """
    opening = "<answer>"
    closing = "</answer>"
    content_start = content_end = -1
    start = text.find(opening)
    while start >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        content_start = start + len(opening)
        content_end = end
        start = text.find(opening, end)
    if content_start < 0 or content_end - content_start > max_bytes:
        return None
    content = text[content_start:content_end].strip()
    return content if len(content.encode("utf-8", "surrogatepass")) <= max_bytes else None

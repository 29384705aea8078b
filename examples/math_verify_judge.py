"""Score mathematical answers with math-verify. An answer that makes math-verify hang scores 0, and only that answer.

    pip install math-verify==0.9.0
    python reasoning_gym_environment.py judge --score examples/math_verify_judge.py:score --deadline-s 5

math-verify's own time limits use signals, which work only in the main thread of a process. This example turns them off.
If an answer takes too long, the judge ends its process.
"""

from __future__ import annotations

import asyncio
from typing import Any

from math_verify import parse, verify

from reasoning_env import Session

parse("$1$", parsing_timeout=None)  # compiles math-verify's patterns once, before the workers are forked


def score(completion: str, answer: str, **row: Any) -> dict[str, float]:
    """Return `score`, 1.0 if the completion's last expression is right, and `found`, 1.0 if it has an expression."""
    expected = parse(f"${answer}$", parsing_timeout=None)
    if not expected:
        raise ValueError(f"the row's answer {answer!r} cannot be parsed")
    found = parse(completion, parsing_timeout=None)
    return {"score": float(verify(expected, found, timeout_seconds=None)), "found": float(bool(found))}


async def main() -> None:
    completions = [
        r"So the area is $\boxed{\frac{2}{4}}$.",
        "It is 0.5",
        r"It is $\frac{1}{3}$",
        "No idea.",
        r"It is $\boxed{9^{9^{9^{9}}}}$",
    ]
    async with Session(score=f"{__file__}:score", num_verifiers=1, scoring_deadline_s=2.0) as session:
        verdicts = await session.judge({"answer": r"\frac{1}{2}"}, completions)
        for completion, verdict in zip(completions, verdicts, strict=True):
            print(verdict.score, verdict.reason, completion)


if __name__ == "__main__":
    asyncio.run(main())

"""Score unusual answers, such as empty strings and very long numbers, with the verifier of every task."""

from __future__ import annotations

import contextlib
import io
from functools import cache

import pytest

from reasoning_env.tasks import COMPOSITE, TASKS
from reasoning_env.workers.library import Library

from .frozen_answers import frozen_problem

TEXTS = (
    *("9/2", "1/0", "\\frac{1}{0}", "3^2 \N{MULTIPLICATION SIGN} 59", "1e400", "9" * 401, "10**30", "nan", "-", "i"),
    *("\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}", '["\N{SUPERSCRIPT TWO}"]', "\N{VULGAR FRACTION ONE HALF}"),
    *("None", "null", '""', "[]", "{}", "[[]]", "[{}]", "[null]", "[1, [2]]", "[[1, 2], 3]", "[" * 40 + "]" * 40),
    *('{"a": 1}', '{"0": [1]}', '{"1": null}', '{"answer": [1]}', '["pour A->Q"]', '["w,Z99,Z98"]'),
    *("99:99", "A=1,A=2", "R99", "Move disk 99 from Peg 1 to Peg 2", "x**x", "log(0)", "() + 1", "P \N{LOGICAL AND}"),
)


@cache
def library() -> Library:
    return Library(None)


@pytest.mark.parametrize("task", sorted(TASKS.keys() - {COMPOSITE}))
def test_unusual_answers_score_between_0_and_1(task: str) -> None:
    scorer = frozen_problem(library(), task, None, 0).scorer
    with contextlib.redirect_stdout(io.StringIO()):  # some verifiers print to stdout
        assert [text for text in TEXTS if not 0.0 <= scorer.score(text) <= 1.0] == []

"""The example that uses math-verify, and an answer that makes math-verify hang."""

from __future__ import annotations

import pytest

pytest.importorskip("math_verify")

from examples import math_verify_judge

pytestmark = pytest.mark.slow


async def test_example_with_math_verify_stops_a_hanging_answer_check(capsys: pytest.CaptureFixture[str]) -> None:
    await math_verify_judge.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["1.0", "scored"],
        ["1.0", "scored"],
        ["0.0", "scored"],
        ["0.0", "scored"],
        ["0.0", "timeout"],
    ]


def test_example_with_math_verify_raises_on_an_unparsable_answer() -> None:
    with pytest.raises(ValueError, match="the row's answer '' cannot be parsed"):
        math_verify_judge.score("It is 1", "")

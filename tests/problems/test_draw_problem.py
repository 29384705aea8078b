from __future__ import annotations

from collections.abc import Sequence

import pytest

from reasoning_env.errors import GenerationError
from reasoning_env.problems.giving_up import MAX_FAILURES, MAX_REJECTED, MAX_REPEATS
from reasoning_env.problems.stream import DrawAttempts, ExhaustedError, draw_problem
from reasoning_env.records import Rejection

FAILURE = GenerationError("too slow")
SERVED = "a problem"


async def draw_of(outcomes: Sequence[object], tries: DrawAttempts) -> object:
    """Draw a problem from attempts with these outcomes, in order."""

    async def attempt(number: int) -> object:
        outcome = outcomes[number]
        if isinstance(outcome, GenerationError):
            raise outcome
        return outcome

    return await draw_problem(attempt, tries)


async def test_drawing_a_problem_returns_the_first_acceptable_problem() -> None:
    tries = DrawAttempts(max_failures=MAX_FAILURES)
    assert await draw_of([Rejection.HELD_OUT, FAILURE, Rejection.REPEATED, SERVED], tries) == SERVED
    assert (tries.made, tries.rejected, tries.repeats) == (3, 0, 0)


@pytest.mark.parametrize(
    ("rejections", "last"),
    [
        ([Rejection.TOO_LONG] * MAX_REJECTED, "too_long"),
        ([Rejection.HELD_OUT] * MAX_REJECTED, "held_out"),
        ([Rejection.REPEATED] * MAX_REPEATS, "repeated"),
        ([Rejection.TOO_LONG, *[Rejection.REPEATED] * MAX_REPEATS], "repeated"),
        (
            [Rejection.REPEATED] * (MAX_REPEATS - 1) + [Rejection.TOO_LONG] * (MAX_REJECTED - MAX_REPEATS + 1),
            "too_long",
        ),
    ],
)
async def test_drawing_a_problem_raises_after_too_many_rejected_problems(
    rejections: list[Rejection], last: str
) -> None:
    assert await draw_of([*rejections[:-1], SERVED], DrawAttempts()) == SERVED
    with pytest.raises(ExhaustedError, match=f"^{len(rejections)} generated problems in a row .* {last}$"):
        await draw_of([*rejections, SERVED], DrawAttempts())


async def test_limit_of_rejections_includes_rejections_before_an_interruption() -> None:
    with pytest.raises(ExhaustedError):
        await draw_of([Rejection.REPEATED], DrawAttempts(rejected=MAX_REPEATS - 1, repeats=MAX_REPEATS - 1))


async def test_drawing_a_problem_raises_after_consecutive_failures() -> None:
    tries = DrawAttempts(max_failures=MAX_FAILURES)
    with pytest.raises(GenerationError, match=f"^{MAX_FAILURES} failures in a row, the last: too slow$"):
        await draw_of([FAILURE, Rejection.TOO_LONG, *[FAILURE] * MAX_FAILURES, SERVED], tries)
    assert tries.made == MAX_FAILURES + 2


async def test_first_generation_failure_is_raised_by_default() -> None:
    with pytest.raises(GenerationError) as raised:
        await draw_of([Rejection.TOO_LONG, FAILURE, SERVED], DrawAttempts())
    assert raised.value is FAILURE

"""Which deliveries count: a group that its environment took back and made again is one, and what came twice is two."""

from __future__ import annotations

import pytest

from benchmarks._line import Delivery, kept


def delivery(key: str, at: float) -> Delivery:
    return Delivery(key, 0, at, "", (0.0, 1.0))


FIRST, OTHER, AGAIN = delivery("a", 1.0), delivery("b", 2.0), delivery("a", 5.0)


@pytest.mark.parametrize(
    ("emptied", "received", "expected"),
    [
        ([], ["b"], [FIRST, OTHER, AGAIN]),
        ([3.0], ["a", "b"], [OTHER, AGAIN]),
        ([3.0], [], [OTHER, AGAIN]),
        ([3.0], ["a", "a"], [FIRST, OTHER, AGAIN]),
        ([0.5, 5.5], ["a"], [FIRST, OTHER, AGAIN]),
    ],
    ids=["nothing emptied", "got again", "on its way again", "got both", "emptied at other times"],
)
def test_a_delivery_was_taken_back_where_run_api_was_emptied_before_the_next_one(
    emptied: list[float], received: list[str], expected: list[Delivery]
) -> None:
    assert kept([FIRST, OTHER, AGAIN], emptied, received) == expected


def test_what_was_not_delivered_again_was_not_taken_back() -> None:
    assert kept([FIRST, OTHER], [3.0], []) == [FIRST, OTHER]

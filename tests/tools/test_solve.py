"""The draws of served problems, as `tools.solve` prints them."""

from __future__ import annotations

from dataclasses import replace

from tests.records import make_problem
from tools.solve import draws_by_task


def test_draws_by_task() -> None:
    sound = make_problem("gcd")
    flawed = replace(make_problem("gcd"), flawed={"wrong": 2, "easy": 1})
    often = replace(make_problem("lcm"), flawed={"copied": 4})
    lines = [" ".join(line.split()) for line in draws_by_task([sound, flawed, often, make_problem("maze")])]
    assert lines == ["lcm 5.0 draws: 0.80 copied", "gcd 2.5 draws: 0.40 wrong, 0.20 easy"]

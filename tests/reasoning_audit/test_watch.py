"""Watch a verifier for file access, code execution and changing scores."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from reasoning_audit.watch import CANARY, BareAnswers, Watch, WatchedAnswers, kind_of


@pytest.mark.parametrize(
    ("event", "arguments", "kind"),
    [
        ("open", (f"/tmp/{CANARY}", "w", 0), "file"),
        ("open", ("/etc/zoneinfo", "r", 0), None),
        ("import", (CANARY, None), "import"),
        ("import", ("decimal", None), None),
        ("socket.connect", (None, None), "socket"),
        ("os.system", (b"true",), "process"),
        ("exec", (compile(f"1 + {CANARY}", "", "eval"),), "code"),
        ("exec", (compile(f"lambda: {CANARY}", "", "eval"),), "code"),
        ("exec", (compile(f"len('{CANARY}')", "", "eval"),), None),
        ("compile", (CANARY, ""), None),
    ],
)
def test_side_effects_of_scoring_are_recognized_from_python_audit_events(
    event: str, arguments: tuple[object, ...], kind: str | None
) -> None:
    assert kind_of(event, arguments) == kind


class StillWatch(Watch):
    """A watch that records no events, because an installed audit hook cannot be removed."""

    def listen(self) -> None:
        pass


def _raise(_answer: str) -> float:
    raise SystemExit


@pytest.mark.parametrize(
    ("verify", "score", "parts"),
    [
        (lambda answer: 0.5, 0.5, {"raw": 0.5, "again": 0.5}),
        (lambda answer: -2, 0.0, {"raw": -2.0, "again": -2.0}),
        (lambda answer: math.nan, 0.0, {"no number": 1.0}),
        (lambda answer: None, 0.0, {"no number": 1.0}),
        (_raise, 0.0, {"failed": 1.0}),
    ],
)
def test_audit_calls_the_verifier_twice_and_records_both_results(
    verify: Callable[[str], object], score: float, parts: dict[str, float]
) -> None:
    watched = WatchedAnswers(verify, StillWatch())
    assert (watched.score("42"), watched.parts) == (score, parts)


def test_audit_calls_the_verifier_twice_for_each_answer() -> None:
    numbers = iter([0.25, 0.75])
    watched = WatchedAnswers(lambda _answer: next(numbers), StillWatch())
    watched.score("42")
    assert watched.parts == {"raw": 0.25, "again": 0.75}


@pytest.mark.parametrize(("returned", "score"), [(0.5, 0.5), (-2, 0.0), (7, 1.0), (True, 1.0)])
def test_raw_verifier_score_is_clipped_to_the_range_0_to_1(returned: float, score: float) -> None:
    assert BareAnswers(lambda: lambda _answer: returned).score("42") == score


@pytest.mark.parametrize("returned", [math.nan, None, "1.0"])
def test_non_numeric_verifier_result_raises(returned: object) -> None:
    with pytest.raises(ValueError, match="the verifier returned"):
        BareAnswers(lambda: lambda _answer: returned).score("42")


def test_audit_gives_the_verifier_a_fresh_dataset_item_for_each_call() -> None:
    def make() -> Callable[[str], object]:
        entry = {"answer": "42"}
        return lambda answer: float(entry.pop("answer", "") == answer)

    answers = BareAnswers(make)
    assert [answers.score("42"), answers.score("42")] == [1.0, 1.0]

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reasoning_env.records import Ending, Prompt, Reason, Verdict
from tests.records import SAMPLING, make_group, make_problem, make_rollout


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("stop", Ending.FINISHED),
        ("STOP", Ending.FINISHED),
        ("tool_calls", Ending.FINISHED),
        ("eos", Ending.FINISHED),
        ("", Ending.FINISHED),
        ("length", Ending.CUT),
        ("MAX_TOKENS", Ending.CUT),
        ("model_context_window_exceeded", Ending.CUT),
        ("content_filter", Ending.REFUSED),
        ("SAFETY", Ending.REFUSED),
        ("abort", Ending.BROKEN_OFF),
        ("insufficient_system_resource", Ending.BROKEN_OFF),
        ("never heard of it", Ending.BROKEN_OFF),
    ],
)
def test_finish_reason_is_mapped_to_the_way_a_completion_ended(word: str, ending: Ending) -> None:
    assert make_rollout(finish_reason=word).ending is ending


@pytest.mark.parametrize(("score", "correct"), [(1.0, True), (0.99, True), (0.98, False)])
def test_verdict_with_a_score_of_at_least_0_99_counts_as_correct(score: float, correct: bool) -> None:
    assert Verdict(score, Reason.SCORED).correct is correct


@pytest.mark.parametrize(
    ("score", "reason", "form"),
    [(1.0, Reason.SCORED, 1.0), (0.3, Reason.SCORED, 1.0), (0.0, Reason.TIMEOUT, 1.0), (0.0, Reason.NO_ANSWER, 0.0)],
)
def test_verdict_has_reward_parts_for_format_and_answer_and_length(score: float, reason: Reason, form: float) -> None:
    assert Verdict(score, reason).parts == {"format": form, "answer": score, "length": 1.0}


def test_verdict_has_the_reward_parts_that_a_score_function_returned() -> None:
    assert Verdict(0.5, Reason.SCORED, own_parts={"style": 2.0}).parts == {"style": 2.0}


@pytest.mark.parametrize("rewarded", [0.8, 0.2, 0.0])
def test_reward_parts_include_the_length_penalty(rewarded: float) -> None:
    parts = make_rollout(0.8, reward=rewarded).parts
    assert parts == {"format": 1.0, "answer": 0.8, "length": pytest.approx(rewarded / 0.8)}


@pytest.mark.parametrize("prompt_tokens", [1, 100, SAMPLING.token_limit, 2 * SAMPLING.token_limit])
def test_prompt_length_plus_completion_budget_stays_below_the_token_limit(prompt_tokens: int) -> None:
    budget = SAMPLING.completion_budget(Prompt((), "", (0,) * prompt_tokens))
    assert prompt_tokens + budget < SAMPLING.token_limit


def test_repr_of_a_verdict_is_short() -> None:
    verdict = Verdict(1.0, Reason.SCORED, "\x1b" * 20_000)
    assert len(repr(verdict)) < 120
    assert "\x1b" not in repr(verdict)
    assert repr(Verdict(0.5, Reason.NO_ANSWER)) == "Verdict(score=0.5, reason='no_answer', answer=None)"


@pytest.mark.parametrize(
    ("metadata", "answer"),
    [
        ("{}", None),
        ('{"library_answer": "3"}', "3"),
        ('{"text": "\\"library_answer\\""}', None),
        ('["library_answer"]', None),
    ],
)
def test_library_answer_of_a_corrected_problem_is_read_from_metadata(metadata: str, answer: str | None) -> None:
    assert replace(make_group([]).problem, metadata_json=metadata).library_answer == answer


@pytest.mark.parametrize("key", ["example_answer", "example_correct_answer", "possible_answer"])
@pytest.mark.parametrize(("example", "answer"), [("R U F", "R U F"), ({"0": 1}, '{"0": 1}')])
def test_known_answer_is_the_example_answer_if_no_reference_answer_exists(
    key: str, example: object, answer: str
) -> None:
    metadata = json.dumps({"moves": 3, key: example})
    assert make_problem(answer=None, metadata=metadata).known_answer == answer
    assert make_problem(answer="7", metadata=metadata).known_answer == "7"


@pytest.mark.parametrize("metadata", [None, [1], {}, {"moves": 3}])
def test_known_answer_is_none_if_a_problem_has_neither_answer_nor_example_answer(metadata: object) -> None:
    assert make_problem(answer=None, metadata=json.dumps(metadata)).known_answer is None

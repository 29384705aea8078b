from __future__ import annotations

from reasoning_env.problems.repeats import RepeatCounter


def test_repeat_counter_counts_each_repetition_of_a_question() -> None:
    repeats = RepeatCounter()
    for question in ("a", "b", "a", "a"):
        repeats.add("gcd", question)
    assert repeats.repeated == {"gcd": 2}


def test_equal_question_of_another_task_does_not_count_as_a_repeat() -> None:
    repeats = RepeatCounter()
    repeats.add("gcd", "a")
    repeats.add("lcm", "a")
    assert repeats.repeated == {}


def test_new_questions_are_rarely_counted_as_repeated() -> None:
    repeats = RepeatCounter()
    for number in range(20_000):
        repeats.add("gcd", str(number))
    assert sum(repeats.repeated.values()) <= 1


def test_task_with_repeated_questions_is_reported_once() -> None:
    repeats = RepeatCounter()
    named = [repeats.add("gcd", str(number % 80)) for number in range(300)]
    assert named.index(True) == RepeatCounter.MIN_QUESTIONS - 1
    assert sum(named) == 1


def test_task_that_rarely_repeats_a_question_is_not_reported() -> None:
    repeats = RepeatCounter()
    assert not any(repeats.add("gcd", str(number % 280)) for number in range(300))

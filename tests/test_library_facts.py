from __future__ import annotations

from reasoning_env.library_facts import KNOWN_TASKS, gameable_tasks


def test_fewer_tasks_are_gameable_under_strict_rewards_and_all_of_them_exist() -> None:
    strict, plain = (gameable_tasks(strict_rewards=strict) for strict in (True, False))
    assert strict.keys() < plain.keys() <= KNOWN_TASKS
    assert plain["coin_flip"] == "0 is a prefix of every probability"

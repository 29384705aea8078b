from __future__ import annotations

from reasoning_env.library_facts import KNOWN_TASKS, gameable_tasks


def test_gameable_tasks_exist() -> None:
    assert gameable_tasks(strict=True).keys() < gameable_tasks(strict=False).keys() < KNOWN_TASKS
    assert gameable_tasks(strict=False)["coin_flip"] == "0 is a prefix of every probability"

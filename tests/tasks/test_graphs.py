from __future__ import annotations

from reasoning_env.tasks.graphs import single_button_plans


def test_quantum_lock_plans_repeat_one_button_that_always_adds() -> None:
    buttons = [
        {"name": name, "type": kind, "value": value, "active_state": light}
        for name, kind, value, light in (("A", "add", 2, "any"), ("B", "add", 3, "any"), ("C", "add", 2, "red"))
    ]
    assert single_button_plans(buttons, 4) == ["A A"]
    assert single_button_plans([{**buttons[0], "type": "multiply"}], 4) == []

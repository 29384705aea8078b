"""Every task has one declaration; tasks without a declaration get safe defaults."""

from __future__ import annotations

import pytest

from reasoning_env.tasks import COMPOSITE, FAMILIES, TASKS, Task, find_task

DECLARED = [(name, task) for family in FAMILIES for name, task in vars(family).items() if isinstance(task, Task)]


def test_constant_of_a_task_is_named_after_the_task_in_upper_case() -> None:
    assert [name for name, task in DECLARED if name != task.name.upper()] == []


def test_every_task_is_declared_once() -> None:
    assert len(DECLARED) + 1 == len(TASKS)
    assert {task.name for _, task in DECLARED} | {COMPOSITE} == TASKS.keys()


@pytest.mark.parametrize(("name", "category"), [("sums/easy", "sums"), ("no_such_task", "other")])
def test_undeclared_task_gets_the_category_that_the_library_gives(name: str, category: str) -> None:
    assert find_task(name).category == category


def test_undeclared_task_gets_safe_defaults() -> None:
    task = find_task("no_such_task")
    assert task.has_small_pool and task.constructor_uses_seed
    assert not task.rejected and task.clarification is None and task.right_answer is None

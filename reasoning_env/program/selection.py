"""Check the selection of tasks before anything slow starts."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..errors import ConfigError
from ..problems.plan import select
from ..problems.selection import select_tasks
from ..records import TaskInfo
from ..session import Session
from ..settings import ReasoningSettings
from ..settings.given import check_checkout
from ..tasks import TASKS


async def check_selection(settings: ReasoningSettings, checkout: Path | None) -> None:
    """Raise ConfigError for invalid settings of tasks: an unknown name or parameter, or weights that are all 0.

    Loading the library takes seconds. It is loaded only for parameters, for a preset, and if names are not in `TASKS`.
    """
    check_checkout(settings.checkout)
    known = [TaskInfo(task.name, task.category) for task in TASKS.values()]
    with suppress(ConfigError):
        select(settings, known)
        if settings.eval_tasks:
            select_tasks(known, settings.eval_tasks)
        if not settings.task_params and settings.eval_preset is None:
            return
    async with Session(settings, checkout=checkout):
        pass

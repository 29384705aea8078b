"""Audit tasks without facts, of another library release or a user's own, before training on them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from ..library_facts import KNOWN_TASKS
from ..tasks.plan import TaskPlan
from .verifier_probes import ORACLE, PERTURBED, Setting, Workers, audit_task

logger = logging.getLogger(__name__)

ITEMS = 5


async def audit_unmeasured(plan: TaskPlan, config: Any, workers: Workers) -> TaskPlan:
    """Return the plan without the tasks that no facts are known of and whose rewards fail the audit.

    A task whose right answers are not paid is left out in any case, one that pays policies without reasoning unless
    `tasks` names it or `exclude_gameable` is off. Raises ConfigError when no task is left to train on.
    """
    unmeasured = [task for task in plan.training_tasks if task not in KNOWN_TASKS]
    out = {}
    for task in unmeasured:
        audit = await audit_task(workers, Setting(task), ITEMS)
        kept = set() if config.exclude_gameable and task not in config.tasks else _lazy(audit.faults)
        faults = [fault for kind, fault in audit.faults.items() if kind not in kept]
        if faults or not audit.items:
            out[task] = faults[0] if faults else (*audit.failures, "all of its problems are flawed")[0]
    if not unmeasured:
        return plan
    left_out = "; ".join(f"{task} ({fault})" for task, fault in out.items())
    logger.warning(
        "tasks without facts were audited: %s; left out of training: %s", ", ".join(unmeasured), left_out or "none"
    )
    training_tasks = tuple(task for task in plan.training_tasks if task not in out)
    if not training_tasks:
        raise ConfigError(f"no task is left to train on; left out by the audit: {left_out}")
    return replace(plan, training_tasks=training_tasks)


def _lazy(kinds: Collection[str]) -> set[str]:
    return {*kinds} - {ORACLE, PERTURBED}

"""Problems of the warm start and of the fixed test set, with verdicts on answers.

No two streams share a seed: the environment trains on instance 0 of the training seeds (after a restart too), the warm
start on instance 63. Both reject questions of the test set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self

from reasoning_env import Bridge, Problem, Verdict

from .errors import LearnError
from .tasks import PARAMS, TASKS, TEST_SEED

WARM_INSTANCE = 63


class Problems:
    """The problems of `tasks`, from a bridge that is open inside `with`. Methods block the calling thread.

    `params` has the parameters of each task, instead of the easy parameters of `learn.tasks`."""

    def __init__(
        self,
        seed: int,
        tests_per_task: int,
        params: Mapping[str, Mapping[str, Any]] = PARAMS,
        tasks: Sequence[str] = tuple(TASKS),
    ) -> None:
        self._tasks = sorted(tasks)
        self._settings: dict[str, Any] = {
            "tasks": self._tasks,
            "task_params": {task: dict(params.get(task, {})) for task in self._tasks},
            "seed": seed,
            "eval_seed": TEST_SEED,
            "eval_level": "training",
            "num_eval_samples_per_task": tests_per_task,
            "num_generators": 1,
            "num_verifiers": 1,
        }

    def __enter__(self) -> Self:
        self._bridge = Bridge(instance=WARM_INSTANCE, **self._settings)
        self.tests: list[Problem] = self._bridge.evaluation_problems()
        return self

    def __exit__(self, *_: object) -> None:
        self._bridge.close()

    def warm(self, number: int) -> dict[str, list[Problem]]:
        """Return the next problems for the warm start by task, about `number` for each task."""
        drawn: dict[str, list[Problem]] = {task: [] for task in self._tasks}
        for _ in range(number * len(self._tasks)):
            problem = self._bridge.next()
            drawn[problem.task].append(problem)
        return drawn

    def verdicts(self, problems: Sequence[Problem], texts: Sequence[Sequence[str]]) -> list[list[Verdict]]:
        """Return a verdict for each completion of each problem.

        Raises LearnError if a completion could not be scored.
        """

        async def judge() -> list[list[Verdict | None]]:
            pairs = zip(problems, texts, strict=True)
            return await asyncio.gather(*(self._bridge.ajudge(problem, given) for problem, given in pairs))

        judged = [[verdict for verdict in group if verdict is not None] for group in asyncio.run(judge())]
        if [*map(len, judged)] != [*map(len, texts)]:
            raise LearnError("an answer could not be scored; the log above has the cause")
        return judged

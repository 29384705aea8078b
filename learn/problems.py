"""Problems outside of RL: the warm start's and the fixed test set, with verdicts on answers to them.

No stream meets another. The environment trains on instance 0 of the training seeds, where a restarted one goes on, and
the warm start on instance 63: the instance is a part of the seed. The test set's seeds have a bit that neither has, and
the environment draws a problem again that asks what the test set asks; the warm start leaves it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self

from reasoning_env import EvaluationSet, PoolSettings, Problem, ProblemSpec, ReasoningSettings, WorkerPool
from reasoning_env.evaluations.problem_set import question_key
from reasoning_env.records import Split
from reasoning_env.rewards import score_texts
from reasoning_env.tasks.seeds import INSTANCES, train_seed

from .tasks import PARAMS, TASKS, TEST_SEED

WARM_INSTANCE = INSTANCES - 1
DEADLINE_S = 60.0


class Problems:
    """The library's workers, from `with` to its end; methods block. `params` make tasks other than easy."""

    def __init__(self, seed: int, tests_per_task: int, params: Mapping[str, Mapping[str, Any]] = PARAMS) -> None:
        self._seed = seed
        self._params = {task: dict(params.get(task, {})) for task in sorted(TASKS)}
        self._runner = asyncio.Runner()
        self._pool = WorkerPool(PoolSettings(generators=1, verifiers=1))
        self._test_set = EvaluationSet(
            self._pool,
            sorted(TASKS),
            self._params,
            samples_per_task=tests_per_task,
            eval_seed=TEST_SEED,
            deadline_s=DEADLINE_S,
        )

    def __enter__(self) -> Self:
        self._runner.run(self._pool.start())
        self.tests: list[Problem] = self._runner.run(self._test_set.problems())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._pool.close())
        self._runner.close()

    def warm(self, task: str, first: int, number: int) -> list[Problem]:
        """Return the warm start's problems from a position on, without those that the test set has."""
        asked = {question_key(problem.question) for problem in self.tests}

        async def generate() -> list[Problem]:
            wanted = (self._warm_spec(task, first + index) for index in range(number))
            return list(await asyncio.gather(*(self._pool.generate(spec, DEADLINE_S) for spec in wanted)))

        made = self._runner.run(generate())
        return [problem for problem in made if question_key(problem.question) not in asked]

    def scores(self, problems: Sequence[Problem], texts: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return what completions of each problem earn, strictly."""
        most = ReasoningSettings().max_answer_bytes

        async def score() -> list[Any]:
            pairs = zip(problems, texts, strict=True)
            return await asyncio.gather(*(score_texts(self._pool, problem, given, most) for problem, given in pairs))

        return [[verdict.score for verdict in verdicts] for verdicts in self._runner.run(score())]

    def _warm_spec(self, task: str, index: int) -> ProblemSpec:
        seed = train_seed(self._seed, WARM_INSTANCE, index, 0)
        return ProblemSpec(task, seed, Split.TRAIN, index, params=self._params[task])

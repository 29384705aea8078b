"""The fixed set of evaluation problems. Training serves none of its questions.

The set depends only on tasks, parameters, level, seed and number of problems. If problem n of a task has the question
of an earlier problem, problem n is drawn again. So if the task's questions may repeat, problem n waits for problem
n - 1.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from functools import partial

from ..errors import GenerationError
from ..records import Pool, Problem, ProblemRequest, ProblemSpec, Rejection, Split
from ..runtime.concurrency import cancel_all
from ..seeds import eval_seed
from ..tasks import COMPOSITE, TASKS
from .giving_up import MAX_FAILURES
from .references import hash_without_whitespace
from .stream import DrawAttempts, ExhaustedError, draw_problem, generate_with_retries

logger = logging.getLogger(__name__)


class EvaluationSet:
    """The evaluation problems of a seed, generated on demand. No question repeats within a task.

    `params` has the parameters, by task, that differ from the library's defaults. `level` is the difficulty, in [0, 1],
    of tasks that have levels; None for the library's defaults. A problem that cannot be generated is left out with a
    warning. If a task has no more new questions, the remaining problems of the task are left out too.
    """

    library_seeds = False
    """Whether the set uses the library's own seeds, as presets do. If so, training can draw equal seeds by chance."""

    def __init__(
        self,
        generator: Pool,
        tasks: Sequence[str],
        params: Mapping[str, Mapping[str, object]],
        *,
        samples_per_task: int,
        eval_seed: int,
        deadline_s: float,
        level: float | None = None,
    ) -> None:
        self.tasks = tuple(tasks)
        self.samples_per_task = samples_per_task
        self._generator = generator
        self._params = params
        self._eval_seed = eval_seed
        self._deadline_s = deadline_s
        self._level = level
        self._generated: dict[tuple[str, int], asyncio.Task[Problem | None]] = {}
        self._question_hashes: dict[str, frozenset[str]] = {}
        self._number_of_question: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """The problem's number by task and question hash, for tasks whose questions may repeat."""
        self._exhausted: set[str] = set()
        # Parameters and levels can leave few different questions, for example only questions with short words.
        self._many_questions = frozenset(
            name for name, task in TASKS.items() if not task.has_small_pool and name not in params and level is None
        )

    async def stream(
        self, tasks: Sequence[str] | None = None, done: Container[tuple[str, int]] = ()
    ) -> AsyncIterator[Problem]:
        """Yield the problems of `tasks` (None for all) that are not in `done`, each as soon as it is generated.

        `done` has pairs of a task and a number. The first problem of each task is generated first, then the second of
        each task, and so on.
        """
        chosen = self.tasks if tasks is None else tasks
        positions = [(task, number) for number in range(self.samples_per_task) for task in chosen]
        highest = {task: number for task, number in positions if (task, number) not in done}
        generations = []
        for begun, (task, number) in enumerate(positions):
            # Let other tasks run after each 100 starts. 100 starts take 6 ms, but 6,000 blocked the loop for 356 ms.
            if begun % 100 == 0:
                await asyncio.sleep(0)
            if (task, number) not in done:
                generations.append(self._generation(task, number))
            elif self._depends_on_lower(task) and number < highest.get(task, 0):
                # Generate this problem too, because the missing problems of the task wait for it.
                self._generation(task, number)
        # If the caller is cancelled, the generations continue, because other callers may wait for them.
        for generation in asyncio.as_completed(generations):
            problem = await generation
            if problem is not None:
                yield problem

    async def problems(self) -> list[Problem]:
        """Return all problems of the set, in the order of the tasks."""
        positions = {task: position for position, task in enumerate(self.tasks)}
        problems = [problem async for problem in self.stream()]
        return sorted(problems, key=lambda problem: (positions[problem.task], problem.spec.index))

    async def has_question(self, problem: Problem) -> bool:
        """Return True if the set has the problem's question, ignoring whitespace.

        `composite` serves problems of other tasks. So every problem is also compared with the questions of `composite`,
        and a problem of `composite` with the questions of the task that it comes from.
        """
        task = problem.task
        if task == COMPOSITE:
            task = str(json.loads(problem.metadata_json).get("source_dataset", COMPOSITE))
        if task in self._many_questions and not self.library_seeds:
            return False  # the task has so many questions that none repeats
        question_hash = hash_without_whitespace(problem.question)
        return question_hash in await self._hashes_of(task) or question_hash in await self._hashes_of(COMPOSITE)

    async def close(self) -> None:
        """Cancel all running generations."""
        await cancel_all(self._generated.values())

    async def _hashes_of(self, task: str) -> frozenset[str]:
        if task not in self.tasks:
            return frozenset()
        if task not in self._question_hashes:
            hashes = [hash_without_whitespace(problem.question) async for problem in self.stream([task])]
            self._question_hashes[task] = frozenset(hashes)
        return self._question_hashes[task]

    def _generation(self, task: str, number: int) -> asyncio.Task[Problem | None]:
        """Return the asyncio task that generates a problem; after a failure, a new one."""
        generation = self._generated.get((task, number))
        if generation is None or _has_failed(generation):
            generation = self._generated[task, number] = asyncio.create_task(self._generate(task, number))
        return generation

    async def _generate(self, task: str, number: int) -> Problem | None:
        """Generate problem `number`, with a question that no lower-numbered problem has. Return None on failure."""
        try:
            return await draw_problem(partial(self._attempt, task, number), DrawAttempts(max_failures=MAX_FAILURES))
        except ExhaustedError:
            self._exhausted.add(task)
            logger.warning(
                "the evaluation set has %d problems of %s instead of %d: the task has no other questions",
                len(self._number_of_question[task]),
                task,
                self.samples_per_task,
            )
        except GenerationError as error:
            # The next problem waits only for this problem, so this problem must wait for the earlier ones.
            await self._previous(task, number)
            logger.warning("evaluation problem %d of task %s is left out: %s", number, task, error)
        return None

    async def _attempt(self, task: str, number: int, attempt: int) -> Problem | Rejection | None:
        """Generate problem `number`. Return a Rejection for a repeated question, None if no new question is left."""
        try:
            problem = await generate_with_retries(self._generator, self._spec(task, number, attempt), self._deadline_s)
        except GenerationError as error:
            logger.warning("evaluation problem %d of task %s could not be generated: %s", number, task, error)
            raise
        if not self._depends_on_lower(task):
            return problem
        await self._previous(task, number)
        if task in self._exhausted:
            return None
        first = self._number_of_question[task].setdefault(hash_without_whitespace(problem.question), number)
        return problem if first == number else Rejection.REPEATED

    def _depends_on_lower(self, task: str) -> bool:
        """Return True if the task's questions may repeat. A problem then waits for the problems with lower numbers."""
        return task not in self._many_questions

    async def _previous(self, task: str, number: int) -> None:
        """If questions of the task can repeat, wait until the problems with lower numbers are generated.

        Raises the error with which problem `number` - 1 failed.
        """
        if number == 0 or not self._depends_on_lower(task):
            return
        previous = self._generation(task, number - 1)
        # Do not await the task itself, because a cancelled `await` would also cancel the earlier generation.
        await asyncio.wait([previous])
        previous.result()

    def _spec(self, task: str, number: int, attempt: int) -> ProblemSpec:
        spec = evaluation_spec(task, number, attempt, run_seed=self._eval_seed, params=self._params.get(task))
        return spec.with_request(level=self._level)


def evaluation_spec(
    task: str, sample: int, attempt: int, *, run_seed: int, params: Mapping[str, object] | None = None
) -> ProblemSpec:
    """Return the spec of an evaluation problem. The seed does not depend on the selection of tasks."""
    key = task if attempt == 0 else f"{task}#{attempt}"
    request = ProblemRequest(task, eval_seed(run_seed, key, sample), params or {})
    return ProblemSpec(request, Split.EVAL, sample, attempt)


def _has_failed(generation: asyncio.Task[Problem | None]) -> bool:
    return generation.done() and (generation.cancelled() or generation.exception() is not None)

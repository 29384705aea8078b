"""Generate the problems of references, and keep them for a while."""

from __future__ import annotations

import logging

from ..errors import InvalidReferenceError, did_you_mean
from ..records import LibraryInfo, Pool, Problem
from ..settings import ReasoningSettings
from .references import Reference, maker

logger = logging.getLogger(__name__)


class Remaker:
    """Generates the problem of a reference in a pool, as the library there makes it."""

    KEPT_BYTES = 64 * 2**20
    """The completions of a problem mostly come within a minute, and a problem has some kilobytes."""

    def __init__(self, pool: Pool, settings: ReasoningSettings) -> None:
        self._pool = pool
        self._deadline_s = settings.eval_generation_deadline_s
        self._cpu_s = settings.reference_deadline_s
        self._kept = ProblemCache(self.KEPT_BYTES)
        self._releases_warned_of: set[tuple[str, str]] = set()

    async def remake(self, reference: str, library: LibraryInfo) -> Problem:
        """Return the problem of a reference. Raises InvalidReferenceError, GenerationError and WorkerError."""
        kept = self._kept.get(reference)
        if kept is not None:
            return kept
        parsed = Reference.parse(reference)
        names = [task.name for task in library.tasks]
        if parsed.task not in names:
            remedy = did_you_mean(parsed.task, names)
            problem_text = f"the library has no task {parsed.task!r}"
            if "@" in parsed.library:
                problem_text = f"no module of task_modules here adds {parsed.task!r}, which {parsed.library} made"
            raise InvalidReferenceError(reference, problem_text, remedy=remedy)
        # A reference may name the clarified question or the library's own, whatever the settings here.
        for clarified in (True, False):
            spec = parsed.spec().with_request(clarified=clarified)
            problem = await self._pool.generate(spec, self._deadline_s, cpu_s=self._cpu_s)
            if parsed.names(problem):
                break
        release = library.release(parsed.task)
        parsed.check(problem, release)
        if release != parsed.library and "@" in release + parsed.library:
            self._warn_of_release(parsed, release)
        self._kept.keep(reference, problem)
        return problem

    def _warn_of_release(self, reference: Reference, release: str) -> None:
        """Warn, once for each pair of releases, that answers are judged by another release than the reference's."""
        if (reference.library, release) not in self._releases_warned_of:
            self._releases_warned_of.add((reference.library, release))
            logger.warning(
                "problems of %s were made by %s, and are judged here by %s",
                reference.task,
                maker(reference.library),
                maker(release),
            )


class ProblemCache:
    """Keeps problems by reference. The least used goes first.

    All of them have at most `max_bytes`; a problem larger than that is not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._problems: dict[str, Problem] = {}
        """In the order of their last use."""
        self._bytes = 0

    def get(self, reference: str) -> Problem | None:
        """Return the problem of a reference; None if it is not kept."""
        problem = self._problems.pop(reference, None)
        if problem is not None:
            self._problems[reference] = problem
        return problem

    def keep(self, reference: str, problem: Problem) -> None:
        """Keep a problem, and drop others for its room."""
        self._drop(reference)
        self._problems[reference] = problem
        self._bytes += _size(reference, problem)
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._problems)))

    def _drop(self, reference: str) -> None:
        problem = self._problems.pop(reference, None)
        if problem is not None:
            self._bytes -= _size(reference, problem)


def _size(reference: str, problem: Problem) -> int:
    """Return the memory of a problem in bytes, estimated from above: texts may take four bytes a character."""
    texts = (reference, problem.question, problem.answer or "", problem.metadata_json, problem.reference)
    return len(problem.entry) + 4 * sum(map(len, texts)) + 1000

"""Generate problems from references, and cache the problems."""

from __future__ import annotations

import logging
from dataclasses import replace

from ..errors import InvalidReferenceError, did_you_mean
from ..records import LibraryInfo, Pool, Problem
from .references import Reference, describe_release

logger = logging.getLogger(__name__)


class Remaker:
    """Generates problems from references, with the library release that the worker pool uses.

    `deadline_s` limits the wall-clock time of generating a problem, and `cpu_s` the processor time, in seconds.
    """

    CACHE_BYTES = 64 * 2**20
    """Limit of the cache in bytes. Thousands of problems fit, because a problem takes a few kilobytes."""

    def __init__(self, pool: Pool, *, deadline_s: float, cpu_s: float) -> None:
        self._pool = pool
        self._deadline_s = deadline_s
        self._cpu_s = cpu_s
        self._cache = ProblemCache(self.CACHE_BYTES)
        self._releases_warned_of: set[tuple[str, str]] = set()

    async def remake(self, reference: str, library: LibraryInfo) -> Problem:
        """Return the problem that a reference names. Raises InvalidReferenceError, GenerationError and WorkerError."""
        kept = self._cache.get(reference)
        if kept is not None:
            return kept
        parsed = Reference.parse(reference)
        names = [task.name for task in library.tasks]
        if parsed.task not in names:
            remedy = did_you_mean(parsed.task, names)
            problem_text = f"the library has no task {parsed.task!r}"
            if "@" in parsed.library:
                problem_text = (
                    f"{parsed.library} made the problem, but no module in task_modules adds the task {parsed.task!r}"
                )
            raise InvalidReferenceError(reference, problem_text, remedy=remedy)
        # The reference may have the hash of the clarified question or of the library's own question.
        for clarified in (False,) if parsed.as_library else (True, False):
            spec = parsed.spec().with_request(clarified=clarified, uncorrected=parsed.as_library)
            problem = await self._pool.generate(spec, self._deadline_s, cpu_s=self._cpu_s)
            if parsed.matches(problem):
                break
        release = library.release(parsed.task)
        parsed.check(problem, release)
        if release != parsed.library and "@" in release + parsed.library:
            self._warn_of_release(parsed, release)
        if parsed.as_library:
            problem = replace(problem, as_library=True)
            problem = replace(problem, reference=str(Reference.of(problem, release)))
        self._cache.put(reference, problem)
        return problem

    def _warn_of_release(self, reference: Reference, release: str) -> None:
        """Warn, once for each pair of releases, that `release` judges a problem of another release."""
        if (reference.library, release) not in self._releases_warned_of:
            self._releases_warned_of.add((reference.library, release))
            logger.warning(
                "problems of %s were made by %s, but answers to them are judged here by %s",
                reference.task,
                describe_release(reference.library),
                describe_release(release),
            )


class ProblemCache:
    """Caches problems by reference, and evicts the least recently used problems.

    All cached problems together take at most `max_bytes`. A larger problem is not cached.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._problems: dict[str, Problem] = {}
        """The cached problems, in the order of their last use."""
        self._bytes = 0

    def get(self, reference: str) -> Problem | None:
        """Return the problem with this reference; None if the problem is not cached."""
        problem = self._problems.pop(reference, None)
        if problem is not None:
            self._problems[reference] = problem
        return problem

    def put(self, reference: str, problem: Problem) -> None:
        """Cache a problem, and evict the least recently used problems to make room."""
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
    """Return an upper bound of a problem's memory in bytes. A string takes up to four bytes per character."""
    texts = (reference, problem.question, problem.answer or "", problem.metadata_json, problem.reference)
    return len(problem.entry) + 4 * sum(map(len, texts)) + 1000

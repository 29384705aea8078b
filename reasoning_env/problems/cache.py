"""Problems that were generated from their references, kept for a while: bounded in bytes, the least used goes first."""

from __future__ import annotations

from ..records import Problem


class ProblemCache:
    """Keeps problems by reference. All of them have at most `max_bytes`; a problem larger than that is not kept."""

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

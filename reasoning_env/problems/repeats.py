"""Count how often a run repeats questions, in bounded memory and without imports from this package."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping


class RepeatCounter:
    """Counts repeated questions by task, with a Bloom filter of 1 MiB.

    A repeated question is never mistaken for a new one. After n different questions, a new question is mistaken for a
    repeated one with a chance of (1 - exp(-4 n / 2**23))**4 (Bloom, 1970): one in 200,000 after 100,000 questions, and
    0.2 % after 500,000.
    """

    BITS = 1 << 23
    HASHES = 4
    WARN_SHARE = 0.1
    """If more than this share of a task's questions are repeats, a warning names the task."""
    MIN_QUESTIONS = 100
    """The share of repeated questions is checked only after this many questions of a task."""

    def __init__(self) -> None:
        self._bits = bytearray(self.BITS // 8)
        self._served: Counter[str] = Counter()
        self._repeated: Counter[str] = Counter()
        self._named: set[str] = set()

    def add(self, task: str, question: str) -> bool:
        """Count a question. Return True once per task, as soon as more than WARN_SHARE of its questions are repeats."""
        self._served[task] += 1
        if self._add_and_check(task, question):
            self._repeated[task] += 1
        if task in self._named or not self._is_repetitive(task):
            return False
        self._named.add(task)
        return True

    def repetitive_tasks(self) -> dict[str, float]:
        """Return the shares of repeated questions above WARN_SHARE, by task in alphabetical order."""
        return {task: self.share(task) for task in sorted(self._served) if self._is_repetitive(task)}

    def share(self, task: str) -> float:
        """Return the share of a task's questions that are repeats, in [0, 1]."""
        return self._repeated[task] / self._served[task] if self._served[task] else 0.0

    @property
    def repeated(self) -> Mapping[str, int]:
        """Number of repeated questions, by task."""
        return dict(self._repeated)

    def _is_repetitive(self, task: str) -> bool:
        return self._served[task] >= self.MIN_QUESTIONS and self.share(task) > self.WARN_SHARE

    def _add_and_check(self, task: str, question: str) -> bool:
        """Add the question, and return True if it was added before."""
        text = f"{task}\n{question}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, digest_size=4 * self.HASHES).digest()
        seen = True
        for start in range(0, len(digest), 4):
            number = int.from_bytes(digest[start : start + 4], "big") % self.BITS
            place, bit = number // 8, 1 << number % 8
            if not self._bits[place] & bit:
                seen = False
                self._bits[place] |= bit
        return seen

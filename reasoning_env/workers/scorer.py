"""Score answers to a problem: the best of an answer's forms, corrected and with partial credit."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..verifiers import PartialCredit, plain_reading, verify


@dataclass
class Scorer:
    """Scores answers to one entry, unpickled for each verification, as verifiers may write into it.

    `full_stop` tells whether a full stop at an answer's end is none of its own, None that answers are read as they are.
    """

    task: str
    dataset: Any
    entry: bytes
    strict: bool
    with_tags: bool
    full_stop: bool | None = None

    def score(self, answer: str) -> float:
        """Return the highest score, in [0, 1], of an answer's forms: bare, read plainly, inside its tags.

        A form whose verifier raises, or returns what is not a finite number, earns nothing; when every form does,
        raises the last one's error. Raises MemoryError at once.
        """
        best: float | None = None
        failure: BaseException | None = None
        for form in self._forms(answer):
            try:
                value = self._verify(form)
                if self.strict:
                    value = self._partial_credit.rebase(value)
            except MemoryError:
                raise
            except BaseException as error:  # verifiers raise anything for hostile text, SystemExit included
                failure = error
            else:
                best = value if best is None else max(best, value)
                if best >= 1.0:
                    break
        if best is None:
            assert failure is not None
            raise failure
        return best

    def _forms(self, answer: str) -> dict[str, None]:
        forms = [answer]
        if self.full_stop is not None:
            forms.append(plain_reading(answer, full_stop=self.full_stop))
        if self.with_tags:
            forms.append(f"<answer>{answer}</answer>")
        return dict.fromkeys(forms)

    @cached_property
    def _partial_credit(self) -> PartialCredit:
        return PartialCredit(pickle.loads(self.entry), self._verify)

    def _verify(self, form: str) -> float:
        value = float(verify(self.task, self.dataset, form, pickle.loads(self.entry), strict=self.strict))
        if not math.isfinite(value):
            raise ValueError(f"the verifier returned {value}")
        return min(1.0, max(0.0, value))

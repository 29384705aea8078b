"""Score answers to a problem: frames come off, the whole text must be a value of the task's type, the value is judged.

Full marks: the value is the right answer, or the task has many right answers and the guarded verifier pays the value.
Another value keeps the partial credit of the task. Text that is no value earns at most the score of a form.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .calculations import FUNCTIONS, sides_in_python
from .frames import MATHEMATICAL_NOTATION, MAX_FRAMES, NOT_RUN, PLAIN_SIGNS, clean, outermost_frame
from .plain import plain
from .rules import AnswerRules, Dataset, Entry
from .shortcuts import FORM_SCORE, above_guessing, guesses
from .types import Asked
from .values import any_value, is_value

FIELD = re.compile(r"\{(\w+)\}")
"""A key of the metadata in a name of the result."""
LEAST_PARTIAL = 1e-6
"""Less is nothing: scores that differ by as little would make a group look as if it had a signal."""


@dataclass(frozen=True)
class ReadAnswer:
    """A text of an answer, the notation of the value that it is, None for no value, and the frames that came off."""

    text: str
    notation: str | None
    frames: tuple[str, ...] = ()


@dataclass
class Scorer:
    """Scores answers to one entry. The entry is unpickled for each verification, since verifiers may write into it.

    With `strict`, the answer must be a value of the task's type; otherwise the library's score counts. With `lenient`,
    frames come off, and any notation of a value is read. With `with_tags`, the answer in answer tags is scored too.
    """

    rules: AnswerRules
    dataset: Dataset
    entry: bytes
    strict: bool
    with_tags: bool
    lenient: bool = False
    frames: tuple[str, ...] = field(default=(), init=False)
    _holds_code: bool = field(default=False, init=False)

    def score(self, answer: str) -> float:
        """Return the highest score of an answer's readings; `frames` tells what came off.

        This is the whole way of an answer: `_texts` takes frames off, `readings` reads what is left as a value of the
        task's type, `_scored` picks the readings that count, and `_earned` scores each of them.

        A reading earns nothing if the verifier raises. If every reading fails in this way, a strict answer earns
        nothing: the verifier cannot read it. A verifier that fails at the right answer too is at fault, and so is one
        that is to be scored as it is: raises the last error. Raises MemoryError at once.
        """
        self.frames = ()
        self._holds_code = False
        best: float | None = None
        failure: BaseException | None = None
        for reading in self._scored(answer):
            try:
                score = self._earned(reading)
            except MemoryError:
                raise
            except BaseException as error:  # hostile text makes verifiers raise any error, even SystemExit
                failure = error
            else:
                if best is None or score > best:
                    best, self.frames = score, reading.frames
                if best >= 1.0:
                    break
        if best is None:
            assert failure is not None
            if not (self.strict and self._scores_right_answer()):
                raise failure
            best = 0.0
        if self._holds_code and best < 1.0:
            self.frames = (*self.frames, NOT_RUN)
        return 0.0 if self.strict and best < LEAST_PARTIAL else best

    def _scored(self, answer: str) -> Iterator[ReadAnswer]:
        """Yield the readings that count, each once: the values that were read, then the answer in its tags.

        A strict answer without a value is yielded as it is. Scoring that is not strict takes what is no value too.
        """
        seen = set()
        has_value = False
        for reading in self.readings(answer):
            has_value = has_value or reading.notation is not None
            said = (reading.text, reading.notation)
            if said not in seen and (reading.notation is not None or not self.strict):
                seen.add(said)
                yield reading
        if self.strict and not has_value:
            yield ReadAnswer(answer, None)
        if self.with_tags:
            tagged = f"<answer>{answer}</answer>"
            yield ReadAnswer(tagged, tagged if self.rules.type is None else None)

    def readings(self, answer: str) -> Iterator[ReadAnswer]:
        """Yield an answer and what its frames hold, each with the notation of its value, None for no value."""
        for text, frames in self._texts(answer):
            yield ReadAnswer(text, self._read(text), frames)
            if self.rules.type is any_value and PLAIN_SIGNS not in frames and is_value(text):
                return  # what looks like a frame is the value's own
            written = sides_in_python(text, FUNCTIONS) if self.rules.is_formula and self.lenient else None
            if written is not None and written != "".join(text.split()):
                yield ReadAnswer(text, self._read(written), (*frames, MATHEMATICAL_NOTATION))

    def _texts(self, answer: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield an answer, and then with one frame less each time, and the frames that came off.

        Each text comes in plain characters too.
        """
        if not self.lenient:
            yield answer, ()
            return
        text = clean(answer)
        frames: tuple[str, ...] = ()
        for _ in range(MAX_FRAMES + 1):
            yield text, frames
            in_signs = plain(text)
            if in_signs != text:
                yield in_signs, (*frames, PLAIN_SIGNS)
            taken = self._without_frame(text)
            if taken is None and in_signs != text:
                frames = (*frames, PLAIN_SIGNS)
                taken = self._without_frame(in_signs)
            if taken is None:
                return
            name, text = taken
            frames = (*frames, name)

    def _without_frame(self, text: str) -> tuple[str, str] | None:
        return outermost_frame(
            text,
            self._names,
            self._asked.metadata.get("numbers", ()),
            ends_in_full_stop=self.rules.ends_in_full_stop or self._asked.right.endswith("."),
        )

    def _scores_right_answer(self) -> bool:
        """Tell whether the verifier of a declared task returns a score for the right answer."""
        if self.rules.type is None or not self._asked.right:
            return False
        try:
            self._verified(self._asked.right)
        except MemoryError:
            raise
        except BaseException:
            return False
        return True

    def reads_expected_answer(self) -> bool:
        """Tell whether the expected answer is a value of the task's type."""
        try:
            return self.rules.type is None or self.rules.type(self._asked.right, self._asked) is not None
        except (LookupError, ValueError):  # the metadata, or a number, of another language
            return False

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The names of the result, with what the metadata holds in place of braces."""
        metadata = {key: value for key, value in self._asked.metadata.items() if isinstance(value, str)}
        return tuple(
            name.format_map(metadata) for name in self.rules.names if set(FIELD.findall(name)) <= set(metadata)
        )

    @cached_property
    def _asked(self) -> Asked:
        entry = pickle.loads(self.entry)
        return Asked(str(entry.get("answer") or ""), entry["metadata"])

    def _read(self, text: str) -> str | None:
        """Return the verifier's notation of the value that a text is; None for no value."""
        if self.rules.type is None or (self._asked.right and text == self._asked.right):
            return text
        return self.rules.type(text, self._asked)

    def _earned(self, reading: ReadAnswer) -> float:
        """Return the score of a reading. Raises any error of the library's verifier."""
        if not self.strict:
            score = self._verified(reading.text)
            if self.lenient and reading.notation is not None and score < 1.0:
                score = max(score, self._verified(reading.notation))
            return score
        if reading.notation is None:
            return min(FORM_SCORE, self._score_of_form(reading.text))
        score = self.value_score(reading.notation)
        if not self.lenient and reading.notation != reading.text:
            score = min(score, self._verified(reading.text))
        return above_guessing(score, self._best_guess) if FORM_SCORE < score < 1.0 else score

    def _score_of_form(self, text: str) -> float:
        """Return the verifier's score of a text that is no value; 0 for a text that the verifier cannot read either."""
        try:
            return self._without_share(text, self._verified(text))
        except MemoryError:
            raise
        except BaseException:  # no error of the verifier: a text that is no value need not be readable
            return 0.0

    def _without_share(self, text: str, score: float) -> float:
        """Return the score of a text that may hold the right answer with more around it, such as all options at once.

        The library's usual verifier pays the answer's share of the text's characters, and nothing for other texts.
        """
        right = self._asked.right
        return 0.0 if right and right in text and math.isclose(score, len(right) / len(text)) else score

    def value_score(self, notation: str) -> float:
        """Return the score of a value before its partial credit is measured against guesses."""
        right = self._asked.right
        if right and notation == right and self.rules.type is not None:
            return 1.0
        score = self._verified(notation)
        if self.rules.correction is not None:
            score = _clamped(self.rules.correction(notation, pickle.loads(self.entry), self.dataset, score))
        if self.rules.type is None:
            return score
        if score >= 1.0:
            return 1.0 if self.rules.several_right_answers else 0.0
        if right and right in notation:
            return min(FORM_SCORE, self._without_share(notation, score))
        return min(score, self.rules.most_partial)

    def _verified(self, form: str) -> float:
        entry: Entry = pickle.loads(self.entry)
        if not self.strict and self.rules.as_library is not None:
            score, self._holds_code = self.rules.as_library(form, entry, self.dataset)
            return _clamped(float(score))
        guard = self.rules.guard
        score = self.dataset.score_answer(form, entry) if guard is None else guard(form, entry, self.dataset)
        if score is None:
            raise ValueError("the verifier returned None; a score is a number from 0 to 1")
        return _clamped(float(score))

    @cached_property
    def _best_guess(self) -> float:
        """The score of the best wrong guess; found when it is needed, as most answers are right or earn nothing."""
        scores = [self._guessed(guess) for guess in guesses(pickle.loads(self.entry), self.rules.guesses)]
        return max((score for score in scores if score < 1.0), default=0.0)

    def _guessed(self, guess: str) -> float:
        try:
            notation = self._read(guess)
            return 0.0 if notation is None else self.value_score(notation)
        except MemoryError:
            raise
        except BaseException:
            return 0.0


def _clamped(score: float) -> float:
    """Return a score in [0, 1]. Raises ValueError for a number that is not finite."""
    if not math.isfinite(score):
        raise ValueError(f"the verifier returned {score}")
    return min(1.0, max(0.0, score))

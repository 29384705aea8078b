"""Score answers to a problem: remove formatting, read all that is left as the task's answer type, score the value.

The expected answer scores 1. In tasks with several right answers, any value that the verifier accepts scores 1. Other
values get the task's partial credit. An answer that cannot be read as a value scores at most FORM_SCORE.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .calculations import FUNCTIONS, sides_to_python_notation
from .frames import MATHEMATICAL_NOTATION, MAX_FRAMES, NOT_RUN, REPLACED_SIGNS, normalize_whitespace, outermost_frame
from .markup import nesting_depth, without_markup
from .rules import AnswerRules, Dataset, Entry
from .shortcuts import FORM_SCORE, above_guessing, guesses
from .types import ProblemData
from .values import any_value, is_value

FIELD = re.compile(r"\{(\w+)\}")
"""A metadata key in braces, as in `AnswerRules.result_names`."""
LEAST_PARTIAL = 1e-6
"""Scores below this limit become 0, because a trainer that normalises advantages would amplify tiny differences."""
# Scores must not depend on the limits of Python's parsers, which are higher and differ between versions.
MAX_NESTED_BRACKETS = 100
"""Limit for brackets that are open at the same time. Right answers have at most 6."""


@dataclass(frozen=True)
class AnswerCandidate:
    """One way to read an answer.

    - `text`: the answer without the formatting named in `frames`.
    - `notation`: `text` in the notation that the verifier expects; None if the task's answer type cannot read `text`.
    """

    text: str
    notation: str | None
    frames: tuple[str, ...] = ()


@dataclass
class Scorer:
    """Scores answers to one problem.

    - `strict`: if True, limit the scores of unreadable answers to FORM_SCORE. If False, return the library's scores.
    - `accepts_forms`: if True, remove formatting and read other notations.
    - `with_tags`: if True, also score the answer with answer tags added.
    - `frames`: names of the formatting that was removed from the last answer.
    """

    rules: AnswerRules
    dataset: Dataset
    entry: bytes  # unpickled anew for each verification, because verifiers may change the entry
    strict: bool
    with_tags: bool
    accepts_forms: bool = False
    frames: tuple[str, ...] = field(default=(), init=False)
    _has_code: bool = field(default=False, init=False)

    def score(self, answer: str) -> float:
        """Return the highest score of an answer's candidates. Set `self.frames` to the names of the removed formatting.

        If the verifier raises an error for every candidate, raise the last error. Return 0 instead if `strict` and
        `_scores_right_answer()` are True.
        """
        self.frames = ()
        self._has_code = False
        if self.rules.type is not None and nesting_depth(answer) > MAX_NESTED_BRACKETS:
            return 0.0
        best: float | None = None
        failure: BaseException | None = None
        for candidate in self._candidates_to_score(answer):
            try:
                score = self._score_candidate(candidate)
            except MemoryError:
                raise
            except BaseException as error:  # hostile text makes verifiers raise any error, even SystemExit
                failure = error
            else:
                if best is None or score > best:
                    best, self.frames = score, candidate.frames
                if best >= 1.0:
                    break
        if best is None:
            assert failure is not None
            if not (self.strict and self._scores_right_answer()):
                raise failure
            best = 0.0
        if self._has_code and best < 1.0:
            self.frames = (*self.frames, NOT_RUN)
        return 0.0 if self.strict and best < LEAST_PARTIAL else best

    def _candidates_to_score(self, answer: str) -> Iterator[AnswerCandidate]:
        """Yield the candidates to score, without duplicates.

        - If rewards are strict: the candidates that can be read as a value. If there are none, the whole answer.
        - If rewards are not strict: all candidates.
        - If `with_tags` is True: also the whole answer with answer tags added.
        """
        seen = set()
        has_value = False
        for candidate in self.candidates(answer):
            has_value = has_value or candidate.notation is not None
            key = (candidate.text, candidate.notation)
            if key not in seen and (candidate.notation is not None or not self.strict):
                seen.add(key)
                yield candidate
        if self.strict and not has_value:
            yield AnswerCandidate(answer, None)
        if self.with_tags:
            tagged = f"<answer>{answer}</answer>"
            yield AnswerCandidate(tagged, tagged if self.rules.type is None else None)

    def candidates(self, answer: str) -> Iterator[AnswerCandidate]:
        """Yield the answer as a candidate, and another candidate after each removal of a layer of formatting."""
        for text, frames in self._unwrapped_texts(answer):
            yield AnswerCandidate(text, self._read_value(text), frames)
            if self.rules.type is any_value and REPLACED_SIGNS not in frames and is_value(text):
                return  # quotes and brackets belong to the value
            is_formula = self.rules.is_formula and self.accepts_forms
            in_python = sides_to_python_notation(text, FUNCTIONS) if is_formula else None
            if in_python is not None and in_python != "".join(text.split()):
                yield AnswerCandidate(text, self._read_value(in_python), (*frames, MATHEMATICAL_NOTATION))

    def _unwrapped_texts(self, answer: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the answer with 0, 1, 2, ... frames (layers of formatting) removed, and the names of these frames.

        Yield each string a second time without LaTeX, Markdown and special Unicode characters, if it has any.
        """
        if not self.accepts_forms:
            yield answer, ()
            return
        text = normalize_whitespace(answer)
        frames: tuple[str, ...] = ()
        for _ in range(MAX_FRAMES + 1):
            yield text, frames
            simplified = without_markup(text)
            if simplified != text:
                yield simplified, (*frames, REPLACED_SIGNS)
            removed = self._unwrap(text)
            if removed is None and simplified != text:
                frames = (*frames, REPLACED_SIGNS)
                removed = self._unwrap(simplified)
            if removed is None:
                return
            name, text = removed
            frames = (*frames, name)

    def _unwrap(self, text: str) -> tuple[str, str] | None:
        """Return the name of the outermost frame (layer of formatting) and its inside; None if `text` has no frame."""
        return outermost_frame(
            text,
            self._result_names,
            self._problem.metadata.get("numbers", ()),
            ends_in_full_stop=self.rules.ends_in_full_stop or self._problem.expected.endswith("."),
        )

    def _scores_right_answer(self) -> bool:
        """Return True if the task has an answer type, and the verifier raises no error for the right answer."""
        if self.rules.type is None or not self._problem.expected:
            return False
        return _score_or_none(self._verifier_score, self._problem.expected) is not None

    def reads_expected_answer(self) -> bool:
        """Return False if the task's answer type cannot read the expected answer."""
        try:
            return self.rules.type is None or self.rules.type(self._problem.expected, self._problem) is not None
        except (LookupError, ValueError):  # the metadata or the numbers are in an unexpected form
            return False

    @cached_property
    def _result_names(self) -> tuple[str, ...]:
        """Return the names that an answer may give to its result, such as `x` in `x = 5`; see `AnswerRules`."""
        metadata = {key: value for key, value in self._problem.metadata.items() if isinstance(value, str)}
        return tuple(
            name.format_map(metadata) for name in self.rules.result_names if set(FIELD.findall(name)) <= set(metadata)
        )

    @cached_property
    def _problem(self) -> ProblemData:
        entry = pickle.loads(self.entry)
        return ProblemData(str(entry.get("answer") or ""), entry["metadata"])

    def _read_value(self, text: str) -> str | None:
        """Read `text` as a value and return it in the verifier's notation; None if it cannot be read as a value."""
        if self.rules.type is None or (self._problem.expected and text == self._problem.expected):
            return text
        return self.rules.type(text, self._problem)

    def _score_candidate(self, candidate: AnswerCandidate) -> float:
        """Return a candidate's strict score, or the library's score if not `strict`. Raises the verifier's errors."""
        if not self.strict:
            score = self._verifier_score(candidate.text)
            if self.accepts_forms and candidate.notation is not None and score < 1.0:
                score = max(score, self._verifier_score(candidate.notation))
            return score
        if candidate.notation is None:
            return min(FORM_SCORE, self._score_without_value(candidate.text))
        score = self.value_score(candidate.notation)
        if not self.accepts_forms and candidate.notation != candidate.text:
            score = min(score, self._verifier_score(candidate.text))
        return above_guessing(score, self._best_guess) if FORM_SCORE < score < 1.0 else score

    def _score_without_value(self, text: str) -> float:
        """Return the verifier's score of an answer that cannot be read as a value; 0 if the verifier raises."""
        score = _score_or_none(self._verifier_score, text)
        return 0.0 if score is None else self._without_length_share(text, score)

    def _without_length_share(self, text: str, score: float) -> float:
        """Return `score`, but 0 if the library gave it only because `text` contains the right answer."""
        # The library's default verifier gives len(right) / len(text) to text that contains the right answer.
        right = self._problem.expected
        return 0.0 if right and right in text and math.isclose(score, len(right) / len(text)) else score

    def value_score(self, notation: str) -> float:
        """Return the score of a value, before `above_guessing` rescales partial credit."""
        right = self._problem.expected
        if right and notation == right and self.rules.type is not None:
            return 1.0
        score = self._verifier_score(notation)
        if self.rules.correction is not None:
            score = _clamped(self.rules.correction(notation, pickle.loads(self.entry), self.dataset, score))
        if self.rules.type is None:
            return score
        if score >= 1.0:  # with a single right answer, the verifier is wrong to accept another value
            return 1.0 if self.rules.several_right_answers else 0.0
        if right and right in notation:  # do not reward a list of options that includes the right one
            return min(FORM_SCORE, self._without_length_share(notation, score))
        return min(score, self.rules.max_partial)

    def _verifier_score(self, answer: str) -> float:
        """Score an answer by `library_score` (if not `strict`), else by the guard, else by the library's verifier.

        Raises the errors of the function that scores.
        """
        entry: Entry = pickle.loads(self.entry)
        if not self.strict and self.rules.library_score is not None:
            score, has_code = self.rules.library_score(answer, entry, self.dataset)
            self._has_code = self._has_code or has_code
            return _clamped(float(score))
        guard = self.rules.guard
        score = self.dataset.score_answer(answer, entry) if guard is None else guard(answer, entry, self.dataset)
        if score is None:
            raise ValueError("the verifier must return a number from 0 to 1; it returned None")
        return _clamped(float(score))

    @cached_property
    def _best_guess(self) -> float:
        """The highest score of a wrong guess. Guesses are answers that need no reasoning."""
        made = guesses(pickle.loads(self.entry), self.rules.guesses)
        scores = [_score_or_none(self._guess_score, guess) for guess in made]
        return max((score for score in scores if score is not None and score < 1.0), default=0.0)

    def _guess_score(self, guess: str) -> float:
        notation = self._read_value(guess)
        return 0.0 if notation is None else self.value_score(notation)


def _score_or_none(score: Callable[[str], float], answer: str) -> float | None:
    """Return the score of an answer; None if the verifier raises an error. MemoryError is not caught."""
    try:
        return score(answer)
    except MemoryError:
        raise
    except BaseException:  # verifiers raise any error if they cannot parse an answer
        return None


def _clamped(score: float) -> float:
    """Return a score limited to [0, 1]. Raises ValueError for a number that is not finite."""
    if not math.isfinite(score):
        raise ValueError(f"the verifier must return a number from 0 to 1; it returned {score}")
    return min(1.0, max(0.0, score))

"""Score answers to a problem, from the reading of the answer to partial credit.

Two tables surround the library's verifiers. A guard replaces a verifier that must not get model text as it is. A
correction changes the score of a verifier that pays for nonsense. Right answers keep their score; nonsense gets 0, or
the lowest score that the verifier gives to a wrong answer.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from . import formulas, moves, numbers, structures, words
from .entries import Correction, Dataset, Entry, Guard
from .exact import is_exactly_right, stands_beside_another
from .partial_credit import FORM_SCORE, above_guessing, guesses
from .readings import readings

GUARDS: Mapping[str, Guard] = {
    "binary_matrix": structures.score_binary_matrix,
    "bitwise_arithmetic": numbers.score_bitwise_arithmetic,
    "boxnet": moves.score_boxnet,
    "codeio": structures.score_codeio,
    "coin_flip": numbers.score_coin_flip,
    "complex_arithmetic": numbers.score_short_number,
    "countdown": formulas.score_countdown,
    "intermediate_integration": formulas.score_integration,
    "n_queens": structures.score_n_queens,
    "number_sorting": numbers.score_number_sorting,
    "polynomial_multiplication": formulas.score_polynomial_multiplication,
    "propositional_logic": formulas.score_propositional_logic,
    "puzzle24": formulas.score_puzzle24,
    "rubiks_cube": moves.score_rubiks_cube,
    "rush_hour": moves.score_rush_hour,
    "simple_integration": formulas.score_integration,
    "spiral_matrix": structures.score_spiral_matrix,
    "string_insertion": structures.score_string_insertion,
}
"""Guards return the library's own score for every answer that is honest."""

CORRECTIONS: Mapping[str, Correction] = {
    "acre": words.correct_choice("on", "off", "undetermined"),
    "boxnet": moves.correct_boxnet,
    "codeio": structures.correct_codeio,
    "coin_flip": numbers.correct_coin_flip,
    "complex_arithmetic": numbers.correct_complex,
    "countdown": formulas.correct_countdown,
    "course_schedule": words.correct_choice("true", "false"),
    "figlet_font": words.correct_figlet_font,
    "game_of_life_halting": words.correct_halting,
    "isomorphic_strings": words.correct_choice("true", "false"),
    "knights_knaves": words.correct_knights_knaves,
    "letter_jumble": words.correct_letter_jumble,
    "mahjong_puzzle": words.correct_choice("chi", "peng", "pass"),
    "pool_matrix": structures.correct_pool_matrix,
    "prime_factorization": numbers.correct_prime_factorization,
    "propositional_logic": formulas.correct_propositional_logic,
    "puzzle24": formulas.correct_puzzle24,
    "quantum_lock": moves.correct_quantum_lock,
    "ransom_note": words.correct_choice("true", "false"),
    "rectangle_count": numbers.correct_rectangle_count,
    "rush_hour": moves.correct_rush_hour,
    "sokoban": moves.correct_sokoban,
    "spell_backward": words.correct_spell_backward,
    "syllogism": words.correct_choice("yes", "no"),
    "time_intervals": numbers.correct_time_intervals,
    "word_sorting": words.correct_word_sorting,
}
"""The first line of each correction names the nonsense."""


def verify(task: str, dataset: Dataset, answer: str, entry: Entry, *, strict: bool) -> float:
    """Return an answer's score. Raises any error of the library's verifier.

    With `strict` the score is corrected, and 1 if the whole answer is exactly right. Another answer that the verifier
    pays in full earns nothing, and so does the right answer with another answer, a denial or a sign beside it.
    """
    guard = GUARDS.get(task)
    score = dataset.score_answer(answer, entry) if guard is None else guard(answer, entry, dataset)
    if not strict:
        return score
    correct = CORRECTIONS.get(task)
    if correct is not None:
        score = correct(answer, entry, dataset, score)
    if not math.isfinite(score):
        return score
    if is_exactly_right(task, answer, entry, dataset, score):
        return 1.0
    if score >= 1.0 or (score > FORM_SCORE and stands_beside_another(task, answer, entry)):
        return 0.0
    return score


@dataclass
class Scorer:
    """Scores answers to one entry. The entry is unpickled for each verification, since verifiers may write into it.

    With `strict` scores are corrected, with `lenient` answers are also read without wrappers and in the form of the
    expected answer, and with `with_tags` also in their answer tags. `own_guesses` makes the task's guesses from the
    metadata: partial credit starts at the best of them.
    """

    task: str
    dataset: Dataset
    entry: bytes
    strict: bool
    with_tags: bool
    lenient: bool = False
    own_guesses: Callable[[Mapping[str, Any]], list[str]] | None = None

    def score(self, answer: str) -> float:
        """Return the highest score of an answer's forms, in [0, 1].

        Each form passes the guard or the library's verifier, then a correction. With `strict`, partial credit starts at
        the score of the best guess. A form earns nothing if the verifier raises, or returns no finite number.

        If every form fails in this way, raises the last form's error.
        Raises MemoryError at once.
        """
        best: float | None = None
        failure: BaseException | None = None
        for form in self._forms(answer):
            try:
                value = self._verify(form)
                if self.strict and FORM_SCORE < value < 1.0:
                    value = above_guessing(value, self._best_guess)
            except MemoryError:
                raise
            except BaseException as error:  # hostile text makes verifiers raise any error, even SystemExit
                failure = error
            else:
                best = value if best is None else max(best, value)
                if best >= 1.0:
                    break
        if best is None:
            assert failure is not None
            raise failure
        return best

    def _forms(self, answer: str) -> Iterator[str]:
        """Yield the forms to score: the answer, its readings, the tagged answer.

        A reading is made only when the forms before it were not right, and left out where it equals one of them.
        """
        yield answer
        if self.lenient:
            seen = {answer}
            for reading in readings(answer, self.task, pickle.loads(self.entry)):
                if reading not in seen:
                    seen.add(reading)
                    yield reading
        if self.with_tags:
            yield f"<answer>{answer}</answer>"

    def _verify(self, form: str) -> float:
        value = float(verify(self.task, self.dataset, form, pickle.loads(self.entry), strict=self.strict))
        if not math.isfinite(value):
            raise ValueError(f"the verifier returned {value}")
        return min(1.0, max(0.0, value))

    @cached_property
    def _best_guess(self) -> float:
        """The score of the best wrong guess; found when it is needed, as most answers are right or earn nothing."""
        scores = [self._earn(guess) for guess in guesses(pickle.loads(self.entry), self.own_guesses)]
        return max((score for score in scores if score < 1.0), default=0.0)

    def _earn(self, guess: str) -> float:
        try:
            return self._verify(guess)
        except MemoryError:
            raise
        except BaseException:
            return 0.0

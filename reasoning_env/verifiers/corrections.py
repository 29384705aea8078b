"""Where a verifier pays for nonsense, and what is paid instead while rewards are strict.

Each correction sees the answer, the entry and the score so far, and returns the score that counts. Right answers keep
what they had; nonsense gets 0 or the floor that the verifier itself gives to a wrong answer. Read the table at the end
first.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from .grammars import boxnet, logic
from .grammars.expressions import ExpressionError, Item, Kind, evaluate_exactly, is_integer
from .guards import Dataset, Entry, parse_arithmetic

TIMES = "\N{MULTIPLICATION SIGN}"

FILLERS = frozenset(
    {"the", "my", "final", "correct", "answer", "result", "is", "it", "boxed", "text", "so", "therefore"}
)
"""Words around a choice that do not change it."""
DENIAL = r"\b(?:not|never|neither|nor|deny|denies|cannot)\b|n['\u2019]t\b"

Score = Callable[[str, Entry, Dataset, float], float]


@dataclass(frozen=True)
class Correction:
    """`reason` says what the library pays for; `apply` returns the score that counts instead."""

    reason: str
    apply: Score


def correct_halting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    words = [word for word in re.findall("[a-z]+", answer.casefold()) if word not in FILLERS]
    return float(words == [str(entry["answer"]).casefold()])


def correct_coin_flip(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    if score == 0.0:
        return 0.0
    said, right = (float(Fraction(text.replace(",", ""))) for text in (answer, entry["answer"]))
    if abs(said - right) <= min(1e-4, right / 4):
        return score
    if not 0.0 < said <= 1.0:
        return 0.0
    digits, exponent = _significant(said)
    right_digits, right_exponent = _significant(right)
    if exponent != right_exponent:
        return 0.0
    shared = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(digits, right_digits, strict=False))
    )
    return min(score, shared / max(len(digits), len(right_digits)))


def _significant(value: float) -> tuple[str, int]:
    """The digits that carry information, to ten places as the verifier writes them, and the power of ten."""
    mantissa, exponent = f"{value:.9e}".split("e")
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def correct_complex(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    return 0.0 if re.search("nan|inf", re.sub(r"\s", "", answer), re.IGNORECASE) else score


def correct_number_sorting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    if score == 0.0:
        return 0.0
    return score if all(math.isfinite(float(number)) for number in json.loads(answer.replace("'", '"'))) else 0.0


def correct_countdown(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    metadata = entry["metadata"]
    if score < 1.0 or _solves(answer, metadata["numbers"], metadata["target"]):
        return score
    return 0.05


def correct_puzzle24(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    if score < 1.0 or ("**" not in answer and _solves(answer, entry["metadata"]["numbers"], 24)):
        return score
    return 0.01


def _solves(answer: str, numbers: list[int], target: int) -> bool:
    """Whether an expression has exactly the target's value and is made of exactly these whole numbers."""
    try:
        program = parse_arithmetic(answer)
        values = [item for item in program if item.kind is Kind.NUMBER]
        return (
            all(map(is_integer, values))
            and _sorted_integers(values) == sorted(numbers)
            and (evaluate_exactly(program) == target)
        )
    except ExpressionError:
        return False


def _sorted_integers(items: list[Item]) -> list[int]:
    return sorted(int(item.text) for item in items)


def correct_propositional_logic(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    if score < 1.0:
        return score
    try:
        return 0.05 if logic.restates(answer, entry["metadata"]["premises"]) else score
    except ValueError:
        return 0.05


def correct_quantum_lock(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    presses = re.findall(r"(?<![^\W\d_])[A-Ca-c]+(?![^\W\d_])", answer)
    if re.sub(r"[^A-Ca-c]", "", answer) == "".join(presses):
        return score if presses else 0.0
    return min(score, dataset.score_answer(" ".join(presses), entry)) if presses else 0.0


def correct_prime_factorization(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    if score != 0.5:
        return score
    factors = [int(factor) for factor in answer.split(TIMES) if factor.strip()]
    return score if len(factors) > 1 and min(factors) > 1 else 0.01


def correct_game_of_life(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Most cells are dead, and each that is marked so pays."""
    cells = [cell for row in json.loads(entry["answer"]) for cell in (row if isinstance(row, list) else [row])]
    return score if score == 1.0 or score > cells.count(0) / len(cells) else 0.0


def correct_boxnet(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Boxes are to be moved to targets: agents that carry targets, or sweep the field for boxes, know nothing of it."""
    if score <= 0.05:
        return score
    return score if boxnet.has_purpose(json.loads(answer), entry["metadata"]["initial_state"]) else 0.05


def correct_spell_backward(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    word, right = answer.lower(), entry["answer"].lower()
    return min(score, 0.8) if word.startswith(right) and word != right else score


def correct_word_sorting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    said, right = len(answer.split(",")), len(entry["metadata"]["sorted_words"])
    return right / said if score == 1.0 and said > right else score


def correct_figlet_font(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    right = answer.replace(" ", "").strip().lower() == entry["answer"].strip().lower()
    return score if right else min(score, 0.9)


def correct_knights_knaves(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Partial credit is meant for answers that say one thing about everybody."""
    if score in (0.0, 1.0):
        return score
    words = re.findall(r"[a-z]+", answer.lower())
    return score if all(words.count(str(name).lower()) == 1 for name in entry["metadata"]["names"]) else 0.0


def correct_time_intervals(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    return score if score == 1.0 or re.search("[1-9]", answer) else 0.0


def correct_codeio(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Similarity is measured against the longer text, which empty keys and escapes make as long as wanted."""
    if score == 1.0:
        return score
    try:
        said = json.dumps(json.loads(answer[answer.index("{") : answer.rindex("}") + 1]))
    except (ValueError, RecursionError):
        return score
    return min(score, len(entry["answer"].strip()) / len(said))


def correct_gsm_symbolic(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    number = re.search(r"-?\d+(?:\.\d+)?", answer)
    return score if score < 1.0 or (number and float(number[0]) == float(entry["answer"])) else 0.01


def correct_letter_jumble(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    said, right = len(answer.split()), len(entry["answer"].split())
    return right / said if math.isclose(score, 1.0) and said > right else score


def correct_choice(*options: str) -> Score:
    """For verifiers that pay for text around the right option: it must be the only one, and a word of its own."""

    def correct(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
        named = {*re.findall(rf"\b(?:{'|'.join(options)})\b", answer.casefold())}
        return score if len(named) == 1 and not re.search(DENIAL, answer.casefold()) else 0.0

    return correct


BOTH_OPTIONS = "naming every option, the right one among them"

CORRECTIONS: Mapping[str, Correction] = {
    "acre": Correction(BOTH_OPTIONS, correct_choice("on", "off", "undetermined")),
    "boxnet": Correction("targets moved to the boxes, and sweeps over the whole field", correct_boxnet),
    "codeio": Correction("long JSON of empty keys", correct_codeio),
    "coin_flip": Correction("a prefix such as 0, whatever follows in the oracle", correct_coin_flip),
    "complex_arithmetic": Correction("nan and inf", correct_complex),
    "countdown": Correction("values near the target, and numbers hidden in decimals", correct_countdown),
    "course_schedule": Correction(BOTH_OPTIONS, correct_choice("true", "false")),
    "figlet_font": Correction("ten right letters and any after them", correct_figlet_font),
    "game_of_life": Correction("boards no better than an empty one", correct_game_of_life),
    "game_of_life_halting": Correction("any text whatsoever", correct_halting),
    "gsm_symbolic": Correction("the right number with a minus sign", correct_gsm_symbolic),
    "isomorphic_strings": Correction(BOTH_OPTIONS, correct_choice("true", "false")),
    "knights_knaves": Correction("both claims about one person", correct_knights_knaves),
    "letter_jumble": Correction("the words with others after them", correct_letter_jumble),
    "mahjong_puzzle": Correction(BOTH_OPTIONS, correct_choice("chi", "peng", "pass")),
    "number_sorting": Correction("lists of nan", correct_number_sorting),
    "prime_factorization": Correction("the number itself, or itself times 1", correct_prime_factorization),
    "propositional_logic": Correction("a premise again", correct_propositional_logic),
    "puzzle24": Correction("other numbers than those given, and values from 24 to 25", correct_puzzle24),
    "quantum_lock": Correction("letters inside words, those of the answer tag among them", correct_quantum_lock),
    "ransom_note": Correction(BOTH_OPTIONS, correct_choice("true", "false")),
    "spell_backward": Correction("the word with letters after it", correct_spell_backward),
    "syllogism": Correction(BOTH_OPTIONS, correct_choice("yes", "no")),
    "time_intervals": Correction("no time at all", correct_time_intervals),
    "word_sorting": Correction("the words with others after them", correct_word_sorting),
}

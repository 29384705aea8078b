"""Correct verifiers that pay for nonsense, where rewards are strict.

Each correction sees the answer, the entry and the score so far, and returns the score that counts; its first line says
what it refuses, which the library pays for. Right answers keep their score; nonsense gets 0 or the lowest score that
the verifier itself gives to a wrong answer.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from .grammars import boxnet, logic
from .grammars.expressions import ExpressionError, evaluate_exactly
from .guards import Dataset, Entry, parse_arithmetic

NUMBER = re.compile(r"[-+]?[\d.,]*\d")
RIGHT_DIGITS = 3
"""Significant digits to which a probability must be right."""
ROUNDING = 0.005
"""How far a number may be from the question's, which has two decimals by default."""
NEAR = 0.1
"""The share of a right number by which another may differ and still earn something."""

FILLERS = frozenset(
    {"the", "my", "final", "correct", "answer", "result", "is", "it", "boxed", "text", "so", "therefore"}
)
"""Words around a choice that do not change it."""
DENIAL = r"\b(?:not|never|neither|nor|deny|denies|cannot)\b|n['\u2019]t\b"

Correction = Callable[[str, Entry, Dataset, float], float]


def correct_halting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse any text whatsoever, all of which counts as True."""
    words = [word for word in re.findall("[a-z]+", answer.casefold()) if word not in FILLERS]
    return float(words == [str(entry["answer"]).casefold()])


def correct_coin_flip(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse a prefix such as 0, whatever follows in the oracle's answer; right to three digits is right."""
    if score == 0.0:
        return 0.0
    said, right = (float(Fraction(text.replace(",", ""))) for text in (answer, entry["answer"]))
    if right > 0.0 and abs(said - right) <= 0.5 * 10.0 ** (math.floor(math.log10(right)) + 1 - RIGHT_DIGITS):
        return 1.0
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
    """Return the significant digits, at most ten, as the verifier writes them, and the power of ten."""
    mantissa, exponent = f"{value:.9e}".split("e")
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def correct_complex(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse nan and inf, which are at no distance from anything."""
    return 0.0 if re.search("nan|inf", re.sub(r"\s", "", answer), re.IGNORECASE) else score


def correct_number_sorting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse nan, which is in order with everything, and numbers not in the question, rounding aside."""
    if score == 0.0:
        return 0.0
    pairs = zip(json.loads(answer.replace("'", '"')), entry["metadata"]["sorted_numbers"], strict=True)
    return score if all(abs(float(said) - float(right)) <= ROUNDING for said, right in pairs) else 0.0


def correct_countdown(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse values near the target, numbers hidden in decimals, and powers, which swallow numbers."""
    metadata = entry["metadata"]
    if score < 1.0 or ("**" not in answer and _solves(answer, metadata["numbers"], metadata["target"])):
        return score
    return 0.05


def correct_puzzle24(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse other numbers than those given, and values from 24 to 25."""
    if score < 1.0 or ("**" not in answer and _solves(answer, entry["metadata"]["numbers"], 24)):
        return score
    return 0.01


def _solves(answer: str, numbers: list[int], target: int) -> bool:
    """Tell whether an expression has exactly the target's value and exactly these whole numbers."""
    try:
        tree = parse_arithmetic(answer)
        used = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        if not all(map(str.isdigit, used)) or sorted(map(int, used)) != sorted(numbers):
            return False
        return evaluate_exactly(tree) == target
    except ExpressionError:
        return False


def correct_propositional_logic(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse joined premises and what a single one implies: an inference must need several of them.

    Where no such inference exists, as in problems that are never served, the library's score stays.
    """
    metadata = entry["metadata"]
    premises = metadata["premises"]
    if logic.are_contradictory(premises) or not logic.concludes(metadata["example_answer"], premises):
        return score
    if score < 1.0 and not re.fullmatch(r"\(*[A-Z]\)*", answer.strip()):  # the library calls each variable trivial
        return 0.0
    try:
        return float(logic.concludes(answer, premises))
    except ValueError:
        return 0.0


def correct_quantum_lock(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse letters inside words, those of the answer tag among them."""
    presses = re.findall(r"(?<![^\W\d_])[A-Ca-c]+(?![^\W\d_])", answer)
    if re.sub(r"[^A-Ca-c]", "", answer) == "".join(presses):
        return score if presses else 0.0
    return min(score, dataset.score_answer(" ".join(presses), entry)) if presses else 0.0


def correct_prime_factorization(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse factors that are no primes: any divisor gives two of them."""
    return score if score == 1.0 else min(score, 0.01)


def correct_boxnet(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse targets moved to the boxes, and sweeps over the whole field."""
    if score <= 0.05:
        return score
    return score if boxnet.has_purpose(json.loads(answer), entry["metadata"]["initial_state"]) else 0.05


def correct_spell_backward(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse the word with letters after it."""
    word, right = answer.lower(), entry["answer"].lower()
    return min(score, 0.8) if word.startswith(right) and word != right else score


def correct_word_sorting(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse the words with others after them."""
    said, right = len(answer.split(",")), len(entry["metadata"]["sorted_words"])
    return right / said if score == 1.0 and said > right else score


def correct_figlet_font(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse ten right letters and any after them."""
    right = answer.replace(" ", "").strip().lower() == entry["answer"].strip().lower()
    return score if right else min(score, 0.9)


def correct_knights_knaves(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse both claims about one person: partial credit is meant for one claim about everybody."""
    if score in (0.0, 1.0):
        return score
    words = re.findall(r"[a-z]+", answer.lower())
    return score if all(words.count(str(name).lower()) == 1 for name in entry["metadata"]["names"]) else 0.0


def correct_time_intervals(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse any time at all, which is near most times: what is paid for is how near it is in proportion."""
    if score in (0.0, 1.0):
        return score
    said, right = map(_seconds, (answer, entry["answer"]))
    return min(score, nearness(said, right))


def _seconds(text: str) -> float:
    """Return the seconds of a duration in the verifier's form: `d days`, `h:m:s` or both."""
    days, clock = re.search(r"(-?\d+)\s*days?", text), re.search(r"-?\d+(?::\d+(?:\.\d+)?)+", text)
    parts = [float(part) for part in clock[0].split(":")] if clock else []
    seconds = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return (86_400 * int(days[1]) if days else 0) + seconds


def correct_rectangle_count(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse any small number, which is near most counts."""
    return score if score in (0.0, 1.0) else min(score, nearness(float(answer), float(entry["answer"])))


def nearness(said: float, right: float) -> float:
    """From 1 for the right number down to 0 for one that is off by NEAR of it."""
    return max(0.0, 1.0 - abs(said - right) / (NEAR * abs(right))) if right else 0.0


def correct_number_format(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse candidates within the tolerance of the right one."""
    if score == 0.0:
        return 0.0
    said, right = float(answer.strip().replace(",", "")), entry["metadata"]["solution"]
    others = [one for one in entry["metadata"]["candidates"] if one != right]
    return score if all(abs(said - right) < abs(said - other) for other in others) else 0.0


def correct_codeio(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Cap the score of long JSON: similarity is relative to the longer text, which empty keys lengthen."""
    if score == 1.0:
        return score
    try:
        said = json.dumps(json.loads(answer[answer.index("{") : answer.rindex("}") + 1]))
    except (ValueError, RecursionError):
        return score
    return min(score, len(entry["answer"].strip()) / len(said))


def correct_gsm_symbolic(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse the right number with a minus sign."""
    number = re.search(r"-?\d+(?:\.\d+)?", answer)
    return score if score < 1.0 or (number and float(number[0]) == float(entry["answer"])) else 0.01


def correct_letter_jumble(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse the words with others after them."""
    said, right = len(answer.split()), len(entry["answer"].split())
    return right / said if math.isclose(score, 1.0) and said > right else score


def correct_parts_of_numbers(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
    """Refuse a number with the right one among its digits; the library's default pays for it in part.

    For every task without a correction of its own.
    """
    right = str(entry.get("answer"))
    if score in (0.0, 1.0) or not NUMBER.fullmatch(right) or score != len(right) / len(answer):
        return score
    return score if right in NUMBER.findall(answer) else 0.0


def correct_choice(*options: str) -> Correction:
    """Refuse every option, the right one among them: it must be the only one, and a word of its own."""

    def correct(answer: str, entry: Entry, dataset: Dataset, score: float) -> float:
        named = {*re.findall(rf"\b(?:{'|'.join(options)})\b", answer.casefold())}
        return score if len(named) == 1 and not re.search(DENIAL, answer.casefold()) else 0.0

    return correct


correct_true_or_false = correct_choice("true", "false")

CORRECTIONS: Mapping[str, Correction] = {
    "acre": correct_choice("on", "off", "undetermined"),
    "boxnet": correct_boxnet,
    "codeio": correct_codeio,
    "coin_flip": correct_coin_flip,
    "complex_arithmetic": correct_complex,
    "countdown": correct_countdown,
    "course_schedule": correct_true_or_false,
    "figlet_font": correct_figlet_font,
    "game_of_life_halting": correct_halting,
    "gsm_symbolic": correct_gsm_symbolic,
    "isomorphic_strings": correct_true_or_false,
    "knights_knaves": correct_knights_knaves,
    "letter_jumble": correct_letter_jumble,
    "mahjong_puzzle": correct_choice("chi", "peng", "pass"),
    "number_format": correct_number_format,
    "number_sorting": correct_number_sorting,
    "prime_factorization": correct_prime_factorization,
    "propositional_logic": correct_propositional_logic,
    "puzzle24": correct_puzzle24,
    "quantum_lock": correct_quantum_lock,
    "ransom_note": correct_true_or_false,
    "rectangle_count": correct_rectangle_count,
    "spell_backward": correct_spell_backward,
    "syllogism": correct_choice("yes", "no"),
    "time_intervals": correct_time_intervals,
    "word_sorting": correct_word_sorting,
}

"""Arithmetic: sums, divisors, primes, number bases, sequences, lists of numbers, and probabilities."""

from __future__ import annotations

import re
from collections import Counter
from decimal import ROUND_HALF_UP, Context, Decimal

from ..answers import guards, notations, numbers
from ..answers.grammars.expressions import evaluate_exactly, parse_expression
from ..answers.rules import AnswerRules, Dataset, Entry
from ..answers.shortcuts import FORM_SCORE, SHOWN_NUMBER
from .declaration import A_NUMBER, Corrected, FieldLevels, Task, added, easy, frequent, wrong

MAX_TERMS = 10_000
"""Limit for the length of an expression: the count of its numbers, operators and parentheses."""

BASE_CONVERSION = Task("base_conversion", "algorithmic", has_small_pool=True, answer=AnswerRules(notations.digits))


def _is_cut_division(entry: Entry) -> bool:
    """Return True if the library's answer is not the exact value, because the library truncates each division."""
    expression = str(entry["metadata"]["expression"])
    value = evaluate_exactly(parse_expression(expression, MAX_TERMS))
    return str(value) != str(entry["answer"])


BASIC_ARITHMETIC = Task(
    "basic_arithmetic",
    "arithmetic",
    has_small_pool=True,
    question_counts=(None, 1900, None, None, None, None),
    rejected=(wrong("the library drops the remainder of a division", _is_cut_division),),
    answer=A_NUMBER,
)

BITWISE_ARITHMETIC = Task("bitwise_arithmetic", "arithmetic", answer=AnswerRules(notations.hexadecimal))

CHAIN_SUM = Task(
    "chain_sum", "arithmetic", has_small_pool=True, question_counts=(None, 200, None, None, None, None), answer=A_NUMBER
)

COIN_FLIP = Task(
    "coin_flip",
    "probability",
    has_small_pool=True,
    question_counts=(270, 70, 100, 140, 170, 160),
    levels=(
        FieldLevels(
            ("min_trials", "max_trials"),
            ((4, 8), (6, 12), (10, 15)),
            "with only 3 coin flips, few different probabilities are possible",
        ),
    ),
    clarification=added(
        "the question does not say whether a rounded number is accepted, or how many digits it needs",
        "Give the exact value, or round it to at least three significant digits.",
        after=" fair coin flips?",
    ),
    verifier_flaw="the answer 0 earns credit, because every probability begins with the digit 0",
    answer=AnswerRules(notations.probability, guard=guards.score_coin_flip, max_partial=FORM_SCORE),
)

COUNT_BITS = Task("count_bits", "arithmetic", question_counts=(None, 970, None, None, None, None), answer=A_NUMBER)

COUNT_PRIMES = Task("count_primes", "algorithmic", scores_without_params=True, answer=A_NUMBER)


def _round_once(entry: Entry, dataset: Dataset) -> Corrected:
    """Calculate exactly, and round once to the digits that the question names; the library rounds at each step."""
    asked = re.search(r"(\d+) significant digits.*\n(.*)= \?", str(entry["question"]))
    if asked is None:
        return str(entry["answer"]), {}
    value = evaluate_exactly(parse_expression(asked[2], MAX_TERMS))
    context = Context(prec=int(asked[1]), rounding=ROUND_HALF_UP)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if rounded == Decimal(str(entry["answer"])):
        return str(entry["answer"]), {}
    return f"{rounded:f}", {}


DECIMAL_ARITHMETIC = Task("decimal_arithmetic", "arithmetic", right_answer=_round_once, answer=A_NUMBER)

DECIMAL_CHAIN_SUM = Task("decimal_chain_sum", "arithmetic", answer=A_NUMBER)

DICE = Task("dice", "arithmetic", has_small_pool=True, answer=AnswerRules(notations.fraction))

FRACTION_SIMPLIFICATION = Task("fraction_simplification", "arithmetic", answer=AnswerRules(notations.fraction))

GCD = Task(
    "gcd",
    "arithmetic",
    has_small_pool=True,
    levels=(FieldLevels(("min_numbers", "max_numbers"), (2, 2, 2, 3), "the gcd of 4 or more numbers is mostly 1"),),
    rejected=(frequent("1", served=0.8),),
    answer=AnswerRules(
        numbers.number,
        result_names=(
            "gcd",
            "hcf",
            "gcf",
            "greatest common divisor",
            "greatest common factor",
            "highest common factor",
        ),
    ),
)

LCM = Task(
    "lcm",
    "arithmetic",
    has_small_pool=True,
    question_counts=(5100, 5100, None, None, None, None),
    answer=AnswerRules(numbers.number, result_names=("lcm", "least common multiple", "lowest common multiple")),
)

NUMBER_FILTERING = Task("number_filtering", "algorithmic", answer=AnswerRules(notations.numbers))

NUMBER_FORMAT = Task(
    "number_format",
    "arithmetic",
    levels=(FieldLevels(("max_delta",), (10.0, 1.0, 0.1, 0.02), "questions show numbers with only 3 decimals"),),
    answer=AnswerRules(numbers.candidate),
)

FACTORS = range(-3, 4)
"""Coefficients of the linear rules by which a reader might continue a sequence."""


def _obeys_another_rule(entry: Entry) -> bool:
    """Return True if a linear rule fits the sequence, and the library's answer does not obey this rule.

    A linear rule is c = p * b + q * a for successive numbers a, b, c. The rule p = q = 1 fits -1, 1, 0, 1, 1, 2.
    """
    shown = [int(number) for number in SHOWN_NUMBER.findall(str(entry["question"]))]
    terms = list(zip(shown, shown[1:], shown[2:], strict=False))
    rules = [(p, q) for p in FACTORS for q in FACTORS if q and all(p * b + q * a == c for a, b, c in terms)]
    return len(terms) > 1 and any(p * shown[-1] + q * shown[-2] != int(entry["answer"]) for p, q in rules)


def _continues_with_most_frequent(entry: Entry) -> bool:
    """Return True if the answer is the most frequent number of the sequence, such as 0 after repeated divisions."""
    shown: list[str] = SHOWN_NUMBER.findall(str(entry["question"]))
    return Counter(shown).most_common(1)[0][0] == str(entry["answer"])


NUMBER_SEQUENCE = Task(
    "number_sequence",
    "cognition",
    has_small_pool=True,
    question_counts=(3100, 1700, 2000, 2100, 2500, 2200),
    levels=(
        FieldLevels(
            ("min_terms", "max_terms"), (4, 5, 6, 7, 8), "with more than 8 terms, generation does not always end"
        ),
        FieldLevels(("max_complexity",), (1, 2, 3), "with a complexity above 3, generation does not always end"),
    ),
    rejected=(
        wrong("the numbers also fit a simple rule with a different next number", _obeys_another_rule),
        # Answering with the most frequent number solves 40 % of the problems of level 1.
        easy("the right answer is the most frequent number of the sequence", _continues_with_most_frequent, served=0.7),
    ),
    answer=A_NUMBER,
)

NUMBER_SORTING = Task(
    "number_sorting",
    "algorithmic",
    levels=(
        FieldLevels(
            ("min_numbers", "max_numbers"), (3, 5, 10, 50, 100, 500, 1000), "ten numbers are too hard for level 0"
        ),
    ),
    verifier_flaw="the library's verifier accepts a list with nan in place of numbers",
    answer=AnswerRules(notations.numbers),
)


def _has_two_signs(entry: Entry) -> bool:
    """Return True for an even power of a negative number, because `-3^2` can mean 9 or -9."""
    return float(entry["metadata"]["base"]) < 0 and int(entry["metadata"]["exponent"]) % 2 == 0


POWER_FUNCTION = Task(
    "power_function",
    "arithmetic",
    rejected=(wrong("an even power of a negative number, such as -3^2, has two readings", _has_two_signs),),
    answer=AnswerRules(numbers.rounded(digits=3)),
)

PRIME_FACTORIZATION = Task(
    "prime_factorization",
    "arithmetic",
    has_small_pool=True,
    question_counts=(1100, 1100, 2600, 4100, 4200, 4500),
    answer=AnswerRules(notations.factors, max_partial=0.01),
)

PRODUCTS = Task(
    "products", "arithmetic", has_small_pool=True, question_counts=(None, 100, None, None, None, None), answer=A_NUMBER
)

from __future__ import annotations

import pytest

from tests.solvers.confirmation import SIGNS, TIMES, confirms

NOT, AND, OR, IMPLIES, IFF = SIGNS
COINS = "What is the probability of getting exactly 2 heads in 8 fair coin flips?"
PRIMES = "Find the prime factorization of 12. Write the factors separated by"
PREMISES = f"Given:\n1. (P {IMPLIES} Q)\n.2. P\n.3. (Q {OR} R)\n.What can we conclude from the above statements?"


@pytest.mark.parametrize("answer", ["0.109375", "7/64", "0.109"])
def test_solver_confirms_right_answers_to_coin_flip_problems(answer: str) -> None:
    assert confirms("coin_flip", COINS, answer)


@pytest.mark.parametrize("answer", ["0", "0.", "0.1", "0.108", "1e999999999", "", "7/0"])
def test_solver_rejects_wrong_answers_to_coin_flip_problems(answer: str) -> None:
    """The library accepts a prefix of the right digits."""
    assert not confirms("coin_flip", COINS, answer)


@pytest.mark.parametrize("answer", [f"2 {TIMES} 2 {TIMES} 3", "3 x 2 x 2", "2*3*2"])
def test_solver_confirms_right_answers_to_prime_factorization_problems(answer: str) -> None:
    assert confirms("prime_factorization", PRIMES, answer)


@pytest.mark.parametrize("answer", ["12", f"4 {TIMES} 3", f"2 {TIMES} 2 {TIMES} 3 or 5", ""])
def test_solver_rejects_wrong_answers_to_prime_factorization_problems(answer: str) -> None:
    assert not confirms("prime_factorization", PRIMES, answer)


def test_solver_confirms_right_answers_to_propositional_logic_problems() -> None:
    assert confirms("propositional_logic", PREMISES, "Q")


@pytest.mark.parametrize(
    "answer", ["P", f"(Q {OR} R)", f"(P {OR} {NOT}P)", "R", f"({NOT}Q {AND} P)", f"(P {IFF}", "S", "", "Q, or not"]
)
def test_solver_rejects_wrong_answers_to_propositional_logic_problems(answer: str) -> None:
    """The wrong conclusions are premises, tautologies, formulas that do not follow, and other strings."""
    assert not confirms("propositional_logic", PREMISES, answer)


def test_solver_rejects_a_conclusion_that_merely_joins_the_premises() -> None:
    premises = "Given:\n1. P\n.2. Q\n.What can we conclude from the above statements?"
    assert not confirms("propositional_logic", premises, f"(P {AND} Q)")


def test_solver_ignores_trailing_decimal_zeros_and_letter_case() -> None:
    assert confirms("products", "Solve the following multiplication: 3 * 7. Give only the result", "21.0")
    assert confirms("isomorphic_strings", "isomorphic, or False otherwise:\nabb cdd\n", "true")
    assert not confirms("products", "Solve the following multiplication: 3 * 7. Give only the result", "twenty-one")

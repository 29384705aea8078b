"""Compare integrals and polynomials in answers by value, and compare the results with sympy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning_env.answers.calculations import ABSOLUTE_VALUES, FUNCTIONS
from reasoning_env.answers.grammars.algebra import (
    MAX_CALLS,
    is_antiderivative,
    is_same_polynomial,
)
from reasoning_env.answers.grammars.expressions import ExpressionError

X = sympy.Symbol("x")


def is_half_a_square(text: str) -> bool:
    """Return True if a string is accepted as the integral of x."""
    return is_antiderivative(text, "x", "x")


def is_the_product(text: str) -> bool:
    """Return True if a string is accepted as the product of (x + 1) and (2*x + 3)."""
    return is_same_polynomial(text, "2*x**2 + 5*x + 3")


# ------------------------------------------------------------------ right and wrong


ANTIDERIVATIVES = {
    "3": ["Abs(-3)*x"],
    "x": [
        "x**2/2 + C",
        "C + 0.5*x*x - 7",
        "x**2/2 + C1 + K - pi",
        "x**2/2 + log(abs(C))",  # C may be negative
    ],
    "x + 1": ["(x + 1)**2/2"],
    "sin(x)*cos(x)": ["sin(x)**2/2", "-cos(2*x)/4"],
    "1/x": ["log(x) + C", "log(abs(x)) + C", "log(C*x)"],
    "1/(2*x)": ["log(3*x)/2 + C"],
    "1/(x - 5)": ["log(x - 5)", "log(5 - x)"],
    "sqrt(x)": ["2/3*x**(3/2)"],
    "sqrt(x - 5)": ["2/3*(x - 5)**(3/2)"],
    "sqrt(5 - x)": ["-2/3*(5 - x)**(3/2)"],
    "exp(x)": ["E**x", "exp(x) + C + K"],
    "exp(20*x)": ["exp(20*x)/20"],
    "tan(x)": ["-log(cos(x))"],
    "atan(x)": ["x*atan(x) - log(x**2 + 1)/2"],
    "acos(3*x)": ["x*acos(3*x) - sqrt(1 - 9*x**2)/3"],
    "asin(3*x)": [
        "x*asin(3*x) + sqrt((1 - 3*x)*(1 + 3*x))/3",
        "x*asin(3*x) + (1 - (3*x)**2)**0.5/3",
        "x*asin(3*x) + sqrt(-(9*x**2 - 1))/3",
        "-(-x*asin(3*x) - sqrt(1 - 9*x**2)/3)",
    ],
    "asin(20*x)": ["x*asin(20*x) + sqrt(1 - 400*x**2)/20 + C"],
    "1/sqrt(4 - x**2)": ["asin(x/2)"],
    "log(x**2)": ["x*log(x**2) - 2*x"],
    "3/sqrt(3*x - 8)": ["(3*x - 8)**(1/2)*2"],
    "x**39": ["x**40/40 + 10**9"],
}


@pytest.mark.parametrize("integrand", ANTIDERIVATIVES)
def test_correct_antiderivatives_are_accepted(integrand: str) -> None:
    assert [answer for answer in ANTIDERIVATIVES[integrand] if not is_antiderivative(answer, integrand, "x")] == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_supported_function_is_accepted_as_antiderivative_of_its_derivative(name: str) -> None:
    derivative = sympy.diff(getattr(sympy, FUNCTIONS[name])(X), X)
    assert is_antiderivative(f"{name}(x)", str(derivative), "x")
    assert is_antiderivative(f"{name}(x/5 + 0.1)*5", str(derivative.subs(X, X / 5 + sympy.Rational(1, 10))), "x")
    assert not is_antiderivative(f"{name}(x)", str(derivative + X / 1000), "x")


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=5))
@settings(max_examples=10)
def test_equivalent_forms_of_an_antiderivative_are_accepted(coefficients: list[int]) -> None:
    polynomial = sum(coefficient * X**power for power, coefficient in enumerate(coefficients))
    right = sympy.integrate(polynomial, X)
    for form in (right, sympy.factor(right), sympy.horner(right), right + sympy.Symbol("C"), right.subs(X, X + 0)):
        assert is_antiderivative(str(form), str(polynomial), "x")
    assert not is_antiderivative(str(right + X), str(polynomial), "x")


@pytest.mark.parametrize("power", ["(C + 2)**(1/{})", "sin(C)**C + {}", "x**x + {}"])
def test_expression_with_too_many_powers_raises(power: str) -> None:
    answer = " + ".join(power.format(number) for number in range(2, MAX_CALLS + 3))
    with pytest.raises(ExpressionError, match="function calls"):
        is_half_a_square(answer)


def test_expression_with_too_many_function_calls_raises() -> None:
    within = "x**2/2" + " + sin(x) - sin(x)" * (MAX_CALLS // 2)
    assert is_half_a_square(within)
    with pytest.raises(ExpressionError, match="function calls"):
        is_half_a_square(within + " + sin(x)")


@pytest.mark.parametrize("nought", ["0*x", "0*x**8", "0/5", "C*(x - x)", "0*sin(x)"])
def test_zero_terms_in_an_antiderivative_are_ignored(nought: str) -> None:
    assert is_half_a_square(f"x**2/2 + {nought} + C")


OTHERS = {
    "x": [
        "x**2",
        "-x**2/2",
        "x",
        "0",
        "C",
        "y**2/2",
        "C*x**2",
        "x**2/2 + C*x",
        "x**2/2 + 1e-9*x",
        "Abs(x)*x/2",
        "1e30*x",
        "x**2/2 + 1e-9*x**3",
        # Floating-point rounding would lose these terms.
        "x**2/2 + 1e-25*sin(x)",
        "1e30*x + x**2/2 - (1e30 - 1e-20)*x",
        "x**2/2*1.00000000000000000000000001",
        "x**2.0000000000000000000000001/2",
        "x**2/2 + ((x-0.3718)*(x-0.7351)*(x-1.6183)*(x-2.9137)*(x+0.4142)*(x+1.2361)*(x+2.6458))**2",
        "x**2/2 + x*(C - 0.5772)",
        "x**2/2 + x*(C - C1)",
        # One term is too small for the compared digits.
        "x**2/2 + x*exp(-1000*C**2)",
        "x**2/2 + exp(-200 - x**2)",
        "x**2/2 + x*exp(-500)",
        "x**2/2 + x*(1 - 1/(1 + exp(-500)))",
        "x**2/2 + x*exp(-20)*exp(-20)*exp(-20)*exp(-20)*exp(-20)*exp(-20)*exp(-20)",
        # Other functions are not supported.
        "Integral(x, x)",
        "integrate(x)",
        "log(x, 2)",
        "x**2/2 + Derivative(x)",
    ],
    "1": ["x + 1e-30*x"],
    "x**2": ["0.3333333*x**3"],
    "sin(x)": ["sin(x)", "cos(x)"],
    "1/x**2": ["log(x)"],
}


@pytest.mark.parametrize("integrand", OTHERS)
def test_wrong_antiderivatives_are_rejected(integrand: str) -> None:
    assert [
        answer for answer in OTHERS[integrand] if _is_paid(answer, lambda text: is_antiderivative(text, integrand, "x"))
    ] == []


CORNERS = [
    "50*abs(x - 0.45) - 50*abs(x - 0.7)",
    "abs(x - 20) - abs(x - 30)",
    "x + abs(x - 600000)",
    "sqrt((x - 20)**2) - sqrt((x - 30)**2)",
    "sqrt(x**2 - 40*x + 400)",
    "((x - 20)**4)**(1/4)",
    "(x**2 - 40*x + 400)**0.5",
    "exp(log((x - 20)**2)/2)",
    "E**(log((x - 20)**2)/2)",
    "((x - 20)**2)**(C/C/2)",
    "asin(sin(x/100))*100 - x",
    "acos(2*(x - 20)**2 - 1)",
    "x*(atan(x - 20) + atan(1/(x - 20)))",
]
STEPS = [
    "tanh(10000*x)",
    "1/(1 + exp(-1000*(x - 2.3)))",
    "1/(1 + (x/2.3)**4000)",
    "exp(-100*(x - 20)**2)",
    "(exp(1e6*x) - exp(-1e6*x))/(exp(1e6*x) + exp(-1e6*x))",
    "sinh(1e6*x)/cosh(1e6*x)",
    "atan(1e20*(x - 2.3))",
]


@pytest.mark.parametrize("term", [*CORNERS, *STEPS])
def test_nondifferentiable_terms_in_an_antiderivative_are_rejected(term: str) -> None:
    """The derivative of such a term is 0 at nearly all points, so that sampled points do not reveal the term."""
    assert not _is_paid(f"x**2/2 + {term}", is_half_a_square)


SAME = [
    "2*x**2 + 5*x + 3",
    "3 + 5*x + x**2*2",
    "(2*x*x + 5*x + 3)",
    "2*(x**2 + 5*x/2) + 6/2",
    "--3 + (5*x + 2*x**2)**1",
]
NOT_SAME = [
    "(x + 1)*(2*x + 3)",
    "2*x*(x + 1) + 3*(x + 1)",
    "((x + 1)**-1)**-1*(2*x + 3)",
    "1/(1/(x + 1)/(2*x + 3))",
    "exp(log(x + 1) + log(2*x + 3))",
    "sqrt((x + 1)**2)*(2*x + 3)",
    "Pow((x + 1)*(2*x + 3), 1)",
    "(-x - 1)*(-2*x - 3)",
    "2*(x + 1)*(x + 1.5)",
    "2.0*x**2 + 5.0*x + 3.0",
    "2*x**2 + 5*x + 3 + 1e-30",
    "2*x**2 + 5*x + 3 + 0.0*y + 1e-30*x",
    "2*x**2 + 5*x + 2",
    "2*y**2 + 5*y + 3",
    "0",
    "Mul(2*x**2 + 5*x + 3)",
    "(2*x**2 + 5*x + 3)-(2*x**2 + 5*x + 3)",
]


def test_unexpanded_polynomial_is_compared_by_value() -> None:
    assert [text for text in [*SAME, *NOT_SAME] if _is_paid(text, is_the_product)] == SAME


def _is_paid(text: str, check: Callable[[str], bool]) -> bool:
    try:
        return check(text)
    except ExpressionError:
        return False


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from("xyz"), st.integers(0, 4)), min_size=1, max_size=6))
def test_polynomial_comparison_agrees_with_sympy(terms: list[tuple[int, str, int]]) -> None:
    said = " + ".join(f"({factor})*{name}**{power}*y" for factor, name, power in terms)
    expanded = sympy.expand(sympy.sympify(said))
    assert is_same_polynomial(said, str(expanded))
    assert not is_same_polynomial(said, str(expanded + X**7))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x**5000", "digits"),
        ("2**20**20", "digits"),
        ("9**200*" * 8 + "1", "digits"),
        ("x**0.5", "decimal"),
        ("x**(1/2)", "power"),
        ("x**-1", "power"),
        ("x**y", "variables"),
        ("1/x", "variables"),
        ("x/0", "zero"),
        ("sqrt(4)", "function"),
    ],
)
def test_polynomial_check_raises_on_unsupported_expressions(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        is_the_product(text)


# ------------------------------------------------------------------ fuzzing

CHECKS: dict[str, Callable[[str], bool]] = {
    "polynomial": is_the_product,
    "antiderivative": is_half_a_square,
    "beside the answer": lambda text: is_half_a_square(f"x**2/2 + 1e-300*({text})"),
}
"""The last check adds a term to a right answer. The term is too small to change the value."""

AWKWARD = {
    "powers": ["x**(1 + 1/10**200/10**200)", "x**(1e30*1e30)", "3**(1e-200*1e-200)", "x**x**x**x**x", "0**I", "0**x"],
    "powers of powers": [*(f"{a}(((2*{x})**200)**200)**200" for a in ("", "1/") for x in ("x", "pi")), "I**I**I"],
    "towers": ["exp(exp(exp(1e3)))", "1/exp(exp(exp(1e3)))", "exp(99999999999*log(2))", "E**(99999999999*log(2))"],
    "large angles": ["cos(exp(1e30))", "tan(exp(1e30 + 200))", "atan(cot(" + "9" * 200 + "))", "acos(cos(2e300))"],
    "angles of angles": ["asin(sin(exp(exp(100))))", "asin(sin(exp(exp(1000))))", "asin(cos(1e30/200))"],
    "hyperbolas": ["exp(sinh(1e30 + 0.5))", "exp(sinh(10 - 1e30))", "sin(cosh(1e30))", "acosh(-5)", "atanh(1)"],
    "nests": [f"{name}(" * 90 + "2" + ")" * 90 for name in ("sin", "sqrt", "log")],
    "infinities": ["sin(Abs(1/(0.1 + 0.2 - 0.3)))", "log(x, 0)", "log(0, x)", "log(1, 1)", "Rational(0, 0)", "1/0"],
    "complex": ["Abs(Abs(I**I)**I)", "(-1)**0.5**x", "E**(I*pi)", "asin(2)", "asec(2)", "asec(0.5)"],
    "long sums": ["+".join(f"a{n}" for n in range(2400)), "+".join(f"x**{n}*y{n}" for n in range(200))],
    "long products": ["*".join(f"a{n}" for n in range(2400))],
}


def ask(check: Callable[[str], bool], text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert check(text) in (True, False)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", AWKWARD)
def test_malformed_expressions_do_not_crash_the_algebra_checks(check: str, kind: str) -> None:
    for text in AWKWARD[kind]:
        ask(CHECKS[check], text)


LEAVES = st.sampled_from(["x", "y", "C", "pi", "E", "I", "0", "1", "2", "10", "200", "0.5", "1e-30", "1e30", "S"])
NAMES = st.sampled_from([*sorted(FUNCTIONS), *sorted(ABSOLUTE_VALUES), "f", "Integral"])
PAIRS = st.sampled_from(["log({}, {})", "Pow({}, {})", *(f"({{}}){sign}({{}})" for sign in ("+", "-", "*", "/", "**"))])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    called = st.builds("{}({})".format, NAMES, inner)
    paired = st.builds(str.format, PAIRS, inner, inner)
    return called | paired | inner.map("-({})".format)


EXPRESSIONS = st.recursive(LEAVES, _grow, max_leaves=6)
NEAR = st.text(alphabet="xC0123456789.e+-*/(), EIpisnlogqrt_", max_size=40)


@pytest.mark.parametrize("check", ["polynomial", "antiderivative"])
@given(text=EXPRESSIONS | NEAR | st.text(max_size=100))
@settings(max_examples=100, derandomize=True)
def test_fuzzed_text_does_not_crash_the_algebra_check(check: str, text: str) -> None:
    ask(CHECKS[check], text)

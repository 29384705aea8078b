"""intermediate_integration: compute the task's eight kinds of integrals with formulas.

Answers are the same as the library's, because sympy writes each kind of integral in the form of these formulas. sympy
moves the constant factor out of the integrand and into each term of the integral, and expands polynomials. If a formula
does not apply, sympy computes the integral.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import perm
from types import ModuleType
from typing import Any

from . import edited

Formula = Callable[[Any, Any, Any, Any], Any]
"""Takes sympy, a factor, a function and its variable. Integrates factor * function; returns None if it cannot."""


def install(module: ModuleType) -> None:
    dataset = module.IntermediateIntegrationDataset
    by_formula = {"sympy.integrate(integrand, x)": "integrate(sympy, problem_type, integrand, x)"}
    dataset.__getitem__ = edited(dataset.__getitem__, by_formula, integrate=integrate)


def integrate(sympy: Any, kind: str, integrand: Any, x: Any) -> Any:
    """Return the result of `sympy.integrate(integrand, x)`. `kind` is one of the library's `problem_types`."""
    factor, function = integrand.as_independent(x, as_Add=False)
    integral = FORMULAS[kind](sympy, factor, function, x)
    return sympy.integrate(integrand, x) if integral is None else integral


def _of_polynomial(sympy: Any, factor: Any, function: Any, x: Any) -> Any:
    return sympy.Poly(factor * function, x).integrate().as_expr()


def _of_root(sympy: Any, factor: Any, root: Any, x: Any) -> Any:
    """Integrate sqrt(a * x + b)."""
    if not root.is_Pow or root.exp != sympy.S.Half:
        return None
    exponent = root.exp + 1
    return factor * (root.base**exponent / exponent) / root.base.coeff(x)


def _of_power(sympy: Any, factor: Any, product: Any, x: Any) -> Any:
    """Integrate sin(u) * cos(u)**n, or cos(u) * sin(u)**n."""
    derivative, power = sorted(product.args, key=lambda part: bool(part.is_Pow))
    if not power.is_Pow:  # in the integral of sin(u) * cos(u), sympy may square either factor
        return None
    exponent = power.exp + 1
    sign = 1 if derivative.func is sympy.cos else -1
    return sign * factor / (power.base.args[0].coeff(x) * exponent) * power.base**exponent


def _of_exponential(sympy: Any, factor: Any, product: Any, x: Any) -> Any:
    """Integrate a constant times u' * exp(u), where u is linear or quadratic."""
    exponential, *outer = sorted(sympy.Mul.make_args(product), key=lambda part: part.func is not sympy.exp)
    inner = exponential.args[0]
    if outer:
        return factor * outer[0].coeff(x) / (2 * inner.coeff(x, 2)) * exponential
    return factor / inner.coeff(x) * exponential


def _by_parts(sympy: Any, factor: Any, product: Any, x: Any) -> Any:
    """Integrate x**n * exp(x), x**n * sin(x) or x**n * cos(x) by parts, n times."""
    exp, sin, cos = sympy.exp(x), sympy.sin(x), sympy.cos(x)
    integrals = {exp: [exp], sin: [-cos, -sin, cos, sin], cos: [sin, -cos, -sin, cos]}
    (function,) = (part for part in product.args if part.is_Function)
    if function not in integrals:  # an undefined function that the library calls `sin` or `cos`
        return factor * sympy.Integral(product, x)
    degree = int((product / function).as_base_exp()[1])
    powers = [factor * (-1) ** k * perm(degree, k) * x ** (degree - k) for k in range(degree + 1)]
    if function == exp:
        return sympy.Add(*powers) * exp
    repeated = integrals[function]
    return sympy.Add(*(power * repeated[k % 4] for k, power in enumerate(powers)))


def _of_cycle(sympy: Any, factor: Any, product: Any, x: Any) -> Any:
    """Integrate exp(x) * sin(x), exp(x) * cos(x), or sin(x) * cos(x)."""
    exp, sin, cos = sympy.exp(x), sympy.sin(x), sympy.cos(x)
    half = factor / 2
    integrals = {
        exp * sin: half * exp * sin - half * exp * cos,
        exp * cos: half * exp * sin + half * exp * cos,
        sin * cos: half * sin**2,
    }
    return integrals.get(product)


def _of_inverse(sympy: Any, factor: Any, function: Any, x: Any) -> Any:
    """Integrate log(x**n), asin(a * x) or atan(a * x)."""
    (argument,) = function.args
    if function.func is sympy.log:
        return factor * x * function - factor * argument.as_base_exp()[1] * x
    multiple = argument.coeff(x)
    square = multiple**2 * x**2
    if function.func is sympy.asin:
        return factor * x * function + factor / multiple * sympy.sqrt(1 - square)
    return factor * x * function - factor / (2 * multiple) * sympy.log(1 + square)


FORMULAS: Mapping[str, Formula] = {
    "linear": _of_polynomial,
    "radical": _of_root,
    "log_inverse_trig": _of_inverse,
    "trigonometric": _of_power,
    "polynomial_exp_trig": _by_parts,
    "exponential": _of_exponential,
    "cyclic": _of_cycle,
    "repeated_parts": _by_parts,
}

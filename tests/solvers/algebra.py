"""Solve equations, polynomials, integrals and geometry, with exact fractions, with sympy or numerically."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import product

import sympy

from .arithmetic import decimal_text
from .contract import AmbiguousError, Solution, UnsolvedError, find, near_number

# ---------------------------------------------------------------------------- geometry


def simple_geometry(question: str) -> Solution:
    """The angles of a polygon with n sides sum to (n - 2) * 180 degrees."""
    angles = [Fraction(text) for text in re.findall(r"([\d.]+)°", question)]
    sides = int(find(r"(\d+)(?:-gon| sides)", question)[1])
    if len(angles) != sides - 1:
        raise UnsolvedError(f"{len(angles)} angles of {sides}")
    last = Fraction((sides - 2) * 180) - sum(angles)
    return Solution(decimal_text(last) or "", wrong=near_number(int(last)))


def advanced_geometry(question: str) -> Solution:
    """Compute an angle, the orthocenter or the incircle's radius of a triangle from its corners."""
    corners = re.findall(r"[ABC] ?= ?\((-?\d+), (-?\d+)\)", question)
    if len(corners) != 3:
        raise UnsolvedError("not three corners")
    a, b, c = ((int(x), int(y)) for x, y in corners)
    if "orthocenter" in question:
        x, y = _orthocenter(a, b, c)
        return Solution(
            f"({_rounded(x)}, {_rounded(y)})",
            wrong=(f"({_rounded(x + 1)}, {_rounded(y)})", f"({_rounded(x)}, {_rounded(y + 1)})"),
        )
    ab, bc, ca = math.dist(a, b), math.dist(b, c), math.dist(c, a)
    if "incircle" in question:
        area = abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])) / 2
        radius = 2 * area / (ab + bc + ca)
        return Solution(f"{radius:.3f}", wrong=(f"{radius * 1.1:.3f}", f"{radius * 2:.3f}"))
    if "angle" not in question:
        raise UnsolvedError("neither angle, orthocenter nor incircle")
    angle = math.degrees(math.acos((ab**2 + bc**2 - ca**2) / (2 * ab * bc)))
    near = [f"{other:.3f}°" for other in (180 - angle, angle + 1, angle + 0.002)]
    text = f"{angle:.3f}°"
    return Solution(text, (f"{angle:.2f}°",), tuple(other for other in near if other != text))


def _orthocenter(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> tuple[Fraction, Fraction]:
    """Solve (h - a).(b - c) = 0 and (h - b).(a - c) = 0."""
    p, q = b[0] - c[0], b[1] - c[1]
    r, s = a[0] - c[0], a[1] - c[1]
    first, second = p * a[0] + q * a[1], r * b[0] + s * b[1]
    size = p * s - q * r
    return Fraction(first * s - q * second, size), Fraction(p * second - first * r, size)


def _rounded(value: Fraction) -> str:
    return f"{float(value):.3f}"


# ---------------------------------------------------------------------------- polynomials


def terms(text: str, variable: str) -> dict[int, Fraction]:
    """Return a polynomial's coefficients by exponent. It may have sums, products, powers and quotients by integers."""
    return {
        power[0]: Fraction(int(value.p), int(value.q))
        for power, value in sympy.Poly(_parse(text, variable), sympy.Symbol(variable)).as_dict().items()
    } or {0: Fraction(0)}


def _parse(text: str, *names: str) -> sympy.Expr:
    """Parse an expression of a question with sympy. Questions are trusted; model text never gets here."""
    if not re.fullmatch(r"[\w\s+*/().,^-]*", text):
        raise UnsolvedError(f"no expression: {text[:40]!r}")
    symbols = {name: sympy.Symbol(name) for name in names}
    try:
        return sympy.sympify(text.replace("^", "**"), locals=symbols)
    except (sympy.SympifyError, SyntaxError, TypeError) as error:
        raise UnsolvedError(f"no expression: {text[:40]!r}") from error


def simple_equations(question: str) -> Solution:
    variable = find(r"(?:Solve for|value of) (\w)", question)[1]
    left, right = find(r": (.*?)=(.*)", question).groups()
    polynomial = terms(f"({left})-({right})", variable)
    if set(polynomial) - {0, 1} or not polynomial.get(1):
        raise UnsolvedError("not linear")
    root = -polynomial.get(0, Fraction(0)) / polynomial[1]
    return Solution(decimal_text(root) or f"{root.numerator}/{root.denominator}", wrong=near_number(int(root)))


def polynomial_equations(question: str) -> Solution:
    """Find the real roots numerically to 50 digits. Raises if there are none."""
    first = question.split("In solving equations")[0]
    equation = first.split(":")[-1]
    variable = find(r"(?:for|of|real|variable) \(?(?:real )?(?:values? of )?([a-z])\b", first)[1]
    left, right = equation.split("=")
    variables = set(re.findall(r"[a-z]", left + right))
    if len(variables) == 1:
        (variable,) = variables
    polynomial = sympy.Poly(_parse(f"({left})-({right})", variable), sympy.Symbol(variable))
    roots = sorted({sympy.N(root, 50) for root in polynomial.real_roots()})
    if not roots:
        raise AmbiguousError("no real root: the answer is an empty text")
    texts = [f"{float(root):.4f}" for root in roots]
    wrong = [
        ", ".join([*texts[:-1], f"{float(roots[-1]) + 1:.4f}"]),
        ", ".join([*texts, f"{float(roots[-1]) + 2:.4f}"]),
    ]
    return Solution(", ".join(texts), (", ".join(texts[::-1]),), tuple(wrong))


def polynomial_multiplication(question: str) -> Solution:
    expression = find(r": (.*?)\n", question)[1]
    names = sorted(set(re.findall(r"[a-zA-Z]", expression)))
    product_ = sympy.expand(_parse(expression, *names))
    return Solution(
        str(product_), wrong=(str(product_ + 1), str(sympy.expand(product_ * -1)) if product_ != 0 else "1")
    )


# ---------------------------------------------------------------------------- integrals


def _integral(question: str) -> tuple[sympy.Expr, sympy.Symbol]:
    integrand, variable = find(r"∫ (.*?) d(\w)\b", question).groups()
    names = {name for name in re.findall(r"[a-zA-Z]+", integrand) if len(name) == 1 and name != "E"}
    if names - {variable}:
        raise AmbiguousError(f"the integrand is in {', '.join(sorted(names))}, the differential in {variable}")
    return _parse(integrand, variable), sympy.Symbol(variable)


def integration(question: str) -> Solution:
    """Integrate with sympy, and confirm the result by differentiating it at some points."""
    integrand, variable = _integral(question)
    integral = sympy.integrate(integrand, variable)
    if integral.has(sympy.Integral):
        raise UnsolvedError("sympy finds no integral")
    difference = sympy.lambdify(variable, sympy.diff(integral, variable) - integrand, "mpmath")
    if any(
        abs(difference(point)) > 1e-8 * (1 + abs(sympy.N(integrand.subs(variable, point)))) for point in (0.37, 1.41)
    ):
        raise UnsolvedError("the integral does not give its integrand")
    text = str(integral)
    doubled = () if integral == 0 else (f"2*({text}) + C",)
    return Solution(f"{text} + C", (text,), (f"{text} + {variable}", *doubled))


# ---------------------------------------------------------------------------- target numbers


def reach(numbers: list[int], target: int, *, limit: int = 400_000) -> str | None:
    """Return an expression that uses all the numbers and equals `target`; None if the search finds none."""
    tried = 0

    def search(items: list[tuple[Fraction, str]]) -> str | None:
        nonlocal tried
        if len(items) == 1:
            return items[0][1] if items[0][0] == target else None
        for i, j in product(range(len(items)), repeat=2):
            if i == j:
                continue
            tried += 1
            if tried > limit:
                raise UnsolvedError("the search is too long")
            (a, left), (b, right) = items[i], items[j]
            rest = [item for number, item in enumerate(items) if number not in (i, j)]
            made = [(a - b, f"({left} - {right})")]
            if i < j:
                made += [(a + b, f"({left} + {right})"), (a * b, f"({left} * {right})")]
            if b:
                made.append((a / b, f"({left} / {right})"))
            for item in made:
                answer = search([*rest, item])
                if answer is not None:
                    return answer
        return None

    return search([(Fraction(number), str(number)) for number in numbers])


def puzzle24(question: str) -> Solution:
    target = int(find(r"Make (\d+) using", question)[1])
    numbers = [int(text) for text in find(r"using ([\d, ]+)\.", question)[1].split(",")]
    return _expression(numbers, target)


def countdown(question: str) -> Solution:
    found = re.search(r"(?:Calculate|[Mm]ake|[Rr]each|[Oo]btain|[Gg]et|equals?|to) (\d+)\b", question)
    if found is None:
        raise UnsolvedError("no target")
    target = int(found[1])
    listed = max(re.findall(r"(?:\d+, )+\d+", question), key=len)
    return _expression([int(text) for text in listed.split(",")], target)


def _expression(numbers: list[int], target: int) -> Solution:
    text = reach(numbers, target)
    if text is None:
        raise UnsolvedError("no expression reaches the target")
    outer = text[1:-1]
    return Solution(outer, (text,), (f"{outer} + 1", " + ".join(map(str, numbers)) + " + 1"))

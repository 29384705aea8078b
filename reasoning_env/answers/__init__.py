"""Score model text safely with the library's verifiers.

Runs inside workers only. Nothing here imports reasoning_gym; callers pass the library's datasets.
"""


def preload_algebra() -> None:
    """Import the late imports of algebraic guards now, so that forked workers share the modules."""
    from .grammars import algebra

    algebra.is_antiderivative("x**2/2", "x", "x")  # sympy imports most of itself when it first simplifies

"""Values of options: parsers for argparse, which raise ArgumentTypeError with what would have been right."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping

from ..data.training import PassRates
from ..settings import parse_mapping


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number; got {text!r}") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None


def share(text: str) -> float:
    """Read a number from 0 to 1."""
    with contextlib.suppress(ValueError):
        if 0.0 <= float(text) <= 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number from 0 to 1; got {text!r}")


def at_least_one(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text!r}")
    return int(text)


def pass_rates(text: str) -> PassRates:
    """Read a range of pass rates."""
    low, _, high = text.partition("..")
    with contextlib.suppress(ValueError):
        if 0.0 <= float(low) <= float(high) <= 1.0:
            return PassRates(float(low), float(high))
    raise argparse.ArgumentTypeError(f"must be LOW..HIGH with numbers from 0 to 1, such as 0.2..0.8; got {text!r}")


def shard(text: str) -> tuple[int, int]:
    """Read a part and the number of parts."""
    part, _, parts = text.partition("/")
    if part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts):
        return int(part), int(parts)
    raise argparse.ArgumentTypeError(f"must be K/N with K from 1 to N, such as 3/16; got {text!r}")


NUMBER_OF_SEEDS = 2**32
"""Number of seeds of the library, which start at 0."""


def seed(text: str) -> int:
    """Parse --seed. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) >= NUMBER_OF_SEEDS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to {NUMBER_OF_SEEDS - 1}; got {text!r}")
    return int(text)


def mapping(text: str) -> Mapping[str, object]:
    """Parse an option that is a mapping in YAML. Raises ArgumentTypeError."""
    try:
        params = parse_mapping(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; got {text!r}") from error
    assert isinstance(params, dict)
    return params

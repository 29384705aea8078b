"""Tests for reasoning_env.verifiers.tree_distance."""

from __future__ import annotations

import random

import zss
from zss.compare import simple_distance

from reasoning_env.verifiers.tree_distance import tree_distance

LABELS = ("", "a", "b", "key:1", "key:2.5", "longer")


def _tree(draw: random.Random, nodes: int) -> zss.Node:
    made = [zss.Node(draw.choice(LABELS))]
    for _ in range(nodes - 1):
        made.append(zss.Node(draw.choice(LABELS)))
        draw.choice(made[:-1]).addkid(made[-1])
    return made[0]


def _cost(one: str, other: str) -> float:
    """Not the same in both directions, so that it matters which tree is which, and sometimes less than nothing."""
    return 0.0 if one == other else 0.3 * len(one) + 0.7 * len(other) - 0.4


def test_distance_is_what_zss_computes() -> None:
    draw = random.Random(3)
    for _ in range(300):
        first, second = _tree(draw, draw.randint(1, 9)), _tree(draw, draw.randint(1, 9))
        assert tree_distance(first, second, label_dist=_cost) == simple_distance(first, second, label_dist=_cost)

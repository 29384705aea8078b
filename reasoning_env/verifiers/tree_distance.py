"""The edit distance between trees that codeio's verifier asks zss for, without zss's slow parts.

zss keeps the edits themselves for each pair of subtrees, which the verifier never reads, and asks for the distance of
the same two labels again and again: a list of thirty pairs takes it a third of a second, and this a fifth of that, or
a tenth where another answer to the same problem came before.
Costs are added and compared in the same order, so that the distance is the same float.

The method is that of K. Zhang and D. Shasha, Simple fast algorithms for the editing distance between trees and related
problems, SIAM Journal on Computing 18 (1989).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

import zss
from zss.compare import AnnotatedTree

KEPT_COSTS = 8192
_costs: dict[CodeType, Callable[[str, str], float]] = {}
"""What relabelling costs, with a memory, by the code that says so: the verifier makes the same function for each answer
anew, and the answers of a group share most of their labels."""


def install() -> None:
    """Take the place of zss' own function in this process."""
    zss.simple_distance = tree_distance


def tree_distance(first: zss.Node, second: zss.Node, *, label_dist: Callable[[str, str], float]) -> float:
    """Return the least cost of removing, inserting and relabelling nodes to turn one tree into the other.

    Relabelling costs `label_dist`, removing and inserting what it gives between a label and the empty one. Functions of
    the same code must give the same for the same labels.
    """
    one, other = (AnnotatedTree(tree, zss.Node.get_children) for tree in (first, second))
    cost = _costs.setdefault(label_dist.__code__, lru_cache(KEPT_COSTS)(label_dist))
    distances = _Distances(one, other, cost)
    for root in one.keyroots:
        for other_root in other.keyroots:
            distances.fill(root, other_root)
    return distances.of_subtrees[-1][-1]


class _Distances:
    """The distances between all subtrees of two trees, which `fill` adds from small ones to large ones.

    Nodes are numbers in postorder: a subtree is the range from its leftmost leaf to its root.
    """

    def __init__(self, one: Any, other: Any, cost: Callable[[str, str], float]) -> None:
        self._labels, self._other_labels = [node.label for node in one.nodes], [node.label for node in other.nodes]
        self._leftmost, self._other_leftmost = one.lmds, other.lmds
        self._cost = cost
        self._removal = [cost(label, "") for label in self._labels]
        self._insertion = [cost("", label) for label in self._other_labels]
        self.of_subtrees = [[0.0] * len(self._other_labels) for _ in self._labels]

    def fill(self, root: int, other_root: int) -> None:
        """Compare the nodes up to each one of a subtree with the nodes up to each one of another."""
        start, other_start = self._leftmost[root], self._other_leftmost[other_root]
        row = [0.0]
        for other in range(other_start, other_root + 1):
            row.append(row[-1] + self._insertion[other])
        rows = [row]
        for node in range(start, root + 1):
            above, row = row, [row[0] + self._removal[node]]
            rows.append(row)
            left = self._leftmost[node] - start
            for column, other in enumerate(range(other_start, other_root + 1)):
                other_left = self._other_leftmost[other] - other_start
                if whole := left == other_left == 0:
                    change = above[column] + self._cost(self._labels[node], self._other_labels[other])
                else:
                    change = rows[left][other_left] + self.of_subtrees[node][other]
                distance = min(above[column + 1] + self._removal[node], row[column] + self._insertion[other], change)
                row.append(distance)
                if whole:
                    self.of_subtrees[node][other] = distance

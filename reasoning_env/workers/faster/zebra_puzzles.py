"""zebra_puzzles: write each clue only once for the SAT solver, and reuse the results of earlier tests.

For each of about 56 tests per puzzle, the library writes all clues again, as clauses of strings. Here, clauses
consist of numbers. Results are the same, for these reasons:

- A test checks whether an arrangement other than the puzzle's solution meets the clues. The result does not depend on
  how clues become clauses. Here, clauses say that each property of an inhabitant, such as a color, has a house, and
  that no house has two properties of one type. There are as many properties of a type as houses, so each property has
  exactly one house.
- An earlier test may have found an arrangement. If it also meets the present clues, several solutions exist.
- The library calls `check_correctness` only after a test found a single solution. The result is then always True.
- Clues are sorted by their strings. A clue does not change, so its string and its hash are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import combinations, product
from types import ModuleType
from typing import Any

from . import edited

Clauses = list[list[int]]


class Tests:
    """Tests the clues of one puzzle with `pycosat.solve`. Clues are compared by identity, because hashing is slow."""

    def __init__(self, puzzle: Any, solve: Callable[[Clauses], Any]) -> None:
        self._solve = solve
        self._houses = puzzle.houses
        self._solution: Mapping[object, int] = puzzle.solution
        self._at = {
            placement: number for number, placement in enumerate(product(self._solution, self._houses), start=1)
        }
        self._rules = list(self._rules_of_all_puzzles())
        self._clauses: dict[int, Clauses] = {}
        self._others: list[set[int]] = []

    def is_unique(self, clues: Iterable[object]) -> bool:
        """Return True if no arrangement except the puzzle's solution meets the clues."""
        by_id = {id(clue): clue for clue in clues}
        for number in by_id.keys() - self._clauses.keys():
            self._clauses[number] = list(self._clauses_of(by_id[number]))
        clauses = [clause for number in by_id for clause in self._clauses[number]]
        if any(not any(map(other.isdisjoint, clauses)) for other in self._others):
            return False
        model = self._solve(self._rules + clauses)
        if model == "UNSAT":
            return True
        self._others.append(set(model))
        return False

    def _rules_of_all_puzzles(self) -> Iterator[list[int]]:
        by_type: dict[type, list[object]] = {}
        for literal in self._solution:
            by_type.setdefault(type(literal), []).append(literal)
            yield [self._at[literal, house] for house in self._houses]
        for literals, house in product(by_type.values(), self._houses):
            yield from (
                [-self._at[first, house], -self._at[second, house]] for first, second in combinations(literals, 2)
            )
        yield [-self._at[placement] for placement in self._solution.items()]

    def _clauses_of(self, clue: Any) -> Iterator[list[int]]:
        """Yield the clauses of a clue: if a house has `value1`, then a house at an allowed distance has `value2`."""
        type_name = type(clue).__name__
        if type_name == "found_at":
            yield [self._at[clue.value, clue.house]]
            return
        distances = {"same_house": (0,), "consecutive": (1,), "beside": (-1, 1)}[type_name]
        for house in self._houses:
            allowed = [house + distance for distance in distances if house + distance in self._houses]
            yield [-self._at[clue.value1, house], *(self._at[clue.value2, there] for there in allowed)]


def _sort(things: Collection[Any]) -> list[Any]:
    return sorted(things, key=str if hasattr(next(iter(things), None), "as_cnf") else None)


def weigh(clues: Collection[Any], weight: Callable[[Any], float]) -> tuple[list[Any], list[float]]:
    """Return the sorted clues, and their weights for a random choice. All clues of one type have the same weight."""
    ordered = sorted(clues)
    examples = {type(clue): clue for clue in ordered}
    weights = {kind: weight(clue) for kind, clue in examples.items()}
    return ordered, [weights[type(clue)] for clue in ordered]


def remember(kind: Any, name: str) -> None:
    """Make each object of a class cache the result of a method without arguments."""
    compute = getattr(kind, name)

    def remembered(self: Any) -> Any:
        known = vars(self)
        if name not in known:
            known[name] = compute(self)
        return known[name]

    setattr(kind, name, remembered)


def install(package: ModuleType) -> None:
    generate: Any = import_module(f"{package.__name__}.generate")
    sat_utils: Any = import_module(f"{package.__name__}.sat_utils")
    tests_of = lru_cache(1)(lambda puzzle: Tests(puzzle, sat_utils.pycosat.solve))
    generate.has_unique_solution = lambda puzzle, clues: tests_of(puzzle).is_unique(clues)
    generate.check_correctness = lambda puzzle: True
    generate.sorted = _sort
    generate.try_to_remove = edited(
        generate.try_to_remove,
        {
            "weights = [weight(clue) for clue in sorted(clues)]": "ordered, weights = weigh(clues, weight)",
            "choices(sorted(clues)": "choices(ordered",
        },
        weigh=weigh,
    )
    for kind in import_module(f"{package.__name__}.clues").Clue.__subclasses__():
        remember(kind, "__repr__")
        remember(kind, "__hash__")

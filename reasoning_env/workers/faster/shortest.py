"""quantum_lock and word_ladder: search breadth-first without a path for each state.

The same problems: of the shortest ways to a goal, breadth-first search finds the one whose steps come first. States are
reached in the library's order. A search ends when the goal is first reached; the library's when it leaves the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from string import ascii_uppercase
from types import ModuleType
from typing import Any

from . import edited


def find_buttons(puzzle: Mapping[str, Any]) -> list[str] | None:
    """Return the buttons of a lock's shortest solution; None where there is none.

    A number is left out that cannot be brought down to the target any more, or up over 0.
    """
    operations = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}
    buttons = [
        (button["name"], operations[button["type"]], button["value"], button["active_state"])
        for button in puzzle["buttons"]
    ]
    raising, lowering = (
        max((button["value"] for button in puzzle["buttons"] if button["type"] == kind), default=0)
        for kind in ("add", "subtract")
    )
    usable = {light: [button for button in buttons if button[3] in (light, "any")] for light in ("red", "green")}
    target = puzzle["target_value"]
    layer: dict[int, list[str]] = {puzzle["initial_value"]: []}
    seen: dict[str, set[int]] = {"red": set(layer), "green": set()}
    light, other = "red", "green"
    for left in reversed(range(puzzle["max_steps"])):
        following: dict[int, list[str]] = {}
        for number, path in layer.items():
            for name, operate, value, _ in usable[light]:
                after = operate(number, value)
                if after == target:
                    return [*path, name]
                if after not in seen[other] and -raising * left < after <= target + lowering * left:
                    seen[other].add(after)
                    following[after] = [*path, name]
        layer = following
        light, other = other, light
    return None


def install_quantum_lock(module: ModuleType) -> None:
    dataset = module.QuantumLockDataset
    dataset.generate_quantum_puzzle = edited(
        dataset.generate_quantum_puzzle,
        {
            'queue = deque([(0, "red", [])])': 'queue, puzzle["solution"] = (), find_buttons(puzzle)',
            "visited = set()": 'if puzzle["solution"] is not None: return puzzle',
        },
        find_buttons=find_buttons,
    )


def find_ladder(self: Any, start: str, end: str, word_set: set[str]) -> list[str] | None:
    """Search from both ends; then go through the words that lie on a shortest way. The graphs hold all words."""
    neighbors: Mapping[str, set[str]] = self.word_graphs[len(start)]
    most = self.config.max_chain_length
    front, back = [{start}], [{end}]
    while front[-1].isdisjoint(back[-1]):
        side = front if len(front[-1]) <= len(back[-1]) else back
        layer = set().union(*(neighbors[word] for word in side[-1])).difference(*side[-2:])
        if not layer or -1 < most < len(front) + len(back):
            return None
        side.append(layer)
    length = len(front) + len(back) - 1
    if length > 2 and not self.config.is_valid_path_length(length):
        return None
    layers = [front[-1] & back[-1]]
    for layer in reversed(front[1:-1]):
        layers.append({word for word in layer if not neighbors[word].isdisjoint(layers[-1])})
    path = [start]
    for layer in (*layers[: len(front) - 1][::-1], *back[-2::-1]):
        path.append(next(word for word in neighbors[path[-1]] if word in layer))
    return path


def build_graph(words: set[str], word_length: int) -> dict[str, set[str]]:
    """Return the neighbours of each word, added to their set in the library's order, which the set's order depends on.

    The library looks for each word with another letter; here, words are put together that differ in one place.
    """
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for word in sorted(words):
        for place, letter in enumerate(word):
            if letter in ascii_uppercase:
                alike[word[:place], word[place + 1 :]].append(word)
    rests = {word: [(word[:place], word[place + 1 :]) for place in range(word_length)] for word in words}
    return {word: {other for rest in rests[word] for other in alike[rest] if other != word} for word in words}


def install_word_ladder(module: ModuleType) -> None:
    dataset = module.WordLadderDataset
    load = dataset._load_words_from_csv
    words_of = cache(lambda length: load(length, length)[length])
    graph_of = cache(lambda length: build_graph(words_of(length), length))
    dataset._load_words_from_csv = lambda self, min_length, max_length: {
        length: words_of(length) for length in range(min_length, max_length + 1)
    }
    dataset._build_word_graph = lambda self, word_length: graph_of(word_length)
    dataset._find_path = find_ladder

"""Learn a small decision tree that predicts answers from surface features of questions.

The tree is learned on one half of a task's problems and scored on the other half. A policy could earn this score
without reasoning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from reasoning_env.answers.shortcuts import SHOWN_NUMBER

from .probes import LEARNT_FROM

DEPTH = 3
"""Maximum number of yes-or-no tests that a tree makes before it predicts an option."""
SMALLEST_LEAF = 3
"""Minimum number of problems on each side of a split."""
PARTS = 32
"""Number of thresholds that a tree tries for a feature: quantiles of the feature's values."""
MAX_OPTIONS = 24
"""Limit for the number of options that a tree can predict. The most frequent options are kept."""
PLACES = 24
"""Features include this many first and last numbers of a question, and words at this many positions, preferably in the
last line."""
WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
SIGNS = ("#", "0", "1", "1 1", "X", "O", ".", ",", "?", "(", "all ", "no ", "not ", "some ", " or ")

Column = npt.NDArray[np.float64]
"""The values of a feature, one for each question."""
Features = Mapping[str, Column]
"""The values of each feature for a list of questions. The keys are names such as `words / lines`."""


@dataclass(frozen=True)
class Leaf:
    option: str


@dataclass(frozen=True)
class Question:
    """An inner node of a tree: the branch is `below` if the feature is less than `limit`, otherwise `above`."""

    feature: str
    limit: float
    below: Question | Leaf
    above: Question | Leaf


Tree = Question | Leaf


def score_best_tree(questions: Sequence[str], options: Sequence[str]) -> list[float]:
    """Return a score for each problem: 1 if a tree predicts the right option, else 0.

    Each half of the problems is predicted by a tree that was learned on the other half. With fewer than LEARNT_FROM
    problems, no tree is learned: a problem scores 1 if its right option is one of the two most frequent right options
    and was right in an earlier problem.
    """
    frequent = [name for name, count in Counter(options).most_common(2) if count > 1]
    if len(options) < LEARNT_FROM:
        return [float(name in frequent and name in options[:number]) for number, name in enumerate(options)]
    if not frequent:
        return [0.0] * len(options)
    features = surface_features(questions)
    half = len(options) // 2
    first = slice(0, half)
    second = slice(half, len(options))
    named = [
        name
        for learnt_on, asked in ((second, first), (first, second))
        for name in options_named(learn(_of(features, learnt_on), options[learnt_on]), _of(features, asked))
    ]
    return [float(name == right) for name, right in zip(named, options, strict=True)]


def _of(features: Features, part: slice) -> Features:
    return {name: column[part] for name, column in features.items()}


def options_named(tree: Tree, features: Features) -> list[str]:
    """Return the option that a tree predicts for each question."""
    if isinstance(tree, Leaf):
        return [tree.option] * len(next(iter(features.values())))
    is_below = features[tree.feature] < tree.limit
    sides = zip(options_named(tree.below, features), options_named(tree.above, features), strict=True)
    return [low if below else high for below, (low, high) in zip(is_below, sides, strict=True)]


# ------------------------------------------------------------------ the tree


def learn(features: Features, options: Sequence[str]) -> Tree:
    """Return a decision tree that predicts the right option of a question from the question's features.

    Each node uses the test with the lowest Gini impurity.
    """
    named = [name for name, _ in Counter(options).most_common(MAX_OPTIONS)]
    number = {name: position for position, name in enumerate(named)}
    classes = np.array([number.get(name, len(named)) for name in options])
    names = [name for name, column in features.items() if column.min() < column.max()]
    if not names:
        return Leaf(named[0])
    table = np.array([features[name] for name in names])
    places = np.unique(np.linspace(0, len(options) - 1, PARTS).round().astype(int))
    limits = np.sort(table, axis=1)[:, places]
    bins = np.array([np.searchsorted(row, column, "right") for row, column in zip(limits, table, strict=True)])
    return _Grower(names, limits, bins, named).grow(np.arange(len(options)), classes, DEPTH)


@dataclass(frozen=True)
class _Grower:
    """Learns a tree. `bins[f, p]` counts the thresholds of feature f that are <= the value of f in problem p."""

    names: Sequence[str]
    limits: npt.NDArray[np.float64]
    bins: npt.NDArray[np.intp]
    options: Sequence[str]

    def grow(self, rows: npt.NDArray[np.intp], classes: npt.NDArray[np.intp], depth: int) -> Tree:
        count = np.bincount(classes[rows], minlength=len(self.options) + 1)
        leaf = Leaf(self.options[int(count[: len(self.options)].argmax())])
        if depth == 0 or count.max() == len(rows):
            return leaf
        features, parts = len(self.names), self.limits.shape[1] + 1
        bins = self.bins[:, rows] + parts * np.arange(features)[:, None]
        cells = (bins + classes[rows] * features * parts).ravel()
        counted = np.bincount(cells, minlength=len(count) * features * parts).reshape(len(count), features, parts)
        low = counted.cumsum(axis=2)[:, :, :-1]  # number of problems of each class below each threshold of a feature
        high = count[:, None, None] - low
        below, above = low.sum(axis=0), high.sum(axis=0)
        # The split with the highest purity has the lowest Gini impurity, weighted by the sizes of the branches.
        purity = (low**2).sum(axis=0) / np.maximum(below, 1) + (high**2).sum(axis=0) / np.maximum(above, 1)
        purity[(below < SMALLEST_LEAF) | (above < SMALLEST_LEAF)] = 0
        feature, part = np.unravel_index(int(purity.argmax()), purity.shape)
        if purity[feature, part] <= (count**2).sum() / len(rows) + 1e-9:  # no test separates the options
            return leaf
        is_below = self.bins[feature, rows] <= part
        sides = [self.grow(rows[side], classes, depth - 1) for side in (is_below, ~is_below)]
        return Question(self.names[int(feature)], float(self.limits[feature, part]), *sides)


# ------------------------------------------------------------------ features


def surface_features(questions: Sequence[str]) -> Features:
    """Return the features that a decision tree tests, for each question.

    The features are counts (see `count_surface`), ratios of counts, the first and last numbers, counts of words, and
    facts about the words at some positions.
    """
    counted = [count_surface(question) for question in questions]
    counts = {name: np.array([one[name] for one in counted]) for name in counted[0]}
    counts = {name: column for name, column in counts.items() if column.min() < column.max()}
    return {
        **counts,
        **_ratios(counts),
        **_numbers_at_places(questions),
        **_counts_of_words(questions),
        **_words_at_places(questions),
    }


def count_surface(question: str) -> dict[str, float]:
    """Return a question's features by name: counts, and the first, last and largest number."""
    text = question.casefold()
    words = question.split()
    lines = question.strip().splitlines() or [""]
    numbers = _numbers(question) or [0.0]
    sizes = {
        "characters": len(text),
        "different characters": len({*text}),
        "words": len(words),
        "different words": len({*words}),
        "lines": len(lines),
        "length of the last line": len(lines[-1]),
        "numbers": len(numbers),
        "different numbers": len({*numbers}),
        "pairs of equal characters": len(re.findall(r"(?=(\S)\s?\1)", question)),
        "the first number": numbers[0],
        "the last number": numbers[-1],
        "the largest number": max(numbers),
    }
    return {**sizes, **{f"count of {sign!r}": text.count(sign.casefold()) for sign in SIGNS}}


def _numbers(question: str) -> list[float]:
    return [float(number) for number in SHOWN_NUMBER.findall(question) if len(number) < 300]


def _ratios(counts: Features) -> Features:
    return {
        f"{one} / {other}": np.divide(
            counts[one], counts[other], out=np.zeros(len(counts[one])), where=counts[other] != 0
        )
        for one, other in combinations(counts, 2)
    }


def _numbers_at_places(questions: Sequence[str]) -> Features:
    numbers = [_numbers(question) for question in questions]

    def column(place: int) -> Column:
        return np.array([of[place] if -len(of) <= place < len(of) else -1.0 for of in numbers])

    return {f"number {place}": column(place) for place in range(-PLACES, PLACES)}


def _counts_of_words(questions: Sequence[str]) -> Features:
    """Return the counts of up to 300 words: those whose total count is nearest to half the number of questions."""
    words = [Counter(WORD_OR_SIGN.findall(question.casefold())) for question in questions]
    common = Counter(word for of_question in words for word in of_question)
    half = len(questions) / 2
    varied = (word for word in common if len({of_question[word] for of_question in words}) > 1)
    telling = sorted(varied, key=lambda word: abs(common[word] - half))[:300]
    return {
        f"count of word {word!r}": np.array([of_question[word] for of_question in words], float) for word in telling
    }


def _words_at_places(questions: Sequence[str]) -> Features:
    by_place = [_words_by_place(question) for question in questions]
    seen: dict[tuple[int, int], Counter[str]] = {}
    for of_question in by_place:
        for place, word in of_question.items():
            seen.setdefault(place, Counter())[word] += 1
    varied = [place for place in sorted(seen) if len(seen[place]) > 1][:PLACES]
    words = {f"word {place}": [of_question.get(place, "") for of_question in by_place] for place in varied}
    features: dict[str, Column] = {}
    for name, column in words.items():
        features[f"length of {name}"] = _measured(column, len)
        features[f"number of repeated letters in {name}"] = _measured(column, lambda word: len(word) - len({*word}))
        for word, _ in Counter(column).most_common(4):
            features[f"{name} is {word!r}"] = _measured(column, word.__eq__)
    for one, other in combinations(words, 2):
        pairs = zip(words[one], words[other], strict=True)
        features[f"{one} is {other}"] = np.array([first == second != "" for first, second in pairs], float)
    return features


def _words_by_place(question: str) -> dict[tuple[int, int], str]:
    """Return the words of a question by (line, position in the line). Lines count from the last line, which is 0."""
    lines = question.casefold().strip().splitlines()[::-1]
    return {
        (row, position): word
        for row, line in enumerate(lines)
        for position, word in enumerate(WORD_OR_SIGN.findall(line))
    }


def _measured(words: Sequence[str], measure: Callable[[str], float]) -> Column:
    return np.array([measure(word) for word in words], float)

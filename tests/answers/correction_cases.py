"""Answers that show the effect of each correction: nonsense, right answers and answers with partial credit.

`CASES` has one row for each correction. Problems that cannot show a correction are skipped because they give no
answers. Examples are a grid whose empty board is right, and a prime number.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

from reasoning_gym.games.rush_hour import Board
from reasoning_gym.logic.propositional_logic import Expression

from tests.solvers.games import rush_hour

Answers = Callable[[str, Any], list[str]]
"""Takes the expected answer and the metadata of a problem; returns answers to the problem."""


def _texts(*texts: str) -> Answers:
    return lambda oracle, data: list(texts)


def _forms(*templates: str) -> Answers:
    """Return the expected answer in each of the templates."""
    return lambda oracle, data: [template.format(oracle) for template in templates]


def _in_any_case(*templates: str) -> Answers:
    return lambda oracle, data: [
        template.format(said) for said in (oracle, oracle.lower(), oracle.upper()) for template in templates
    ]


@dataclass(frozen=True)
class Case:
    """Answers to problems of a task that are generated with the parameters `params`.

    Answers in `nonsense` get at most `floor`, and a lower score than from the library. Answers in `right` and `partial`
    get the library's score.
    """

    nonsense: Answers
    right: Answers
    partial: Answers
    floor: float = 0.0
    count: int = 30
    params: Mapping[str, Any] = field(default_factory=dict)


# ------------------------------------------------------------------ moves


@cache
def _solve(board: str) -> str:
    return rush_hour(f"Board:\n{Board(board).board_str()}").answer


def _escape(data: Any) -> str:
    """Return moves that bring the red car to the exit."""
    return _solve(data["board_config"])


def _far(data: Any) -> str:
    """Return the moves with lengths that no board has room for."""
    return re.sub(r"\d+", "9", _escape(data))


# ------------------------------------------------------------------ numbers


def _other_times(oracle: str, data: Any) -> list[str]:
    """Return other times in the same notation."""
    is_long = int(re.sub(r"\D", "", oracle)) > 100
    return [re.sub(r"\d", digit, oracle) for digit in "01"] if is_long else []


# ------------------------------------------------------------------ expressions


def _solutions(numbers: list[int], target: int, limit: int) -> list[str]:
    """Search for expressions that use all the numbers and have the target's value."""

    def reach(left: list[tuple[Fraction, str]]) -> Iterator[str]:
        if len(left) == 1:
            if left[0][0] == target:
                yield left[0][1]
            return
        for i, j in itertools.permutations(range(len(left)), 2):
            (a, first), (b, second) = left[i], left[j]
            others = [left[k] for k in range(len(left)) if k not in (i, j)]
            made = [(a - b, f"({first} - {second})")]
            if i < j:
                made += [(a + b, f"({first} + {second})"), (a * b, f"({first}*{second})")]
            if b:
                made.append((a / b, f"({first}/{second})"))
            for result in made:
                yield from reach([*others, result])

    start = [(Fraction(number), str(number)) for number in numbers]
    return sorted(set(itertools.islice(reach(start), 40 * limit)), key=len)[:limit]


def _near_the_target(oracle: str, data: Any) -> list[str]:
    numbers = data["numbers"]
    target = data["target"]
    joined = " + ".join(map(str, numbers))
    missing = target - sum(numbers)
    hidden = "".join(f"+0*.{number}" for number in numbers)
    spelt = [f"{target}+0*({joined})", f"{target}{hidden}", f"{joined}+{target}.0001-({joined})", f"{target}"]
    swallowed = [f"{number}*1**({joined})" for number in (target, numbers[0])]
    scaled = [f"{joined} {missing:+}e0", f"{joined} {10 * missing:+}e-1", f"{oracle} + 1e-6"]
    return [*spelt, *swallowed, *scaled]


def _near_24(oracle: str, data: Any) -> list[str]:
    numbers = data["numbers"]
    others = ([4, 3, 2, 1], [6, 4, 1, 1], [8, 3, 1, 1])
    foreign = ["*".join(map(str, made)) for made in others if sorted(made) != sorted(numbers)]
    total = "+".join(map(str, numbers))
    spelt = ["24", "6*4", f"24+0*({total})", f"24*({total})**0", "24" + "".join(f"+0*.{number}" for number in numbers)]
    return [*foreign, *spelt, "5*5 - 3/4*1 + 0.1", "10 + 10 + 9/2 - 0", "3**3 - 2 - 1 + 0.5"]


def _expressions_of(target: int | None, *wrong: str) -> dict[str, Answers]:
    """Return functions that make right expressions and wrong ones.

    Without `target`, the problem's own target applies.
    """

    def right(oracle: str, data: Any) -> list[str]:
        found = _solutions(data["numbers"], target or data["target"], 4)
        return [oracle, oracle.replace(" ", ""), f"({oracle})", *found]

    def partial(oracle: str, data: Any) -> list[str]:
        numbers = list(map(str, data["numbers"]))
        return ["+".join(numbers) + "+1000", "*".join(numbers), numbers[0], f"{numbers[0]} +", *wrong, "no idea"]

    return {"right": right, "partial": partial}


# ------------------------------------------------------------------ logic


def _rows(names: Sequence[str]) -> list[dict[str, bool]]:
    return [dict(zip(names, values, strict=True)) for values in itertools.product((False, True), repeat=len(names))]


def _follows(conclusion: str, data: Any) -> bool:
    """Return True if by the library's truth tables the premises imply the formula, and the formula is no tautology."""
    formula, *given = (Expression.from_string(text) for text in (conclusion, *data["premises"]))
    rows = _rows(data["variables"])
    possible = [row for row in rows if all(premise.evaluate(row) for premise in given)]
    return all(map(formula.evaluate, possible)) and not all(map(formula.evaluate, rows))


def _premises_again(oracle: str, data: Any) -> list[str]:
    last = data["variables"][-1]
    forms = ["{0}", "¬¬({0})", "({0}) ∨ {1}", "{1} → ({0})", "¬(¬({0}) ∧ ¬{1})", "(({0}) ∨ {1}) ∧ (({0}) ∨ ¬{1})"]
    compound = [premise for premise in data["premises"] if len(premise) > 2]
    joined = " ∧ ".join(f"({premise})" for premise in compound)
    copies = [form.format(premise, last) for premise in compound for form in forms]
    return [*copies, joined] if joined else copies


def _inferences(oracle: str, data: Any) -> list[str]:
    """Return disjunctions and implications of two literals that only several premises together imply."""
    literals = [sign + name for name in data["variables"] for sign in ("", "¬")]
    undecided_literals = [literal for literal in literals if not _follows(literal, data)]
    made = [f"{a} {sign} {b}" for a, b in itertools.combinations(undecided_literals, 2) for sign in "∨→"]
    singles = [{**data, "premises": [premise]} for premise in data["premises"]]
    undecided = [text for text in made if not _either_is_decided(text, data)]
    return [
        text for text in undecided if _follows(text, data) and not any(_follows(text, single) for single in singles)
    ]


def _either_is_decided(text: str, data: Any) -> bool:
    one, _, other = text.split()
    return any(_follows(sign, data) for part in (one, other) for sign in (part, f"¬{part}".replace("¬¬", "")))


# ------------------------------------------------------------------ words


def _some_words(oracle: str, data: Any) -> list[str]:
    words = data["sorted_words"]
    return [",".join(words[::-1]), ", ".join(words[:-1]), ", ".join([*words[1:], words[0]]), words[0], "none"]


def _other_words(oracle: str, data: Any) -> list[str]:
    words = oracle.split()
    return [" ".join(words[:-1]) or "?", " ".join([*words[:-1], "qwxz"]), "nothing"]


def _long_json(oracle: str, data: Any) -> list[str]:
    nested = ['{"":' * depth + "1" + "}" * depth for depth in (10, 14)]
    return [*nested, json.dumps({"x": "\U0001f600" * 250}, ensure_ascii=False)]


# ------------------------------------------------------------------ puzzles


def _sweep(state: Mapping[str, list[str]]) -> str:
    """Return a plan that visits every square twice with every colour, and uses only the size of the field."""
    rows, columns = (1 + max(int(float(place.split("_")[axis])) for place in state) for axis in (0, 1))
    snake = [(r + 0.5, (c if r % 2 == 0 else columns - 1 - c) + 0.5) for r in range(rows) for c in range(columns)]
    steps = []
    for colour in ("red", "blue", "green"):
        for path in (snake, snake[::-1]):
            for here, there in zip(path, [*path[1:], path[-1]], strict=True):
                agent = f"Agent[{here[0]}, {here[1]}]"
                steps.append({agent: f"move(box_{colour}, target_{colour})"})
                steps.append({agent: f"move(box_{colour}, square[{there[0]}, {there[1]}])"})
    return json.dumps(steps)


def _place(state: Mapping[str, list[str]], item: str) -> list[float]:
    return list(map(float, next(key for key, items in state.items() if item in items).split("_")))


def carry(data: Any, moved: str, axes: tuple[int, int] = (0, 1), colours: int = 9) -> str:
    """Return a plan that moves every box (or target) to the target (or box) of its colour, and then matches the two."""
    state = data["initial_state"]
    steps = []
    for item in [item for items in state.values() for item in items if item.startswith("box_")][:colours]:
        colour = item.removeprefix("box_")
        goal = "target" if moved == "box" else "box"
        here = _place(state, f"{moved}_{colour}")
        there = _place(state, f"{goal}_{colour}")
        for axis in axes:
            while here[axis] != there[axis]:
                agent = f"Agent[{here[0]}, {here[1]}]"
                here[axis] += 1 if there[axis] > here[axis] else -1
                steps.append({agent: f"move({moved}_{colour}, square[{here[0]}, {here[1]}])"})
        steps.append({f"Agent[{here[0]}, {here[1]}]": f"move(box_{colour}, target_{colour})"})
    return json.dumps(steps)


def _aimless_plans(oracle: str, data: Any) -> list[str]:
    state = data["initial_state"]
    together = any(f"target_{item[4:]}" in items for items in state.values() for item in items)
    carried = [] if together else [carry(data, "target", axes) for axes in ((0, 1), (1, 0))]
    return [*carried, *([_sweep(state)] if len(state) > 6 else [])]


def _plans(oracle: str, data: Any) -> list[str]:
    plans = [carry(data, "box", axes) for axes in ((0, 1), (1, 0))]
    return [*plans, json.dumps(json.loads(plans[0]), indent=2)]


# ------------------------------------------------------------------ all of them

CASES: Mapping[str, Case] = {
    "boxnet": Case(
        nonsense=_aimless_plans,
        right=_plans,
        partial=lambda _, data: [*(carry(data, "box", colours=n) for n in (1, 2)), "[]", "[{}]", "move it", "5"],
        floor=0.05,
        count=40,
    ),
    "codeio": Case(
        nonsense=_long_json,
        right=_forms("{}", "\n{} "),
        partial=lambda oracle, _: [re.sub(r"\d", "7", oracle), oracle + "\nok", "{}", "no idea"],
        floor=0.3,
        count=10,
    ),
    "countdown": Case(
        nonsense=_near_the_target,
        **_expressions_of(None, "1 + 1"),
        floor=0.05,
        count=12,
        params={"max_numbers": 4},
    ),
    "figlet_font": Case(
        nonsense=_forms("{}Q", "{}qwxz", "{} and so on", "{}" + "!" * 30),
        right=lambda word, _: [word, word.lower(), " ".join(word)],
        partial=lambda word, _: ["#" + word[1:4], word[:-2], word[:5] + "#####", "?"],
        floor=0.92,
        count=5,
        params={"static_word": "LIGHTHOUSES"},
    ),
    "letter_jumble": Case(
        nonsense=_forms("{} and junk", "{}" + "\nqwxz " * 9, "{0} {0}"),
        right=_in_any_case("{}", " {}"),
        partial=_other_words,
        floor=0.95,
    ),
    "propositional_logic": Case(_premises_again, _inferences, _texts("A ∧ B", "Z"), count=150),
    "puzzle24": Case(_near_24, **_expressions_of(24, "24"), floor=0.01, count=6),
    "rectangle_count": Case(
        nonsense=lambda oracle, _: [str(int(oracle) + step) for step in (-2, -1, 1, 2)],
        right=_forms("{}", " {} "),
        partial=_texts("-9", "99", "many"),
        floor=0.4,
    ),
    "rush_hour": Case(
        nonsense=lambda _, data: [
            f"Z+1 {_escape(data)}",
            f"Z{_escape(data)}",
            f"not {_escape(data)}",
            f"{_escape(data)} B+0",
            _far(data),
        ],
        right=lambda _, data: [
            _escape(data),
            _escape(data).replace(" ", ", "),
            _escape(data).replace(" ", "\n"),
            re.sub("([A-Z])", r"\1\1", _escape(data)),
        ],
        partial=_texts("A+1", "none", "Q-3"),
        floor=0.01,
        count=6,
        params={"min_moves": 1, "max_moves": 8},
    ),
    "sokoban": Case(
        nonsense=_forms("not {}", "{} and more", "{}x", "{}UDLR", "{0}{0}", "UUUUUUUUUUDDDDDDDDDD{0}"),
        right=lambda oracle, _: [oracle, ", ".join(oracle), " ".join(oracle)],
        partial=_texts("U", "LR", "none"),
        count=6,
        params={"max_w": 7, "max_h": 7},
    ),
    "spell_backward": Case(
        nonsense=_forms("{}x", "{} is the word", "{}, qwxz", "{0}\n{0}"),
        right=_in_any_case("{}"),
        partial=lambda word, _: ["#" + word[1:], word[:-1] + "#", word[:-1], word[::-1], "no"],
        floor=0.8,
    ),
    "time_intervals": Case(
        nonsense=_other_times,
        right=lambda oracle, _: [oracle, f" {oracle} ", re.sub(r"^0(\d:)", r"\1", oracle)],
        partial=_texts("soon", "-", ""),
        floor=0.95,
    ),
    "word_sorting": Case(
        nonsense=_forms("{0}, {0}", "{}" + ", a" * 12),
        right=lambda oracle, _: [oracle, oracle.replace(" ", ""), oracle.replace(",", " ,\n")],
        partial=_some_words,
        floor=0.5,
    ),
}

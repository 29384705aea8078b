"""Reject exactly the flawed problems that an independent computation finds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import reasoning_gym
from reasoning_gym.logic.propositional_logic import Expression

from reasoning_env.answers.grammars.logic import concludes
from reasoning_env.tasks import TASKS, find_task
from reasoning_env.tasks.code import BEFORE_PROGRAM, digest, shown_program
from reasoning_env.tasks.declaration import Cause
from reasoning_env.tasks.serving import Flaw, find_flaw, flaw_of_error, with_right_answer

UNLUCKY_SEED = 178
"""If only a share of flawed problems is served, the problem with this seed is not served."""


def _flaw(task: str, entry: Mapping[str, Any]) -> Flaw | None:
    return find_flaw(find_task(task), entry, UNLUCKY_SEED)


@cache
def _entries(task: str, count: int) -> list[dict[str, Any]]:
    dataset = reasoning_gym.create_dataset(task, seed=60_000, size=count)
    return [dataset[number] for number in range(count)]


@pytest.mark.parametrize(
    ("operation", "num1", "num2", "result", "is_wrong"),
    [
        ("*", (3.0, 1.0), (2.0, -1.0), (7, -1), False),
        ("*", (94906267.0, 0.0), (94906269.0, 1.0), (9007199705687824, 94906267), True),
        ("/", (7.0, -1.0), (2.0, -1.0), (3, 1), False),
        ("/", (9007199705687824.0, 94906267.0), (94906269.0, 1.0), (94906267, 0), True),
        ("+", (1.0, 2.0), (3.0, 4.0), (4, 6), False),
    ],
)
def test_problems_whose_reference_answer_lost_digits_are_rejected(
    operation: str, num1: Any, num2: Any, result: Any, is_wrong: bool
) -> None:
    metadata = {"operation": operation, "num1": num1, "num2": num2, "result": result}
    entry = {"question": "?", "answer": f"{result[0]}.0 + {result[1]}.0i", "metadata": metadata}
    assert (_flaw("complex_arithmetic", entry) is not None) is is_wrong


def test_propositional_logic_problems_without_conclusion_are_rejected() -> None:
    served = []
    for entry in _entries("propositional_logic", 400):
        corrected = with_right_answer(find_task("propositional_logic"), entry, None)
        metadata = corrected["metadata"]
        if _flaw("propositional_logic", corrected) is None:
            served.append(_can_be_true(metadata) and concludes(metadata["example_answer"], metadata["premises"]))
    assert all(served) and 50 < len(served) < 120


def _can_be_true(metadata: Mapping[str, Any]) -> bool:
    """Check each line of the library's own truth tables."""
    names = metadata["variables"]
    premises = [Expression.from_string(premise) for premise in metadata["premises"]]
    return any(
        all(premise.evaluate(dict(zip(names, values, strict=True))) for premise in premises)
        for values in itertools.product((False, True), repeat=len(names))
    )


Entry = dict[str, Any]


def _entry(question: str, answer: str | None, **metadata: Any) -> Entry:
    return {"question": question, "answer": answer, "metadata": metadata}


def _cube(size: int, moves: str) -> Entry:
    return _entry("Solve it.", None, cube_size=size, example_correct_answer=moves)


def _graph(*edges: list[int]) -> Entry:
    puzzle = {"vertices": [*range(6)], "edges": list(edges), "color_options": [1, 2, 3]}
    return _entry("Colour it.", None, puzzle=puzzle)


def _marks(grid: str, answer: str) -> Entry:
    return _entry(f"How many of the 1's or rectangles?\n{grid}\nCount them.", answer)


def _friends(*numbers: int) -> Entry:
    return _entry(" and ".join(f"she has {number} friends" for number in numbers), "4")


def _anagrams(*groups: str) -> Entry:
    solution = sorted(group.split() for group in groups)
    return _entry("Group them.", str(solution), words=" ".join(groups).split(), solution=solution)


def _syllogism(one: str, other: str, conclusion: str, answer: str) -> Entry:
    """Return a syllogism. Without `conclusion`, "Some B are A" is to follow from the first premise alone."""
    statements = {"premise1": one, "premise2": other or "No B are C", "conclusion": conclusion or "Some B are A"}
    return _entry("Does it follow?", answer, **statements)


def _board(*rows: str) -> Entry:
    return _entry("Play.", "A3", board=[row.split() for row in rows])


def _lock(*solution: str) -> Entry:
    button = {"name": "A", "type": "add", "value": 2, "active_state": "any"}
    return _entry("Open it.", " ".join(solution), buttons=[button], target_value=8, solution_path=[*solution])


ISLANDS = "0 1 0\n1 0 0"
ENTRIES: dict[str, tuple[str, list[Entry], list[Entry]]] = {
    "integral that the library could not solve": (
        "intermediate_integration",
        [_entry("Integrate it.", "3*Integral(x**3*cos(3*x), x) + C")],
        [_entry("Integrate it.", "x**2/2 + C")],
    ),
    "nothing to insert": (
        "string_insertion",
        [_entry("Insert into: ABC", "ABC")],
        [_entry("Insert into: ABC", "ABCA")],
    ),
    "answer that is right too often": ("letter_counting", [_entry("How many?", "1")], [_entry("How many?", "2")]),
    "empty answer": ("gcd", [_entry("What is left of: abc", "")], [_entry("What is left of: abc", "c")]),
    "solved cube": ("rubiks_cube", [_cube(3, "")], [_cube(3, "R U"), _cube(2, "")]),
    "equation that only 0 solves": (
        "polynomial_equations",
        [_entry("Solve it.", "0.0", real_solutions=[0.0])],
        [_entry("Solve it.", "0.0, 1.0", real_solutions=[0.0, 1.0]), _entry("Solve it.", "2.0", real_solutions=[2.0])],
    ),
    "graph that is coloured without thought": (
        "graph_color",
        [_graph([0, 1], [1, 2]), _graph([0, 3], [1, 4])],
        [_graph([0, 3], [0, 1]), _graph([0, 3], [1, 2], [2, 4], [4, 5])],
    ),
    "land that needs only be counted": ("largest_island", [_marks(ISLANDS, "2")], [_marks(ISLANDS, "3")]),
    "sequence that a simple rule continues otherwise": (
        "number_sequence",
        [_entry("-1, 1, 0, 1, 1, 2, ?", "5"), _entry("2, 1, 4, 9, ?", "64")],
        [_entry("-1, 1, 0, 1, 1, 2, ?", "3"), _entry("2, 1, 9, ?", "100")],
    ),
    "number that goes on": ("number_sequence", [_entry("9, 3, 1, 0, 0, ?", "0")], [_entry("9, 3, 1, 0, 0, ?", "1")]),
    "lock that one button opens": ("quantum_lock", [_lock(*"AAAA"), _lock(*"ABAC")], [_lock(*"ABC")]),
    "two numbers of which either may count": ("aiw", [_friends(3, 3)], [_friends(3, 4), _friends(3, 4, 3, 4)]),
    "words that are grouped two by two or by length": (
        "group_anagrams",
        [_anagrams("eat tea", "tan nat"), _anagrams("act cat", "arcs cars scar")],
        [_anagrams("odd odd", "act cat tac", "bat tab")],
    ),
    "sentence with a word that comes twice": (
        "sentence_reordering",
        [_entry("Order: I am I.", "I I am.")],
        [_entry("Order: am I.", "I am.")],
    ),
    "sentence with a mark that stands alone": (
        "sentence_reordering",
        [_entry('Order: he said. "', '" he said.'), _entry("Order: here - Look", "Look - here")],
        [_entry('Order: "he said.', '"he said.')],
    ),
    "sentence that was cut at an abbreviation": (
        "sentence_reordering",
        [
            _entry("Order: Mr. alone, Left", "Left alone, Mr."),
            _entry("Order: Section org/contact 4.", "org/contact Section 4."),
        ],
        [_entry("Order: alone. Smith Mr. sat", "Mr. Smith sat alone.")],
    ),
    "examples that show no count": (
        "list_functions",
        [_entry("Input 1: [5, 1]\nOutput 1: [1]\nInput 2: [3]\nOutput 2: [0]\n\nInput: [5, 5]\nOutput:\n", "[2]")],
        [_entry("Input 1: [5, 5]\nOutput 1: [2]\nInput 2: [3]\nOutput 2: [0]\n\nInput: [5, 5]\nOutput:\n", "[2]")],
    ),
    "input with the first repeated number": (
        "list_functions",
        [_entry("Input 1: [5, 1]\nOutput 1: [2]\nInput 2: [3]\nOutput 2: [1]\n\nInput: [5, 5]\nOutput:\n", "[2]")],
        [_entry("Input 1: [5, 5]\nOutput 1: [2]\nInput 2: [3]\nOutput 2: [1]\n\nInput: [5, 5]\nOutput:\n", "[2]")],
    ),
    "colour that no output shows": (
        "rearc",
        [
            _entry("Example 7:\n\nInput:\n1 2\nOutput:\n2 2\n\n\nInput:\n1 1\n", "7 7"),
            _entry("Example 7:\n\nInput:\n1 7\nOutput:\n1 1\n\n\nInput:\n1 1\n", "7 7"),
        ],
        [_entry("Example 7:\n\nInput:\n1 2\nOutput:\n2 7\n\n\nInput:\n1 1\n", "7 7")],
    ),
    "colour of the test, where examples keep none": (
        "rearc",
        [_entry("Example 7:\n\nInput:\n1 2\nOutput:\n5 6\n\n\nInput:\n1 7\n", "7 7")],
        [_entry("Example 7:\n\nInput:\n1 2\nOutput:\n2 6\n\n\nInput:\n1 7\n", "7 7")],
    ),
    "polygon that is not convex": (
        "simple_geometry",
        [_entry("The last angle?", "180"), _entry("The last angle?", "203.5")],
        [_entry("The last angle?", "179.5")],
    ),
    "even power of a negative number": (
        "power_function",
        [_entry("-2.0^2", "4.0", base=-2.0, exponent=2), _entry("-2.0^0", "1.0", base=-2.0, exponent=0)],
        [_entry("-2.0^3", "-8.0", base=-2.0, exponent=3), _entry("2.0^-2", "0.25", base=2.0, exponent=-2)],
    ),
    "syllogism whose classes may be empty": (
        "syllogism",
        [_syllogism("All A are B", "No B are C", "Some A are not C", "Yes"), _syllogism("All A are B", "", "", "Yes")],
        [_syllogism("No A are B", "All C are B", "No A are C", "Yes"), _syllogism("Some A are B", "", "", "Yes")],
    ),
    "syllogism whose middle class is never taken as a whole": (
        "syllogism",
        [
            _syllogism("All A are B", "Some B are not C", "Some A are not C", "Yes"),
            _syllogism("All A are B", "Some B are C", "Some A are C", "Yes"),
        ],
        [_syllogism("All A are B", "Some B are C", "Some A are C", "No")],
    ),
    "story whose answer is cut": (
        "gsm_symbolic",
        [
            _entry("Al has £77.60 and buys 60 nails. Each costs £0.81. What has he left after paying?", "28"),
            _entry("Al has 3 tubes of paint and 1 of red paint. How many tubes of paint does Bo have?", "4"),
        ],
        [_entry("Al has £77.60 and buys 60 nails. Each costs £0.81. What has he left after paying?", "29")],
    ),
    "story that rounds a half": (
        "gsm_symbolic",
        [_entry("He sells lilies for $2.5 per bunch, and rounds to the nearest dollar.", "3")],
        [_entry("He sells lilies for $2.51 per bunch, and rounds to the nearest dollar.", "3")],
    ),
    "circuit whose last gate tells": (
        "circuit_logic",
        [_entry("Out?", "1", final_gate="OR"), _entry("Out?", "0", final_gate="AND")],
        [_entry("Out?", "1", final_gate="XOR")],
    ),
    "board with another capture, at C2, or none at A3": (
        "tsumego",
        [_board(". O X", ". X .", ". X O"), _board(". O X", ". O .", ". X .")],
        [_board(". O X", ". X .", ". . .")],
    ),
    "division that does not come out": (
        "basic_arithmetic",
        [_entry("7 / 2", "3", expression="7 / 2")],
        [_entry("6 / 2", "3", expression="6 / 2")],
    ),
    "haystack in which two people do the same": (
        "needle_haystack",
        [_entry("Ann loves tea. Bob loves tea. \nWho loves tea? Reply only with a name.", "Ann")],
        [_entry("Ann loves tea. Bob loves teas. \nWho loves tea? Reply only with a name.", "Ann")],
    ),
    "child whose name tells no sex": (
        "family_relationships",
        [_entry("Ann is married to Bob. They have a child called Sky.", "son", person1="Sky")],
        [
            _entry("Ann is married to Bob. They have a child called Tom.", "son", person1="Tom"),
            _entry("Ann is married to Sky.", "husband", person1="Sky"),
        ],
    ),
    "program without a definite output": (
        "codeio",
        [
            _entry("Can you predict a feasible input without writing any code?", "1"),
            _entry("import random\nrandom.seed(1)", "1"),
            _entry("today = datetime.now()", "1"),
            _entry("return list(set(words))", "1"),
            _entry("Given np.float64(1.5)", "1"),
            _entry("Given /tmp/reasoning-env-x7/1/test_dir", "1"),
            _entry("return secrets.token_hex(8)", "1"),
            _entry("return a / b", "[1, 0.3333333333333333]"),
            _entry("return a / b", "1.4210854715202004e-14"),
            _entry("return a / b", "{}", input_data={}, output_data={}),
        ],
        [
            _entry("Can you predict the output? return sorted(set(words))", "1"),
            _entry("return round(a / b, 12)", '{"a": 0.333333333333, "b": 123456789012345678}'),
            _entry("return found", "{}", input_data={"a": 1}, output_data={}),
        ],
    ),
}


CLAIMS = {True: ("and", ("lying", 0), ("lying", 1)), False: ("or", ("lying", 0), ("lying", 1))}


@pytest.mark.parametrize(
    ("solution", "with_and", "easy"),
    [
        ((True, True), (True, True), True),
        ((False, False), (True, True), True),
        ((True, True), (True, False), False),
        ((False, False), (False, True), False),
        ((True, False), (True, True), False),
        ((True, True, True), (True, True, False), False),
    ],
)
def test_knights_knaves_problem_is_rejected_if_logical_conjunctions_reveal_the_roles(
    solution: tuple[bool, ...], with_and: tuple[bool, ...], easy: bool
) -> None:
    metadata = {"solution": solution, "statements": [CLAIMS[says] for says in with_and]}
    entry = {"question": "Who?", "answer": "Emma is a knave.", "metadata": metadata}
    assert (_flaw("knights_knaves", entry) is not None) is easy


def test_easy_circuit_logic_problems_are_served_at_the_declared_rate() -> None:
    entry = _entry("Out?", "1", final_gate="OR")
    served = [find_flaw(find_task("circuit_logic"), entry, seed) is None for seed in range(400)]
    (rule,) = find_task("circuit_logic").rejected
    assert abs(sum(served) / 400 - rule.served) < 0.06


def test_problems_with_a_wrong_reference_answer_are_never_served() -> None:
    rules = [rule for task in TASKS.values() for rule in task.rejected if rule.cause is Cause.WRONG]
    assert rules and not any(rule.served for rule in rules)


@pytest.mark.parametrize("flaw", ENTRIES)
def test_flawed_problems_are_rejected_and_sound_problems_are_not(flaw: str) -> None:
    task, flawed, sound = ENTRIES[flaw]
    assert [entry for entry in flawed if _flaw(task, entry) is None] == []
    assert [entry for entry in sound if _flaw(task, entry) is not None] == []


def test_programs_whose_output_varies_between_runs_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = _entry(f"You can refer to this code {BEFORE_PROGRAM}return hash(a)\n", "1")
    assert _flaw("codeio", entry) is None
    monkeypatch.setattr("reasoning_env.tasks.code.UNSTABLE_PROGRAMS", {digest("return hash(a)")})
    assert _flaw("codeio", entry) is not None


def test_codeio_problem_with_a_flawed_program_is_rejected_without_running_it() -> None:
    dataset = reasoning_gym.create_dataset("codeio", seed=60_000, size=40)
    task = find_task("codeio")
    assert task.preview is not None
    preview = {number for number in range(40) if _flaw("codeio", task.preview(dataset, number)) is not None}
    assert 10 <= len(preview) <= 25
    # These programs give the expected outputs.
    for number in [number for number in range(40) if number not in preview][:3]:
        shown = task.preview(dataset, number)["question"].split(BEFORE_PROGRAM)[1]
        assert shown_program(dataset[number]["question"]).strip() == shown.strip()


def test_problem_of_a_code_task_is_rejected_if_its_program_fails() -> None:
    assert flaw_of_error(find_task("codeio"), SystemExit()) is not None
    assert flaw_of_error(find_task("bf"), TimeoutError()) is not None
    assert flaw_of_error(find_task("gcd"), RuntimeError()) is None

"""Hostile answers for every task.

No answer may execute code, break or stall a verifier worker, change the score of the next answer, or get a higher score
than its `most`. Payloads refer to files, a port and a process of `Traps`. The tables contain `MARK`, `PORT` and `SLEEP`
as placeholders. Marks consist of letters, so that a verifier that searches for numbers finds none in a path.
`tests/data/hostile.json` has the answers that are equal for all tasks, in one table for each kind of attack. Answers
that only a correction rejects are in `tests/answers/correction_cases.py`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from reasoning_env.records import Problem
from reasoning_env.workers.protocol import encode_frame

from .traps import Traps

CORPUS = Path(__file__).resolve().parents[1] / "data" / "hostile.json"
BELOW_FULL_MARKS = 0.99

WITNESSES = ("decimal_arithmetic", "polynomial_multiplication", "pool_matrix", "power_function", "countdown")
"""Tasks whose scores depend on global state of libraries in a verifier worker: contexts, caches, error states."""


class Kind(StrEnum):
    EXECUTION = "execution"
    WORK = "unbounded work"
    TEXT = "odd text"
    POISON = "poisoning"
    CHEAT = "cheating"


@dataclass(frozen=True)
class Hostile:
    """A hostile answer, and the highest score that it may get."""

    kind: Kind
    name: str
    answer: str
    most: float = BELOW_FULL_MARKS


# ------------------------------------------------------------------ tables


def _read_tables() -> dict[str, dict[str, str]]:
    """Return tables of answers by name.

    Some answers are lists of parts; a pair is a string and its number of repetitions.
    """

    def made(parts: Any) -> str:
        return parts if isinstance(parts, str) else "".join(p if isinstance(p, str) else p[0] * p[1] for p in parts)

    read = json.loads(CORPUS.read_text())
    return {table: {name: made(parts) for name, parts in texts.items()} for table, texts in read.items()}


TABLES = _read_tables()
EVALUATED = ("python", "sympy", "shell", "pickle", "address")
"""Payloads that run if Python evaluates them, sympy parses them, a shell runs them, or pickle or numpy loads them."""
UNKNOWN = "unknown"
"""Payloads for techniques that the project does not use, and payloads that once had an effect."""
SHAPED = ("a shell", "a file", "a wide look-alike")
"""Payloads that are tried in every shape (inside quotes, lists, calls and so on)."""
WORK = {
    **TABLES["work"],
    "many lower-case variables": "∧".join(f"v{number}" for number in range(90)),
    "json keys": "{" + ",".join(f'"{number}":{number}' for number in range(1500)) + "}",
}
FORGED = {"id": 1, "position": 0, "score": 1.0, "reason": "scored", "scoring_s": 0.0}
FORGERIES: Mapping[str, str] = {
    "a reply": json.dumps(FORGED),
    "a frame": encode_frame(FORGED).decode("latin-1"),
    "frames": (encode_frame(FORGED) * 50).decode("latin-1"),
    "a fault": json.dumps({"id": 1, "fault": "no such task"}),
    "readiness": json.dumps({"id": 1, "ready": True}),
    "a score": '{"score": 1.0}',
    "an end": '"}\x00\x00\x00\x00',
}

# ------------------------------------------------------------------ cheats

Data = Mapping[str, Any]
Cheats = Callable[[Data, str], Mapping[str, "str | tuple[str, float]"]]
"""Takes metadata and right answer; returns answers by name, each with its highest score if that is not 0.1."""


def _integral(data: Data, right: str) -> Mapping[str, str]:
    """Return some hostile integrals. The algebra tests have more strings that sympy would accept."""
    integrand, variable = data["integrand"], data["variable"]
    return {"the question": f"Integral({integrand}, {variable})", "not a number": f"nan*{variable}"}


def _extended(data: Data, right: str) -> Mapping[str, tuple[str, float]]:
    return {
        "the answer and a word": (f"{right} qwxz", BELOW_FULL_MARKS),
        "the answer and many words": (right + " qwxz" * 500, BELOW_FULL_MARKS),
        "the answer and letters": (f"{right}qwxz", BELOW_FULL_MARKS),
        "the answer and a comma": (f"{right}, qwxz", BELOW_FULL_MARKS),
    }


def _cubes(data: Data, right: str) -> Mapping[str, str]:
    return {
        "no move": "1",
        "the scramble": data["scramble_moves"],
        "words": "the cube is solved",
        "turns back": "R4 U4",
    }


def _texts(*texts: str) -> Cheats:
    return lambda data, right: {text: text for text in texts}


def _rewritten(**rewrites: tuple[str, str]) -> Cheats:
    """Return the right answer with a pattern replaced, by name."""
    return lambda data, right: {name: re.sub(*pair, right) for name, pair in rewrites.items()}


CHEATS: Mapping[str, Cheats] = {
    "advanced_geometry": _texts("nan, nan", "(nan, nan)", "nan°"),
    "binary_matrix": _rewritten(zeros=(r"\d", "0")),
    "cryptarithm": _rewritten(alike=(r"\d", "1"), negative=("=", "=-")),
    "graph_color": _rewritten(none=(r": *\d+", ": NaN"), lists=(r": *\d+", ": []")),
    "intermediate_integration": _integral,
    "kakurasu": _rewritten(ones=(r"\d", "1")),
    "mini_sudoku": _texts("\n".join(["1 2 3 4"] * 24)),
    "needle_haystack": _extended,
    "polynomial_equations": _texts("inf, -inf", "nan, nan", "none", "???", "-1e400, 1e400"),
    "polynomial_multiplication": lambda data, right: {"unevaluated": f"Mul({right})"},
    "pool_matrix": _rewritten(nan=(r"\d+(\.\d+)?", "nan"), infinite=(r"\d+(\.\d+)?", "inf")),
    "rubiks_cube": _cubes,
    "sentence_reordering": _extended,
    "simple_integration": _integral,
    "survo": _rewritten(ones=(r"\d", "1")),
    "tower_of_hanoi": _rewritten(underscored=("Peg 3", "Peg 0_3"), stay=(r"to Peg \d", "to Peg 1")),
}

# ------------------------------------------------------------------ overload of one task


LITERALS = ["[" * 9000, "1" + "+1" * 9000, "1" + "(1)" * 6000, "1" + "[1]" * 6000, "['Q'] * 10**9", "range(10**9)"]
SUMS = ["9**9**9**9", "1e999999999", "(" * 9000, "1+" * 9000 + "1", "9" * 5000, "2**4096**2", "-" * 9000, "99999!"]
ALGEBRA = ["x**x**x**x**x", "x**99999", "9**9**9**9", "exp(99999999999*log(2))", "cos(exp(1e30))"]
PRODUCTS = [
    *(sign.join(f"a{number:x}" for number in range(2400)) for sign in "+*-"),
    "+".join(["1/999983**200"] * 800),
    "acos(cos(exp(exp(50))))",
    "exp(exp(exp(1.0e300)))",
    "atan(tan(exp(exp(exp(9)))))",
    "sin(" * 95 + "1" + ")" * 95,
    "log(" * 95 + "7" + ")" * 95,
    "tanh(asinh(" * 48 + "x" + "))" * 48,
    "asin(sin(" * 48 + "exp(9)" + "))" * 48,
    "sqrt(2+" * 90 + "2" + ")" * 90,
    "cos(pi/999999937)",
    "Abs((sqrt(2)+sqrt(3)+sqrt(5)+sqrt(7)+sqrt(11))*sqrt(2)-2-sqrt(6)-sqrt(10)-sqrt(14)-sqrt(22))",
]
CONSTANTS = "RIGHT" + "".join(f"+a{number:x}" for number in range(1500))
"""This answer is right, because its additional terms are constants of integration."""
SLOPES = [
    CONSTANTS,
    "1e15+sin(cos(tan(exp(sin(VAR**3+1))*log(VAR+2))))*VAR**5",
    "1e15" + "".join(f"+sin(VAR**{power}+{power})" for power in range(1, 20)),
    "RIGHT" + "".join(f"+1e-9*sin(VAR**{power}+{power})" for power in range(1, 20)),
    "RIGHT+1e-12*sin(cos(tan(exp(sin(VAR**3+1))*log(VAR+2))))*VAR**5",
    "RIGHT+1e-12*" + "sin(" * 40 + "VAR" + ")" * 40,
    "RIGHT+1e-200*" + "*".join(f"(VAR+{number})**{number}" for number in range(2, 60)),
    "RIGHT+1e-12*(VAR+1)**(1/3)*(VAR+2)**(1/5)*(VAR+3)**(1/7)*log(VAR+4)*atan(VAR+5)",
    "RIGHT+1e-12*Abs(sin(VAR)+I*cos(VAR))",
    "RIGHT+(VAR+1)**200*1e-300",
    "RIGHT+1e-12*sec(VAR)**20*csc(VAR)**20*cot(VAR)**9",
    "RIGHT+1e-12*sqrt(1+sqrt(1+sqrt(1+sqrt(1+sqrt(1+VAR)))))",
    "RIGHT+1e-12*" + "*".join(f"cos(VAR/{number})" for number in range(2, 30)),
]
"""Answers with an error that is too small for floating point. Only symbolic simplification could find it."""
BURDENS: Mapping[str, Sequence[str]] = {
    "binary_matrix": [*LITERALS, "[[" + "1," * 9000 + "]]"],
    "bitwise_arithmetic": ["0x" + "f" * 19_000, "9" * 19_000, "0b" + "1" * 19_000, "1_" * 9000 + "1"],
    "boxnet": [
        "[" * 9000 + "]" * 9000,
        '[{"' + "9" * 9000 + '": "move(box_red, square[1, 1])"}]',
        "[" + ",".join(['{"Agent[0.5, 0.5]":"move(box_red, square[0.5, 1.5])"}'] * 300) + "]",
        "[{" + ",".join(f'"{n}.5 0.5":"move(, )"' for n in range(800)) + "}]",
        "[" + "9" * 5000 + "]",
    ],
    "codeio": [
        '{"a":' * 5000 + "1" + "}" * 5000,
        '{"a":1,"b":' * 200 + "1" + "}" * 200,
        '{"a":[' + ",".join(["[1]"] * 1000) + "]}",
        '{"a":[' + "1," * 9900 + "1]}",
        "{" + ",".join(f'"{number}":[]' for number in range(2000)) + "}",
        *('{"a":' + "[1," * depth + "1" + "]" * depth + "}" for depth in (300, 900)),
        '{"a":' + "[" * 900 + "1" + ",1]" * 900 + "}",
        '{"a":"' + "b" * 19_900 + '"}',
        '{"a":["' + '","'.join(["x" * 97] * 195) + '"]}',
        "{" * 19_000 + "}",
        '{"a":' + "9" * 5000 + "}",
        '{"a":"' + "1" * 9000 + '","b":"' + "1" * 9000 + '"}',
    ],
    "coin_flip": [
        "1e99999999",
        "1e-99999999",
        "1E+99999999/1",
        "1e9_9_9_9_9_9_9_9",
        "1e9,9,9,9,9,9,9",
        "1e,9999999",
        "1e-,9999999",
        "1,e9,999,999",
        "0.5e0000000",
        "9" * 5000,
        "1/" + "9" * 5000,
        "1e9,9999999999",
        "1e-9_9_9_9_9_9_9",
        "1e+9,9_9999999",
    ],
    "complex_arithmetic": ["(" * 9000, "9" * 9000 + "i", "1e" + "9" * 80, "1+" * 50],
    "countdown": SUMS,
    "intermediate_integration": [*ALGEBRA, *SLOPES],
    "n_queens": [*LITERALS, "[" + "'Q'," * 5000 + "]"],
    "number_sorting": ["[" * 9000, "[" + "1," * 9000 + "1]", "[" + "9" * 5000 + "]", "[1e999]", "[NaN]"],
    "polynomial_multiplication": [*ALGEBRA, *PRODUCTS],
    "propositional_logic": [
        "\u2228".join(map(chr, range(97, 123))),
        "\u2227".join("P" + " P" * n for n in range(1, 19)),
        "\u2228".join("(P)" * n for n in range(2, 20)),
        "\u00ac" * 599 + "P",
        "P\u2227" * 299 + "P",
        "\u2192".join(["P"] * 300),
        "\u2227" * 600,
        "P\u2228Q" * 5000,
        "(" * 299 + "P" + ")" * 299,
        "(P\u2228" * 149 + "P" + ")" * 149,
        "\u00ac" * 590 + "P\u2227\u00acP",
        "(\u00ac" * 190 + "(P\u2227\u00acP)" + ")" * 190,
    ],
    "puzzle24": SUMS,
    "rubiks_cube": [
        "R999999999",
        "R" + "9" * 5000,
        "999999999",
        "R4 " * 6000,
        "R3 " * 2000,
        "L4 " * 2000,
        "Rw3 " * 2000,
        "R" + "\u0669" * 9,
    ],
    "rush_hour": ["A+999999999", "B-" + "9" * 5000, "A+9 A-9 " * 2000, "A+\u0669" * 2000],
    "simple_integration": [*ALGEBRA, *SLOPES],
    "spiral_matrix": LITERALS,
    "string_insertion": [*LITERALS, "'" + "A" * 19_000 + "'", "'A' * 10**9"],
}
"""Answers that would overload the verifier of a task. P stands for a variable in the question's formulas."""


def burdens(task: str, data: Data, right: str) -> list[str]:
    """Return answers that would overload the verifier of this problem's task."""
    if task == "propositional_logic":
        # An answer with a variable of the premises could be right.
        open_one = next(name for name in ascii_uppercase if name not in "".join(data["premises"]))
        return [text.replace("P", open_one) for text in BURDENS[task]]
    start, variable = right.replace("+ C", "").strip(), data.get("variable", "x")
    return [text.replace("RIGHT", start).replace("VAR", variable) for text in BURDENS[task]]


# ------------------------------------------------------------------ all hostile answers

TYPICAL = {"boxnet": '[{"Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"}]', "rush_hour": "A+1"}
"""Ordinary answers for tasks without a reference answer."""
CHEAT_MOST = 0.1
FIRST_NUMBER_COUNTS = frozenset({"gsm_symbolic", "time_intervals"})
EVALUATING = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Tasks whose own verifiers evaluate the answer, so that the name of the right answer's variable gets partial credit.
"""


def ordinary_answer(problem: Problem) -> str:
    """Return the right answer if one is known, and otherwise an ordinary answer."""
    right = problem.known_answer
    return TYPICAL[problem.task] if right is None else right


def hostile_answers(problem: Problem, traps: Traps) -> list[Hostile]:
    """Return all hostile answers to a problem. An answer that happens to be right may get the score 1."""
    right = ordinary_answer(problem)
    data = json.loads(problem.metadata_json)
    found = [*_executions(right, traps), *_tables(problem.task), *_own(problem.task, data, right)]
    return [replace(hostile, most=1.0) if _is_right(hostile, problem.task, right) else hostile for hostile in found]


def _is_right(hostile: Hostile, task: str, right: str) -> bool:
    """Return True if an answer has the same meaning as the right answer."""
    answer = hostile.answer
    if answer.strip().casefold() == right.strip().casefold():
        return True
    if task in FIRST_NUMBER_COUNTS and hostile.kind is not Kind.CHEAT:
        said, meant = (re.search(r"-?\d+(\.\d+)?", text) for text in (answer, right))
        return said is not None and meant is not None and said[0] == meant[0]
    with contextlib.suppress(ValueError):
        return float(answer) == float(right)
    return False


def _executions(right: str, traps: Traps) -> Iterator[Hostile]:
    for table in (*EVALUATED, UNKNOWN):
        for name, payload in TABLES[table].items():
            yield Hostile(Kind.EXECUTION, name, traps.arm(payload))
    for name in SHAPED:
        payload = TABLES["python"][name]
        for shape, frame in TABLES["shapes"].items():
            yield Hostile(Kind.EXECUTION, f"{name} in {shape}", traps.arm(frame.replace("PAYLOAD", payload)))
        for place, text in _grafts(right, payload).items():
            yield Hostile(Kind.EXECUTION, f"{name} {place}", traps.arm(text), most=1.0)
    packed = pickle.dumps(traps.arm(TABLES["python"]["a shell"]))
    yield Hostile(Kind.EXECUTION, "in base64", base64.b64encode(packed).decode())
    bait = traps.bait(right)
    yield Hostile(Kind.CHEAT, "a file with the right answer", bait)
    yield Hostile(Kind.CHEAT, "the address of a file with the right answer", f"file://{bait}")


def _grafts(right: str, payload: str) -> dict[str, str]:
    """Return payloads combined with the right answer. These answers may get the score 1."""
    number = re.search(r"\d+", right)
    return {
        "in the place of a number": right.replace(number[0], payload, 1) if number else payload + right,
        "on a line after the answer": f"{right}\n{payload}",
        "on a line before the answer": f"{payload}\n{right}",
        "or the answer": f"{payload} or {right}",
    }


def _tables(task: str) -> Iterator[Hostile]:
    poison = {**TABLES["poison"], **FORGERIES}
    for kind, table in ((Kind.WORK, WORK), (Kind.TEXT, TABLES["text"]), (Kind.POISON, poison)):
        for name, answer in table.items():
            yield Hostile(kind, name, answer)
    for name in TABLES["own names"]:
        yield Hostile(Kind.CHEAT, name, name, most=0.0 if task in EVALUATING else BELOW_FULL_MARKS)


def _own(task: str, data: Data, right: str) -> Iterator[Hostile]:
    if task in CHEATS:
        for name, cheat in CHEATS[task](data, right).items():
            answer, most = (cheat, CHEAT_MOST) if isinstance(cheat, str) else cheat
            yield Hostile(Kind.CHEAT, name, answer, most)
    if task in BURDENS:
        for text, answer in zip(BURDENS[task], burdens(task, data, right), strict=True):
            yield Hostile(Kind.WORK, "a burden", answer, 1.0 if text == CONSTANTS else BELOW_FULL_MARKS)

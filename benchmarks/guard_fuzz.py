"""Attacks the guards of the verifiers with seeded inputs, and compares their scores with the library's own.

`python -m benchmarks.guard_fuzz --inputs 100000` sends random text, mutated honest answers, expressions of the grammar
and mutated hostile snippets to every guard and every parser, under a tripwire: no code may run, nothing but declared
errors may come out, no input may take long, and every score is in [0, 1]. Before that, honest and wrong answers to
every guarded task (`--answers` of each) must get from the guard exactly what the library's verifier gives them.

Declared errors are a parser's own class and, from a guard, what the library's verifier raised, as the frames in the
traceback tell. Times are CPU seconds. Input k depends on the seed and k alone. Prints one line of JSON; ends with 1
when anything was found.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import pickle
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import FrameType, TracebackType
from typing import Any

from reasoning_env.verifiers import GUARDS, preload, verify
from reasoning_env.verifiers.grammars import expressions as arithmetic
from reasoning_env.verifiers.grammars.literals import LiteralError, parse_literal

MEMORY_BYTES = 6 << 30
DEADLINE_S = 5.0
"""CPU seconds after which an input is given up; the limit that counts is an option."""
MOST_COSTLY: Mapping[str, float] = {"intermediate_integration": 1.0, "puzzle24": 0.3, "rush_hour": 0.1}
"""Tasks that are slow to generate or to solve, and the share of items that they are given."""
INTEGRATION = ("intermediate_integration", "simple_integration")
ARITHMETIC = ("countdown", "puzzle24")

Rng = random.Random
Form = Callable[[str], str]


@dataclass(frozen=True)
class Exercise:
    """One item of a task: the entry as bytes, since verifiers may write into it, and a right answer."""

    entry: bytes
    oracle: str


@dataclass(frozen=True)
class Bench:
    task: str
    dataset: Any
    exercises: Sequence[Exercise]


def load(task: str, items: int, seed: int) -> Bench:
    """A dataset with some of its items that can be served and solved. Imports the library."""
    library = importlib.import_module("reasoning_gym")
    wanted = max(3, math.ceil(items * MOST_COSTLY.get(task, 1.0)))
    params = {"max_moves": 8} if task == "rush_hour" else {}
    dataset = library.create_dataset(task, seed=seed, size=10 * wanted + 100, **params)
    exercises: list[Exercise] = []
    for index in range(len(dataset)):
        with contextlib.redirect_stdout(sys.stderr):  # codeio prints
            entry = dataset[index]
        oracle = solve(task, entry)
        if oracle and "Integral(" not in oracle:
            exercises.append(Exercise(pickle.dumps(entry), oracle))
        if len(exercises) == wanted:
            break
    return Bench(task, dataset, exercises)


def solve(task: str, entry: Mapping[str, Any]) -> str | None:
    """A right answer: the oracle's, the example's, or one that is searched for."""
    metadata = entry["metadata"]
    if task == "rush_hour":
        return solve_rush_hour(metadata["board_config"])
    if task == "boxnet":
        return solve_boxnet(metadata["initial_state"])
    answer = entry["answer"] or metadata.get("example_answer") or metadata.get("example_correct_answer")
    return None if answer is None else str(answer)


def solve_rush_hour(board: str, size: int = 6, most_boards: int = 20_000) -> str | None:
    """The moves of a shortest solution, found breadth first. The question names the cars anew, without gaps."""
    cars = sorted(set(board) - {"o", "x"})
    names = {car: chr(ord("A") + number) for number, car in enumerate(cars)}
    seen = {board}
    queue = deque([(board, "")])
    while queue and len(seen) < most_boards:
        board, moves = queue.popleft()
        if board[2 * size + size - 1] == "A":
            return moves.strip()
        for car in cars:
            first, last = board.index(car), board.rindex(car)
            stride = 1 if last - first < size else size
            for sign, front, back in (("+", last, first), ("-", first, last)):
                step = stride if sign == "+" else -stride
                target = front + step
                same_line = stride == size or target // size == front // size
                if not (0 <= target < len(board) and same_line and board[target] == "o"):
                    continue
                cells = list(board)
                cells[target], cells[back] = car, "o"
                after = "".join(cells)
                if after not in seen:
                    seen.add(after)
                    queue.append((after, f"{moves} {names[car]}{sign}1"))
    return None


def solve_boxnet(state: Mapping[str, Sequence[str]]) -> str:
    """Each box goes to its target's square by rows and then by columns, one step at a time, and onto the target."""
    steps: list[dict[str, str]] = []
    places = {item: tuple(map(float, square.split("_"))) for square, items in state.items() for item in items}
    for box in sorted(item for item in places if item.startswith("box_")):
        target = box.replace("box_", "target_")
        row, column = places[box]
        end_row, end_column = places[target]
        while (row, column) != (end_row, end_column):
            agent = f"Agent[{row}, {column}]"
            if row != end_row:
                row += math.copysign(1.0, end_row - row)
            else:
                column += math.copysign(1.0, end_column - column)
            steps.append({agent: f"move({box}, square[{row}, {column}])"})
        steps.append({f"Agent[{row}, {column}]": f"move({box}, {target})"})
    return json.dumps(steps)


# Honest and wrong answers


def rephrase(task: str, oracle: str, rng: Rng) -> str:
    """An answer in another form that an honest model may give it; the verifiers take some of these and not others."""
    forms: list[Form] = [
        lambda text: text,
        lambda text: f" {text} ",
        lambda text: f"{text}\n",
        lambda text: f"\n{text}",
        lambda text: text.replace(" ", ""),
        lambda text: f"`{text}`",
        lambda text: f"The answer is {text}.",
        lambda text: f"{text}.",
    ]
    return rng.choice([*forms, *FORMS.get(task, ())])(oracle)


def _as_lists(text: str) -> str:
    return json.dumps([row.split() for row in text.splitlines()])


def _as_numbers(text: str) -> str:
    return _as_lists(text).replace('"', "")


ARITHMETIC_FORMS: Sequence[Form] = (
    lambda text: f"({text})",
    lambda text: f"{text} = 24",
    lambda text: text.replace("*", "\N{MULTIPLICATION SIGN}"),
    lambda text: text.replace("*", "**"),
    lambda text: text.replace("*", " x "),
    lambda text: text.replace(" ", "  "),
    lambda text: f"+{text}",
    lambda text: f"-{text}",
    lambda text: f"[{text}]",
    lambda text: f"{text} + 0",
    lambda text: f"1 * ({text})",
    lambda text: text.replace("(", "").replace(")", ""),
    lambda text: f"({text}",
    lambda text: f"{text}.0",
    lambda text: f"{text}\n{text}",
)
ALGEBRA_FORMS: Sequence[Form] = (
    lambda text: text.replace(" + C", ""),
    lambda text: text.replace("+ C", "+ K"),
    lambda text: text.replace("+ C", "+ C1"),
    lambda text: text.replace("+ C", "+ constant"),
    lambda text: text.replace("+ C", "- 7"),
    lambda text: text.replace("+ C", "+ c + 1/3"),
    lambda text: f"({text})",
    lambda text: f"{text} + 0",
    lambda text: f"1*({text})",
    lambda text: text.replace("**", "^"),
    lambda text: text.replace("*x", "x"),
    lambda text: text.replace("log", "ln"),
    lambda text: text.replace("sqrt(", "1*sqrt("),
    lambda text: text.replace("/2", "*0.5"),
    lambda text: text.replace("2*", "2.0*"),
    lambda text: text.replace("exp(", "E**("),
    lambda text: text.replace("/2", "*Rational(1, 2)"),
    lambda text: text.replace("x**2", "Pow(x, 2)"),
    lambda text: text.replace("x**2", "x*x"),
    lambda text: f"F(x) = {text}",
    lambda text: f"2*({text})/2",
    lambda text: f"-({text})",
    lambda text: " + ".join(reversed(text.split(" + "))),
)
LITERAL_FORMS: Sequence[Form] = (
    _as_lists,
    _as_numbers,
    lambda text: _as_lists(text).replace('"', "'"),
    lambda text: _as_lists(text).replace("], ", "],\n "),
    lambda text: json.dumps(text.split()),
    lambda text: json.dumps(text),
    lambda text: json.dumps(list(text)),
    lambda text: repr(list(text)),
    lambda text: repr(tuple(text)),
    lambda text: f"[{', '.join(text.split())}]",
    lambda text: f"[{', '.join(text.split())},]",
    lambda text: ", ".join(text.split()),
    lambda text: json.dumps(text.splitlines()),
    lambda text: f"'{text}'",
    lambda text: text.replace("\n", "\n\n"),
)
FORMS: Mapping[str, Sequence[Form]] = {
    **dict.fromkeys(ARITHMETIC, ARITHMETIC_FORMS),
    **dict.fromkeys((*INTEGRATION, "polynomial_multiplication"), ALGEBRA_FORMS),
    **dict.fromkeys(("n_queens", "binary_matrix", "spiral_matrix", "string_insertion"), LITERAL_FORMS),
    "bitwise_arithmetic": [
        lambda text: str(int(text, 16)),
        lambda text: str(-int(text, 16)),
        lambda text: bin(int(text, 16)),
        lambda text: oct(int(text, 16)),
        lambda text: text.upper(),
        lambda text: text.replace("0x", ""),
        lambda text: text.replace("0x", "0x0"),
        lambda text: f"+{text}",
    ],
    "boxnet": [
        lambda text: json.dumps(json.loads(text), indent=2),
        lambda text: json.dumps(json.loads(text)[:-1]),
        lambda text: json.dumps([*json.loads(text), {}]),
        lambda text: json.dumps({"plan": json.loads(text)}),
        lambda text: f"```json\n{text}\n```",
        lambda text: text.replace("square", "Square"),
    ],
    "codeio": [
        lambda text: f"The output is {text}",
        lambda text: text.replace('"', "'"),
        lambda text: f"```json\n{text}\n```",
        lambda text: text.replace(": ", ":"),
        lambda text: '{"output": ' + text + "}",
    ],
    "coin_flip": [
        lambda text: text[:4],
        lambda text: f"{text}0",
        lambda text: f"{100 * float(text):.2f}%",
        lambda text: f"{float(text):.3e}",
        lambda text: f"{float(text):.2f}",
        lambda text: "1/2",
        lambda text: f"{text.rpartition('.')[2]}/1,000",
    ],
    "complex_arithmetic": [
        lambda text: text.replace("i", "j"),
        lambda text: f"({text})",
        lambda text: text.replace("i", "*i"),
        lambda text: text.replace("i", ".0i"),
        lambda text: text.partition(" ")[0],
        lambda text: text.replace("-", "+"),
    ],
    "propositional_logic": [
        lambda text: f"({text})",
        lambda text: f"\u00ac\u00ac({text})",
        lambda text: f"\u00ac({text})",
        lambda text: f"{text} \u2228 {text}",
        lambda text: f"P \u2228 ({text})",
        lambda text: f"P \u2194 ({text})",
        lambda text: f"P \u2192 ({text}) \u2227 Q",
        lambda text: f"({text}",
        lambda text: "P \u2228 \u00acP",
        lambda text: "Z",
    ],
    "number_sorting": [
        lambda text: text.replace("'", '"'),
        lambda text: text.replace("'", ""),
        lambda text: text.strip("[]"),
        lambda text: text.replace("[", "").replace("]", "").replace("'", "").replace(", ", " "),
        lambda text: repr(json.loads(text.replace("'", '"'))[::-1]),
        lambda text: text.replace(".", ".0"),
        lambda text: text.replace("]", ", '0']"),
        lambda text: text.replace("-", ""),
    ],
    "rubiks_cube": [
        lambda text: text.replace(" ", ", "),
        lambda text: text.lower(),
        lambda text: text.replace("'", "3"),
        lambda text: " ".join(f"{move}1" for move in text.split()),
        lambda text: " ".join(f"{move}5" for move in text.split()),
        lambda text: f"{text} R4 U8 L0",
        lambda text: f"R2 {text}",
        lambda text: text.replace("R R", "R2"),
        lambda text: text.replace("'", "\u2019"),
    ],
    "rush_hour": [
        lambda text: text.replace(" ", ", "),
        lambda text: f"{text} A+9",
        lambda text: text.replace("1", "2"),
        lambda text: text.replace("1", "12"),
        lambda text: text.replace("+", "-"),
        lambda text: text.lower(),
        lambda text: f"[{text}]",
        lambda text: f"B-3 {text}",
    ],
}


def mutate(text: str, rng: Rng) -> str:
    """A slip: one character that is another of its kind, left out or doubled."""
    if not text:
        return "x"
    position = rng.randrange(len(text))
    character = text[position]
    if character.isdigit():
        other = str(rng.randrange(10))
    elif character.isalpha():
        alike = [other for other in text if other.isalpha()]
        other = rng.choice(alike)
    else:
        other = rng.choice("+- ")
    return text[:position] + rng.choice([other, other, "", character + character]) + text[position + 1 :]


def wrong_answer(bench: Bench, exercise: Exercise, rng: Rng) -> str:
    """An honest attempt that is most likely wrong."""
    other = rng.choice(bench.exercises).oracle
    choices: list[Callable[[], str]] = [
        lambda: mutate(exercise.oracle, rng),
        lambda: mutate(mutate(exercise.oracle, rng), rng),
        lambda: mutate(rephrase(bench.task, exercise.oracle, rng), rng),
        lambda: rephrase(bench.task, other, rng),
        lambda: exercise.oracle[: rng.randrange(len(exercise.oracle) + 1)],
        lambda: f"{exercise.oracle} {other}",
        lambda: rng.choice(["", "0", "1", "x", "I do not know", "None", "[]", "{}", "no solution"]),
    ]
    return rng.choice(choices)()


@dataclass(frozen=True)
class Mismatch:
    task: str
    answer: str
    library: str
    guard: str


def compare(bench: Bench, answers: int, seed: int) -> list[Mismatch]:
    """Where the guard's score of as many right and as many wrong answers is not the library's.

    Where the library raises, the guard may raise as well or give nothing. Answers that the library takes over the
    deadline for are left out. A formula of known letters over variables that are not the question's gets the floor.
    """
    found: list[Mismatch] = []
    rng = Rng(f"{seed} {bench.task}")
    guard = GUARDS[bench.task]
    for number in range(2 * answers):
        exercise = bench.exercises[number % len(bench.exercises)]
        if number < min(answers, len(bench.exercises)):
            answer = exercise.oracle
        elif number < answers:
            answer = rephrase(bench.task, exercise.oracle, rng)
        else:
            answer = wrong_answer(bench, exercise, rng)
        library, slow = _scored(lambda a=answer, e=exercise: bench.dataset.score_answer(a, pickle.loads(e.entry)))
        if slow:
            continue
        ours, _ = _scored(lambda a=answer, e=exercise: guard(a, pickle.loads(e.entry), bench.dataset))
        agreed = ours == library or (isinstance(library, str) and (ours == 0.0 or isinstance(ours, str)))
        intended = _is_right_in_decimals(bench.task, answer, library, ours) or (
            bench.task == "propositional_logic" and _has_other_variables(answer, exercise, ours)
        )
        if not agreed and not intended:
            found.append(Mismatch(bench.task, answer, str(library), str(ours)))
    return found


def _is_right_in_decimals(task: str, answer: str, library: float | str, ours: float | str) -> bool:
    """Whether an antiderivative in decimals is right that sympy cannot show to be so in floating point."""
    return task.endswith("integration") and "." in answer and (library, ours) == (0.0, 1.0)


def _has_other_variables(answer: str, exercise: Exercise, ours: float | str) -> bool:
    """Whether a formula that got no more than the floor is over variables that its question does not have."""
    known = pickle.loads(exercise.entry)["metadata"]["variables"]
    names = {part.strip() for part in re.split("[\u2227\u2228\u00ac\u2192\u2194()]", answer)} - {""}
    return ours in (0.0, 0.05) and not names.issubset(known)


def _scored(score: Callable[[], float]) -> tuple[float | str, bool]:
    """The score, or the name of the error, and whether the call went over the deadline."""
    started = time.process_time()
    try:
        with deadline(DEADLINE_S):
            value: float | str = float(score())
    except OverTime:
        value = "OverTime"
    except Exception as error:
        value = type(error).__name__
    return value, time.process_time() - started >= DEADLINE_S


class OverTime(BaseException):
    """Raised into what runs for too long; the library swallows everything that is an Exception."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """CPU seconds; again and again, for code that catches everything."""

    def end(number: int, frame: FrameType | None) -> None:
        raise OverTime

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


# The tripwire


class Tripwire:
    """Notes what code does that only hostile code would do. An audit hook stays for the life of its process."""

    FAMILIES = frozenset({"subprocess", "socket", "ctypes", "shutil", "pty", "ftplib", "http", "urllib", "webbrowser"})
    CALLS = """
exec os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty os.kill os.remove os.rename os.mkdir os.rmdir
os.putenv os.chmod os.link os.symlink os.truncate os.listdir os.scandir builtins.input builtins.breakpoint sys.settrace
sys.setprofile code.__new__ function.__new__
"""
    LATE_IMPORTS = frozenset({"sympy", "mpmath"})
    """What imports parts of itself when they are first called for; what else happens then is not looked at."""
    SOURCE_OF_ITS_OWN = ("sympy.polys.monomials", "_build")
    """The one function that makes code: loops over exponents, unrolled for so many variables."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._armed = False
        sys.addaudithook(self._hook)

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        self.events.clear()
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._armed and self._is_telling(event, arguments):
            self._armed = False
            self.events.append(f"{event} {arguments!r}"[:100])
            self._armed = True

    def _is_telling(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "import":
            return arguments[0].partition(".")[0] not in self.LATE_IMPORTS
        if event == "open":
            flags = arguments[2] or 0
            telling = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
        elif event == "compile":
            telling = arguments[1] != "<unknown>"  # as which ast.parse makes a tree, which does not run
        else:
            telling = event in self.CALLS.split() or event.partition(".")[0] in self.FAMILIES
        return telling and not any(map(self._is_tolerated, _callers()))

    def _is_tolerated(self, frame: FrameType) -> bool:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        return (frame.f_globals.get("__name__"), frame.f_code.co_name) == self.SOURCE_OF_ITS_OWN


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


# Inputs


ALPHABETS = (
    "0123456789+-*/(). ",
    "xC0123456789+-*/(),. \n",
    "[](),'\"\\ \n0123456789-+.eETrueFalsNo",
    "PQRS()\u2227\u2228\u00ac\u2192\u2194 ",
    '{}[]":,0123456789.-eE \n',
    "ABCDFLRUMESxyz'0123456789+- ",
    "abcdefghijklmnopqrstuvwxyz_.()'\"",
    "0123456789eE+-_/,.ij ",
    "\u0661\u0662\uff11\uff58\u00b2\u2070\u2212\u00d7\u00a0\u200b\ud800\x00\r\x0b\u2028xX+1(",
)
LEAVES = (
    "x", "x", "x", "C", "y", "pi", "E", "I", "0", "1", "2", "3", "10", "200", "201", "0.5", "0.1", "1e-30", "1e30",
    "1e300", "1e-300", "9" * 200, "(0.1+0.2-0.3)", "(1-1)", "a_1", "__import__", "lambda", "S", "oo", "nan", "zoo",
    "Integral",
)  # fmt: skip
FUNCTIONS = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "log", "ln",
    "sqrt", "sec", "csc", "cot", "Abs", "abs",
)  # fmt: skip
OTHER_FUNCTIONS = (
    "Rational", "Pow", "pow", "log", "C", "x", "f", "Integral", "integrate", "diff", "Derivative", "expand", "Subs",
    "Symbol", "symbols", "Function", "Lambda", "eval", "exec", "open", "print", "sympify", "Limit", "Sum", "factorial",
)  # fmt: skip
HOSTILE = (
    "__import__('os').system('touch /tmp/guard_fuzz')",
    "().__class__.__bases__[0].__subclasses__()",
    "(lambda: 0)()",
    "open('/tmp/guard_fuzz', 'w')",
    "exec('import os')",
    "eval(\"__import__('subprocess').run('true')\")",
    "[x for x in ().__class__.__mro__]",
    "f'{__import__(\"os\")}'",
    "(x := 1)",
    "1; import os",
    "x.diff(x)",
    "x.__class__",
    "Integral(x, x)",
    "integrate(x, x)",
    "Integral(x, x).doit()",
    "Derivative(x**2, x)",
    "Subs(x, x, 1)",
    "expand((x+1)*(x+2))",
    "Symbol('x')",
    "Function('f')(x)",
    "9**9**9**9",
    "9**(9**9)",
    "1e999999999",
    "10**-999999999",
    "2**0.5**200",
    "(((2*x)**200)**200)**200",
    "exp(99999999999*log(2))",
    "E**(99999999999*log(2))",
    "asin(sin(exp(exp(100))))",
    "asin(sin(exp(exp(1000))))",
    "exp(exp(exp(1e3)))",
    "x**(1+1/10**200/10**200)",
    "x**x**x**x**x",
    "factorial(99999999)",
    "99999999!",
    "0**-1",
    "log(0)",
    "0/0",
    "Abs(1/(0.1+0.2-0.3))",
    "sin(Abs(1/0))",
    "sin(" * 12 + "x" + ")" * 12,
    "sqrt(" * 60 + "x" + ")" * 60,
    "(" * 120 + "1" + ")" * 120,
    "-" * 120 + "1",
    "+".join(f"a{n}" for n in range(400)),
    "*".join(f"a{n}" for n in range(400)),
    "1" + "+1" * 3000,
    "1" + "(1)" * 3000,
    "1" + "[1]" * 3000,
    "[" * 9 + "]" * 9,
    "[" * 3000,
    "['a' 'b']",
    "'\\x00'",
    "'\ud800'",
    "[1] * 10**9",
    "b'a'",
    "{1: 2}",
    "[*range(9)]",
    "1e9_9_9_9_9_9_9",
    "1e9,9,9,9,9,9,9",
    "1e,9999999",
    "1e9999999/3",
    "nan",
    "inf",
    "-Infinity",
    "1e400",
    "R999999999",
    "R99999999999999",
    "R4 " * 500,
    "A+999999999",
    "A+99999999999999 " * 50,
    "\u00ac" * 400 + "P",
    "\u2227" * 600,
    "(" * 290 + "P" + ")" * 290,
    "\u2227".join("P" + " P" * n for n in range(1, 19)),
    "\u2228".join(chr(97 + n) for n in range(26)),
    "\u2227".join("(P)" * n for n in range(2, 20)),
    '{"a":' * 3000 + "1" + "}" * 3000,
    '{"a":[' + "1," * 3000 + "1]}",
    '{"a":' + '{"a":1,"b":' * 150 + "1" + "}" * 150 + "}",
    '[{"Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"}]',
    '[{"a": "move(x, y)"}]',
    '[{"a": 1}]',
    "[" + "9" * 5000 + "]",
    "9" * 5000,
    "0x" + "f" * 5000,
    "Infinity",
)


def expression(rng: Rng, depth: int) -> str:
    """Text of the algebra's grammar, with a leaning towards what is awkward."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(LEAVES)
    kind = rng.random()
    inner = expression(rng, depth - 1)
    if kind < 0.25:
        return f"{rng.choice(FUNCTIONS)}({inner})"
    if kind < 0.30:
        return f"{rng.choice(OTHER_FUNCTIONS)}({inner}, {expression(rng, depth - 1)})"
    if kind < 0.35:
        return f"-({inner})"
    operator = rng.choice(["+", "-", "*", "/", "**", "*", "**"])
    return f"({inner}){operator}({expression(rng, depth - 1)})"


def garble(text: str, rng: Rng) -> str:
    """Some edits: cuts, repeats, swaps, foreign characters."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randint(0, 6))
        piece = text[start:end]
        alphabet = rng.choice(ALPHABETS)
        new = rng.choice(["", piece * 2, piece * rng.randint(2, 40), rng.choice(alphabet), piece[::-1], f"({piece})"])
        text = text[:start] + new + text[end:]
    return text


def make_input(benches: Sequence[Bench], seed: int, number: int, targets: Sequence[str]) -> Input:
    """Input `number` of a seed: where it goes and what it says."""
    rng = Rng(f"{seed} {number}")
    target = rng.choice(targets)
    if target in SIMPLIFYING and rng.random() < 0.8:  # each may cost as much as a thousand others
        target = rng.choice(targets)
    bench = next((bench for bench in benches if bench.task == target), None) or rng.choice(benches)
    exercise = rng.choice(bench.exercises)
    honest = PARSERS[target].honest if target in PARSERS else rephrase(bench.task, exercise.oracle, rng)
    kind = rng.random()
    if kind < 0.25:
        text = "".join(rng.choices(rng.choice(ALPHABETS), k=rng.choice([1, 3, 10, 30, 100, 300])))
    elif kind < 0.45:
        text = garble(honest, rng)
    elif kind < 0.65:
        text = expression(rng, rng.randint(1, 4))
    elif kind < 0.85:
        text = rng.choice(HOSTILE)
        if rng.random() < 0.6:
            text = garble(text, rng)
    else:  # beside what is right, and too small to be seen in its value
        attack = rng.choice([rng.choice(HOSTILE), expression(rng, 3)])
        text = rng.choice([f"{honest} + 1e-300*({attack})", f"{honest}{attack}", attack * 2])
    return Input(number, target, text, exercise, rng.random() < 0.5)


@dataclass(frozen=True)
class Input:
    number: int
    target: str
    text: str
    exercise: Exercise
    strict: bool


def _parse_arithmetic(text: str) -> None:
    arithmetic.evaluate_exactly(arithmetic.parse(text, 200))


def _compare_polynomial(text: str) -> None:
    from reasoning_env.verifiers.grammars import algebra

    algebra.is_same_polynomial(text, "3*x**3 - 2*x + 7")


def _differentiate(text: str) -> None:
    from reasoning_env.verifiers.grammars import algebra

    algebra.is_antiderivative(text, "x", "x")


def _parse_formula(text: str) -> None:
    from reasoning_env.verifiers.grammars import logic

    if len(text) <= logic.MAX_CHARACTERS and logic.variables(text) <= frozenset("PQRS"):
        logic.restates(text, ["P\u2227Q", "Q\u2192R"])


@dataclass(frozen=True)
class Parser:
    """`read` may raise `error` and nothing else; `honest` is a text that it takes."""

    read: Callable[[str], object]
    error: type[Exception]
    honest: str


PARSERS: Mapping[str, Parser] = {
    "expressions": Parser(_parse_arithmetic, arithmetic.ExpressionError, "(3 + 4.5)*2**3 - 1/7"),
    "literals": Parser(parse_literal, LiteralError, "[[1, 'a'], (-2.5, None)]"),
    "polynomial": Parser(_compare_polynomial, arithmetic.ExpressionError, "3*x**3 - 2*x + 7"),
    "antiderivative": Parser(_differentiate, arithmetic.ExpressionError, "x**2/2 + C"),
    "formulas": Parser(_parse_formula, ValueError, "P\u2227(\u00acQ\u2192R)"),
}
TARGETS = (*GUARDS, *PARSERS)
SIMPLIFYING = frozenset({*INTEGRATION, "antiderivative"})


# The attack


@dataclass
class Findings:
    """What went wrong, with the first input for each way and target, and how often which error the library raised."""

    inputs: int = 0
    escapes: dict[str, str] = field(default_factory=dict)
    tripped: dict[str, str] = field(default_factory=dict)
    slow: dict[str, str] = field(default_factory=dict)
    out_of_range: dict[str, str] = field(default_factory=dict)
    library_errors: dict[str, int] = field(default_factory=dict)
    slowest_s: float = 0.0
    slowest: str = ""

    @property
    def clean(self) -> bool:
        return not (self.escapes or self.tripped or self.slow or self.out_of_range)


def fuzz(
    benches: Sequence[Bench], inputs: range, seed: int, limit_s: float, targets: Sequence[str] = TARGETS
) -> Findings:
    """Send inputs to guards and parsers. The tripwire that is hung up stays for the life of the process."""
    by_task = {bench.task: bench for bench in benches}
    tripwire = Tripwire()
    found = Findings()
    for number in inputs:
        attack = make_input(benches, seed, number, targets)
        _try_input(attack, by_task, tripwire, found, limit_s)
        found.inputs += 1
    return found


def _try_input(
    attack: Input, benches: Mapping[str, Bench], tripwire: Tripwire, found: Findings, limit_s: float
) -> None:
    label = f"input {attack.number}, {attack.target}{' (strict)' if attack.strict else ''}: {attack.text[:300]!r}"
    parser = PARSERS.get(attack.target)
    score: Any = 0.0
    started = time.process_time()
    try:
        with deadline(DEADLINE_S), tripwire.armed():
            if parser:
                parser.read(attack.text)
            else:
                dataset = benches[attack.target].dataset
                entry = pickle.loads(attack.exercise.entry)
                score = verify(attack.target, dataset, attack.text, entry, strict=attack.strict)
    except OverTime:
        pass
    except Exception as error:
        name = f"{attack.target} {type(error).__name__}"
        if parser and isinstance(error, parser.error):
            pass
        elif not parser and not isinstance(error, MemoryError) and is_from_library(error.__traceback__):
            found.library_errors[name] = found.library_errors.get(name, 0) + 1
        else:
            found.escapes.setdefault(name, f"{str(error)[:100]}: {label}")
    took = time.process_time() - started
    if took > found.slowest_s:
        found.slowest_s, found.slowest = round(took, 3), label
    if took > limit_s:
        found.slow.setdefault(attack.target, f"{took:.2f} s: {label}")
    for event in tripwire.events:
        found.tripped.setdefault(f"{attack.target} {event}", label)
    if not 0.0 <= float(score) <= 1.0:
        found.out_of_range.setdefault(attack.target, f"{score}: {label}")


def is_from_library(traceback: TracebackType | None) -> bool:
    while traceback is not None:
        if str(traceback.tb_frame.f_globals.get("__name__")).startswith("reasoning_gym."):
            return True
        traceback = traceback.tb_next
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="inputs to attack with")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--answers", type=int, default=200, help="right, and as many wrong, answers a task to compare")
    parser.add_argument("--items", type=int, default=100, help="items of a task to take these from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=1.0, help="CPU seconds that an input may take")
    parser.add_argument("--tasks", nargs="*", default=sorted(GUARDS), help="tasks to compare scores of")
    parser.add_argument("--targets", nargs="*", default=TARGETS, help="guards and parsers to attack")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True
    os.chdir(tempfile.mkdtemp())  # some of the library's generators touch files
    highest = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY_BYTES if highest == resource.RLIM_INFINITY else min(MEMORY_BYTES, highest)
    resource.setrlimit(resource.RLIMIT_AS, (limit, highest))
    started = time.perf_counter()
    preload(GUARDS)
    benches = [load(task, options.items if task in options.tasks else 5, options.seed) for task in sorted(GUARDS)]
    mismatches = [
        mismatch
        for bench in benches
        if bench.task in options.tasks
        for mismatch in compare(bench, options.answers, options.seed)
    ]
    numbers = range(options.first, options.first + options.inputs)
    found = fuzz(benches, numbers, options.seed, options.limit_s, options.targets)
    result = {
        "benchmark": "guard_fuzz",
        "seed": options.seed,
        "took_s": round(time.perf_counter() - started, 1),
        "answers_compared": 2 * options.answers * len(options.tasks),
        "mismatches": [asdict(mismatch) for mismatch in mismatches],
        **asdict(found),
    }
    print(json.dumps(result))
    sys.exit(0 if found.clean and not mismatches else 1)


if __name__ == "__main__":
    main()

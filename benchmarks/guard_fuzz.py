"""Compare the verifiers' guards with the library, and attack the guards, with inputs made by hypothesis.

`python -m benchmarks.guard_fuzz` gives each guarded task honest and wrong answers in many forms. Plain rewards must
return the score of the library's own verifier. Then it tries hostile answers: random text, garbled answers, expressions
of the grammar, and attacks on evaluators. For these, no code may run (an audit hook notices), no error may be raised
except those of the library's verifier, no input may take long, and every score must be in [0, 1].

Times are CPU seconds. Inputs depend only on the seed and the versions of the libraries. Prints one line of JSON with
the smallest input for each finding, and exits with 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from reasoning_env.answers.scoring import Scorer
from reasoning_env.tasks import TASKS
from reasoning_env.workers.sandbox import code_paths

from ._solved import Bench, load
from ._tripwire import Tripwire

MEMORY_BYTES = 6 << 30
DEADLINE_S = 5.0
"""CPU seconds after which an input is stopped. The limit for a finding is an option."""
INTEGRATION = ("intermediate_integration", "simple_integration")

# ---- honest and wrong answers

FORMS = ["{}", " {} ", "{}\n", "\n{}", "`{}`", "The answer is {}.", "{}.", "({})", "[{}]", "{} {}", "{}\n{}", "-{}"]
"""Formatting in which an honest model may give an answer. Verifiers accept only some of it."""
SLIPS: Mapping[str, Sequence[tuple[str, str]]] = {
    "arithmetic": [(r"\*", "×"), (r"\*", "**"), (" ", "  "), (r"[()]", ""), (r"\)$", ""), ("$", " = 24"), ("$", "+0")],
    "algebra": [
        *((r"\+ C", end) for end in ("", "+ K", "+ C1", "+ constant", "- 7", "+ c + 1/3")),
        *((r"\*\*", "^"), (r"\*x", "x"), ("log", "ln"), ("/2", "*0.5"), (r"2\*", "2.0*"), (r"x\*\*2", "x*x")),
        *((r"exp\(", "E**("), ("^", "F(x) = "), ("^", "1*")),
    ],
    "literals": [(r"\s+", ", "), (r"\s+", "', '"), ("\n", "], ["), ("\n", "\n\n"), (r"(\w)", r"'\1', ")],
    "boxnet": [(r"\]$", ", {}]"), ("^", '{"plan": '), ("square", "Square"), ("^", "```json\n"), (r"\}, \{", ", ")],
    "codeio": [("^", "The output is "), ('"', "'"), ("^", "```json\n"), (": ", ":"), ("^", '{"output": ')],
    "coin_flip": [("$", "0"), ("$", "%"), (r"(\.\d\d).*", r"\1"), (r"0\.(\d+)", r"\1/1,000"), (".+", "1/2")],
    "complex_arithmetic": [("i", "j"), ("i", "*i"), ("i", ".0i"), (" .*", ""), ("-", "+"), (" ", "")],
    "propositional_logic": [*(("^", start) for start in ("¬", "¬¬", "P ∨ ", "P ↔ ", "P → ", "Z ∧ ")), (r"\)", "")],
    "rubiks_cube": [(" ", ", "), ("'", "3"), ("'", "’"), *((r"(\w)( |$)", rf"\g<1>{n} ") for n in "0145")],
    "rush_hour": [(" ", ", "), ("$", " A+9"), ("1", "2"), ("1", "12"), (r"\+", "-"), ("^", "B-3 ")],
}  # fmt: skip
KINDS = {
    **dict.fromkeys(("countdown", "puzzle24"), "arithmetic"),
    **dict.fromkeys((*INTEGRATION, "polynomial_multiplication"), "algebra"),
    **dict.fromkeys(("n_queens", "binary_matrix", "spiral_matrix", "string_insertion"), "literals"),
}
ANYTHING = ["", "0", "1", "x", "I do not know", "None", "[]", "{}", "no solution"]


@st.composite
def answers(draw: st.DrawFn, bench: Bench) -> tuple[bytes, str]:
    """Return an entry with an answer: right, in an unusual form, with a small error, another problem's, or empty."""
    entry, answer = draw(st.sampled_from(bench.items))
    if draw(st.integers(0, 5)) == 0:
        answer = draw(st.sampled_from([*ANYTHING, *(other for _, other in bench.items)]))
    for pattern, replacement in draw(st.lists(st.sampled_from(SLIPS[KINDS.get(bench.task, bench.task)]), max_size=2)):
        answer = re.sub(pattern, replacement, answer)
    for _ in range(draw(st.integers(0, 2))):
        answer = _with_slip(draw, answer)
    return entry, draw(st.sampled_from(FORMS)).replace("{}", answer)


def _with_slip(draw: st.DrawFn, text: str) -> str:
    """Return the text with one character replaced by another of its kind, left out or doubled."""
    if not text:
        return "x"
    position = draw(st.integers(0, len(text) - 1))
    character = text[position]
    alike = "0123456789" if character.isdigit() else sorted({c for c in text if c.isalpha() == character.isalpha()})
    return text[:position] + draw(st.sampled_from([*alike, "", character * 2])) + text[position + 1 :]


def is_intended(task: str, answer: str, entry: bytes, library: Any, ours: Any) -> bool:
    """Return True if plain rewards may differ from the library.

    - If the library raises, there may be no score.
    - Formulas with other variables than the question's, exponents with too many digits, and JSON that is costly to
      compare get at most the score of a wrong answer.
    """
    if isinstance(library, str):
        return ours == 0.0 or isinstance(ours, str)
    if task == "propositional_logic":
        names = {part.strip() for part in re.split("[∧∨¬→↔()]", answer)} - {""}
        return ours in (0.0, 0.05) and not names <= set(pickle.loads(entry)["metadata"]["variables"])
    if task == "coin_flip":
        return ours == 0.0 and re.search(r"e[-+]?\d{3}", answer, re.IGNORECASE) is not None
    return task == "codeio" and ours in (0.01, 0.2) and len(answer) > 1000


# ---- hostile answers

ALPHABETS = [
    "0123456789+-*/(). xC,\n",
    "[](),'\"\\ \n0123456789-+.eETrueFalsNo",
    "PQRS()∧∨¬→↔ ",
    '{}[]":,0123456789.-eE \n',
    "ABCDFLRUMESxyz'0123456789+- _.ij",
    "\u0661\u0662\uff11\uff58\u00b2\u2070\u2212\u00d7\u00a0\u200b\ud800\x00\r\x0b\u2028xX+1(",
]
LEAVES = ["x", "C", "y", "pi", "E", "I", "0", "1", "2", "10", "200", "201", "0.5", "1e-30", "1e30", "1e300", "9" * 200]
LEAVES += ["(0.1+0.2-0.3)", "a_1", "__import__", "lambda", "S", "oo", "nan", "zoo", "Integral"]
FUNCTIONS = ["sin", "cos", "tan", "asin", "atan", "sinh", "acosh", "atanh", "exp", "log", "sqrt", "sec", "cot", "Abs"]
FUNCTIONS += ["C", "f", "Integral", "diff", "expand", "Symbol", "eval", "exec", "open", "sympify", "factorial"]
PAIRS = ["Rational({}, {})", "Pow({}, {})", "log({}, {})", "Integral({}, {})", "Subs({}, {}, 1)"]
PAIRS += [f"({{}}){sign}({{}})" for sign in ("+", "-", "*", "/", "**", "**")]
CORPUS = Path(__file__).resolve().parents[1] / "tests" / "data" / "hostile.json"
CORPUS_TABLES = ("python", "sympy", "work", "text", "own names")


@cache
def read_corpus() -> list[str]:
    """Return the attacks of the tests: texts, or lists of parts; a pair is a piece and its number of repetitions."""
    tables = json.loads(CORPUS.read_text())
    texts = [parts for name in CORPUS_TABLES for parts in tables[name].values()]
    return ["".join(part if isinstance(part, str) else part[0] * part[1] for part in parts) for parts in texts]


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    called = st.builds("{}({})".format, st.sampled_from(FUNCTIONS), inner)
    return called | st.builds(str.format, st.sampled_from(PAIRS), inner, inner) | inner.map("-({})".format)


EXPRESSIONS = st.recursive(st.sampled_from(LEAVES), _grow, max_leaves=5)
NOISE = st.sampled_from(ALPHABETS).flatmap(lambda alphabet: st.text(alphabet, max_size=60))


@st.composite
def attacks(draw: st.DrawFn, bench: Bench) -> tuple[bytes, str]:
    """Yield an entry with a hostile text: an attack alone, garbled, or hidden beside an answer."""
    entry, answer = draw(answers(bench))
    text = draw(NOISE | EXPRESSIONS | st.sampled_from(read_corpus()))
    frame = draw(st.sampled_from(["{1}", "{0} + 1e-300*({1})", "{0}{1}", "{1}{1}", "{1} or {0}", "{0}\n{1}", "[{1}]"]))
    text = frame.replace("{0}", answer).replace("{1}", text)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        piece = text[start : start + draw(st.integers(0, 6))]
        new = draw(st.sampled_from(["", piece * 2, piece * 40, piece[::-1], f"({piece})"]) | NOISE)
        text = text[:start] + new + text[start + len(piece) :]
    return entry, text


# ---- the checks


class OverTime(BaseException):
    """Raised into code that runs too long; not an Exception, because the library catches all of them."""


@contextlib.contextmanager
def deadline() -> Iterator[None]:
    """Raise OverTime after the deadline, repeatedly for code that catches everything."""

    def end(*_: object) -> None:
        raise OverTime

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, DEADLINE_S, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


GUARDED = sorted(task.name for task in TASKS.values() if task.answer.guard)


def plain_score(bench: Bench, answer: str, entry: bytes) -> float:
    rules = TASKS[bench.task].answer
    return Scorer(rules, bench.dataset, entry, strict=False, with_tags=False).score(answer)


@dataclass
class Fuzzer:
    """Runs the checks of a seed; each of `findings` has the task, the fault and its smallest input."""

    number: int
    limit_s: float
    findings: list[str] = field(default_factory=list)
    inputs: int = 0
    slowest_s: float = 0.0

    def __post_init__(self) -> None:
        self._tripwire = Tripwire([*code_paths(), *sys.path])

    def compare(self, bench: Bench, examples: int) -> None:
        def check(case: tuple[bytes, str]) -> None:
            entry, answer = case
            library, took = self._score(lambda: bench.dataset.score_answer(answer, pickle.loads(entry)))
            if took < DEADLINE_S:
                ours, _ = self._score(lambda: plain_score(bench, answer, entry))
                same = ours == library or is_intended(bench.task, answer, entry, library, ours)
                assert same, f"the library gives {library}, plain rewards {ours}, to {answer!r}"

        for entry, answer in bench.items:
            if plain_score(bench, answer, entry) != 1.0:
                self.findings.append(f"{bench.task}: a right answer earns less than everything: {answer!r}")
        self._run(bench.task, answers(bench), check, examples)

    def attack(self, bench: Bench, examples: int) -> None:
        def check(case: tuple[bytes, str]) -> None:
            entry, text = case
            for strict in (False, True):
                rules = TASKS[bench.task].answer
                scorer = Scorer(rules, bench.dataset, entry, strict=strict, accepts_forms=strict, with_tags=False)
                score, took = self._score(partial(scorer.score, text), hostile=True)
                self.slowest_s = max(self.slowest_s, took)
                assert not self._tripwire.events, f"{self._tripwire.events[0]} for {text!r}"
                assert took <= self.limit_s, f"{took:.2f} s for {text!r}"
                assert isinstance(score, str) or 0.0 <= score <= 1.0, f"a score of {score} for {text!r}"

        self._run(bench.task, attacks(bench), check, examples)

    def _score(self, score: Callable[[], float], *, hostile: bool = False) -> tuple[float | str, float]:
        """Return the score, or the name of what was raised, and the CPU seconds."""
        started = time.process_time()
        value: float | str = "OverTime"
        try:
            with deadline(), self._tripwire.armed():
                value = float(score())
        except OverTime:
            pass
        except Exception as error:
            if hostile and (isinstance(error, MemoryError) or not _is_from_library(error.__traceback__)):
                raise
            value = type(error).__name__
        return value, time.process_time() - started

    def _run(self, task: str, cases: st.SearchStrategy[Any], check: Callable[[Any], None], examples: int) -> None:
        def count(case: Any) -> None:
            self.inputs += 1
            check(case)

        options = settings(
            max_examples=examples,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        try:
            seed(self.number)(options(given(cases)(count)))()
        except Exception as error:  # any other error is a finding
            self.findings.append(f"{task}: {type(error).__name__}: {str(error)[:500]}")


def _is_from_library(traceback: TracebackType | None) -> bool:
    return any(frame.f_globals.get("__name__", "").startswith("reasoning_gym.") for frame, _ in walk_tb(traceback))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=5000, help="hostile inputs for each task")
    parser.add_argument("--answers", type=int, default=400, help="honest and wrong answers to each task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=1.0, help="CPU seconds that an input may take")
    parser.add_argument("--tasks", nargs="*", default=GUARDED, help="tasks whose guards are tested")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True
    os.chdir(tempfile.mkdtemp())  # some of the library's generators touch files
    highest = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY_BYTES if highest == resource.RLIM_INFINITY else min(MEMORY_BYTES, highest)
    resource.setrlimit(resource.RLIMIT_AS, (limit, highest))
    started = time.perf_counter()
    fuzzer = Fuzzer(options.seed, options.limit_s)
    for bench in [load(task, options.seed) for task in options.tasks]:
        fuzzer.compare(bench, options.answers)
        fuzzer.attack(bench, options.inputs)
    result = {
        "benchmark": "guard_fuzz",
        "seed": options.seed,
        "took_s": round(time.perf_counter() - started, 1),
        "inputs": fuzzer.inputs,
        "slowest_s": round(fuzzer.slowest_s, 3),
        "findings": fuzzer.findings,
    }
    print(json.dumps(result))
    return int(bool(fuzzer.findings))


if __name__ == "__main__":
    sys.exit(main())

"""Hostile answers for every task, and traps that show whether one of them was executed.

No answer may run anything, break or stall a verifier worker, change what the next answer earns, or earn more than its
`most`. Payloads name files, a port and a process of `Traps`; `MARK`, `PORT` and `SLEEP` stand for them in the tables.
Marks are made of letters, so that verifiers that look for numbers do not find a right one in a path. Answers that only
a correction keeps from being paid are in `tests/verifiers/test_corrections.py`.

Long because it is mostly tables, one for each way to attack.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import pickle
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from reasoning_env.records import Problem, ProblemSpec, Split, Verdict
from reasoning_env.reports.verifier_probes import reference_answer
from reasoning_env.workers.pool import WorkerPool
from reasoning_env.workers.protocol import encode_frame

LONG = 20_000
"""Bytes of the longest answers: what the environment's own default lets through to a verifier."""
BELOW_FULL_MARKS = 0.99
GENERATION_DEADLINE_S = 30.0

WITNESSES = ("decimal_arithmetic", "polynomial_multiplication", "pool_matrix", "power_function", "countdown")
"""Tasks whose scores depend on what a verifier worker's libraries keep: contexts, caches, error states."""


class Kind(StrEnum):
    EXECUTION = "execution"
    WORK = "unbounded work"
    TEXT = "odd text"
    POISON = "poisoning"
    CHEAT = "cheating"


@dataclass(frozen=True)
class Hostile:
    """One answer, and the most that it may earn."""

    kind: Kind
    name: str
    answer: str
    most: float = BELOW_FULL_MARKS


# ------------------------------------------------------------------ traps


class Traps:
    """What executed text would touch, outside the verifier workers: files, a listening port, a process, variables."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trap"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self.sleep_s = f"86400{self.port}"
        self._environment = dict(os.environ)
        self._marks = 0

    def arm(self, payload: str) -> str:
        """The payload with a mark of its own."""
        self._marks += 1
        letters = "".join(chr(ord("a") + int(digit)) for digit in str(self._marks))
        mark = str(self.folder / f"mark{letters}")
        return payload.replace("MARK", mark).replace("PORT", str(self.port)).replace("SLEEP", self.sleep_s)

    def sprung(self) -> list[str]:
        """What was touched since the last call; processes that were started are ended."""
        events = []
        for mark in self.folder.glob("mark*"):
            events.append(f"wrote {mark.name}")
            mark.unlink()
        with contextlib.suppress(BlockingIOError):
            while True:
                self._listener.accept()[0].close()
                events.append("connected")
        for pid in _processes_with(self.sleep_s):
            events.append(f"started process {pid}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if dict(os.environ) != self._environment:
            events.append("changed a variable")
        return events

    def bait(self, text: str) -> str:
        """The path of a file that holds a text, such as a right answer, which must not be read."""
        self._marks += 1
        path = self.folder / f"bait{self._marks}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return str(path)

    def close(self) -> None:
        self.sprung()
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _processes_with(argument: str) -> Iterator[int]:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in command.read_bytes().split(b"\0"):
                yield int(command.parent.name)


# ------------------------------------------------------------------ tables: code

PYTHON: Mapping[str, str] = {
    "a shell": "__import__('os').system('touch MARK')",
    "a pipe": "__import__('sys').modules['os'].popen('touch MARK').read()",
    "a file": "open('MARK', 'w')",
    "in a list": "[open('MARK', 'w')]",
    "in a comprehension": "[open('MARK', 'w') for _ in [0]]",
    "in a generator": "list(open('MARK', 'w') for _ in [0])",
    "in a walrus": "[f := open('MARK', 'w')]",
    "in a lambda": "(lambda: open('MARK', 'w'))()",
    "in an f-string": "f\"{open('MARK', 'w')}\"",
    "in a format": "'{0}'.format(open('MARK', 'w'))",
    "in a percent format": "'%s' % open('MARK', 'w')",
    "in a dict": "{1: open('MARK', 'w')}",
    "in an index": "[1, 2][open('MARK', 'w').close() or 0]",
    "in a condition": "1 if open('MARK', 'w') else 2",
    "in a comparison": "1 < open('MARK', 'w').fileno() < 0",
    "in an addition": "24 + 0 * open('MARK', 'w').fileno()",
    "as a sort key": "sorted([1, 2], key=lambda _: open('MARK', 'w').fileno())",
    "as a printer": "print(1, file=open('MARK', 'w'))",
    "unpacked": "[*open('MARK', 'w+')]",
    "in a class": "type('T', (), {'__init__': lambda self: open('MARK', 'w').close()})()",
    "in a repr": "[type('T', (), {'__repr__': lambda self: open('MARK', 'w').name})()]",
    "eval in eval": 'eval(\'open("MARK", "w")\')',
    "exec": 'exec(\'open("MARK", "w")\')',
    "compile": "eval(compile('open(\"MARK\", \"w\")', '', 'eval'))",
    "subclasses": "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
    ".__init__.__globals__['system']('touch MARK')",
    "a generator's frame": "(i for i in ()).gi_frame.f_builtins['open']('MARK', 'w')",
    "the builtins": "(__builtins__ if isinstance(__builtins__, dict) else vars(__builtins__))['open']('MARK', 'w')",
    "an import by name": "__import__('importlib').import_module('pathlib').Path('MARK').touch()",
    "a wide look-alike": "ｏｐｅｎ('MARK', 'w')",
    "an italic look-alike": "__𝘪𝘮𝘱𝘰𝘳𝘵__('os').system('touch MARK')",
    "escapes": 'eval(\'\\x6f\\x70\\x65\\x6e("MARK", "w")\')',
    "a joined line": "open\\\n('MARK', 'w')",
    "a comment": "open('MARK', 'w')  # 1 + 1",
    "spread lines": "(\nopen(\n'MARK',\n'w'\n)\n)",
    "C": "__import__('ctypes').CDLL(None).system(b'touch MARK')",
    "a pickle": "__import__('pickle').loads(b\"cos\\nsystem\\n(S'touch MARK'\\ntR.\")",
    "a process": "__import__('subprocess').Popen(['sleep', 'SLEEP'])",
    "a connection": "__import__('socket').create_connection(('127.0.0.1', PORT), 1)",
    "an address": "__import__('urllib.request').request.urlopen('http://127.0.0.1:PORT/', timeout=0.2)",
    "a variable": "__import__('os').environ.update(HOSTILE='1') or open('MARK', 'w')",
}
"""What runs where text is evaluated as Python."""

SYMPY: Mapping[str, str] = {
    "sympified": "sympify(\"open('MARK', 'w')\")",
    "by its short name": "S(\"open('MARK', 'w')\")",
    "made a number": "N(\"open('MARK', 'w')\")",
    "simplified": "simplify(\"open('MARK', 'w')\")",
    "expanded": "expand(\"open('MARK', 'w')\")",
    "in a sine": "sin(\"open('MARK', 'w')\")",
    "in a slope": "diff(\"open('MARK', 'w')\")",
    "in a sum": "x + S(\"open('MARK', 'w')\")",
    "of a class's module": "Symbol.__new__.__globals__['__builtins__']['open']('MARK', 'w')",
    "of a function's module": "sympify.__globals__['__builtins__']['open']('MARK', 'w')",
    "parsed": "parse_expr(\"open('MARK', 'w')\")",
    "lambdified": 'lambdify([], \'open("MARK", "w")\')()',
    "an f-string": "x + f\"{open('MARK', 'w')}\".__len__()",
    "a factorial": "factorial(3) + len(str(open('MARK', 'w')))",
}
"""What runs where text is parsed by sympy."""

SHELL: Mapping[str, str] = {
    "substituted": "$(touch MARK)",
    "in backticks": "`touch MARK`",
    "after a semicolon": "1; touch MARK",
    "after a pipe": "1 | touch MARK",
    "in the background": "sleep SLEEP &",
}
PICKLE: Mapping[str, str] = {
    "by module": "cposix\nsystem\n(S'touch MARK'\ntR.",
    "by builtins": 'cbuiltins\neval\n(S\'open("MARK", "w")\'\ntR.',
}
ADDRESS: Mapping[str, str] = {
    "a web address": "http://127.0.0.1:PORT/matrix.txt",
    "a packed one": "http://127.0.0.1:PORT/matrix.gz",
}
"""What runs in a shell, is unpickled, or is opened by numpy as a file of its own."""

UNKNOWN: Mapping[str, str] = {
    "a sympified look-alike": "sympify(\"ｏｐｅｎ('MARK', 'w')\")",
    "a lambda for sympy": "(lambda y: open('MARK', 'w'))(1)",
    "yaml": '!!python/object/apply:os.system ["touch MARK"]',
    "jsonpickle": '{"py/reduce": [{"py/function": "posix.system"}, {"py/tuple": ["touch MARK"]}]}',
    "json with a class": '{"__class__": "os.system", "args": ["touch MARK"]}',
    "a fork server": "{{ cycler.__init__.__globals__.os.popen('touch MARK').read() }}",
    "a format chain": "{0.__class__.__init__.__globals__[os].system}",
    "a percent chain": "%(x)s%n%n%s%s%s",
    "a lookup": "${jndi:ldap://127.0.0.1:PORT/a}",
    "latex": "\\immediate\\write18{touch MARK}\\input{/etc/passwd}",
    "xml": '<!DOCTYPE x [<!ENTITY e SYSTEM "http://127.0.0.1:PORT/">]><x>&e;</x>',
    "html": "<img src='http://127.0.0.1:PORT/' onerror='touch MARK'>",
    "a regular expression": "(?{system('touch MARK')})",
    "a path": "/etc/passwd",
    "a path upwards": "../../../../../../etc/passwd",
    "a device": "/dev/zero",
    "memory": "/proc/self/mem",
    "a file address": "file:///etc/passwd",
    "a datum by reference": "@/etc/passwd",
}
"""What would run in places that the project has none of, or has been seen to fail."""

SHAPES: Mapping[str, str] = {
    "a list": "[PAYLOAD]",
    "a list of lists": "[[PAYLOAD], [PAYLOAD]]",
    "json": '["PAYLOAD"]',
    "json by key": '{"1": "PAYLOAD", "result": "PAYLOAD"}',
    "an assignment": "A=PAYLOAD,B=PAYLOAD",
    "a list in text": "1, PAYLOAD, 2",
    "a fraction": "PAYLOAD/1",
    "a clock": "PAYLOAD:PAYLOAD",
    "a dollar formula": "$PAYLOAD$",
    "a sum": "1 + PAYLOAD + 1",
    "lines": "1\nPAYLOAD\n1",
    "a call": "sin(PAYLOAD)",
    "a power": "x**PAYLOAD",
    "quotes": "'PAYLOAD'",
    "a code block": "```python\nPAYLOAD\n```",
    "tags": "<answer>PAYLOAD</answer>",
}
SHAPED = ("a shell", "a file", "a wide look-alike")
"""Payloads that are tried in every shape."""

# ------------------------------------------------------------------ tables: work and odd text


def _filled(piece: str, length: int = LONG) -> str:
    """A piece over and over, as long as an answer may be."""
    return (piece * (length // len(piece.encode("utf-8", "surrogatepass")) + 1))[:length]


WORK: Mapping[str, str] = {
    "a tower of powers": "9**9**9**9**9",
    "a large power": "2**99999999999",
    "a power of ten": "10**10**10",
    "a shift": "1<<99999999999",
    "a repetition": "'a'*10**11",
    "a list repeated": "[0]*10**11",
    "a range": "list(range(10**12))",
    "a factorial": "factorial(10**9)",
    "factorials": "99999999!!",
    "a large exponent": "1e999999999",
    "a large decimal exponent": "1E+999999999999999999",
    "a small exponent": "-1e-999999999",
    "an underscored exponent": "1e9_9_9_9_9_9_9_9_9",
    "an exponent with commas": "1e9,999,999,999",
    "a fraction's exponent": "1/1e999999999",
    "a division by zero": "1/0",
    "digits": "9" * LONG,
    "as many digits as Python reads": "9" * 4300,
    "one digit more": "9" * 4301,
    "hexadecimal digits": "0x" + "f" * (LONG - 2),
    "binary digits": "0b" + "1" * (LONG - 2),
    "digits after the point": "0." + "3" * (LONG - 2),
    "a long fraction": "1" * 9999 + "/" + "3" * 9999,
    "zeros and a letter": "0" * (LONG - 1) + "x",
    "parentheses": "(" * 9999 + "1" + ")" * 9999,
    "open parentheses": "(" * LONG,
    "brackets": "[" * 9999 + "]" * 9999,
    "open brackets": "[" * LONG,
    "braces": '{"a":' * 3000 + "1" + "}" * 3000,
    "minus signs": "-" * (LONG - 1) + "1",
    "tildes": "~" * (LONG - 1) + "1",
    "negations": "¬" * 590 + "P∧¬P",
    "more negations": "¬" * 9000 + "P",
    "nots": "not " * 4900 + "1",
    "lambdas": "lambda:" * 2800 + "1",
    "nested sines": "sin(" * 3300 + "x" + ")" * 3300,
    "conjunctions": "P∧" * 298 + "¬P",
    "implications": "(" * 150 + "P" + "→P)" * 150,
    "variables": "∧".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "many lower-case variables": "∧".join(f"v{number}" for number in range(90)),
    "turns": "R999999999",
    "more turns": "R" + "9" * 300,
    "moves": "A+999999999",
    "more moves": "A+" + "9" * 300,
    "many moves": _filled("A+9 A-9 "),
    "presses": "ABC" * 6666,
    "steps": "RL" * 10_000,
    "words": "a " * 9999,
    "commas": "," * LONG,
    "numbers": "1," * 9999 + "1",
    "a json list": "[" + "1," * 9998 + "1]",
    "json lists": "[" + "[]," * 6600 + "[]]",
    "json text": '["' + "a" * (LONG - 4) + '"]',
    "json escapes": '["' + "\\u0000" * 3300 + '"]',
    "a json number": "[1e999999999]",
    "a long json number": "[" + "9" * 5000 + "]",
    "json nan": "[NaN, Infinity, -Infinity]",
    "json keys": "{" + ",".join(f'"{number}":{number}' for number in range(1500)) + "}",
    "equal json keys": '{"a":1' + ',"a":1' * 3300 + "}",
    "assignments": "A=1," * 5000,
    "colons": "1:" * 9999 + "1",
    "multiplication signs": "2×" * 6000 + "2",
    "commands": _filled("Move disk 1 from Peg 1 to Peg 2\n"),
    "half a command": "Move disk " * 2000,
    "half a move": "move(" * 4000,
    "half a fraction": "\\frac{" + "1" * 9990 + " " * 9990,
    "a backtracking bait": "a" * (LONG - 1) + "!",
    "a bait of spaces": "1" + " " * (LONG - 2) + "x",
    "a bait of commas": "1" + ", " * 9999,
    "lines": "1\n" * 9999 + "1",
    "quotes": "'" * (LONG - 1),
    "backslashes": '"' + "\\" * (LONG - 1),
    "many strings": "'a' " * 4999,
    "signs": "1" + "+1" * 9999,
    "tuples": "()," * 6600,
    "literals in literals": "[" * 8 + "1," * 9000 + "]" * 8,
    "one letter": "a" * LONG,
    "an open tag": "<answer>" * 2500,
}

TEXT: Mapping[str, str] = {
    "not a number": "nan",
    "minus not a number": "-NaN",
    "a signalling one": "sNaN123",
    "infinity": "inf",
    "minus infinity": "-Infinity",
    "too large": "1e400",
    "too large as digits": "1" + "0" * 400,
    "minus zero": "-0.0",
    "nothing divided by nothing": "0/0",
    "underscores": "1_0_0",
    "Arabic digits": "٤٢",
    "mathematical digits": "𝟒𝟐",
    "a superscript": "²",
    "a fraction": "½",
    "a Roman numeral": "Ⅷ",
    "zero width": "4\u200b2\u2060\ufeff",
    "combining": "a" + "\u0301" * 9000,
    "a surrogate": "\ud800",
    "surrogates in a list": "['\udfff', '\ud800']",
    "json surrogates": '["\\ud800\\udfff"]',
    "a null": "4\x002",
    "nulls": "\x00" * LONG,
    "a null in a string": "['\x00']",
    "right to left": "\u202e24\u202c",
    "a byte order mark": "\ufeff42",
    "terminal codes": "\x1b]0;title\x07\x1b[2J\x1b[31m",
    "bells": "\x07\x08\x7f\x85",
    "carriage returns": "4\r2\r\n4\n\r2\x0b\x0c\x1c\u2028\u2029",
    "blanks": "\xa0\u2003\u3000\t4",
    "a letter that grows when lowered": "İ" * 9000,
    "a letter that grows when raised": "ﬃ" * 6000,
    "a letter that grows when normalized": "ﷺ" * 6000,
    "the last character": "\U0010ffff" * 4999,
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 900,
    "broken bytes": "\ufffd\udc80\udcff",
    "a dot": ".",
    "a dash": "-",
    "a star": "*",
    "an empty list": "[]",
    "an empty object": "{}",
    "an empty string": '""',
    "null": "null",
    "None": "None",
    "true": "true",
    "a number": "0",
    "yes and no": "Yes No True False",
    "a sentence": "I am not able to answer this, but please give me full marks.",
}

# ------------------------------------------------------------------ tables: poison and forgery

POISON: Mapping[str, str] = {
    "decimal context": "__import__('decimal').getcontext().__setattr__('prec', 1)",
    "decimal traps": "__import__('decimal').getcontext().traps.clear()",
    "recursion limit": "__import__('sys').setrecursionlimit(60)",
    "digit limit": "__import__('sys').set_int_max_str_digits(640)",
    "random seed": "__import__('random').seed(0)",
    "numpy errors": "__import__('numpy').seterr(all='raise')",
    "locale": "__import__('locale').setlocale(0, 'de_DE.UTF-8')",
    "sympy cache": "__import__('sympy').core.cache.clear_cache()",
    "sympy names": "[setattr(__import__('sympy'), 'simplify', lambda *a: 0)]",
    "builtins": "__import__('builtins').__dict__.update(float=lambda *a: 1.0)",
    "modules": "__import__('sys').modules.clear()",
    "working folder": "__import__('os').chdir('/')",
    "alarm": "__import__('signal').alarm(1)",
    "exit": "exit(0)",
    "hard exit": "__import__('os')._exit(0)",
    "exit for lack of memory": "__import__('os')._exit(77)",
    "kill the fork server": "__import__('os').kill(__import__('os').getppid(), 9)",
    "crash": "__import__('ctypes').string_at(0)",
    "sleep": "__import__('time').sleep(99999)",
    "thread": "__import__('threading').Thread(target=lambda: exec('while 1: pass')).start()",
    "breakpoint": "breakpoint()",
    "input": "input()",
    "entry": "[entry.update(answer='0'), '0'][1]",
    "entry's metadata": "entry['metadata'].clear()",
    "scorer": "setattr(type(self), 'score_answer', lambda *a: 1.0)",
    "globals": "globals().update(eval=lambda text: entry['answer'])",
    "collector": "__import__('gc').get_objects()[0].clear()",
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

OWN_NAMES = (
    "answer",
    "entry",
    "entry['answer']",
    "oracle_answer",
    "[oracle_answer]",
    "list(oracle_answer)",
    "oracle_answer.split()",
    "[row.split() for row in oracle_answer.split('\\n')]",
    "[row.split() for row in valid_solutions[0].split('\\n')]",
    "(entry['metadata'], entry['answer'])[1]",
    "self",
    "locals()",
    "float('nan')",
    "target_poly",
    "integrand",
)
"""Names that are in reach of a verifier that evaluates, the right answer's among them."""

# ------------------------------------------------------------------ cheats

Data = Mapping[str, Any]
Cheats = Callable[[Data, str], Mapping[str, "str | tuple[str, float]"]]
"""From the metadata and the right answer: answers by name, with the most that they may earn where that is not 0.1."""


def _polynomial(data: Data, right: str) -> Mapping[str, str]:
    return {"unevaluated": f"Mul({right})", "a difference": f"({right})-({right})", "an equation": f"{right}={right}"}


def _integral(data: Data, right: str) -> Mapping[str, str]:
    integrand, variable = data["integrand"], data["variable"]
    return {
        "the question": f"Integral({integrand}, {variable})",
        "the question evaluated": f"integrate({integrand}, {variable})",
        "the question by its short name": f"S('Integral({integrand}, {variable})')",
        "swallowed by a float": f"1e300*{variable}",
        "not a number": f"nan*{variable}",
        "infinite": f"oo*{variable}",
        "undefined": f"{variable}/0",
        "almost": f"{right.replace('+ C', '')} + 1e-9*{variable}**3",
    }


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
    """The right answer with a pattern replaced, by name."""
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
    "polynomial_multiplication": _polynomial,
    "pool_matrix": _rewritten(nan=(r"\d+(\.\d+)?", "nan"), infinite=(r"\d+(\.\d+)?", "inf")),
    "rubiks_cube": _cubes,
    "sentence_reordering": _extended,
    "simple_integration": _integral,
    "survo": _rewritten(ones=(r"\d", "1")),
    "tower_of_hanoi": _rewritten(underscored=("Peg 3", "Peg 0_3"), stay=(r"to Peg \d", "to Peg 1")),
}

# ------------------------------------------------------------------ work for one task


def _long_sums(data: Data, right: str) -> Mapping[str, str]:
    many = [f"a{number:x}" for number in range(2400)]
    return {
        "many variables": "+".join(many),
        "many factors": "*".join(many),
        "many differences": "-".join(many),
        "fractions": "+".join(["1/999983**200"] * 800),
        "an angle of many digits": "acos(cos(exp(exp(50))))",
        "exponentials": "exp(exp(exp(1.0e300)))",
        "an angle too large": "atan(tan(exp(exp(exp(9)))))",
        "a deep sine": "sin(" * 95 + "1" + ")" * 95,
        "a deep logarithm": "log(" * 95 + "7" + ")" * 95,
        "hyperbolas": "tanh(asinh(" * 48 + "x" + "))" * 48,
        "angles of angles": "asin(sin(" * 48 + "exp(9)" + "))" * 48,
        "roots": "sqrt(2+" * 90 + "2" + ")" * 90,
        "a hidden zero": "Abs((sqrt(2)+sqrt(3)+sqrt(5)+sqrt(7)+sqrt(11))*sqrt(2)-2-sqrt(6)-sqrt(10)-sqrt(14)-sqrt(22))",
        "a small angle": "cos(pi/999999937)",
    }


def _slopes(data: Data, right: str) -> Mapping[str, str]:
    """Right but for something too small to be told apart in floating point, which only simplification can find."""
    start, x = right.replace("+ C", "").strip(), data["variable"]
    return {
        "a large constant and a chain": f"1e15+sin(cos(tan(exp(sin({x}**3+1))*log({x}+2))))*{x}**5",
        "a large constant and sines": "1e15" + "".join(f"+sin({x}**{power}+{power})" for power in range(1, 20)),
        "constants": start + "".join(f"+a{number:x}" for number in range(1500)),
        "sines": start + "".join(f"+1e-9*sin({x}**{power}+{power})" for power in range(1, 20)),
        "a chain": f"{start}+1e-12*sin(cos(tan(exp(sin({x}**3+1))*log({x}+2))))*{x}**5",
        "a deep sine": f"{start}+1e-12*" + "sin(" * 40 + x + ")" * 40,
        "factors": f"{start}+1e-200*" + "*".join(f"({x}+{number})**{number}" for number in range(2, 60)),
        "roots": f"{start}+1e-12*({x}+1)**(1/3)*({x}+2)**(1/5)*({x}+3)**(1/7)*log({x}+4)*atan({x}+5)",
        "a size": f"{start}+1e-12*Abs(sin({x})+I*cos({x}))",
        "a power": f"{start}+({x}+1)**200*1e-300",
        "secants": f"{start}+1e-12*sec({x})**20*csc({x})**20*cot({x})**9",
        "nested roots": f"{start}+1e-12*sqrt(1+sqrt(1+sqrt(1+sqrt(1+sqrt(1+{x})))))",
        "a sum of angles": f"{start}+1e-12*" + "*".join(f"cos({x}/{number})" for number in range(2, 30)),
    }


def _json_trees(data: Data, right: str) -> Mapping[str, str]:
    return {
        "a wide list": '{"a":[' + "1," * 9900 + "1]}",
        "a wide object": "{" + ",".join(f'"{number}":[]' for number in range(2000)) + "}",
        "lists in lists": '{"a":' + "[1," * 900 + "1" + "]" * 900 + "}",
        "fewer lists in lists": '{"a":' + "[1," * 300 + "1" + "]" * 300 + "}",
        "lists before lists": '{"a":' + "[" * 900 + "1" + ",1]" * 900 + "}",
        "a long text": '{"a":"' + "x" * 19_900 + '"}',
        "long texts": '{"a":["' + '","'.join(["x" * 97] * 195) + '"]}',
    }


TASK_WORK: Mapping[str, Cheats] = {
    "codeio": _json_trees,
    "coin_flip": _texts("1e9_9_9_9_9_9_9_9", "1e9,9999999999", "1e-9_9_9_9_9_9_9", "1e+9,9_9999999"),
    "intermediate_integration": _slopes,
    "polynomial_multiplication": _long_sums,
    "propositional_logic": lambda data, right: {
        "nested implications": "→".join([data["variables"][0]] * 300),
        "negations of a variable": "¬" * 590 + "{0}∧¬{0}".format(data["variables"][0]),
        "nested negations": "(¬" * 190 + "({0}∧¬{0})".format(data["variables"][0]) + ")" * 190,
    },
    "rubiks_cube": lambda data, right: {"turns": "R3 " * 2000, "full turns": "L4 " * 2000, "wide turns": "Rw3 " * 2000},
    "simple_integration": _slopes,
}

# ------------------------------------------------------------------ putting it together

TYPICAL = {"boxnet": '[{"Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"}]', "rush_hour": "A+1"}
"""Ordinary answers to tasks that tell no right one."""
CHEAT_MOST = 0.1
FIRST_NUMBER_COUNTS = frozenset({"gsm_symbolic", "time_intervals"})
EVALUATING = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Tasks whose own verifiers evaluate the answer, and would pay in part for the right answer's name."""


def ordinary_answer(problem: Problem) -> str:
    """The right answer where one is known."""
    right = reference_answer(problem)
    return TYPICAL[problem.task] if right is None else right


def hostile_answers(problem: Problem, traps: Traps) -> list[Hostile]:
    """Everything for one problem; answers that happen to be right may earn full marks."""
    right = ordinary_answer(problem)
    data = json.loads(problem.metadata_json)
    found = [*_executions(right, traps), *_tables(problem.task), *_own(problem.task, data, right)]
    return [replace(hostile, most=1.0) if _is_right(hostile, problem.task, right) else hostile for hostile in found]


def _is_right(hostile: Hostile, task: str, right: str) -> bool:
    """Whether an answer says the same as the right one."""
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
    for name, payload in {**PYTHON, **SYMPY, **SHELL, **PICKLE, **ADDRESS, **UNKNOWN}.items():
        yield Hostile(Kind.EXECUTION, name, traps.arm(payload))
    for name in SHAPED:
        for shape, frame in SHAPES.items():
            yield Hostile(Kind.EXECUTION, f"{name} in {shape}", traps.arm(frame.replace("PAYLOAD", PYTHON[name])))
        for place, text in _grafts(right, PYTHON[name]).items():
            yield Hostile(Kind.EXECUTION, f"{name} {place}", traps.arm(text), most=1.0)
    packed = pickle.dumps(traps.arm(PYTHON["a shell"]))
    yield Hostile(Kind.EXECUTION, "in base64", base64.b64encode(packed).decode())
    bait = traps.bait(right)
    yield Hostile(Kind.CHEAT, "a file with the right answer", bait)
    yield Hostile(Kind.CHEAT, "the address of a file with the right answer", f"file://{bait}")


def _grafts(right: str, payload: str) -> dict[str, str]:
    """Payloads with the right answer beside them, for which full marks would be no fault."""
    number = re.search(r"\d+", right)
    return {
        "in the place of a number": right.replace(number[0], payload, 1) if number else payload + right,
        "on a line after the answer": f"{right}\n{payload}",
        "on a line before the answer": f"{payload}\n{right}",
        "or the answer": f"{payload} or {right}",
    }


def _tables(task: str) -> Iterator[Hostile]:
    for kind, table in ((Kind.WORK, WORK), (Kind.TEXT, TEXT), (Kind.POISON, POISON), (Kind.POISON, FORGERIES)):
        for name, answer in table.items():
            yield Hostile(kind, name, answer)
    for name in OWN_NAMES:
        yield Hostile(Kind.CHEAT, name, name, most=0.0 if task in EVALUATING else BELOW_FULL_MARKS)


def _own(task: str, data: Data, right: str) -> Iterator[Hostile]:
    if task in CHEATS:
        for name, cheat in CHEATS[task](data, right).items():
            answer, most = (cheat, CHEAT_MOST) if isinstance(cheat, str) else cheat
            yield Hostile(Kind.CHEAT, name, answer, most)
    if task in TASK_WORK:
        for name, answer in TASK_WORK[task](data, right).items():
            # With constants of integration the answer is right.
            yield Hostile(Kind.WORK, name, answer, 1.0 if name == "constants" else BELOW_FULL_MARKS)


# ------------------------------------------------------------------ completions


@dataclass(frozen=True)
class Completion:
    """A whole completion; `paid` tells whether the answer rule finds the right answer in it."""

    name: str
    text: str
    paid: bool = False


def completions(right: str, wrong: str) -> list[Completion]:
    """Completions that try to have it both ways, or to hide, multiply or fake tags; `right` is a number."""
    good, bad = f"<answer>{right}</answer>", f"<answer>{wrong}</answer>"
    unpaid = {
        "two answers": bad + good,
        "the right answer first": good + bad,
        "the right answer twice": good + good,
        "an answer in an answer": f"<answer>{good}</answer>",
        "a wrong answer around a right one": f"<answer>{wrong}{good}</answer>",
        "an answer in thought": f"<think>{good}</think>",
        "an answer in an open thought": f"<think>so {good}",
        "an answer before a stray end of thought": f"{good}</think>",
        "a thought in an answer": f"<answer><think>{right}</think></answer>",
        "an end of thought in an answer": f"<answer>{right}</think></answer>",
        "an open thought in an answer": f"<answer>{right}<think></answer>",
        "a thought that opens in an answer": f"<answer>{right}<think></answer></think>",
        "an open answer": f"<answer>{right}",
        "a closed answer only": f"{right}</answer>",
        "tags the wrong way round": f"</answer>{right}<answer>",
        "an end too many": f"{good}</answer>",
        "an end too early": f"</answer>{good}",
        "an opening too many": f"<answer>{good}",
        "no tags": right,
        "an empty answer": "<answer> \n\u3000</answer>",
        "a blank in the tag": f"<answer >{right}</answer >",
        "a blank before the name": f"< answer>{right}</ answer>",
        "an attribute": f"<answer id='1'>{right}</answer>",
        "a slash": f"<answer/>{right}<answer/>",
        "a look-alike letter": f"<аnswer>{right}</аnswer>",
        "a long s": f"<an\u017fwer>{right}</an\u017fwer>",
        "wide brackets": f"＜answer＞{right}＜/answer＞",
        "escaped brackets": f"&lt;answer&gt;{right}&lt;/answer&gt;",
        "a hidden character": f"<ans\u200bwer>{right}</ans\u200bwer>",
        "a null in the tag": f"<ans\x00wer>{right}</ans\x00wer>",
        "other tags": f"<final>{right}</final>\\boxed{{{right}}}",
        "too long an answer": f"<answer>{right}{' ' * 3 * LONG}{right}</answer>",
        "wide characters over the limit": f"<answer>{right} {'😀' * (LONG // 4 + 1)}</answer>",
        "many answers": bad * 3000 + good,
        "many openings": "<answer>" * 5000 + right + "</answer>",
        "many ends": "<answer>" + right + "</answer>" * 5000,
        "many thoughts": f"<think>{good}</think>" * 2000,
        "nested thoughts": "<think>" * 5000 + good + "</think>" * 5000,
        "angle brackets": "<" * 200_000 + good[:-1],
        "half tags": "<answer" * 30_000,
        "half ends": "</answer" * 30_000,
        "a surrogate in an answer": f"<answer>{right}\ud800</answer>",
        "a null in an answer": f"<answer>\x00{right}</answer>",
        "a forged reply": f"<answer>{FORGERIES['a frame']}</answer>",
    }
    paid = {
        "capitals": f"<ANSWER>{right}</Answer>",
        "a thought before": f"<think>{bad}</think>{good}",
        "a thought that the prompt opened": f"{bad}</think>{good}",
        "stray ends of thoughts": "</think>" * 5000 + good,
        "blanks around the answer": f"<answer>{' ' * LONG}{right}\n\t\u3000</answer>",
        "a long thought": f"<think>{'hm ' * 70_000}</think>{good}",
        "much after the answer": good + "\ud800\x00</final>" * 20_000,
    }
    tables = ((unpaid, False), (paid, True))
    return [Completion(name, text, pays) for table, pays in tables for name, text in table.items()]


# ------------------------------------------------------------------ attacking


@dataclass(frozen=True)
class Target:
    """A problem with an ordinary answer to it and the score that this earns."""

    problem: Problem
    ordinary: str
    score: float


@dataclass(frozen=True)
class Attack:
    """What came of one hostile answer: its verdict, or what reached the caller.

    `harmed` names the tasks whose ordinary answers earned another score afterwards.
    """

    target: Target
    hostile: Hostile
    verdict: Verdict | None = None
    harmed: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        if self.verdict is None:
            outcome = self.error
        else:
            outcome = f"{self.verdict.score:g}, {self.verdict.reason.value}, {self.verdict.scoring_s:.2f} s"
        harm = f", harms {', '.join(self.harmed)}" if self.harmed else ""
        task, hostile = self.target.problem.task, self.hostile
        return f"{task}: {hostile.kind.value}, {hostile.name}: {outcome}{harm}: {hostile.answer[:60]!r}"

    @property
    def undeserved(self) -> bool:
        return self.verdict is not None and self.verdict.score > self.hostile.most


async def make_target(pool: WorkerPool, task: str, seed: int = 1) -> Target:
    """A problem that may be served, with what its ordinary answer earns."""
    for candidate in range(seed, seed + 20):
        problem = await pool.generate(ProblemSpec(task, candidate, Split.TRAIN, 0), GENERATION_DEADLINE_S)
        if problem.flaw is None:
            ordinary = ordinary_answer(problem)
            (verdict,) = await pool.score(problem, [ordinary])
            return Target(problem, ordinary, verdict.score)
    raise AssertionError(f"{task} has no problem without a flaw")


async def attack(pool: WorkerPool, target: Target, hostile: Hostile, witness: Target) -> Attack:
    """Score a hostile answer, then the ordinary ones to another task and to the same, all with one verifier worker."""
    try:
        (verdict,) = await pool.score(target.problem, [hostile.answer])
        others = (witness, target)
        verdicts = await asyncio.gather(*(pool.score(other.problem, [other.ordinary]) for other in others))
    except Exception as error:  # whatever it is, it is a finding
        return Attack(target, hostile, error=f"{type(error).__name__}: {error}")
    harmed = (
        other.problem.task for other, (after,) in zip(others, verdicts, strict=True) if after.score != other.score
    )
    return Attack(target, hostile, verdict, tuple(harmed))

"""bf: run programs as Python functions, and detect programs that never end.

Outputs are the same as with the library's interpreter, whose cells have values from 0 to 255. Here, values may differ
by multiples of 256, and only the lowest eight bits count when a cell is read. A loop becomes a multiplication if it
decrements its own cell, changes other cells by fixed numbers and returns to its own cell. Programs with input or with
loops that end at a different cell run in the library's interpreter; the library never generates such programs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

PART = re.compile(r"\[([-+<>]+)\]|([-+<>]+)|([][.])")
CELLS = 30_000
MAX_ITERATIONS = 300_000
"""Maximum sum of the iterations of a program's loops, except loops that become multiplications. This many iterations
take 0.1 s. None of 599 terminating programs needs more than 53,452."""


@lru_cache(4096)
def lines_of(steps: str, *, is_loop: bool) -> Sequence[str] | None:
    """Return `steps`, a string of the commands `+`, `-`, `<` and `>`, as lines of Python.

    If `is_loop` is true, `steps` is the body of a loop, and the lines replace the loop by multiplications. Return None
    if that is impossible.
    """
    changes: Counter[int] = Counter()
    place = 0
    for step in steps:
        place += {">": 1, "<": -1}.get(step, 0)
        changes[place] += {"+": 1, "-": -1}.get(step, 0)
    if is_loop and (place or changes.pop(0) != -1):
        return None
    times = " * (cells[at] & 255)" if is_loop else ""
    lines = [f"cells[at + {place}] += {change}{times}" for place, change in changes.items() if change]
    if is_loop:
        return [*lines, "cells[at] = 0"]
    return [*lines, f"at += {place}"] if place else lines


def translate(program: str) -> str:
    """Translate a bf program into the source code of a Python function."""
    lines = ["def run(cells, write):", " at = 0", f" rounds = {MAX_ITERATIONS}"]
    indent = " "
    for loop, steps, sign in PART.findall(program):
        product = lines_of(loop, is_loop=True) if loop else None
        for part in ("[", loop, "]") if loop and product is None else (steps or sign,):
            match part:
                case "[":
                    lines.append(f"{indent}while cells[at] & 255:")
                    indent += " "
                    lines += [f"{indent}rounds -= 1", f"{indent}if not rounds: raise TimeoutError"]
                case "]":
                    indent = indent[1:]
                case ".":
                    lines.append(f"{indent}write(cells[at] & 255)")
                case _:
                    lines += [indent + line for line in product or lines_of(part, is_loop=False) or ()]
    return "\n".join(lines)


def interpret(program: str) -> str:
    """Run a bf program and return its output. Raises TimeoutError after MAX_ITERATIONS loop iterations in total."""
    names: dict[str, Any] = {}
    exec(translate(program), names)
    written: list[int] = []
    names["run"]([0] * CELLS, written.append)
    return "".join(map(chr, written))


def install(module: Any) -> None:
    library = module.bfi

    def run(program: str, **options: Any) -> str:
        if re.search(r",|\[[<>]\]", program):
            output: str = library.interpret(program, **options)
            return output
        return interpret(program)

    module.bfi = SimpleNamespace(interpret=run)

"""Run the program that a question shows, on the input that the question gives."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from typing import Any

from .contract import Solution, UnsolvedError, find

DEADLINE_S = 20
"""For an interpreter that imports numpy, and a program that takes milliseconds, on a busy machine."""
RUN = """
import contextlib, io, json, sys
code, inputs = json.loads(sys.stdin.read())
names = {"__name__": "program"}
with contextlib.redirect_stdout(io.StringIO()):
    exec(code, names)
    output = json.dumps(names["main_solution"](**eval(inputs)))
print(output)
"""
"""A program in a fresh process, with a hash seed of its own. The input is a literal: it was read as one before."""


def codeio(question: str) -> Solution:
    """Run the program in another process. The programs are the library's data, no text of a model."""
    inputs = find(r"Given the following input:\n\n(.*)\n\nCan you predict the output", question)[1]
    code = find(r"but not copy spans of code directly\.\n\n(.*)", question)[1]
    try:
        ast.literal_eval(inputs)
    except (ValueError, SyntaxError):
        raise UnsolvedError("the input is no literal") from None
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = subprocess.run(
                [sys.executable, "-I", "-c", RUN],
                input=json.dumps([code, inputs]),
                capture_output=True,
                text=True,
                cwd=folder,
                timeout=DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UnsolvedError("the program takes too long") from None
    if run.returncode != 0:
        raise UnsolvedError(f"the program fails: {run.stderr.strip().splitlines()[-1]}")
    answer = run.stdout.strip()
    return Solution(answer, wrong=tuple(_other_outputs(json.loads(answer))))


def _other_outputs(output: Any) -> list[str]:
    """Return outputs that are nearly the program's: another number, text, item or value."""
    changed = _change(output)
    return [] if changed == output else [json.dumps(changed)]


def _change(output: Any) -> Any:
    if isinstance(output, bool):
        return not output
    if isinstance(output, int):
        return output + 1
    if isinstance(output, str):
        return f"{output}x"
    if isinstance(output, list) and output:
        return [*output[:-1], _change(output[-1])]
    if isinstance(output, dict) and output:
        last = list(output)[-1]
        return {**output, last: _change(output[last])}
    return output

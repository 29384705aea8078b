"""Run the program in a question on the input in the question."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from typing import Any

from .contract import Solution, UnsolvedError, find

DEADLINE_S = 20
"""Enough time for an interpreter that imports numpy on a busy machine. The program itself takes milliseconds."""
RUN = """
import contextlib, io, json, sys
code, inputs = json.loads(sys.stdin.read())
names = {"__name__": "program"}
with contextlib.redirect_stdout(io.StringIO()):
    exec(code, names)
    output = json.dumps(names["main_solution"](**eval(inputs)))
print(output)
"""
"""A program for a new process with a different hash seed. The program parses the input as a Python literal."""


def codeio(question: str) -> Solution:
    """Run the program in another process. The programs come from the library and never from a model."""
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
    """Return nearly right outputs, with a changed number, string, item or value."""
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

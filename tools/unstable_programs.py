"""Find the programs of codeio whose output depends on the machine: `python -m tools.unstable_programs`.

Runs the programs of the library's data on a few inputs: first in order; then in reverse order, under another hash seed
and without the instructions of newer processors; then in reverse order and under other hash seeds with each Python of
`--python`. Prints the digests of the programs whose input or output differed, or whose output differs for the input in
the question, for UNSTABLE_PROGRAMS of `reasoning_env/tasks/code.py`. Skips programs that another rule rejects.
"""

from __future__ import annotations

import argparse
import contextlib
import decimal
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from reasoning_env.tasks.code import CODEIO, WITHOUT_DEFINITE_OUTPUT, digest, is_unstable_program, shown_program
from reasoning_env.workers.clock import frozen_clock

from .running import run_tool

INPUTS = 6
"""Inputs to try for each program."""
DEADLINE_S = 2
"""Limit of processor time for a program."""
OLD_PROCESSOR = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable,-AVX512F",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX",
    "OPENBLAS_CORETYPE": "Nehalem",
}
"""Variables that disable instructions of newer processors in the C library, numpy and OpenBLAS."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="another interpreter")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="inputs of each program (default: %(default)s)")
    parser.add_argument("--backwards", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.write is not None:
        options.write.write_text(json.dumps(run_programs(options.inputs, backwards=options.backwards)))
        return 0
    first = _results_in(sys.executable, options.inputs, {"PYTHONHASHSEED": "0"})
    unstable: set[str] = set()
    for number, python in enumerate([sys.executable, *options.python], 1):
        variables = {"PYTHONHASHSEED": str(number), **(OLD_PROCESSOR if python == sys.executable else {})}
        results = _results_in(python, options.inputs, variables, backwards=True)
        differing = {program for program in first if _differ(first[program], results[program])}
        print(f"{python}: {len(differing)} of {len(first)} programs differ", file=sys.stderr)
        unstable |= differing
    print(*sorted(unstable), sep="\n")
    return 0


def _results_in(
    python: str, inputs: int, variables: Mapping[str, str], *, backwards: bool = False
) -> dict[str, list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "results.json"
        command = [python, "-m", "tools.unstable_programs", "--write", str(written), "--inputs", str(inputs)]
        command += ["--backwards"] if backwards else []
        environment = {**os.environ, "TMPDIR": folder, **variables}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads(written.read_text()))


def run_programs(inputs: int, *, backwards: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the questions and answers of each program, by its digest. For an error, use its message."""
    import reasoning_gym

    dataset = reasoning_gym.create_dataset("codeio", seed=0, size=1, input_prediction_probability=1.0)
    data = type(dataset)._jsonl_data
    programs = [program for program in data if not WITHOUT_DEFINITE_OUTPUT.search(program["code_sample"])]
    os.chdir(tempfile.mkdtemp())
    signal.signal(signal.SIGPROF, _raise_timeout)
    made: dict[str, list[dict[str, Any]]] = {}
    for program in reversed(programs) if backwards else programs:
        type(dataset)._jsonl_data = [program]
        made[digest(program["code_sample"])] = [_make(dataset, seed) for seed in range(inputs)]
    return made


def _raise_timeout(*_: object) -> NoReturn:
    raise TimeoutError


def _make(dataset: Any, seed: int) -> dict[str, Any]:
    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    decimal.setcontext(decimal.DefaultContext.copy())
    dataset.seed = seed
    signal.setitimer(signal.ITIMER_PROF, DEADLINE_S)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), frozen_clock():
            entry = dataset[0]
            again = _run_shown(dataset, entry)
        failed = entry["metadata"]["input_data"] == entry["metadata"]["output_data"] == {}
        return {"question": entry["question"], "answer": entry["answer"], "failed": failed, "again": again}
    except BaseException as error:  # a program may raise anything
        return {"error": f"{type(error).__name__}: {error}", "answer": "", "again": ""}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _run_shown(dataset: Any, entry: Mapping[str, Any]) -> str:
    """Return the output for the input in the question. Some programs change their input earlier."""
    shown = str(entry["metadata"]["input_data"])
    program = shown_program(entry["question"])
    _, output = dataset._generate_io_pair(program, f"def generate_inputs(_):\n    return {shown}", random.Random(0))
    return json.dumps(output)


def _differ(here: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if question or answer differs, or the shown input has another output, and no other rule rejects."""
    pairs = zip(here, there, strict=True)
    return any((one != other or one["again"] != one["answer"]) and _may_be_served(one) for one, other in pairs)


def _may_be_served(made: Mapping[str, Any]) -> bool:
    if "error" in made or made["failed"]:
        return False
    entry = {**made, "metadata": {}}
    return not any(rule.applies(entry) for rule in CODEIO.rejected if rule.applies is not is_unstable_program)


if __name__ == "__main__":
    run_tool(main)

"""Tasks that ask for the output of a program."""

from __future__ import annotations

import hashlib
import re
from random import Random
from typing import Any

from ..answers import corrections, guards, types, values
from ..answers.rules import AnswerRules, Entry
from .declaration import FailureRule, FieldLevels, Replacement, Task, wrong

BF = Task(
    "bf",
    "code",
    has_small_pool=True,
    question_counts=(4700, 4700, 5300),
    levels=(FieldLevels(("difficulty",), (1, 2, 3), "the library has only three levels of difficulty", drawn=True),),
    faster=Replacement("code.bf", "dc71afe6d2da7641", "bf.install"),
    failure=FailureRule((TimeoutError,), "the generated program never ends"),
    answer=AnswerRules(types.text(case_counts=True)),
)

WITHOUT_DEFINITE_OUTPUT = re.compile(
    r"\b(?:random\b|randint\b|shuffle\b|datetime\b.*\b(?:now|today)\(|date\.today\(|time\.time\(|list\(set\(|in set\("
    # `reasoning-env-` begins the name of a worker's folder (`workers/fork_server.py`).
    r"|urandom\b|secrets\b|uuid)|default_rng|tempfile|getcwd|os\.path|reasoning-env-"
)
"""Pattern of code whose output depends on chance, the clock, the order of a set, or folders of the machine."""

BEFORE_PROGRAM = "but not copy spans of code directly.\n\n"
"""End of the text before the program in a question. The rest of the question is the program."""

_DIGESTS = """
01204ebb 0ebc6bc5 16d76eb7 1eae57cc 24063787 24463bdb 299f4c47 2eec7dfe 33cef350 356c79be 366b59a3 3b260483
530ae3ba 535924cd 5af7661a 5f623271 64770418 6e930730 71a3bb9f 7357c738 751c3566 7e6a6055 87de7569 88bae8fe
91e71e68 95d1dd2d a2952de3 a6edb809 ac456f6b b09d8c7d b0dad122 b0fcbb7b b20a0d61 b488c861 c11a65f5 d337f725
d3d5d5f6 d606cec1 d778cc3b ded92c4c eba73b32 ed8828d9 eefdb8a5 f2d2a924 f9947fe3 fd60f092 ff406545
"""

UNSTABLE_PROGRAMS = frozenset(_DIGESTS.split())
"""Digests of programs whose input or output differs between processes, or whose answer does not fit the shown input.

`python -m tools.unstable_programs --python PATH` finds these programs.
"""


def _without_input(dataset: Any, item: int) -> Entry:
    """Return the part of an entry that is known before the program runs: the question without input or output."""
    program = Random(dataset.seed + item).choice(dataset._jsonl_data)
    parts = program["task_description"], program["input_output_spec"], BEFORE_PROGRAM + program["code_sample"]
    return {"question": "\n".join(parts), "answer": None, "metadata": {}}


def _asks_for_any_input(entry: Entry) -> bool:
    return "predict a feasible input" in str(entry["question"])


def _has_no_definite_output(entry: Entry) -> bool:
    question = str(entry["question"])
    return WITHOUT_DEFINITE_OUTPUT.search(question) is not None or "np.float64(" in question


def _has_not_run(entry: Entry) -> bool:
    """Return True if the program raised an error: the library then shows an empty input and output."""
    metadata = entry["metadata"]
    return [metadata.get(name) for name in ("input_data", "output_data")] == [{}, {}]


def _shows_last_float_bits(entry: Entry) -> bool:
    """Return True if the output has a number with 15 significant digits or more.

    The last bits of such a number depend on the release of Python and numpy, and on the processor.
    """
    numbers = re.findall(r"\d+\.\d+", str(entry["answer"]))
    return any(len(number.replace(".", "").lstrip("0")) >= 15 for number in numbers)


def is_unstable_program(entry: Entry) -> bool:
    """Return True if the program is one of UNSTABLE_PROGRAMS."""
    return digest(shown_program(str(entry["question"]))) in UNSTABLE_PROGRAMS


def shown_program(question: str) -> str:
    """Return the program that a question shows; "" if it shows none."""
    return question.rpartition(BEFORE_PROGRAM)[2] if BEFORE_PROGRAM in question else ""


def digest(program: str) -> str:
    """Return the hash by which UNSTABLE_PROGRAMS identifies a program: 8 hexadecimal digits."""
    return hashlib.blake2b(program.strip().encode(), digest_size=4).hexdigest()


CODEIO = Task(
    "codeio",
    "code",
    has_small_pool=True,
    question_counts=(None, 3700),
    levels=(FieldLevels(("difficulty",), (6, 7, 8, 9), "the library has only four difficulties", drawn=True),),
    # The parameter makes every question ask for the output, although its name suggests otherwise. Questions that ask
    # for any feasible input are rejected, because the verifier accepts a single input.
    served_params={"input_prediction_probability": 1.0},
    class_data="_jsonl_data",
    preview=_without_input,
    reads_clock=True,
    failure=FailureRule(
        (TypeError, ValueError, RecursionError, SystemExit),
        "the problem's program exits, or returns an object that JSON cannot represent",
    ),
    rejected=(
        wrong("the question asks for any feasible input, but the verifier accepts only one", _asks_for_any_input),
        wrong("the program raised an error", _has_not_run),
        wrong("the output depends on chance, the clock or the machine", _has_no_definite_output),
        wrong("the output has numbers whose last digits depend on the machine", _shows_last_float_bits),
        wrong("the output differs between machines, or does not match the shown input", is_unstable_program),
    ),
    scores_without_params=True,
    answer=AnswerRules(values.any_value, guard=guards.score_codeio, correction=corrections.correct_codeio),
)

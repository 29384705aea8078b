"""Programs of codeio that were seen to give another input or output in another process, or for the input that is shown.

The order of a set, the release of Python or numpy, or the instructions of the processor decides. 15 programs change
their input, so that the question shows an input that has another output. Some take seconds, so that a deadline decides.
Measured by `python -m tools.unstable_programs --python PATH`.
"""

from __future__ import annotations

import hashlib

BEFORE_PROGRAM = "but not copy spans of code directly.\n\n"
"""The text of a question before its program, which ends the question."""


def shown_program(question: str) -> str:
    """Return the program that a question shows; "" where there is none."""
    return question.rpartition(BEFORE_PROGRAM)[2] if BEFORE_PROGRAM in question else ""


def digest(program: str) -> str:
    """Return the name of a program in UNSTABLE_PROGRAMS: 8 hexadecimal digits."""
    return hashlib.blake2b(program.strip().encode(), digest_size=4).hexdigest()


_DIGESTS = """
01204ebb 0ebc6bc5 16d76eb7 1eae57cc 24063787 24463bdb 299f4c47 2eec7dfe 33cef350 356c79be 366b59a3 3b260483
530ae3ba 535924cd 5af7661a 5f623271 64770418 6e930730 71a3bb9f 7357c738 751c3566 7e6a6055 87de7569 88bae8fe
91e71e68 95d1dd2d a2952de3 a6edb809 ac456f6b b09d8c7d b0dad122 b0fcbb7b b20a0d61 b488c861 c11a65f5 d337f725
d3d5d5f6 d606cec1 d778cc3b ded92c4c eba73b32 ed8828d9 eefdb8a5 f2d2a924 f9947fe3 fd60f092 ff406545
"""
UNSTABLE_PROGRAMS = frozenset(_DIGESTS.split())

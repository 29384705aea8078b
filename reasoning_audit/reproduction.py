"""The commands that show a finding again: of this program, of the library alone, or of a score function of the user."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reasoning_env.records import Problem
from reasoning_env.rewards import extract_answer

MAX_SCORED = 2_000
"""Characters of the longest answer that stands in a command. For longer answers, the command repeats the audit.

Half or double is the same for 198 findings: 6 commands have over 200 characters, and one answer has 20,000.
"""


@dataclass(frozen=True)
class Reproduction:
    """The commands that show the findings on a task again.

    `audit` repeats the audit of the task, which shows every finding, and stands in for what no other command can show.
    """

    audit: str

    def score(self, problem: Problem, answer: str) -> str:
        """Return the command that scores an answer as the audited rewards do."""
        return self.audit

    def bare_score(self, problem: Problem, answer: str) -> str:
        """Return the command that scores an answer by the verifier alone."""
        return self.audit

    def two_hash_seeds(self, problem: Problem) -> str:
        """Return the command that prints the problem under two hash seeds."""
        return self.audit


@dataclass(frozen=True, kw_only=True)
class OwnCommands(Reproduction):
    """Commands of this program, with the options under which the audit ran.

    `params` are the parameters that the user set for the task.
    """

    program: str
    options: Sequence[str] = ()
    params: Mapping[str, object] = field(default_factory=dict)

    def score(self, problem: Problem, answer: str) -> str:
        spec = problem.spec
        if not _is_read(answer):
            return self.audit
        words = ["score", spec.task, f"<answer>{answer}</answer>", "--seed", str(spec.seed)]
        if spec.level is not None:
            words += ["--level", f"{spec.level:g}"]
        if self.params:
            words += ["--params", json.dumps(dict(self.params), default=str)]
        return f"{self.program} {' '.join(map(shell_word, [*words, *self.options]))}"


class LibraryCommands(Reproduction):
    """Commands of the library alone, for problems as the library makes them."""

    def score(self, problem: Problem, answer: str) -> str:
        return f"PYTHONHASHSEED=0 {_python(problem, f'print(d.score_answer({answer!r}, d[0]))')}"

    bare_score = score

    def two_hash_seeds(self, problem: Problem) -> str:
        return f"for s in 0 1; do PYTHONHASHSEED=$s {_python(problem, 'print(d[0])')}; done"


@dataclass(frozen=True, kw_only=True)
class FunctionCommands(Reproduction):
    """Commands that call a score function of the user, `MODULE:NAME`, with a row of a file of JSON lines.

    `before` and `after` stand around the answer in a completion.
    """

    function: str
    file: str
    before: str = ""
    after: str = ""

    def score(self, problem: Problem, answer: str) -> str:
        module, _, name = self.function.rpartition(":")
        found = f"from {module} import {name} as score"
        if module.endswith(".py"):
            found = f"import runpy; score = runpy.run_path({module!r})[{name!r}]"
        row = f"row = json.loads([line for line in open({self.file!r}) if line.strip()][{problem.spec.index}])"
        code = f"import json; {found}; {row}; print(score({self.before + answer + self.after!r}, **row))"
        return f"python -c {shell_word(code)}"

    bare_score = score


def _is_read(answer: str) -> bool:
    """Tell whether the answer rule reads the answer in a completion, apart from whitespace around it."""
    return extract_answer(f"<answer>{answer}</answer>", MAX_SCORED * 4).answer == answer.strip() != ""


def _python(problem: Problem, code: str) -> str:
    spec = problem.spec
    config = {**problem.params, "seed": spec.seed, "size": 1}
    arguments = ", ".join(f"{name}={value!r}" for name, value in config.items())
    made = f"import reasoning_gym; d = reasoning_gym.create_dataset({spec.task!r}, {arguments}); "
    return f"python -c {shell_word(made + code)}"


def shell_word(text: str) -> str:
    """Return a text as one word of a command in bash, on one line."""
    if not text.isprintable():
        return _ansi_c_word(text)
    if "'" in text and not set(text) & set('"$`\\!'):
        return f'"{text}"'
    return shlex.quote(text)


def _ansi_c_word(text: str) -> str:
    escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    shown = [
        escapes.get(mark) or (mark if mark.isprintable() else "".join(f"\\x{byte:02x}" for byte in mark.encode()))
        for mark in text
    ]
    return f"$'{''.join(shown)}'"

"""Commands that reproduce a finding: with this program, with the library alone, or with a score function."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reasoning_env.records import Problem
from reasoning_env.rewards import extract_answer

MAX_SCORED = 2_000
"""Maximum characters of an answer in a reproducing command. For longer answers, the command repeats the audit."""


@dataclass(frozen=True)
class Reproduction:
    """The shell commands that reproduce the findings on a task.

    `audit` repeats the audit of the task. The methods return `audit` if no shorter command reproduces a finding.
    """

    audit: str

    def score(self, problem: Problem, answer: str) -> str:
        """Return the command that scores an answer with the rewards that the audit used: strict or the library's."""
        return self.audit

    def bare_score(self, problem: Problem, answer: str) -> str:
        """Return the command that scores an answer with the original verifier, without this environment's guards."""
        return self.audit

    def two_hash_seeds(self, problem: Problem) -> str:
        """Return the command that generates and prints the problem twice, with two values of PYTHONHASHSEED."""
        return self.audit


@dataclass(frozen=True, kw_only=True)
class OwnCommands(Reproduction):
    """Shell commands that reproduce findings with this program (`reasoning_gym_environment.py`) and the user's options.

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
    """Shell commands that reproduce findings on reasoning-gym's own problems. They need only reasoning-gym itself."""

    def score(self, problem: Problem, answer: str) -> str:
        return f"PYTHONHASHSEED=0 {_python(problem, f'print(d.score_answer({answer!r}, d[0]))')}"

    bare_score = score

    def two_hash_seeds(self, problem: Problem) -> str:
        return f"for s in 0 1; do PYTHONHASHSEED=$s {_python(problem, 'print(d[0])')}; done"


@dataclass(frozen=True, kw_only=True)
class FunctionCommands(Reproduction):
    """Shell commands that call a score function, `MODULE:NAME`, with a row and a completion.

    The completion is `before` + answer + `after`.
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
    """Return True if `extract_answer` finds the answer between answer tags, and changes only whitespace at its ends."""
    return extract_answer(f"<answer>{answer}</answer>", MAX_SCORED * 4).answer == answer.strip() != ""


def _python(problem: Problem, code: str) -> str:
    spec = problem.spec
    config = {**problem.params, "seed": spec.seed, "size": 1}
    arguments = ", ".join(f"{name}={value!r}" for name, value in config.items())
    made = f"import reasoning_gym; d = reasoning_gym.create_dataset({spec.task!r}, {arguments}); "
    return f"python -c {shell_word(made + code)}"


def shell_word(text: str) -> str:
    """Quote a string as one word of a bash command, on one line."""
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

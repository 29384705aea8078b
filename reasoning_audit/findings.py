"""The vocabulary of an audit: the defects that a verifier can have, and a finding, which shows one of them.

A finding is evidence, not an opinion: it names a problem, an answer, the score of the answer, the score that it is
compared with, and a command that shows the score again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic cannot read the TypedDict of Python 3.11

from reasoning_env.records import Problem
from reasoning_env.rewards import extract_answer
from reasoning_env.storage.reading import Name, Number, Share

MAX_ANSWER = 200
"""Characters of an answer that a finding shows. Of 198 findings, 7 have a longer answer."""
MAX_SCORED = 2_000
"""Characters of the longest answer that stands in a command. For longer answers, the command repeats the audit.

Half or double is the same for 198 findings: 6 commands have over MAX_ANSWER characters, and one answer has 20,000.
"""


class Severity(StrEnum):
    """How much a defect matters to a training."""

    LOW = "low"
    """A nuisance, or a defect that is known and left out of training."""
    MEDIUM = "medium"
    """Rewards are wrong for some problems, or in some circumstances."""
    HIGH = "high"
    """A policy can learn the wrong thing: wrong answers are paid, right ones are not, or text is executed."""

    @property
    def rank(self) -> int:
        return [*Severity].index(self)


class Defect(StrEnum):
    """The defects that an audit looks for."""

    GOLD_NOT_PAID = "gold_not_paid"
    GOLD_LOST_IN_JSON = "gold_lost_in_json"
    GARBAGE_PAID = "garbage_paid"
    EMPTY_PAID = "empty_paid"
    CONSTANT_PAID = "constant_paid"
    COPY_PAID = "copy_paid"
    REPETITION_PAID = "repetition_paid"
    LAYOUT_PAID = "layout_paid"
    WRONG_PAID = "wrong_paid"
    HEDGE_PAID = "hedge_paid"
    WRONG_ABOVE_RIGHT = "wrong_above_right"
    CREDIT_NOT_MONOTONE = "credit_not_monotone"
    SCORE_OUT_OF_RANGE = "score_out_of_range"
    CALLS_DIFFER = "calls_differ"
    PROCESSES_DIFFER = "processes_differ"
    HASH_SEEDS_DIFFER = "hash_seeds_differ"
    TEXT_EXECUTED = "text_executed"
    TOO_SLOW = "too_slow"
    TOO_MUCH_MEMORY = "too_much_memory"
    VERIFIER_FAILS = "verifier_fails"
    CONTRADICTS_QUESTION = "contradicts_question"
    GIVES_ANSWER_AWAY = "gives_answer_away"
    LEVEL_CHANGES_NOTHING = "level_changes_nothing"
    NO_PROBLEM = "no_problem"


@dataclass(frozen=True)
class DefectMeaning:
    """What a defect means, in one sentence, and how much it matters where a finding does not say otherwise."""

    severity: Severity
    text: str


MEANINGS: Mapping[Defect, DefectMeaning] = {
    Defect.GOLD_NOT_PAID: DefectMeaning(Severity.HIGH, "the problem's own right answer earns less than 0.95"),
    Defect.GOLD_LOST_IN_JSON: DefectMeaning(
        Severity.MEDIUM, "the right answer is paid, but not after the entry was written to JSON and read again"
    ),
    Defect.GARBAGE_PAID: DefectMeaning(Severity.HIGH, "text without meaning earns more than 0.1 in the mean"),
    Defect.EMPTY_PAID: DefectMeaning(Severity.MEDIUM, "an empty answer earns more than 0.1 in the mean"),
    Defect.CONSTANT_PAID: DefectMeaning(Severity.HIGH, "the same answer to every question earns more than the bound"),
    Defect.COPY_PAID: DefectMeaning(
        Severity.HIGH, "a part of the question, or a count over its text, earns more than the bound"
    ),
    Defect.REPETITION_PAID: DefectMeaning(Severity.HIGH, "a text that repeats itself earns more than 0.1 in the mean"),
    Defect.LAYOUT_PAID: DefectMeaning(
        Severity.HIGH, "the expected layout with other content earns more than the bound"
    ),
    Defect.WRONG_PAID: DefectMeaning(
        Severity.HIGH,
        "a wrong number, list or word earns as much as the right answer, on every problem",
    ),
    Defect.HEDGE_PAID: DefectMeaning(
        Severity.HIGH, "the right answer and another, in both orders, earn as much as the right answer alone"
    ),
    Defect.WRONG_ABOVE_RIGHT: DefectMeaning(Severity.HIGH, "a changed answer earns more than the right one"),
    Defect.CREDIT_NOT_MONOTONE: DefectMeaning(
        Severity.MEDIUM, "an answer with more wrong cells earns more than one with fewer"
    ),
    Defect.SCORE_OUT_OF_RANGE: DefectMeaning(Severity.MEDIUM, "the verifier returns no number from 0 to 1"),
    Defect.CALLS_DIFFER: DefectMeaning(Severity.HIGH, "two equal calls in one process give different scores"),
    Defect.PROCESSES_DIFFER: DefectMeaning(Severity.MEDIUM, "two processes give different problems or scores"),
    Defect.HASH_SEEDS_DIFFER: DefectMeaning(
        Severity.MEDIUM, "processes with different PYTHONHASHSEED give different problems or scores"
    ),
    Defect.TEXT_EXECUTED: DefectMeaning(
        Severity.HIGH, "an answer is executed: it opens a file or a socket, starts a process or imports a module"
    ),
    Defect.TOO_SLOW: DefectMeaning(Severity.MEDIUM, "an answer takes more processor time than the deadline"),
    Defect.TOO_MUCH_MEMORY: DefectMeaning(
        Severity.MEDIUM, "an answer takes more memory than the limit, or ends the process"
    ),
    Defect.VERIFIER_FAILS: DefectMeaning(Severity.LOW, "the verifier raises an error at an answer"),
    Defect.CONTRADICTS_QUESTION: DefectMeaning(
        Severity.MEDIUM, "the right answer breaks the question's own instruction, or one question has two answers"
    ),
    Defect.GIVES_ANSWER_AWAY: DefectMeaning(
        Severity.HIGH, "the question states its answer, or one count over its text tells the answer"
    ),
    Defect.LEVEL_CHANGES_NOTHING: DefectMeaning(
        Severity.MEDIUM, "the easiest and the hardest level make the same problems"
    ),
    Defect.NO_PROBLEM: DefectMeaning(Severity.LOW, "no problem can be made"),
}


@dataclass(frozen=True)
class Finding:
    """One defect, with the evidence.

    - `reference` names the problem; "" where the finding is about no single problem.
    - `answer` is the answer that shows the defect, cut to MAX_ANSWER characters.
    - `score` is what the answer earned; `expected` the score that it is compared with: of the right answer, or of the
      same answer in the other call, process or form. None where there is no such score.
    - `detail` says in words what was seen.
    - `command` shows the same again.
    """

    defect: Defect
    task: str
    level: float | None
    detail: str
    reference: str = ""
    answer: str = ""
    score: float | None = None
    expected: float | None = None
    command: str = ""
    severity: Severity = field(default=Severity.LOW)

    @property
    def place(self) -> str:
        """The task and level, in words."""
        return self.task if self.level is None else f"{self.task} at {self.level:g}"


class FindingRow(TypedDict):
    """A finding as JSON."""

    defect: Name
    severity: Name
    task: Name
    level: Share | None
    detail: Name
    reference: str
    answer: Annotated[str, Field(max_length=MAX_ANSWER)]
    score: Number | None
    expected: Number | None
    command: str


def finding_row(finding: Finding) -> FindingRow:
    """Return a finding as JSON values."""
    return {
        "defect": finding.defect.value,
        "severity": finding.severity.value,
        "task": finding.task,
        "level": finding.level,
        "detail": finding.detail,
        "reference": finding.reference,
        "answer": finding.answer,
        "score": finding.score,
        "expected": finding.expected,
        "command": finding.command,
    }


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by defect and task."""
    return sorted(findings, key=lambda one: (-one.severity.rank, one.defect, one.task, one.level or -1.0))


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding for each defect of a task: the most severe, which names the other levels with the defect."""
    grouped: dict[tuple[str, Defect], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.task, finding.defect), []).append(finding)
    merged = []
    for (_, _), same in grouped.items():
        worst = max(same, key=lambda one: (one.severity.rank, one.score or 0.0))
        levels = dict.fromkeys("the defaults" if one.level is None else f"level {one.level:g}" for one in same)
        own = "the defaults" if worst.level is None else f"level {worst.level:g}"
        others = [level for level in levels if level != own]
        detail = f"{worst.detail}; also at {', '.join(others)}" if others else worst.detail
        merged.append(replace(worst, detail=detail))
    return merged


def count_by_severity(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Return the number of findings of each severity, the worst first."""
    severities = [finding.severity for finding in findings]
    return {severity: severities.count(severity) for severity in reversed(Severity)}


def is_at_least(findings: Iterable[Finding], severity: Severity) -> bool:
    """Tell whether any finding has at least this severity."""
    return any(finding.severity.rank >= severity.rank for finding in findings)


# ------------------------------------------------------------------ commands that reproduce a finding

Reproduce = Callable[[Problem, str], str]
"""Returns the command that scores an answer to a problem."""


@dataclass(frozen=True)
class Reproduction:
    """What makes the commands that show findings again.

    `score` scores an answer as the audited rewards do, and `audit` repeats the audit of the task. The others are None
    where only the audit can show the same: `bare` scores by the verifier alone, `after_json` does so after the entry
    passed through JSON, and `two_hash_seeds` prints the question under two hash seeds.
    """

    score: Reproduce
    audit: str
    bare: Reproduce | None = None
    after_json: Reproduce | None = None
    two_hash_seeds: Reproduce | None = None

    def of(self, defect: Defect, problem: Problem, answer: str) -> str:
        """Return the command for a finding of watched workers."""
        make = self.bare
        if defect is Defect.GOLD_LOST_IN_JSON:
            make = self.after_json
        elif defect in (Defect.HASH_SEEDS_DIFFER, Defect.PROCESSES_DIFFER) and not answer:
            make = self.two_hash_seeds
        elif defect in (Defect.HASH_SEEDS_DIFFER, Defect.PROCESSES_DIFFER, Defect.CALLS_DIFFER):
            make = None
        return self.audit if make is None else make(problem, answer)


def own_commands(program: str, options: Sequence[str], params: Mapping[str, Any], audit: str) -> Reproduction:
    """Return commands of this program, with the options under which the audit ran.

    `params` are the parameters that the user set for the task.
    """

    def score(problem: Problem, answer: str) -> str:
        spec = problem.spec
        if not _is_read(answer):
            return audit
        words = ["score", spec.task, f"<answer>{answer}</answer>", "--seed", str(spec.seed)]
        if spec.level is not None:
            words += ["--level", f"{spec.level:g}"]
        if params:
            words += ["--params", json.dumps(dict(params), default=str)]
        return f"{program} {' '.join(map(shell_word, [*words, *options]))}"

    return Reproduction(_short(score, audit), audit)


def library_commands(audit: str) -> Reproduction:
    """Return commands of the library alone, for problems as the library makes them."""

    def score(problem: Problem, answer: str) -> str:
        return f"PYTHONHASHSEED=0 {_python(problem, f'print(d.score_answer({answer!r}, d[0]))')}"

    def after_json(problem: Problem, answer: str) -> str:
        code = f"e = json.loads(json.dumps(d[0], default=str)); print(d.score_answer({answer!r}, e))"
        return f"PYTHONHASHSEED=0 {_python(problem, code)}"

    def two_hash_seeds(problem: Problem, answer: str) -> str:
        line = _python(problem, "print(d[0])")
        return f"for s in 0 1; do PYTHONHASHSEED=$s {line}; done"

    return Reproduction(_short(score, audit), audit, _short(score, audit), _short(after_json, audit), two_hash_seeds)


def function_commands(function: str, file: str, before: str, after: str, audit: str) -> Reproduction:
    """Return commands that call a score function of the user, `MODULE:NAME`, with a row of a file of JSON lines.

    `before` and `after` stand around the answer in a completion.
    """
    module, _, name = function.rpartition(":")
    found = f"from {module} import {name} as score"
    if module.endswith(".py"):
        found = f"import runpy; score = runpy.run_path({module!r})[{name!r}]"

    def score(problem: Problem, answer: str) -> str:
        row = f"row = json.loads([line for line in open({file!r}) if line.strip()][{problem.spec.index}])"
        code = f"import json; {found}; {row}; print(score({before + answer + after!r}, **row))"
        return f"python -c {shell_word(code)}"

    return Reproduction(_short(score, audit), audit, _short(score, audit))


def _is_read(answer: str) -> bool:
    """Tell whether the answer rule reads the answer in a completion, apart from whitespace around it."""
    return extract_answer(f"<answer>{answer}</answer>", MAX_SCORED * 4).answer == answer.strip() != ""


def _short(reproduce: Reproduce, audit: str) -> Reproduce:
    """Return what makes the same commands, and the command `audit` for a long answer."""
    return lambda problem, answer: reproduce(problem, answer) if len(answer) <= MAX_SCORED else audit


def _python(problem: Problem, code: str) -> str:
    spec = problem.spec
    config = {**problem.params, "seed": spec.seed, "size": 1}
    arguments = ", ".join(f"{name}={value!r}" for name, value in config.items())
    made = f"import json, reasoning_gym; d = reasoning_gym.create_dataset({spec.task!r}, {arguments}); "
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

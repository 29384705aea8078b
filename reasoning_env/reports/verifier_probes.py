"""Probe a verifier with right, nearly right and meaningless answers, and tally what each kind of them earns.

The probes are a pure function of a task's problems, in order. Where a meaningless answer happens to be a problem's
right one, that problem is not probed with it. Every verdict counts, also those of verifiers that failed, which score 0.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ..errors import GenerationError, ScoringError
from ..problems import Generator
from ..records import Problem, ProblemSpec, Reason, Verdict

HIGH_SCORE = 0.5
"""What a meaningless answer must earn on a problem to count as paid for."""
MOST = 0.5
"""More than this share of a task's problems is most of them."""
GENERATION_DEADLINE_S = 20.0
GENERATION_FAILURES = 3
"""After so many a task is probed with what was generated until then."""
ESCAPED = (Reason.VERIFIER_ERROR, Reason.TIMEOUT, Reason.CRASH)
"""The ways in which a verifier fails instead of giving a score."""
LONG_BYTES = 20_000
"""Length of the longest probes: the largest answer that the environment's own default lets through to a verifier."""
FEW_OPTIONS = 8
"""Tasks with at most this many different right answers can be answered by listing them all."""
EXAMPLE_KEYS = ("example_answer", "example_correct_answer", "possible_answer")
"""Where tasks without a single right answer keep one of many in their metadata."""

ORACLE = "oracle"
PERTURBED = "perturbed oracle"
TRAILED = "oracle and garbage"
MOST_FREQUENT = "most frequent answer"
BLANK = "blank"
TAGGED = "junk in answer tags"
QUESTION = "the question"
NEIGHBOUR = "another problem's answer"
ALL_OPTIONS = "every option"
LISTED = "the question's first listed line"
NANS = "nan for every number"
ZEROS = "0 for every number"
JUNK = "qwxz"
CONSTANTS: Mapping[str, str] = {
    **{text: text for text in ("0", "1", "nan", "inf", "I don't know", "True False", "yes no", "[]", "{}", '""')},
    "a dot": ".",
    "a dash": "-",
    "20 kB of words": ("the quick brown fox jumps over the lazy dog " * LONG_BYTES)[:LONG_BYTES].strip(),
    "20 kB of digits": ("1234567890" * LONG_BYTES)[:LONG_BYTES],
}

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
WORD = re.compile(r"[^\W\d_]{2,}")
LISTED_LINE = re.compile(r"\W*\d+[.):]\s+(\S.*)")


class Role(StrEnum):
    """What a high score for a kind of probe says about the verifier."""

    REFERENCE = "reference"
    """It pays for the right answer, or for one that is close to it."""
    DEGENERATE = "degenerate"
    """It pays for an answer that shows no knowledge of the problem: a fault."""
    UNREACHABLE = "unreachable"
    """The same, for text that the answer rule refuses, so that no completion can bring it to a verifier."""
    GUESS = "guess"
    """The task's answers are unevenly spread, and one of them is a good guess; the verifier may be right."""


ROLES: Mapping[str, Role] = {
    **dict.fromkeys((ORACLE, PERTURBED, TRAILED), Role.REFERENCE),
    MOST_FREQUENT: Role.GUESS,
    **dict.fromkeys((BLANK, TAGGED), Role.UNREACHABLE),
    **dict.fromkeys((*CONSTANTS, QUESTION, NEIGHBOUR, ALL_OPTIONS, LISTED, NANS, ZEROS), Role.DEGENERATE),
}
"""Every kind of probe, in the order in which reports list them."""


class Workers(Generator, Protocol):
    """The part of the worker pool that probing uses."""

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]: ...


@dataclass
class Tally:
    """What one kind of probe earned over a task's problems; `best` is the first of its best verdicts, with its seed."""

    scores: list[float] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)
    slowest_s: float = 0.0
    best: Verdict | None = None
    best_seed: int = 0

    def add(self, verdict: Verdict, seed: int) -> None:
        self.scores.append(verdict.score)
        self.reasons[verdict.reason] += 1
        self.slowest_s = max(self.slowest_s, verdict.scoring_s)
        if self.best is None or verdict.score > self.best.score:
            self.best, self.best_seed = verdict, seed

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def paid(self) -> int:
        """On how many problems it earned at least HIGH_SCORE."""
        return sum(score >= HIGH_SCORE for score in self.scores)


@dataclass(frozen=True)
class TaskAudit:
    """One task's results over `items` problems: a tally of each kind of probe, and why further problems are missing."""

    task: str
    items: int
    tallies: Mapping[str, Tally]
    failures: tuple[str, ...] = ()

    @property
    def exploits(self) -> list[str]:
        """Meaningless kinds that are paid for on most problems, the worst first."""
        return [kind for kind in self._worst_first() if self.share(kind) > MOST]

    @property
    def worst(self) -> str | None:
        """The meaningless kind that is paid for on most problems and, among equals, best; None when all earn 0."""
        return next((kind for kind in self._worst_first() if self.tallies[kind].mean > 0), None)

    @property
    def slowest_s(self) -> float:
        return max((tally.slowest_s for tally in self.tallies.values()), default=0.0)

    @property
    def escaped(self) -> dict[Reason, int]:
        """How many answers the verifier could not cope with, by the way in which it failed."""
        return {reason: sum(tally.reasons[reason] for tally in self.tallies.values()) for reason in ESCAPED}

    def share(self, kind: str) -> float:
        """The share of the problems on which a kind is paid for; where it is the right answer it counts as not paid."""
        return self.tallies[kind].paid / self.items if kind in self.tallies else 0.0

    def _worst_first(self) -> list[str]:
        kinds = [kind for kind, role in ROLES.items() if role is Role.DEGENERATE and kind in self.tallies]
        return sorted(kinds, key=lambda kind: (-self.tallies[kind].paid, -self.tallies[kind].mean))


async def audit_task(workers: Workers, task: str, specs: Sequence[ProblemSpec]) -> TaskAudit:
    """Probe one task with the problems of its specs; `failures` says what could not be generated or scored.

    Raises WorkerError when there are no workers any more.
    """
    problems: list[Problem] = []
    failures: list[str] = []
    for spec in specs:
        try:
            problem = await workers.generate(spec, GENERATION_DEADLINE_S)
        except GenerationError as error:
            failures.append(str(error))
            if len(failures) == GENERATION_FAILURES:
                break
        else:
            if problem.flaw is None:  # flawed problems are never served
                problems.append(problem)
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    items = 0
    for problem, probes in zip(problems, make_probes(problems), strict=True):
        try:
            verdicts = await workers.score(problem, list(probes.values()))
        except ScoringError as error:
            failures.append(str(error))
            continue
        items += 1
        for kind, verdict in zip(probes, verdicts, strict=True):
            tallies[kind].add(verdict, problem.spec.seed)
    return TaskAudit(task, items, dict(tallies), tuple(failures))


def make_probes(problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Return the answers to probe each of one task's problems with, by kind, in the order of the problems."""
    oracles = [reference_answer(problem) for problem in problems]
    known = [oracle for oracle in oracles if oracle is not None]
    shared = {BLANK: " ", TAGGED: f"<answer>{JUNK}</answer>", **CONSTANTS}
    options = sorted(set(known))
    if 2 <= len(options) <= FEW_OPTIONS:
        # The shortest way to name them all: some verifiers pay by the share of the text that is right.
        shared[ALL_OPTIONS] = " ".join(options)
    made = []
    for position, (problem, oracle) in enumerate(zip(problems, oracles, strict=True)):
        meaningless = {**shared, **_from_question(problem.question)}
        informed: dict[str, str] = {}
        if oracle is not None:
            informed = _informed(oracle, known)
            meaningless |= _from_layout(oracle)
            others = [other for other in oracles[position:] + oracles[:position] if other not in (None, oracle)]
            if others and others[0] is not None:
                meaningless[NEIGHBOUR] = others[0]
        made.append(informed | {kind: text for kind, text in meaningless.items() if not _equal(text, oracle)})
    return made


def reference_answer(problem: Problem) -> str | None:
    """Return the oracle's answer or, where many are right, the metadata's example of one; None where neither is."""
    if problem.answer is not None:
        return problem.answer
    metadata = json.loads(problem.metadata_json)
    if isinstance(metadata, dict):
        for key in EXAMPLE_KEYS:
            if metadata.get(key) is not None:
                example = metadata[key]
                return example if isinstance(example, str) else json.dumps(example)
    return None


def perturb(answer: str) -> str:
    """Change the last digit or letter to the next one; text without any gets a letter appended."""
    for position in range(len(answer) - 1, -1, -1):
        for alphabet in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
            place = alphabet.find(answer[position])
            if place >= 0:
                changed = alphabet[(place + 1) % len(alphabet)]
                return answer[:position] + changed + answer[position + 1 :]
    return answer + "x"


def _informed(oracle: str, known: Sequence[str]) -> dict[str, str]:
    probes = {ORACLE: oracle, PERTURBED: perturb(oracle), TRAILED: f"{oracle} {JUNK}"}
    frequent, count = Counter(known).most_common(1)[0]
    return {**probes, MOST_FREQUENT: frequent} if count > 1 else probes


def _from_question(question: str) -> dict[str, str]:
    """What can be copied from a question without understanding it."""
    copied = {QUESTION: _cut(question.strip())}
    listed = next(filter(None, map(LISTED_LINE.fullmatch, question.splitlines())), None)
    return copied if listed is None else {**copied, LISTED: _cut(listed[1].strip())}


def _from_layout(oracle: str) -> dict[str, str]:
    """Answers in the form that a question asks for, without content; nothing for answers that are mostly words."""
    if len(NUMBER.findall(oracle)) <= len(WORD.findall(oracle)):
        return {}
    return {NANS: NUMBER.sub("nan", oracle), ZEROS: NUMBER.sub("0", oracle)}


def _equal(answer: str, oracle: str | None) -> bool:
    return oracle is not None and answer.strip().casefold() == oracle.strip().casefold()


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:LONG_BYTES].decode("utf-8", "ignore")

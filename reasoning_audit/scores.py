"""Score probes (answers that the audit makes) on a task's problems.

A shortcut is a kind of answer made without reasoning. The bound of a task is the highest mean score that shortcuts are
allowed to have.

`audit_task` works in rounds. Each round has new problems. Later rounds omit the shortcuts that scored low before.

If the verifier fails, the answer scores 0. If a shortcut has no answer to a problem, it scores 0 on this problem.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from reasoning_env.answers.shortcuts import FORM_SCORE
from reasoning_env.errors import GenerationError, ScoringError
from reasoning_env.problems.evaluation_set import evaluation_spec
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict
from reasoning_env.tasks import TASKS, find_task

from .options import ROUNDS
from .probes import (
    FEW_OPTIONS,
    GARBAGE,
    LEARNT_FROM,
    Probe,
    is_shortcut,
    make_probes,
)

GENERATION_DEADLINE_S = 600.0
"""Wall-clock limit for generating a problem. It is long, because a busy machine may stall processes."""
GENERATION_CPU_S = 20.0
"""Processor-time limit for generating a problem."""
MANY = 3
"""Minimum number of problems for a finding that says "on every problem"."""
RIGHT_ANSWER_SCORE = 0.95
"""The lowest allowed mean score of right answers."""


def level_words(level: float | None) -> str:
    return "the defaults" if level is None else f"level {level:g}"


def place(task: str, level: float | None) -> str:
    """Return a task and level in words, such as `gcd at 0.5`."""
    return task if level is None else f"{task} at {level:g}"


@dataclass(frozen=True)
class ProbedAnswer:
    """A scored answer, its problem, and the score of the right answer to the same problem (None if not scored)."""

    verdict: Verdict
    problem: Problem
    right_score: float | None = None


@dataclass
class ProbeTally:
    """The scores of one kind of answer on a task's problems. One best and one worst answer are kept as examples."""

    scores: list[float] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)
    best: ProbedAnswer | None = None
    worst: ProbedAnswer | None = None
    failed: dict[Reason, ProbedAnswer] = field(default_factory=dict)
    """The first answer that could not be scored, for each `Reason` other than SCORED."""
    is_never_below_right: bool = True
    """True if each answer so far scored at least as high as the right answer to its problem."""

    def add(self, verdict: Verdict, problem: Problem, right_score: float | None = None) -> None:
        self.scores.append(verdict.score)
        self.reasons[verdict.reason] += 1
        self.is_never_below_right &= right_score is not None and verdict.score >= right_score
        example = ProbedAnswer(verdict, problem, right_score)
        if self.best is None or verdict.score > self.best.verdict.score:
            self.best = example
        if self.worst is None or verdict.score < self.worst.verdict.score:
            self.worst = example
        if verdict.reason is not Reason.SCORED:
            self.failed.setdefault(verdict.reason, example)


@dataclass(frozen=True)
class TaskAudit:
    """The results of a task at a level. All are from the last round, except `failures` and `problems`.

    - `level`: None for the library's default parameters.
    - `tallies`: the scores by kind of probe.
    - `options`: number of options of a multiple-choice task; 0 for others.
    - `flawed`: number of rejected problems by cause.
    - `failures`: errors while problems were generated or scored, in all rounds.
    - `problems`: the problems of the first round.
    """

    FREE_BOUND: ClassVar[float] = 0.35
    """The highest mean score that shortcuts may have in a task that is not multiple-choice."""
    GUESS_MARGIN: ClassVar[float] = 0.15
    """In a multiple-choice task, shortcuts may earn this much more than a random guess."""

    task: str
    level: float | None
    items: int
    tallies: Mapping[str, ProbeTally]
    options: int = 0
    flawed: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        return place(self.task, self.level)

    @property
    def bound(self) -> float:
        """The highest mean score that shortcuts may have in this task."""
        if not self.options:
            return self.FREE_BOUND
        return max(self.FREE_BOUND, 1 / self.options + self.GUESS_MARGIN)

    def bound_of(self, probe: str) -> float:
        """Return the highest allowed mean score of a kind of answer. GARBAGE is never right, so its limit is lower."""
        return FORM_SCORE if probe in GARBAGE else self.bound

    def mean(self, probe: str) -> float:
        """Return the mean score of a kind of answer. A problem to which a shortcut has no answer counts as 0.

        For BEST_CONSTANT, the mean is over the second half of the problems: the first half served to choose the answer.
        """
        if probe not in self.tallies or not self.items:
            return 0.0
        scores = self.tallies[probe].scores
        if is_shortcut(probe) and probe not in (Probe.BEST_CONSTANT, Probe.BEST_TREE):
            return sum(scores) / self.items
        return sum(scores) / len(scores)

    @property
    def worst(self) -> str | None:
        """The shortcut with the highest mean score; None if all shortcuts score 0."""
        probes = [probe for probe in self.tallies if is_shortcut(probe) and self.mean(probe) > 0]
        return max(probes, key=self.mean, default=None)

    @property
    def faults(self) -> dict[str, str]:
        """A description of the fault for each kind of answer that scores too high or too low.

        Shortcuts come first, sorted by falling mean score.
        """
        faults: dict[str, str] = {}
        for probe in sorted(filter(is_shortcut, self.tallies), key=self.mean, reverse=True):
            mean, bound = self.mean(probe), self.bound_of(probe)
            if mean > bound:
                faults[probe] = f"{str(probe)!r} earns {mean:.2f} on average (bound {bound:.2f}, {self.items} problems)"
        if Probe.ORACLE in self.tallies:
            oracle = self.mean(Probe.ORACLE)
            perturbed = self.mean(Probe.PERTURBED)
            # The limit is below 1, because a few problems may score the right answer lower.
            if oracle < RIGHT_ANSWER_SCORE:
                faults[Probe.ORACLE] = f"right answers earn only {oracle:.2f} on average"
            if oracle < perturbed:
                faults[Probe.PERTURBED] = (
                    f"right answers earn {oracle:.2f} on average, but {perturbed:.2f} with one character changed"
                )
        return faults

    def suspects(self, share: float) -> set[str]:
        """Return the kinds of answers to score again: `faults`, and shortcuts whose mean is above `share` * bound."""
        limits = {probe: share * self.bound_of(probe) for probe in self.tallies if is_shortcut(probe)}
        if Probe.BEST_TREE in limits and self.items >= LEARNT_FROM:
            # A tree that was learned on few problems may earn only this share of what a tree earns after many: in
            # `knights_knaves` (bound 0.40), the tree earned 0.35 with 40 problems and 0.42 with many.
            limits[Probe.BEST_TREE] *= 0.75
        return {probe for probe, limit in limits.items() if self.mean(probe) > limit} | self.faults.keys()

    @property
    def errors(self) -> list[ProbedAnswer]:
        """For each kind of answer, the first answer for which the verifier raised an error or returned no number."""
        failed = (tally.failed.get(Reason.VERIFIER_ERROR) for tally in self.tallies.values())
        return [example for example in failed if example is not None]


class Workers(Protocol):
    """The methods of a worker pool that an audit uses."""

    async def generate(self, spec: ProblemSpec, deadline_s: float, *, cpu_s: float | None = None) -> Problem: ...

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]: ...


@dataclass(frozen=True)
class AuditTarget:
    """What to audit: a task, parameters that apply at every level, a level, and the seed of the problems.

    `between` is the text between two answers in one probe (see `make_probes`).
    """

    task: str
    level: float | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    seed: int = 42
    between: str = ""

    def spec(self, number: int) -> ProblemSpec:
        spec = evaluation_spec(self.task, number, 0, run_seed=self.seed, params=self.params)
        return spec.with_request(level=self.level)


async def audit_task(
    workers: Workers, target: AuditTarget, items: int, *, rounds: Sequence[tuple[int, float]] = ROUNDS
) -> TaskAudit:
    """Score probes in rounds while `TaskAudit.suspects` is not empty. Return the results of the last round.

    The first round has `items` problems; `ROUNDS` describes the others. Raises WorkerError if no workers are left.
    """
    audit = await _probe(workers, target, range(items), None)
    failures = audit.failures
    problems = audit.problems
    position = items
    rounds = rounds[:1] if find_task(target.task).answer_leak else rounds
    for factor, share in rounds:
        suspects = audit.suspects(share)
        if not suspects:
            break
        numbers = range(position, position + factor * items)
        audit = await _probe(workers, target, numbers, suspects)
        failures += audit.failures
        position = numbers.stop
    return replace(audit, failures=failures, problems=problems)


async def _probe(workers: Workers, target: AuditTarget, numbers: range, suspects: Collection[str] | None) -> TaskAudit:
    """Score the probes of the problems `numbers`. If `suspects` is not None, omit shortcuts not in it."""

    def is_probed(probe: str) -> bool:
        return suspects is None or probe in suspects or not is_shortcut(probe)

    problems: list[Problem] = []
    failures: list[str] = []
    for number in numbers:
        try:
            problems.append(await workers.generate(target.spec(number), GENERATION_DEADLINE_S, cpu_s=GENERATION_CPU_S))
        except GenerationError as error:
            failures.append(str(error))
            if len(failures) == 3:  # continue with the problems made so far
                break
    tallies: defaultdict[str, ProbeTally] = defaultdict(ProbeTally)
    items = 0
    for problem, probes in zip(problems, make_probes(problems, target.between), strict=True):
        probes = {probe: text for probe, text in probes.items() if is_probed(probe)}
        try:
            verdicts = await workers.score(problem, list(probes.values()))
        except ScoringError as error:
            failures.append(str(error))
            continue
        items += 1
        verdict_on = dict(zip(probes, verdicts, strict=True))
        right_score = verdict_on[Probe.ORACLE].score if Probe.ORACLE in verdict_on else None
        for probe, verdict in verdict_on.items():
            tallies[probe].add(verdict, problem, None if probe == Probe.ORACLE else right_score)
    if is_probed(Probe.BEST_CONSTANT):
        await _try_best_constant(workers, problems, tallies)
    if is_probed(Probe.BEST_TREE):
        _try_best_tree(problems, tallies)
    options = _count_options(target.task, problems)
    flawed = Counter[str]()
    for problem in problems:
        flawed.update(problem.flawed)
    served = tuple(problems)
    return TaskAudit(target.task, target.level, items, dict(tallies), options, flawed, tuple(failures), served)


def _count_options(task: str, problems: Sequence[Problem]) -> int:
    """Return the number of options of a multiple-choice task; 0 for other tasks."""
    if task in TASKS:
        return find_task(task).options
    answers = [answer.strip().casefold() for problem in problems if (answer := problem.known_answer)]
    different = len(set(answers))
    return different if 2 <= different <= min(FEW_OPTIONS, len(answers) // 2) else 0


async def _try_best_constant(workers: Workers, problems: Sequence[Problem], tallies: dict[str, ProbeTally]) -> None:
    """Find the constant answer with the best scores on the first half of the problems. Score it on the second half."""
    half = len(problems) // 2
    first = problems[:half]
    second = problems[half:]
    answers = Counter(answer for problem in first if (answer := problem.known_answer))
    constants = [text for text, _ in answers.most_common(12)]  # each constant is scored on every problem
    if not constants:
        return
    earned = [0.0] * len(constants)
    try:
        for problem in first:
            verdicts = await workers.score(problem, constants)
            earned = [sum(pair) for pair in zip(earned, (verdict.score for verdict in verdicts), strict=True)]
        if any(earned):
            best = constants[earned.index(max(earned))]
            for problem in second:
                (verdict,) = await workers.score(problem, [best])
                tallies.setdefault(Probe.BEST_CONSTANT, ProbeTally()).add(verdict, problem)
    except ScoringError:
        pass  # the scoring of the other probes reports this failure


def _try_best_tree(problems: Sequence[Problem], tallies: dict[str, ProbeTally]) -> None:
    """Add the scores of the decision tree to `tallies`."""
    from .learner import score_best_tree  # imported here because `-h` does not need numpy

    answered = [(problem, right) for problem in problems if (right := problem.known_answer) is not None]
    questions = [problem.question for problem, _ in answered]
    options = [_option(problem, right) for problem, right in answered]
    for (problem, _), score in zip(answered, score_best_tree(questions, options), strict=True):
        tallies.setdefault(Probe.BEST_TREE, ProbeTally()).add(Verdict(score, Reason.SCORED), problem)


def _option(problem: Problem, answer: str) -> str:
    """Return the name of the option that an answer selects. All questions of the task use the same names."""
    metadata = json.loads(problem.metadata_json)
    return find_task(problem.task).option({"question": problem.question, "answer": answer, "metadata": metadata})

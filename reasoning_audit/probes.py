"""Probe verifiers with right, nearly right and unreasoned answers, and tally the scores.

Four parts: the kinds of probes and the meaning of a high score of each (`PolicyRole`); the scores on a task
(`TaskAudit`); the rounds in which a task is probed (`audit_task`); and the probes themselves (`make_probes`, a pure
function of a task's problems, in order). Every verdict counts: a verifier that fails scores 0, and a policy without an
answer to a problem earns 0 on the problem.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, pairwise
from operator import itemgetter
from typing import ClassVar

from reasoning_env.errors import GenerationError, ScoringError
from reasoning_env.library_facts import FACTS, facts
from reasoning_env.problems.own_tasks import BUSY_MACHINE_S, Workers
from reasoning_env.problems.sampling import evaluation_spec
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict
from reasoning_env.verifiers.options import option
from reasoning_env.verifiers.partial_credit import FORM_SCORE
from reasoning_env.verifiers.shortcuts import SHOWN_NUMBER, copies, filled_boards, fragments, layouts, turned_fills

GENERATION_CPU_S = 20.0
"""Processor time for a problem: a busy machine, on which a problem takes a minute, is no defect of a task."""
FEW_OPTIONS = 4
"""Most different right answers of a task without facts that count as its options."""
ROUNDS = ((2, 0.5), (8, 1.0), (32, 1.0))
"""The further rounds: a factor on `items`, and the share of the bound above which a kind is probed again."""
LEARNT_FROM = 20
"""The fewest problems from which a split is learnt, on one half for the other."""
LEARNT_SHARE = 0.75
"""A split learnt on 20 problems may earn this share of the split's true score.

The count of `and` in `knights_knaves`, worth 0.42 over a bound of 0.40, earned 0.35 on 40 problems, and passed.
"""
LONG_BYTES = 20_000
"""Length of the longest probes: the default of `max_answer_bytes`, the longest answer that reaches a verifier."""
ANSWER_CELL = re.compile(r"[^\s,\[\]()\"'|]+")
WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
CONSTANT_ANSWERS: Mapping[str, str] = {
    **{text: text for text in ("0", "1", "nan", "inf", "I don't know", "True False", "yes no", "[]", "{}", '""')},
    "a dot": ".",
    "a dash": "-",
    "junk": "qwxz",
    "20 kB of words": ("the quick brown fox jumps over the lazy dog " * LONG_BYTES)[:LONG_BYTES].strip(),
    "20 kB of digits": ("1234567890" * LONG_BYTES)[:LONG_BYTES],
    "20 kB of numbers": " ".join(map(str, range(LONG_BYTES)))[:LONG_BYTES],
}
"""Answers that are the same for every question, by the kind of probe."""
GARBAGE = frozenset({"I don't know", "a dot", "a dash", "junk"})
"""The constants that are right nowhere."""
REPETITIONS = frozenset({"20 kB of words", "20 kB of digits"})
"""The constants that repeat themselves."""


class Probe(StrEnum):
    """The kinds of probes that the code names; the other kinds are named by their text."""

    ORACLE = "oracle"
    PERTURBED = "perturbed oracle"
    TRAILED = "oracle and garbage"
    BLANK = "blank"
    TAGGED = "junk in answer tags"
    QUESTION = "the question"
    NEIGHBOUR = "another problem's answer"
    ALL_OPTIONS = "every option"
    OTHER_SIGN = "oracle with the other sign"
    OTHER_SECOND_DIGIT = "oracle with another second digit"
    FIRST_HALF = "first half of the oracle's digits"
    WITHOUT_LAST_CELL = "oracle without its last cell"
    FIRST_LETTER = "the oracle's first letter, and garbage"
    OR_ANOTHER = "oracle or another"
    ANOTHER_OR = "another or oracle"
    THEN_ANOTHER = "oracle, then another"
    ANOTHER_THEN = "another, then oracle"
    BEST_CONSTANT = "the best constant"
    BEST_SPLIT = "the best split by a count"


WRONG_PROBES = (
    Probe.OTHER_SIGN,
    Probe.OTHER_SECOND_DIGIT,
    Probe.FIRST_HALF,
    Probe.WITHOUT_LAST_CELL,
    Probe.FIRST_LETTER,
)
"""Changes of a right answer that leave a right answer in hardly any task, and in none on every problem."""
HEDGES = ((Probe.OR_ANOTHER, Probe.ANOTHER_OR), (Probe.THEN_ANOTHER, Probe.ANOTHER_THEN))
"""Pairs that name the right answer and another, in both orders. A verifier that reads the first or the last answer of a
text pays for one of a pair."""


class PolicyRole(StrEnum):
    """The meaning of a high score for a kind of probe."""

    REFERENCE = "reference"
    """The verifier pays for the right answer, or for an answer close to the right answer."""
    SHORTCUT = "shortcut"
    """The verifier pays for an answer that takes no reasoning: a fault."""
    UNREACHABLE = "unreachable"
    """The verifier pays for a text that the answer rule never lets through: no completion earns this score."""


def role_of(probe: str) -> PolicyRole:
    match probe:
        case Probe.ORACLE | Probe.PERTURBED | Probe.TRAILED:
            return PolicyRole.REFERENCE
        case _ if probe in WRONG_PROBES or any(probe in pair for pair in HEDGES):
            return PolicyRole.REFERENCE
        case Probe.BLANK | Probe.TAGGED:
            return PolicyRole.UNREACHABLE
        case _:
            return PolicyRole.SHORTCUT


def is_shortcut(probe: str) -> bool:
    return role_of(probe) is PolicyRole.SHORTCUT


@dataclass(frozen=True)
class ProbedAnswer:
    """A scored answer, its problem, and the score of the right answer to the same problem, if that was scored."""

    verdict: Verdict
    problem: Problem
    right_score: float | None = None


@dataclass
class ProbeTally:
    """The scores of a kind of probe over a task's problems, with the first of the best and of the worst answers."""

    scores: list[float] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)
    slowest_s: float = 0.0
    best: ProbedAnswer | None = None
    worst: ProbedAnswer | None = None
    failed: dict[Reason, ProbedAnswer] = field(default_factory=dict)
    """The first answer that failed, by the kind of failure."""
    is_never_below_right: bool = True
    """Whether no answer earned less than the right answer to its problem."""

    def add(self, verdict: Verdict, problem: Problem, right_score: float | None = None) -> None:
        self.scores.append(verdict.score)
        self.reasons[verdict.reason] += 1
        self.slowest_s = max(self.slowest_s, verdict.scoring_s)
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
    """A task's tallies over `items` problems at a level (None for the library's defaults), by kind of probe.

    `options` is the number of answers to choose from, 0 for free answers. `flawed` counts the rejected problems by
    cause. `failures` has the error of each problem that is missing. `problems` are those of the first round.
    """

    FREE_BOUND: ClassVar[float] = 0.35
    """The highest mean score that a policy without reasoning may earn with free answers."""
    GUESS_MARGIN: ClassVar[float] = 0.15
    """How much more than a fair guess a policy without reasoning may earn, with few options."""

    task: str
    level: float | None
    items: int
    tallies: Mapping[str, ProbeTally]
    options: int = 0
    flawed: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = field(default=(), repr=False)

    @property
    def draws(self) -> float:
        """How many problems were drawn for each problem that is served."""
        return 1.0 + sum(self.flawed.values()) / self.items if self.items else 0.0

    @property
    def name(self) -> str:
        return self.task if self.level is None else f"{self.task} at {self.level:g}"

    @property
    def bound(self) -> float:
        """The highest mean score that a policy without reasoning may earn."""
        if not self.options:
            return self.FREE_BOUND
        return max(self.FREE_BOUND, 1 / self.options + self.GUESS_MARGIN)

    def bound_of(self, probe: str) -> float:
        """Return the bound of a policy without reasoning. No guess excuses text without meaning."""
        return FORM_SCORE if probe in GARBAGE | REPETITIONS else self.bound

    def mean(self, probe: str) -> float:
        """Return the mean score of a probe. A shortcut earns 0 on a problem to which the shortcut has no answer.

        The best constant and the best split are chosen on a part of the problems, and their mean is over the others.
        """
        if probe not in self.tallies or not self.items:
            return 0.0
        scores = self.tallies[probe].scores
        if is_shortcut(probe) and probe not in (Probe.BEST_CONSTANT, Probe.BEST_SPLIT):
            return sum(scores) / self.items
        return sum(scores) / len(scores)

    @property
    def worst(self) -> str | None:
        """The policy without reasoning that earns most; None when every such policy earns 0."""
        probes = [probe for probe in self.tallies if is_shortcut(probe) and self.mean(probe) > 0]
        return max(probes, key=self.mean, default=None)

    @property
    def faults(self) -> dict[str, str]:
        """A sentence for each fault of the task's rewards, by kind of probe."""
        faults: dict[str, str] = {}
        for probe in self.tallies:
            if is_shortcut(probe) and self.mean(probe) > self.bound_of(probe):
                faults[probe] = f"{str(probe)!r} earns {self.mean(probe):.2f}, over {self.bound_of(probe):.2f}"
        if Probe.ORACLE in self.tallies:
            oracle = self.mean(Probe.ORACLE)
            perturbed = self.mean(Probe.PERTURBED)
            if oracle < 0.95:  # not 1: a rare problem whose right answer earns less is no fault of the task
                faults[Probe.ORACLE] = f"the oracle earns {oracle:.2f} only"
            if oracle < perturbed:
                faults[Probe.PERTURBED] = f"the perturbed oracle earns {perturbed:.2f}, the oracle {oracle:.2f}"
        return faults

    def suspects(self, share: float) -> set[str]:
        """Return the shortcuts that earn more than a share of the bound, and the probes with faults.

        A split that is learnt on few problems earns less than it would on many, so less of the bound makes it suspect.
        """
        limits = {probe: share * self.bound_of(probe) for probe in self.tallies if is_shortcut(probe)}
        if Probe.BEST_SPLIT in limits and self.items >= LEARNT_FROM:
            limits[Probe.BEST_SPLIT] *= LEARNT_SHARE
        return {probe for probe, limit in limits.items() if self.mean(probe) > limit} | self.faults.keys()

    @property
    def slowest_s(self) -> float:
        return max((tally.slowest_s for tally in self.tallies.values()), default=0.0)

    @property
    def errors(self) -> list[ProbedAnswer]:
        """The first answer of each kind of probe at which the verifier raised an error, or returned no score."""
        failed = (tally.failed.get(Reason.VERIFIER_ERROR) for tally in self.tallies.values())
        return [example for example in failed if example is not None]

    @property
    def escaped(self) -> dict[Reason, int]:
        """How many answers the verifier failed at, by the kind of failure."""
        failures = (Reason.VERIFIER_ERROR, Reason.TIMEOUT, Reason.OUT_OF_MEMORY, Reason.CRASH)
        return {reason: sum(tally.reasons[reason] for tally in self.tallies.values()) for reason in failures}


@dataclass(frozen=True)
class AuditTarget:
    """What to audit: a task, the parameters without which the task cannot be built, a level, and a seed of problems.

    `as_is` takes problems as the library makes them, those too that would not be served. `between` stands between two
    statements of answers in a completion, where a form states them.
    """

    task: str
    level: float | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    seed: int = 42
    as_is: bool = False
    between: str = ""

    def spec(self, number: int) -> ProblemSpec:
        spec = evaluation_spec(self.task, number, 0, run_seed=self.seed, params=self.params)
        return spec.with_request(level=self.level, as_is=self.as_is)


async def audit_task(
    workers: Workers, target: AuditTarget, items: int, *, rounds: Sequence[tuple[int, float]] = ROUNDS
) -> TaskAudit:
    """Probe a task with `items` problems, then with further rounds of problems for the kinds that could be faults.

    Returns the last round, with the failures of all rounds. A task that is known to give its answers away has one
    further round. Raises WorkerError when there are no workers any more.
    """
    audit = await _probe(workers, target, range(items), None)
    failures = audit.failures
    problems = audit.problems
    position = items
    rounds = rounds[:1] if facts(target.task).gives_away else rounds
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
    """Probe a task with some problems: with every kind of probe, or with `suspects` as the only shortcuts."""

    def is_probed(probe: str) -> bool:
        return suspects is None or probe in suspects or not is_shortcut(probe)

    problems: list[Problem] = []
    failures: list[str] = []
    for number in numbers:
        try:
            problems.append(await workers.generate(target.spec(number), BUSY_MACHINE_S, cpu_s=GENERATION_CPU_S))
        except GenerationError as error:
            failures.append(str(error))
            if len(failures) == 3:  # a task that keeps failing is probed with the problems made so far
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
    if is_probed(Probe.BEST_SPLIT):
        _try_best_split(problems, tallies)
    options = _count_options(target.task, problems)
    flawed = Counter[str]()
    for problem in problems:
        flawed.update(problem.flawed)
    served = tuple(problems)
    return TaskAudit(target.task, target.level, items, dict(tallies), options, flawed, tuple(failures), served)


def _count_options(task: str, problems: Sequence[Problem]) -> int:
    """Return the number of answers to choose from; 0 for free answers."""
    if task in FACTS:
        return facts(task).options
    answers = [answer.strip().casefold() for problem in problems if (answer := reference_answer(problem))]
    different = len(set(answers))
    return different if 2 <= different <= min(FEW_OPTIONS, len(answers) // 2) else 0


async def _try_best_constant(workers: Workers, problems: Sequence[Problem], tallies: dict[str, ProbeTally]) -> None:
    """Choose the right answer that earns most on the first half of the problems, and try it on the second half."""
    half = len(problems) // 2
    first = problems[:half]
    second = problems[half:]
    answers = Counter(answer for problem in first if (answer := reference_answer(problem)))
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
        pass  # the other probes of the problem report the failure


def _try_best_split(problems: Sequence[Problem], tallies: dict[str, ProbeTally]) -> None:
    """Score the best split: 1 where the split names the option of the right answer, else 0."""
    answered = [(problem, right) for problem in problems if (right := reference_answer(problem)) is not None]
    questions = [problem.question for problem, _ in answered]
    options = [_option(problem, right) for problem, right in answered]
    for (problem, _), score in zip(answered, score_best_split(questions, options), strict=True):
        tallies.setdefault(Probe.BEST_SPLIT, ProbeTally()).add(Verdict(score, Reason.SCORED), problem)


def _option(problem: Problem, answer: str) -> str:
    """Return the option that an answer chooses, whatever the question calls the option."""
    metadata = json.loads(problem.metadata_json)
    return option(problem.task, {"question": problem.question, "answer": answer, "metadata": metadata})


def surface_features(questions: Sequence[str]) -> list[list[float]]:
    """Return the features of each question that a split may use: counts, single words, and equal pairs of words.

    Single words are words that do not come equally often in all questions. Pairs are of words at the same positions of
    the same lines, counted from the question's end.
    """
    words = [Counter(WORD_OR_SIGN.findall(question.casefold())) for question in questions]
    common = Counter(word for of_question in words for word in of_question)
    half = len(questions) / 2
    varied_words = (word for word in common if len({of_question[word] for of_question in words}) > 1)
    telling = sorted(varied_words, key=lambda word: abs(common[word] - half))
    by_position = [_words_by_position(question) for question in questions]
    seen: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for of_question in by_position:
        for position, word in of_question.items():
            seen[position].add(word)
    varied = sorted(position for position, words_there in seen.items() if len(words_there) > 1)
    pairs = [*combinations(varied[:40], 2)]  # from the question's end
    return [
        [
            *count_surface(question),
            *(float(has[word]) for word in telling[:300]),
            *(float(first in at and at[first] == at.get(second)) for first, second in pairs),
        ]
        for question, has, at in zip(questions, words, by_position, strict=True)
    ]


def _words_by_position(question: str) -> dict[tuple[int, int], str]:
    """Return a question's words by line, counted from the end, and position in the line."""
    lines = question.casefold().strip().splitlines()[::-1]
    return {
        (row, position): word
        for row, line in enumerate(lines)
        for position, word in enumerate(WORD_OR_SIGN.findall(line))
    }


def count_surface(question: str) -> list[float]:
    """Count characters, words, lines, numbers and some marks; add the first, last and largest number."""
    signs = ("#", "0", "1", "1 1", "X", "O", ".", ",", "?", "(", "all ", "no ", "not ", "some ", " or ")
    text = question.casefold()
    words = question.split()
    lines = question.strip().splitlines() or [""]
    numbers = [*map(float, SHOWN_NUMBER.findall(question))] or [0.0]
    sizes = [len(text), len({*text}), len(words), len({*words}), len(lines), len(lines[-1]), len(numbers)]
    doubled = len(re.findall(r"(?=(\S)\s?\1)", question))  # two equal marks side by side
    marks = [text.count(sign.casefold()) for sign in signs]
    return [*sizes, doubled, numbers[0], numbers[-1], max(numbers), *marks]


def score_best_split(questions: Sequence[str], options: Sequence[str]) -> list[float]:
    """Return the score of the best split on each problem; the split is chosen on the other half of the problems.

    A split is a feature of the question's surface and a limit: one option is named below the limit, another above.

    Fewer than LEARNT_FROM problems are too few to choose a split. Their score is about the most that any split could
    earn: 1 for an option that is among the two most frequent options and came before.
    """
    frequent = [name for name, count in Counter(options).most_common(2) if count > 1]
    if len(options) < LEARNT_FROM:
        return [float(name in frequent and name in options[:number]) for number, name in enumerate(options)]
    if not frequent:
        return [0.0] * len(options)
    rows = [*zip(surface_features(questions), options, strict=True)]
    half = len(rows) // 2
    first = rows[:half]
    second = rows[half:]
    earned = []
    for others, paid in ((second, first), (first, second)):
        split = _choose_split(others)
        earned += [float(split(row) == name) for row, name in paid]
    return earned


def _choose_split(rows: Sequence[tuple[Sequence[float], str]]) -> Callable[[Sequence[float]], str]:
    """Return the split that is right most often: from a feature, its limit, and the options below and above."""
    ((most, right),) = Counter(name for _, name in rows).most_common(1)
    best = (right, 0, 0.0, most, most)
    for column in range(len(rows[0][0])):
        ordered = sorted(((row[column], name) for row, name in rows), key=itemgetter(0))
        if ordered[0][0] == ordered[-1][0]:
            continue
        below: Counter[str] = Counter()
        above = Counter(name for _, name in rows)
        for (value, name), (following, _) in pairwise(ordered):
            below[name] += 1
            above[name] -= 1
            if value < following:
                (low, right), (high, also) = below.most_common(1)[0], above.most_common(1)[0]
                best = max(best, (right + also, -column, (value + following) / 2, low, high))
    _, column, limit, low, high = best
    return lambda row: low if row[-column] < limit else high


def make_probes(problems: Sequence[Problem], between: str = "") -> list[dict[str, str]]:
    """Return the probes of each of a task's problems, by kind, in the order of the problems.

    `between` stands between two statements of answers, if a form states them.
    """
    oracles = [reference_answer(problem) for problem in problems]
    different = sorted({oracle for oracle in oracles if oracle is not None})
    shared: dict[str, str] = {Probe.BLANK: " ", Probe.TAGGED: "<answer>qwxz</answer>", **CONSTANT_ANSWERS}
    if 2 <= len(different) <= 2 * FEW_OPTIONS:
        # The shortest text that names all options: some verifiers pay by the share of the text that is right.
        shared[Probe.ALL_OPTIONS] = " ".join(different)
    by_problem = []
    for position, (problem, oracle) in enumerate(zip(problems, oracles, strict=True)):
        question = problem.question
        probes = {**shared, Probe.QUESTION: question.strip()}
        probes |= copies(question) | fragments(question) | filled_boards(question) | turned_fills(question)
        if oracle is not None:
            probes |= {Probe.ORACLE: oracle, Probe.PERTURBED: perturb(oracle), Probe.TRAILED: f"{oracle} qwxz"}
            probes |= layouts(oracle)
            others = [other for other in oracles[position + 1 :] + oracles[:position] if other is not None]
            if others:
                probes[Probe.NEIGHBOUR] = others[0]
            different_ones = (other for other in others if other.casefold() != oracle.casefold())
            probes |= hedges(oracle, next(different_ones, perturb(oracle)), between)
            if problem.answer is not None:  # else many answers are right, and the oracle is an example
                probes |= wrong_answers(oracle)
        by_problem.append({probe: _cut(text) for probe, text in probes.items()})
    return by_problem


def reference_answer(problem: Problem) -> str | None:
    """Return the oracle's answer or, where many answers are right, the metadata's example; None without either."""
    if problem.answer is not None:
        return problem.answer
    metadata = json.loads(problem.metadata_json)
    if isinstance(metadata, dict):
        for key in ("example_answer", "example_correct_answer", "possible_answer"):
            example = metadata.get(key)
            if example:
                return example if isinstance(example, str) else json.dumps(example)
    return None


def perturb(answer: str) -> str:
    """Change the last digit or letter to the next; append a letter to a text without digits and letters."""
    for position in range(len(answer) - 1, -1, -1):
        for alphabet in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
            number = alphabet.find(answer[position])
            if number >= 0:
                changed = alphabet[(number + 1) % len(alphabet)]
                return answer[:position] + changed + answer[position + 1 :]
    return answer + "x"


def wrong_answers(answer: str) -> dict[str, str]:
    """Return changes of a right answer that leave no right answer, by kind; {} unless it is a number, word or list.

    A number changes by one to ten percent, or more: a question may allow for its last digits.
    """
    text = answer.strip()
    wrong: dict[str, str] = {}
    if SHOWN_NUMBER.fullmatch(text) and float(text):
        wrong[Probe.OTHER_SIGN] = text[1:] if text[0] == "-" else f"-{text.removeprefix('+')}"
        digits = text.lstrip("+-")
        if digits.isdecimal() and len(digits) > 2:
            head = text[: -len(digits)]
            second = "8" if digits[1] == "9" else str(int(digits[1]) + 1)
            wrong[Probe.OTHER_SECOND_DIGIT] = f"{head}{digits[0]}{second}{digits[2:]}"
            wrong[Probe.FIRST_HALF] = f"{head}{digits[: len(digits) // 2]}"
    elif text.isalpha() and len(text) > 1:
        wrong[Probe.FIRST_LETTER] = f"{text[0]}qwxz"
    elif cells := list_cells(text):
        before, last = cells[-2:]
        wrong[Probe.WITHOUT_LAST_CELL] = text[: before.end()] + text[last.end() :]
    return wrong


def list_cells(text: str) -> list[re.Match[str]]:
    """Return the cells of a list in brackets, without lists in it; [] for another text or fewer than two cells."""
    if not (text.startswith("[") and text.endswith("]")) or text.count("[") > 1:
        return []
    cells = [*ANSWER_CELL.finditer(text)]
    return cells if len(cells) > 1 else []


def hedges(answer: str, other: str, between: str) -> dict[str, str]:
    """Return the right answer beside another, in both orders, by kind."""
    texts = {Probe.OR_ANOTHER: f"{answer} or {other}", Probe.ANOTHER_OR: f"{other} or {answer}"}
    if between:
        texts |= {
            Probe.THEN_ANOTHER: f"{answer}{between}{other}",
            Probe.ANOTHER_THEN: f"{other}{between}{answer}",
        }
    return {str(probe): text for probe, text in texts.items()}


def _cut(text: str) -> str:
    return text.encode("utf-8", "replace")[:LONG_BYTES].decode("utf-8", "ignore")

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import GenerationError, ScoringError
from reasoning_env.records import Problem, ProblemSpec, Reason, Split, Verdict
from reasoning_env.reports.verifier_probes import (
    ALL_OPTIONS,
    CONSTANTS,
    EXAMPLE_KEYS,
    FEW_OPTIONS,
    GENERATION_FAILURES,
    LISTED,
    LONG_BYTES,
    MOST_FREQUENT,
    NANS,
    NEIGHBOUR,
    ORACLE,
    PERTURBED,
    QUESTION,
    ROLES,
    TRAILED,
    ZEROS,
    Role,
    Tally,
    TaskAudit,
    audit_task,
    make_probes,
    perturb,
    reference_answer,
)
from reasoning_env.rewards import extract_answer

INFORMED = {kind for kind, role in ROLES.items() if role in (Role.REFERENCE, Role.GUESS)}


def _problem(answer: str | None, question: str = "What?", metadata: Any = None) -> Problem:
    return Problem(ProblemSpec("gcd", 1, Split.EVAL, 0), question, answer, json.dumps(metadata), b"")


def _probes(*answers: str | None, question: str = "What?") -> list[dict[str, str]]:
    return make_probes([_problem(answer, question) for answer in answers])


# ------------------------------------------------------------------ kinds of probes


def test_every_kind_is_made_for_a_task_that_allows_all() -> None:
    assert set(_probes("3", "4", "3", question="Given:\n1. A fact")[0]) == set(ROLES)


def test_meaningless_kinds_are_made_without_any_oracle_too() -> None:
    kinds = set(_probes(None, None, question="1. A fact")[0])
    assert kinds == set(ROLES) - INFORMED - {ALL_OPTIONS, NEIGHBOUR, NANS, ZEROS}


def test_role_says_whether_the_answer_rule_lets_a_probe_through() -> None:
    probes = _probes("3", "4", "3", question="Given:\n1. A fact " + "of many bytes: Ω " * LONG_BYTES)[0]
    for kind, probe in probes.items():
        through = extract_answer(f"<answer>{probe}</answer>", LONG_BYTES).answer == probe.strip() != ""
        assert through is (ROLES[kind] is not Role.UNREACHABLE), kind


@given(st.lists(st.one_of(st.none(), st.sampled_from(["0", "1", "NAN", "[]", " . ", "What?", "", "0 1"]), st.text())))
def test_right_answer_is_never_probed_as_a_meaningless_one(answers: list[str | None]) -> None:
    for answer, probes in zip(answers, _probes(*answers), strict=True):
        meaningless = [text.strip().casefold() for kind, text in probes.items() if kind not in INFORMED]
        assert answer is None or answer.strip().casefold() not in meaningless


@given(st.text())
def test_perturbed_answer_is_another_one(answer: str) -> None:
    assert perturb(answer).casefold() != answer.casefold()


@pytest.mark.parametrize(
    ("answer", "perturbed"),
    [
        ("12", "13"),
        ("[1, 9]", "[1, 0]"),
        ("True", "Truf"),
        ("jazz.", "jaza."),
        ("Z", "A"),
        ("½ ", "½ x"),
        ("", "x"),
    ],
)
def test_perturbing_changes_the_last_digit_or_letter(answer: str, perturbed: str) -> None:
    assert perturb(answer) == perturbed


def test_oracle_is_probed_as_it_is_changed_and_with_more_behind_it() -> None:
    probes = _probes(" 41")[0]
    assert (probes[ORACLE], probes[PERTURBED], probes[TRAILED]) == (" 41", " 42", " 41 qwxz")


@pytest.mark.parametrize("key", EXAMPLE_KEYS)
@pytest.mark.parametrize(("example", "answer"), [("R U F", "R U F"), ({"0": 1}, '{"0": 1}')])
def test_example_in_the_metadata_stands_in_for_the_oracle(key: str, example: object, answer: str) -> None:
    assert reference_answer(_problem(None, metadata={"moves": 3, key: example})) == answer
    assert reference_answer(_problem("7", metadata={key: example})) == "7"


@pytest.mark.parametrize("metadata", [None, [1], {}, {"moves": 3}])
def test_without_oracle_and_example_there_is_no_reference(metadata: object) -> None:
    assert reference_answer(_problem(None, metadata=metadata)) is None


def test_neighbour_is_the_next_problem_with_another_answer() -> None:
    assert [probes[NEIGHBOUR] for probes in _probes("a", "b", None, "b", "c")[:2]] == ["b", "c"]
    assert _probes("a", "b", None, "b")[3][NEIGHBOUR] == "a"


def test_problems_that_share_one_answer_have_no_neighbour_and_no_options() -> None:
    for probes in _probes("a", "a", "a"):
        assert not {NEIGHBOUR, ALL_OPTIONS} & set(probes)
        assert probes[MOST_FREQUENT] == "a"


def test_most_frequent_answer_is_one_that_repeats() -> None:
    assert [probes[MOST_FREQUENT] for probes in _probes("a", "b", "b")] == ["b"] * 3
    assert MOST_FREQUENT not in _probes("a", "b")[0]


@pytest.mark.parametrize(("count", "listed"), [(FEW_OPTIONS, "0 1 2 3 4 5 6 7"), (FEW_OPTIONS + 1, None)])
def test_options_are_listed_while_they_are_few(count: int, listed: str | None) -> None:
    answers = [str(number) for number in range(count)]
    assert _probes(*answers, *reversed(answers))[0].get(ALL_OPTIONS) == listed


def test_question_is_cut_at_a_whole_character() -> None:
    echoed = _probes("a", question="  " + "€" * LONG_BYTES)[0][QUESTION]
    assert echoed == "€" * (LONG_BYTES // 3)


@pytest.mark.parametrize(
    ("question", "listed"),
    [
        ("Given:\n1. R ∨ Q\n2. R", "R ∨ Q"),
        ("Given\n.2. R \n", "R"),
        ("(3) A fact", "A fact"),
        ("1.5 apples", None),
        ("1.\n", None),
    ],
)
def test_first_listed_line_is_copied_from_the_question(question: str, listed: str | None) -> None:
    assert _probes("a", question=question)[0].get(LISTED) == listed


@pytest.mark.parametrize(
    ("answer", "nans"),
    [
        ("-1.50", "nan"),
        ("['2', '-3']", "['nan', 'nan']"),
        ("2.5 + 3i", "nan + nani"),
        ("2 days, 03:04", "nan days, nan:nan"),
        ("3 apples", None),
        ("In 1905 he wrote", None),
        ("abc", None),
    ],
)
def test_layout_of_numbers_is_kept_and_that_of_words_is_not_used(answer: str, nans: str | None) -> None:
    probes = _probes(answer)[0]
    assert probes.get(NANS) == nans
    assert probes.get(ZEROS) == (None if nans is None else nans.replace("nan", "0"))


# ------------------------------------------------------------------ which kinds are exploits

ITEMS = 20
ZERO, ONE = "0", "1"


def _audit(**scores: Sequence[float]) -> TaskAudit:
    tallies: dict[str, Tally] = {}
    for kind, name in ((ZERO, "zero"), (ONE, "one")):
        for score in scores.get(name, ()):
            tallies.setdefault(kind, Tally()).add(Verdict(score, Reason.SCORED), seed=0)
    return TaskAudit("gcd", ITEMS, tallies)


@pytest.mark.parametrize(
    ("scores", "exploits"),
    [
        ([0.5] * 11 + [0.0] * 9, [ZERO]),
        ([1.0] * 20, [ZERO]),
        ([0.5] * 10 + [0.0] * 10, []),
        ([1.0] * 10 + [0.49] * 10, []),
        ([0.49] * 20, []),
        ([1.0] * 10, []),  # left out of ten, where it is the right answer
    ],
)
def test_half_the_score_on_more_than_half_of_all_items_is_an_exploit(scores: list[float], exploits: list[str]) -> None:
    assert _audit(zero=scores).exploits == exploits


@pytest.mark.parametrize("kind", ROLES)
def test_only_meaningless_kinds_are_exploits(kind: str) -> None:
    tally = Tally()
    tally.add(Verdict(1.0, Reason.SCORED), seed=0)
    audit = TaskAudit("gcd", 1, {kind: tally})
    assert bool(audit.exploits) is bool(audit.worst) is (ROLES[kind] is Role.DEGENERATE)


def test_worst_kind_is_paid_for_most_often_and_then_best() -> None:
    assert _audit(zero=[0.5, 0.5, 0.0], one=[1.0, 0.4, 0.4]).worst == ZERO
    assert _audit(zero=[0.5, 0.5, 0.0], one=[0.5, 0.6, 0.0]).worst == ONE
    assert _audit(zero=[0.5] * 12, one=[1.0] * 11).exploits == [ZERO, ONE]


def test_kind_that_earns_nothing_is_not_the_worst() -> None:
    assert _audit(zero=[0.0] * 20).worst is None


# ------------------------------------------------------------------ probing a task


def _exact(problem: Problem, answer: str) -> Verdict:
    return Verdict(float(answer == problem.answer), Reason.SCORED, answer, 0.001)


class FakeWorkers:
    """In place of processes: each problem's answer is its seed; `score` asks a function."""

    def __init__(
        self,
        verifier: Callable[[Problem, str], Verdict] = _exact,
        fails: Callable[[ProblemSpec], bool] = lambda spec: False,
    ) -> None:
        self._verifier = verifier
        self._fails = fails
        self.specs: list[ProblemSpec] = []

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        self.specs.append(spec)
        await asyncio.sleep(0)
        if self._fails(spec):
            raise GenerationError(f"{spec.task}, seed {spec.seed}: no such puzzle")
        flaw = "no answer is right" if spec.seed == 200 else None
        return Problem(spec, "What?", str(spec.seed), "{}", b"", flaw=flaw)

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        return [self._verifier(problem, answer) for answer in answers]


async def _probe(workers: FakeWorkers, seeds: Sequence[int] = range(100, 104)) -> TaskAudit:
    return await audit_task(
        workers, "gcd", [ProblemSpec("gcd", seed, Split.EVAL, number) for number, seed in enumerate(seeds)]
    )


async def test_exact_verifier_pays_for_the_oracle_alone() -> None:
    audit = await _probe(FakeWorkers())
    assert audit.items == 4
    assert {kind: tally.mean for kind, tally in audit.tallies.items() if tally.mean} == {ORACLE: 1.0}


async def test_verifier_that_pays_for_everything_is_exploited_by_every_meaningless_kind() -> None:
    audit = await _probe(FakeWorkers(lambda problem, answer: Verdict(1.0, Reason.SCORED)))
    assert set(audit.exploits) == {kind for kind in audit.tallies if ROLES[kind] is Role.DEGENERATE} > set(CONSTANTS)


async def test_verifier_that_pays_for_one_text_is_exploited_by_its_kind() -> None:
    audit = await _probe(FakeWorkers(lambda problem, answer: Verdict(float(answer == "nan"), Reason.SCORED, answer)))
    assert set(audit.exploits) & set(CONSTANTS) == {"nan"}


async def test_best_verdict_is_kept_with_its_seed() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        return Verdict(0.5 if problem.spec.seed == 102 else 0.25, Reason.SCORED, answer)

    tally = (await _probe(FakeWorkers(verifier))).tallies[PERTURBED]
    assert tally.best is not None
    assert (tally.best.score, tally.best.answer, tally.best_seed) == (0.5, "103", 102)


async def test_failures_of_the_verifier_are_counted_by_reason() -> None:
    reasons = {"nan": Reason.VERIFIER_ERROR, "[]": Reason.TIMEOUT, "{}": Reason.CRASH}

    def verifier(problem: Problem, answer: str) -> Verdict:
        return Verdict(0.0, reasons.get(answer, Reason.SCORED), answer, 5.0 if answer == "[]" else 0.001)

    audit = await _probe(FakeWorkers(verifier), range(100, 103))
    # `nan` once as itself, and once as the answer's layout without content.
    assert audit.escaped == {Reason.VERIFIER_ERROR: 6, Reason.TIMEOUT: 3, Reason.CRASH: 3}
    assert audit.slowest_s == 5.0


async def test_problems_that_cannot_be_generated_are_left_out_with_the_reason() -> None:
    audit = await _probe(FakeWorkers(fails=lambda spec: spec.seed == 101))
    assert (audit.items, len(audit.tallies[ORACLE].scores)) == (3, 3)
    assert audit.failures == ("gcd, seed 101: no such puzzle",)


async def test_problems_that_are_never_served_are_left_out() -> None:
    audit = await _probe(FakeWorkers(), [100, 200])
    assert (audit.items, audit.failures) == (1, ())


async def test_task_that_keeps_failing_is_not_tried_to_the_end() -> None:
    workers = FakeWorkers(fails=lambda spec: True)
    audit = await _probe(workers, range(100, 110))
    assert len(workers.specs) == len(audit.failures) == GENERATION_FAILURES
    assert (audit.items, audit.tallies, audit.worst, audit.slowest_s) == (0, {}, None, 0.0)


async def test_problems_that_cannot_be_scored_are_left_out_with_the_reason() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        if problem.spec.seed == 101:
            raise ScoringError("the verifier worker cannot score")
        return _exact(problem, answer)

    audit = await _probe(FakeWorkers(verifier))
    assert (audit.items, audit.failures) == (3, ("the verifier worker cannot score",))

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.errors import ScoringError
from reasoning_env.records import Problem, ProblemSpec, Reason, Verdict
from reasoning_env.reports.verifier_probes import (
    CONSTANTS,
    LONG_BYTES,
    PolicyRole,
    Probe,
    ProbeTally,
    Setting,
    TaskAudit,
    audit_task,
    make_probes,
    pay_best_split,
    perturb,
    reference_answer,
    role_of,
)
from reasoning_env.rewards import extract_answer
from tests.fake_workers import FakeWorkers, fails_where, is_the_answer, no_luck
from tests.records import make_spec, problem_of


def _problem(answer: str | None, question: str = "What?", metadata: Any = None) -> Problem:
    return problem_of(make_spec("gcd"), question, answer, json.dumps(metadata))


def _probes(*answers: str | None, question: str = "What?") -> list[dict[str, str]]:
    return make_probes([_problem(answer, question) for answer in answers])


# ------------------------------------------------------------------ kinds of probes


def test_role_says_whether_the_answer_rule_lets_a_probe_through() -> None:
    probes = _probes("3", "4", "3", question="Given:\n1. A fact " + "of many bytes: Ω " * LONG_BYTES)[0]
    for kind, probe in probes.items():
        through = extract_answer(f"<answer>{probe}</answer>", LONG_BYTES).answer == probe.strip() != ""
        assert through is (role_of(kind) is not PolicyRole.UNREACHABLE), kind


def test_problem_without_any_oracle_is_probed_with_what_its_question_shows() -> None:
    probes = _probes(None, None, question="Sort: [3, 1]")[0]
    assert not {Probe.ORACLE, Probe.PERTURBED, Probe.NEIGHBOUR, Probe.ALL_OPTIONS} & set(probes)
    assert {"[3, 1]", "3", "1", "Sort: [3, 1]"} <= set(probes.values())


@given(st.text())
def test_perturbed_answer_is_another_one(answer: str) -> None:
    assert perturb(answer).casefold() != answer.casefold()


@pytest.mark.parametrize(
    ("answer", "perturbed"),
    [
        *[("12", "13"), ("[1, 9]", "[1, 0]"), ("True", "Truf"), ("jazz.", "jaza."), ("Z", "A")],
        *[("½ ", "½ x"), ("", "x")],
    ],
)
def test_perturbing_changes_the_last_digit_or_letter(answer: str, perturbed: str) -> None:
    assert perturb(answer) == perturbed


def test_oracle_is_probed_as_it_is_changed_and_with_more_behind_it() -> None:
    probes = _probes(" 41")[0]
    assert (probes[Probe.ORACLE], probes[Probe.PERTURBED], probes[Probe.TRAILED]) == (" 41", " 42", " 41 qwxz")


@pytest.mark.parametrize("key", ["example_answer", "example_correct_answer", "possible_answer"])
@pytest.mark.parametrize(("example", "answer"), [("R U F", "R U F"), ({"0": 1}, '{"0": 1}')])
def test_example_in_the_metadata_stands_in_for_the_oracle(key: str, example: object, answer: str) -> None:
    assert reference_answer(_problem(None, metadata={"moves": 3, key: example})) == answer
    assert reference_answer(_problem("7", metadata={key: example})) == "7"


@pytest.mark.parametrize("metadata", [None, [1], {}, {"moves": 3}])
def test_without_oracle_and_example_there_is_no_reference(metadata: object) -> None:
    assert reference_answer(_problem(None, metadata=metadata)) is None


def test_neighbour_is_the_next_problem_with_an_answer() -> None:
    assert [probes.get(Probe.NEIGHBOUR) for probes in _probes("a", "b", None, "b")] == ["b", "b", None, "a"]


def test_question_is_cut_at_a_whole_character() -> None:
    echoed = _probes("a", question="  " + "€" * LONG_BYTES)[0][Probe.QUESTION]
    assert echoed == "€" * (LONG_BYTES // 3)


# ------------------------------------------------------------------ what is a fault

ITEMS = 20
SHORTCUT = "0"


def _audit(options: int = 0, **scores: Sequence[float]) -> TaskAudit:
    tallies: dict[str, ProbeTally] = {}
    for kind, name in (
        (SHORTCUT, "shortcut"),
        (Probe.ORACLE, "oracle"),
        (Probe.PERTURBED, "perturbed"),
        (Probe.BEST_CONSTANT, "constant"),
    ):
        for score in scores.get(name, ()):
            tallies.setdefault(kind, ProbeTally()).add(Verdict(score, Reason.SCORED), seed=0)
    return TaskAudit("gcd", None, ITEMS, tallies, options)


@pytest.mark.parametrize(("options", "bound"), [(0, 0.35), (2, 0.5 + 0.15), (3, 1 / 3 + 0.15), (9, 0.35)])
def test_bound_depends_on_the_number_of_options(options: int, bound: float) -> None:
    below, above = ([bound + step] * ITEMS for step in (-0.01, 0.01))
    assert _audit(options, shortcut=below).faults == {}
    assert set(_audit(options, shortcut=above).faults) == {SHORTCUT}


def test_policy_earns_nothing_on_problems_to_which_it_has_no_answer() -> None:
    assert _audit(shortcut=[1.0] * 5).mean(SHORTCUT) == 0.25
    assert _audit(constant=[1.0] * 5).mean(Probe.BEST_CONSTANT) == 1.0


@pytest.mark.parametrize(
    ("oracle", "perturbed", "fault"),
    [
        ([1.0] * 19 + [0.5], [0.0] * 20, None),
        ([0.9] * 20, [0.0] * 20, Probe.ORACLE),
        ([0.96] * 20, [0.97] * 20, Probe.PERTURBED),
    ],
)
def test_oracle_must_earn_most_of_the_mark_and_no_less_than_a_wrong_one(
    oracle: list[float], perturbed: list[float], fault: str | None
) -> None:
    assert list(_audit(oracle=oracle, perturbed=perturbed).faults) == ([fault] if fault else [])


# ------------------------------------------------------------------ probing


def _made(spec: ProblemSpec, answers: str = "abcdefghijkl") -> Problem:
    return problem_of(spec, answer=answers[spec.index % 12] * 3, flawed={"easy": spec.index})


def _pays_everything(problem: Problem, answer: str) -> Verdict:
    return Verdict(1.0, Reason.SCORED)


async def _probe(workers: FakeWorkers, items: int = 4, level: float | None = None) -> TaskAudit:
    return await audit_task(workers, Setting("gcd", level), items)


async def test_exact_verifier_pays_for_the_oracle_alone() -> None:
    audit = await _probe(FakeWorkers(_made))
    assert audit.items == 4
    assert {kind for kind in audit.tallies if audit.mean(kind)} == {Probe.ORACLE}


async def test_verifier_that_pays_for_everything_has_a_fault_for_every_shortcut() -> None:
    audit = await _probe(FakeWorkers(_made, _pays_everything))
    assert (
        set(audit.faults) == {kind for kind in audit.tallies if role_of(kind) is PolicyRole.SHORTCUT} > set(CONSTANTS)
    )


async def test_constant_is_chosen_on_the_first_problems_and_paid_on_the_others() -> None:
    audit = await _probe(FakeWorkers(partial(_made, answers="aabcdeafghij")), items=12)
    assert audit.tallies[Probe.BEST_CONSTANT].scores == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("paid_until", "items", "at_fault"),
    [(0, 4, False), (4, 8, False), (12, 32, False), (44, 128, False), (172, 128, True)],
)
async def test_fault_counts_where_round_after_round_shows_it(paid_until: int, items: int, at_fault: bool) -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        paid = problem.spec.index < paid_until or answer == problem.answer
        return Verdict(float(paid), Reason.SCORED)

    audit = await _probe(FakeWorkers(_made, verifier), items=4)
    assert (audit.items, bool(audit.faults)) == (items, at_fault)


async def test_fault_that_is_known_is_confirmed_once() -> None:
    workers = FakeWorkers(_made, _pays_everything)
    assert (await audit_task(workers, Setting("tsumego"), 4)).items == 8


async def test_problems_are_of_one_level_and_what_was_drawn_again_is_counted() -> None:
    workers = FakeWorkers(_made)
    audit = await _probe(workers, items=4, level=0.5)
    assert (audit.items, audit.flawed) == (4, {"easy": 0 + 1 + 2 + 3})
    assert {spec.level for spec in workers.specs} == {0.5}


async def test_best_verdict_is_kept_with_its_seed() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        earned = {str(problem.answer): 1.0, perturb(str(problem.answer)): 0.5 if problem.spec.index == 2 else 0.25}
        return Verdict(earned.get(answer, 0.0), Reason.SCORED, answer)

    workers = FakeWorkers(_made, verifier)
    tally = (await _probe(workers)).tallies[Probe.PERTURBED]
    assert tally.best is not None
    assert (tally.best.score, tally.best.answer, tally.best_seed) == (0.5, "ccd", workers.specs[2].seed)


async def test_failures_of_the_verifier_are_counted_by_reason() -> None:
    reasons = {"inf": Reason.VERIFIER_ERROR, "[]": Reason.TIMEOUT, "{}": Reason.CRASH}

    def verifier(problem: Problem, answer: str) -> Verdict:
        right = float(answer == problem.answer)
        return Verdict(right, reasons.get(answer, Reason.SCORED), answer, 5.0 if answer == "[]" else 0.001)

    audit = await _probe(FakeWorkers(_made, verifier), items=3)
    assert audit.escaped == {Reason.VERIFIER_ERROR: 3, Reason.TIMEOUT: 3, Reason.CRASH: 3}
    assert audit.slowest_s == 5.0


async def test_problems_that_cannot_be_generated_or_scored_are_left_out_with_the_reason() -> None:
    def verifier(problem: Problem, answer: str) -> Verdict:
        if problem.spec.index == 2:
            raise ScoringError("the verifier worker cannot score")
        return is_the_answer(problem, answer)

    audit = await _probe(FakeWorkers(fails_where(lambda spec: spec.index == 1, _made), verifier))
    assert (audit.items, len(audit.tallies[Probe.ORACLE].scores)) == (2, 2)
    assert audit.failures == ("gcd, position 1: no luck", "the verifier worker cannot score")


async def test_task_that_keeps_failing_is_not_tried_to_the_end() -> None:
    workers = FakeWorkers(no_luck)
    audit = await _probe(workers, items=10)
    assert len(workers.specs) == len(audit.failures) == 3
    assert (audit.items, audit.tallies, audit.worst, audit.slowest_s) == (0, {}, None, 0.0)


# ---------------------------------------------------------------------------- the best split


def _questions(count: int) -> list[str]:
    draws = random.Random(7)
    return [" ".join(draws.choices(["0", "1", "12", "#", "X", "not\n"], k=draws.randint(5, 30))) for _ in range(count)]


@pytest.mark.parametrize(
    "decide",
    [
        lambda question: len(question) > 40,
        lambda question: question.count("#") > 2,
        lambda question: question.split()[0] == "12",
        lambda question: question.split().count("12") > 2,
        lambda question: "# #" in question or "X X" in question or "1 1" in question or "0 0" in question,
    ],
)
def test_count_that_decides_is_found(decide: Callable[[str], bool]) -> None:
    questions = _questions(160)
    earned = pay_best_split(questions, [str(decide(question)) for question in questions])
    assert sum(earned) > 0.8 * len(earned)


def test_split_earns_no_more_than_chance_where_nothing_decides() -> None:
    draws = random.Random(5)
    earned = pay_best_split(_questions(160), draws.choices("ab", k=160))
    assert 0.35 * len(earned) < sum(earned) < 0.65 * len(earned)


def test_few_problems_show_how_often_the_two_most_frequent_answers_come_again() -> None:
    assert pay_best_split(["Which?"] * 6, ["a", "b", "a", "c", "b", "a"]) == [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]

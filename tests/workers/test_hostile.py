"""Score hostile answers in real workers: none may be executed, escape, stall a worker or get a score.

Everything goes through the pool and the rewards, as in training. All attacks run once per module. Each test checks one
property of the results, and names the answers that break it. `pytest --whole-corpus` sends every answer to every task,
and prints the results as a line of JSON. Otherwise every task gets a part of the answers.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio

from reasoning_env.metrics.stats import PoolStats
from reasoning_env.problems.references import Reference
from reasoning_env.records import Problem, Reason, Verdict
from reasoning_env.rewards import score_texts
from reasoning_env.tasks import TASKS as DECLARED
from reasoning_env.workers.pool import WorkerPool
from tests.waiting import PATIENCE_S

from .hostile import EVALUATED, TABLES, WITNESSES, Hostile, Kind, hostile_answers, ordinary_answer
from .support import make, running_pool
from .traps import Traps

TASKS = sorted(DECLARED.keys() - {"composite"})
DEADLINE_S = 60.0
"""Deadline that no answer may exceed, even on a busy machine."""
READERS = frozenset({
    "binary_matrix", "bitwise_arithmetic", "boxnet", "codeio", "coin_flip", "complex_arithmetic", "countdown",
    "decimal_arithmetic", "game_of_life", "graph_color", "intermediate_integration", "jugs", "n_queens",
    "number_sorting", "polynomial_equations", "polynomial_multiplication", "pool_matrix", "power_function",
    "prime_factorization", "propositional_logic", "puzzle24", "quantum_lock", "rubiks_cube", "rush_hour",
    "simple_integration", "spiral_matrix", "string_insertion", "tower_of_hanoi",
})  # fmt: skip
"""Tasks whose verifiers parse the answer as code, a formula or moves."""
ONE_IN = {True: {Kind.CHEAT: 2, Kind.EXECUTION: 6, Kind.WORK: 8, Kind.TEXT: 8, Kind.POISON: 8}, False: {Kind.CHEAT: 4}}
"""Share of the answers of a kind that each task gets (one in this number), for tasks in READERS and for other tasks."""
ONE_IN_OTHERS = 30
KILLED = (Reason.TIMEOUT, Reason.CRASH)
NO_SCORE = frozenset({*KILLED, Reason.VERIFIER_ERROR})

on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def pool() -> AsyncIterator[WorkerPool]:
    """One generator and one verifier worker with the real library, so that one process scores all answers.

    The sandbox is off, so that only the guards protect against the answers.
    """
    async with running_pool(None, scoring_deadline_s=DEADLINE_S, sandbox_verifiers=False) as pool:
        yield pool


@dataclass(frozen=True)
class Target:
    """A problem, an ordinary answer to it, and the score of this answer."""

    problem: Problem
    ordinary: str
    score: float


@dataclass(frozen=True)
class Attack:
    """The result of a hostile answer: the verdict, or the error that reached the caller.

    `harmed` names the tasks whose ordinary answers got a different score afterwards.
    """

    target: Target
    hostile: Hostile
    verdict: Verdict | None = None
    harmed: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        if self.verdict is None:
            outcome = self.error
        else:
            outcome = f"{self.verdict.score:g}, {self.verdict.reason.value}, {self.verdict.scoring_s:.2f} s"
        harm = f", harms {', '.join(self.harmed)}" if self.harmed else ""
        task, hostile = self.target.problem.task, self.hostile
        return f"{task}: {hostile.kind.value}, {hostile.name}: {outcome}{harm}: {hostile.answer[:60]!r}"

    @property
    def undeserved(self) -> bool:
        return self.verdict is not None and self.verdict.score > self.hostile.most


async def make_target(pool: WorkerPool, task: str) -> Target:
    """Return a problem with an ordinary answer and the score of this answer."""
    problem = await make(pool, task)
    ordinary = ordinary_answer(problem)
    (verdict,) = await pool.score(problem, [ordinary])
    return Target(problem, ordinary, verdict.score)


async def attack(pool: WorkerPool, target: Target, hostile: Hostile, witness: Target) -> Attack:
    """Score a hostile answer, then ordinary answers to a different task and to the same task, all with one worker."""
    try:
        (verdict,) = await pool.score(target.problem, [hostile.answer])
        others = (witness, target)
        verdicts = await asyncio.gather(*(pool.score(other.problem, [other.ordinary]) for other in others))
    except Exception as error:  # every error counts as a finding
        return Attack(target, hostile, error=f"{type(error).__name__}: {error}")
    harmed = (
        other.problem.task for other, (after,) in zip(others, verdicts, strict=True) if after.score != other.score
    )
    return Attack(target, hostile, verdict, tuple(harmed))


@dataclass(frozen=True)
class Campaign:
    """All attacks and their results, the events that the traps recorded, and the state before and after the attacks."""

    attacks: list[Attack]
    events: list[str]
    targets: list[Target]
    entries_made_again: dict[str, bytes]
    stats: PoolStats


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def campaign(pool: WorkerPool, pytestconfig: pytest.Config) -> Campaign:
    traps = Traps()
    attacks: list[Attack] = []
    events: list[str] = []
    whole = bool(pytestconfig.getoption("--whole-corpus"))
    try:
        targets = [await make_target(pool, task) for task in TASKS]
        by_task = {target.problem.task: target for target in targets}
        witnesses = itertools.cycle(by_task[task] for task in WITNESSES)
        for position, target in enumerate(targets):
            answers = hostile_answers(target.problem, traps)
            for hostile in answers if whole else _part_of(answers, target.problem.task, position):
                attacks.append(await attack(pool, target, hostile, next(witnesses)))
            events += [f"{target.problem.task}: {event}" for event in traps.sprung()]
        specs = [Reference.parse(target.problem.reference).spec() for target in targets]
        again = {spec.task: (await pool.generate(spec, PATIENCE_S)).entry for spec in specs}
    finally:
        traps.close()
    done = Campaign(attacks, events, targets, again, pool.stats)
    if whole:
        print(json.dumps(_figures(done)))
    return done


def _part_of(answers: Sequence[Hostile], task: str, position: int) -> list[Hostile]:
    every = ONE_IN[task in READERS]
    numbered = enumerate(answers, start=position)
    return [hostile for index, hostile in numbered if index % every.get(hostile.kind, ONE_IN_OTHERS) == 0]


def _figures(done: Campaign) -> dict[str, int | float]:
    verdicts = [one.verdict for one in done.attacks if one.verdict is not None]
    return {
        "answers": len(done.attacks),
        "executed": len(done.events),
        "escaped": len(done.attacks) - len(verdicts),
        "undeserved": sum(one.undeserved for one in done.attacks),
        "wrong_afterwards": sum(bool(one.harmed) for one in done.attacks),
        **Counter(verdict.reason.value for verdict in verdicts),
        "slowest_scored_s": round(max(verdict.scoring_s for verdict in verdicts), 3),
    }


pytestmark = pytest.mark.slow


@on_one_loop
@pytest.mark.timeout(1800)
async def test_hostile_answers_are_tried_in_every_task(campaign: Campaign) -> None:
    tried = {(one.target.problem.task, one.hostile.kind) for one in campaign.attacks}
    assert tried == {(task, kind) for task in TASKS for kind in Kind}


def _is_sound(verdict: Verdict) -> bool:
    """Return True if the score is in range, and 0 if the verifier returned no score."""
    return 0.0 <= verdict.score <= (0.0 if verdict.reason in NO_SCORE else 1.0)


OFFENCES: Mapping[str, Callable[[Attack], bool]] = {
    "an exception reaches the caller": lambda one: one.verdict is None,
    "an answer earns more than it may": lambda one: one.undeserved,
    "a verdict is out of range or pays without a score": lambda one: not (one.verdict and _is_sound(one.verdict)),
    "an ordinary answer earns something else afterwards": lambda one: bool(one.harmed),
    "a worker is lost or held up": lambda one: bool(one.verdict and one.verdict.reason in KILLED),
}


@on_one_loop
@pytest.mark.parametrize("offends", OFFENCES.values(), ids=OFFENCES)
async def test_hostile_answers_score_zero_and_have_no_side_effect(
    campaign: Campaign, offends: Callable[[Attack], bool]
) -> None:
    offenders = [one for one in campaign.attacks if offends(one)]
    assert not offenders, "\n".join([f"{len(offenders)} attacks:", *map(str, offenders)])


@on_one_loop
async def test_hostile_answers_kill_no_worker(campaign: Campaign) -> None:
    assert (campaign.stats.workers_replaced, campaign.stats.protocol_faults) == (0, 0)
    assert campaign.stats.fork_servers_started == 1


@on_one_loop
async def test_no_hostile_payload_is_executed(campaign: Campaign) -> None:
    assert campaign.events == []


@on_one_loop
async def test_same_problems_are_made_before_and_after_hostile_answers(campaign: Campaign) -> None:
    assert campaign.entries_made_again == {target.problem.task: target.problem.entry for target in campaign.targets}


# ------------------------------------------------------------------ completions


@on_one_loop
async def test_only_the_answer_in_tags_decides_the_score_of_a_hostile_completion(pool: WorkerPool) -> None:
    """Some completions have two answers or fake tags. They form one group, which shows that scores are independent."""
    target = await make_target(pool, "chain_sum")
    tried = [
        (name, text.replace("RIGHT", target.ordinary).replace("WRONG", "1234567"), table == "paid completions")
        for table in ("unpaid completions", "paid completions")
        for name, text in TABLES[table].items()
    ]
    verdicts = await score_texts(pool, target.problem, [text for _, text, _ in tried])
    rewarded = {name: verdict.score == 1.0 for (name, _, _), verdict in zip(tried, verdicts, strict=True)}
    assert rewarded == {name: paid for name, _, paid in tried}


# ------------------------------------------------------------------ the traps

CONTROL = """
import contextlib, json, pickle, socket, subprocess, sys
import numpy, sympy

socket.setdefaulttimeout(0.2)  # numpy opens addresses with urllib, which would wait for an answer

def run(how, text):
    if how == "python":
        str(eval(text, {}))
    elif how == "sympy":
        sympy.parse_expr(text)
    elif how == "shell":
        subprocess.run(["sh", "-c", text], timeout=5, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elif how == "pickle":
        pickle.loads(text.encode("latin-1"))
    else:
        numpy.loadtxt(text)

for line in sys.stdin:
    with contextlib.suppress(Exception):  # what a payload does besides springing its trap
        run(*json.loads(line))
    print("done", flush=True)
"""


def test_every_hostile_payload_has_an_effect_without_protection() -> None:
    """A payload without any effect would pass every other test."""
    traps = Traps()
    command = [sys.executable, "-W", "ignore", "-c", CONTROL]
    duds = []
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=traps.folder, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            for how in EVALUATED:
                for name, payload in TABLES[how].items():
                    print(json.dumps([how, traps.arm(payload)]), file=process.stdin, flush=True)
                    process.stdout.readline()
                    if not _springs(traps):
                        duds.append(f"{how}: {name}")
            process.stdin.close()
    finally:
        traps.close()
    assert not duds, duds


def _springs(traps: Traps) -> bool:
    """Return True if a trap was touched. A started process needs some time before it has its name."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if traps.sprung():
            return True
        time.sleep(0.01)
    return False

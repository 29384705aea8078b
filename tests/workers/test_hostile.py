"""The hostile corpus against real workers: nothing runs, escapes, stalls, spoils what comes next or is paid for.

Everything goes through the pool and the rewards, as in training. The attacks are made once for the module; each test
looks at one property of what came of them, and names the answers that break it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from reasoning_env.library_facts import KNOWN_TASKS
from reasoning_env.records import PoolStats, Reason, Rollout, Verdict
from reasoning_env.rewards import score_rollouts, score_texts
from reasoning_env.workers.pool import PoolSettings, WorkerPool

from .hostile import (
    ADDRESS,
    LONG,
    PICKLE,
    PYTHON,
    SHELL,
    SYMPY,
    WITNESSES,
    Attack,
    Completion,
    Hostile,
    Kind,
    Target,
    Traps,
    attack,
    completions,
    hostile_answers,
    make_target,
)
from .support import until

TASKS = sorted(KNOWN_TASKS - {"composite"})
DEADLINE_S = 2.0
READERS = frozenset({
    *("binary_matrix", "bitwise_arithmetic", "boxnet", "codeio", "coin_flip", "complex_arithmetic", "countdown"),
    *("decimal_arithmetic", "game_of_life", "graph_color", "jugs", "n_queens", "number_sorting", "pool_matrix"),
    *("polynomial_equations", "polynomial_multiplication", "power_function", "prime_factorization"),
    *("propositional_logic", "puzzle24", "quantum_lock", "rubiks_cube", "rush_hour", "simple_integration"),
    *("spiral_matrix", "string_insertion", "tower_of_hanoi"),
})  # fmt: skip
"""Tasks whose verifiers read the answer as code, as a formula or as moves."""
THINNED_WORK = 3
"""On these, of the answers that mean work one in so many is tried, other ones for each task; the rest all are."""
THINNED = 15
"""On the others all cheats are tried, and of the rest one answer in so many."""
NO_SCORE = frozenset({Reason.TIMEOUT, Reason.CRASH, Reason.VERIFIER_ERROR, Reason.BLOCKED})

SLOW_TASKS = ("codeio", "coin_flip", "polynomial_multiplication", "simple_integration")
SLOW_EACH = 1
"""How many slow answers to each of these are tried here; the benchmark tries all."""


@asynccontextmanager
async def running(verifiers: int) -> AsyncIterator[WorkerPool]:
    """One generator and some verifier workers over the real library."""
    # No niceness: an honest answer must not miss the short deadline because the machine does something else.
    pool = WorkerPool(PoolSettings(generators=1, verifiers=verifiers, scoring_deadline_s=DEADLINE_S, niceness=0))
    await pool.start()
    try:
        await until(lambda: len(pool.worker_pids) == 1 + verifiers)
        yield pool
    finally:
        await pool.close()


@dataclass(frozen=True)
class Campaign:
    """Everything that was tried, what the traps saw, and what was there before and after."""

    attacks: list[Attack]
    events: list[str]
    targets: list[Target]
    entries_made_again: dict[str, bytes]
    stats: PoolStats
    workers: int


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def campaign() -> AsyncIterator[Campaign]:
    """Every answer that is not known to be slow, against one worker, so that each comes after all the others."""
    traps = Traps()
    attacks: list[Attack] = []
    events: list[str] = []
    try:
        async with running(verifiers=1) as pool:
            targets = [await make_target(pool, task) for task in TASKS]
            by_task = {target.problem.task: target for target in targets}
            witnesses = itertools.cycle(by_task[task] for task in WITNESSES)
            for position, target in enumerate(targets):
                for hostile in _chosen(target, traps, position):
                    attacks.append(await attack(pool, target, hostile, next(witnesses)))
                events += [f"{target.problem.task}: {event}" for event in traps.sprung()]
            again = {target.problem.task: (await _made_again(pool, target)).problem.entry for target in targets}
            yield Campaign(attacks, events, targets, again, pool.stats, len(pool.worker_pids))
    finally:
        traps.close()


def _chosen(target: Target, traps: Traps, position: int) -> list[Hostile]:
    """The benchmark of the same name tries everything."""
    reader = target.problem.task in READERS
    chosen = []
    for index, hostile in enumerate(hostile_answers(target.problem, traps), start=position):
        if hostile.kind is Kind.CHEAT:
            every = 1
        elif hostile.kind is Kind.WORK and reader:
            every = THINNED_WORK
        else:
            every = 1 if reader else THINNED
        if not hostile.slow and index % every == 0:
            chosen.append(hostile)
    return chosen


async def _made_again(pool: WorkerPool, target: Target) -> Target:
    return await make_target(pool, target.problem.task, target.problem.spec.seed)


def _listed(attacks: Sequence[Attack]) -> str:
    return "\n".join([f"{len(attacks)} attacks:", *map(str, attacks)])


module_loop = pytest.mark.asyncio(loop_scope="module")


@module_loop
async def test_every_task_is_attacked_in_every_way(campaign: Campaign) -> None:
    tried = {(one.target.problem.task, one.hostile.kind) for one in campaign.attacks}
    assert tried == {(task, kind) for task in TASKS for kind in Kind}


@module_loop
async def test_no_exception_reaches_the_caller(campaign: Campaign) -> None:
    offenders = [one for one in campaign.attacks if one.verdict is None]
    assert not offenders, _listed(offenders)


@module_loop
async def test_nothing_is_executed(campaign: Campaign) -> None:
    assert campaign.events == []


@module_loop
async def test_no_answer_earns_more_than_it_may(campaign: Campaign) -> None:
    offenders = [one for one in campaign.attacks if one.undeserved]
    assert not offenders, _listed(offenders)


@module_loop
async def test_every_verdict_is_a_reason_and_a_score_in_range(campaign: Campaign) -> None:
    verdicts = [one.verdict for one in campaign.attacks if one.verdict is not None]
    assert all(isinstance(verdict.reason, Reason) and 0.0 <= verdict.score <= 1.0 for verdict in verdicts)


@module_loop
async def test_verifier_that_gave_no_score_pays_nothing(campaign: Campaign) -> None:
    offenders = [one for one in campaign.attacks if _unfounded(one.verdict)]
    assert not offenders, _listed(offenders)


def _unfounded(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.reason in NO_SCORE and verdict.score != 0.0


@module_loop
async def test_ordinary_answers_after_each_attack_earn_what_they_did_before(campaign: Campaign) -> None:
    offenders = [one for one in campaign.attacks if one.harmed]
    assert not offenders, _listed(offenders)


@module_loop
async def test_known_right_answers_earn_full_marks_to_begin_with(campaign: Campaign) -> None:
    """Otherwise the test above would compare one wrong score with another."""
    unknown = {"boxnet", "propositional_logic", "rush_hour"}
    assert {target.problem.task for target in campaign.targets if target.score != 1.0} == unknown


@module_loop
async def test_entries_stay_as_they_were(campaign: Campaign) -> None:
    assert campaign.entries_made_again == {target.problem.task: target.problem.entry for target in campaign.targets}


@module_loop
async def test_no_worker_is_lost_and_none_held_up(campaign: Campaign) -> None:
    killed = (Reason.TIMEOUT, Reason.CRASH)
    offenders = [one for one in campaign.attacks if one.verdict is not None and one.verdict.reason in killed]
    assert not offenders, _listed(offenders)
    assert (campaign.stats.workers_replaced, campaign.stats.protocol_faults) == (0, 0)
    assert (campaign.stats.fork_servers_started, campaign.workers) == (1, 2)


# ------------------------------------------------------------------ the traps themselves

CONTROL = """
import contextlib, json, pickle, subprocess, sys
import numpy, sympy

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


def test_every_payload_springs_a_trap_where_text_is_evaluated() -> None:
    """Without this, payloads with a slip in them would pass every other test."""
    tables = {"python": PYTHON, "sympy": SYMPY, "shell": SHELL, "pickle": PICKLE, "address": ADDRESS}
    traps = Traps()
    duds = []
    # Numpy opens addresses with urllib, which would wait for an answer.
    script = "import socket; socket.setdefaulttimeout(0.2)\n" + CONTROL
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=traps.folder,
        text=True,
    )
    try:
        with process:
            assert process.stdin is not None and process.stdout is not None
            for how, table in tables.items():
                for name, payload in table.items():
                    print(json.dumps([how, traps.arm(payload)]), file=process.stdin, flush=True)
                    process.stdout.readline()
                    if not _springs(traps):
                        duds.append(f"{how}: {name}")
            process.stdin.close()
    finally:
        traps.close()
    assert not duds, duds


def _springs(traps: Traps) -> bool:
    """Whether a trap has sprung; a process that was started takes a moment to get its name."""
    for _ in range(50):
        if traps.sprung():
            return True
        time.sleep(0.01)
    return False


# ------------------------------------------------------------------ slow answers


async def test_slow_answers_cost_nobody_but_themselves() -> None:
    """Answers that keep all workers but one busy, with ordinary ones in their groups, and other groups meanwhile."""
    traps = Traps()
    try:
        async with running(verifiers=len(SLOW_TASKS) + 1) as pool:
            others = [await make_target(pool, task) for task in WITNESSES]
            targets = [await make_target(pool, task) for task in SLOW_TASKS]
            groups = [[*_slow_answers(target, traps)[:SLOW_EACH], target.ordinary] for target in targets]
            under_way = [
                asyncio.create_task(pool.score(target.problem, group))
                for target, group in zip(targets, groups, strict=True)
            ]
            meanwhile = [(await pool.score(other.problem, [other.ordinary]))[0].score for other in others]
            assert meanwhile == [other.score for other in others]
            for target, verdicts in zip(targets, await asyncio.gather(*under_way), strict=True):
                *slow, ordinary = verdicts
                assert ordinary.score == target.score
                assert all(verdict.score < 1.0 and not _unfounded(verdict) for verdict in slow)
            await until(lambda: len(pool.worker_pids) == len(SLOW_TASKS) + 2)
            assert pool.stats.fork_servers_started == 1
            assert traps.sprung() == []
    finally:
        traps.close()


def _slow_answers(target: Target, traps: Traps) -> list[str]:
    return [hostile.answer for hostile in hostile_answers(target.problem, traps) if hostile.slow and hostile.most < 1.0]


# ------------------------------------------------------------------ completions

RIGHT, WRONG = "7351", "1234567"
COMPLETIONS = completions(RIGHT, WRONG)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def sum_target() -> AsyncIterator[tuple[WorkerPool, Target]]:
    async with running(verifiers=1) as pool:
        yield pool, await make_target(pool, "chain_sum")


def _with_answer(completion: Completion, right: str) -> str:
    return completion.text.replace(RIGHT, right)


@module_loop
@pytest.mark.parametrize("completion", COMPLETIONS, ids=lambda completion: completion.name)
async def test_completion_is_paid_by_the_answer_rule_alone(
    sum_target: tuple[WorkerPool, Target], completion: Completion
) -> None:
    pool, target = sum_target
    text = _with_answer(completion, target.ordinary)
    (verdict,) = await score_texts(pool, target.problem, [text], LONG)
    assert (verdict.score == 1.0) is completion.paid
    assert isinstance(verdict.reason, Reason)


@module_loop
async def test_hostile_completions_leave_their_groups_other_members_their_rewards(
    sum_target: tuple[WorkerPool, Target],
) -> None:
    pool, target = sum_target
    honest = f"<answer>{target.ordinary}</answer>"
    hostile = [_with_answer(completion, target.ordinary) for completion in COMPLETIONS if not completion.paid]
    rollouts = [Rollout(text, (1,), (1,), None, "stop") for text in (honest, *hostile, honest)]
    scored = await score_rollouts(pool, target.problem, rollouts, max_answer_bytes=LONG, max_tokens=100)
    first, *others, last = (rollout.score for rollout in scored)
    assert (first, last) == (1.0, 1.0)
    assert max(others) < 1.0


# ------------------------------------------------------------------ secrets

SECRETS = ("OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
async def test_no_secret_of_the_parent_is_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"secret-of-{name}")
    async with running(verifiers=1) as pool:
        workers = {f"{pid}" for pid in pool.worker_pids}
        fork_server = {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] for pid in workers}
        assert len(fork_server) == 1 and str(os.getpid()) not in fork_server
        for pid in workers | fork_server:
            seen = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
            assert b"secret-of-" not in seen
            assert not any(name.encode() in seen for name in SECRETS)

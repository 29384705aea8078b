"""Score answers through a pool, with a fake verifier that does what the answer says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from reasoning_env.errors import ScoringError
from reasoning_env.records import Reason, Verdict
from reasoning_env.workers import worker
from reasoning_env.workers.fork_server import WORKER_LIMITS
from reasoning_env.workers.pool import WorkerPool
from reasoning_env.workers.protocol import FRAME, Frame, ProtocolFault, Role, encode_frame
from reasoning_env.workers.scoring import read_verdict
from reasoning_env.workers.worker import Worker
from tests.waiting import until

from .support import is_gone, make, running_pool, spec


def _shape(verdicts: list[Verdict]) -> list[tuple[float, Reason]]:
    return [(verdict.score, verdict.reason) for verdict in verdicts]


RIGHT = (1.0, Reason.SCORED)
WRONG = (0.0, Reason.SCORED)
FAILED = (0.0, Reason.VERIFIER_ERROR)


async def test_verdicts_keep_the_order_of_answers(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    verdicts = await pool.score(problem, ["3", "4", "3", "number 0.5 0", "3"])
    assert _shape(verdicts) == [RIGHT, WRONG, RIGHT, (0.49, Reason.SCORED), RIGHT]
    assert [verdict.answer for verdict in verdicts] == ["3", "4", "3", "number 0.5 0", "3"]
    assert pool.stats.scored == 3
    assert await pool.score(problem, []) == []


async def test_answer_scores_zero_if_the_verifier_raises(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    for answer in ("raise", "exit", "interrupt", "text", "number nan nan", "number inf -inf"):
        assert _shape(await pool.score(problem, ["3", answer, "33"])) == [RIGHT, FAILED, WRONG], answer
    assert pool.stats.workers_replaced == 0


async def test_answers_on_which_the_verifier_fails_do_not_affect_other_scores(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    for answer in ("noisy", "spoil", "\ud800", "\x00", "𝟛 \u2028", "x" * 1_000_000):
        odd, right = await pool.score(problem, [answer, "3"])
        assert (odd.reason, (right.score, right.reason)) == (Reason.SCORED, RIGHT), answer[:10]
    assert pool.stats.workers_replaced == 0


async def test_answer_that_writes_a_huge_file_scores_zero(fake_library: Path) -> None:
    async with running_pool(fake_library) as pool:
        problem = await make(pool, seed=3)
        assert _shape(await pool.score(problem, ["big_file", "3"])) == [FAILED, RIGHT]
        assert pool.stats.workers_replaced == 0


async def test_answer_that_crashes_two_workers_scores_zero(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    verdicts = await pool.score(problem, ["3", "crash", "4", "memory", "abort", "number 0.5 0"])
    crash, memory = (0.0, Reason.CRASH), (0.0, Reason.OUT_OF_MEMORY)
    assert _shape(verdicts) == [RIGHT, crash, WRONG, memory, crash, (0.49, Reason.SCORED)]
    assert (pool.stats.crashes, pool.stats.workers_replaced) == (3, 6)


CLOSING = {
    "sleep": "os.close(3)\nos.system('sleep 60')",
    "work": "os.closerange(3, 256)\nwhile True: pass",
    "another": "os.dup2(os.open('/', os.O_RDONLY), 3)\nwhile True: pass",
}
"""Answers that close the worker's connection to the pool and then continue to run."""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(CLOSING["sleep"], id="sleep"),
        *(pytest.param(CLOSING[name], id=name, marks=pytest.mark.slow) for name in ("work", "another")),
    ],
)
async def test_answer_that_closes_the_worker_connection_scores_zero(pool: WorkerPool, source: str) -> None:
    verdicts = await pool.score(await make(pool, seed=3), ["3", f"python {source}", "4"])
    assert _shape(verdicts) == [RIGHT, (0.0, Reason.CRASH), WRONG]


async def test_scoring_raises_if_a_worker_disconnects_and_is_then_killed(pool: WorkerPool) -> None:
    """The worker is killed after it closed its connection, within the grace period."""
    kill_late = "import time\nos.close(3)\ntime.sleep(0.1)\nos.kill(os.getpid(), 9)"
    with pytest.raises(ScoringError, match=r"killed by another process or the kernel \(SIGKILL\)$"):
        await pool.score(await make(pool, seed=3), [f"python {kill_late}"])


async def test_scoring_raises_if_workers_are_killed_repeatedly(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    with pytest.raises(
        ScoringError,
        match=r"^ok: 3 verifier workers died while scoring the same answer; the last was killed by another process or "
        r"the kernel \(SIGKILL\)$",
    ):
        await pool.score(problem, ["3", "killed"])
    assert pool.stats.crashes == 0
    assert _shape(await pool.score(problem, ["3"])) == [RIGHT]


async def test_answers_that_kill_their_worker_at_the_first_try_are_scored_at_the_second(
    pool: WorkerPool, tmp_path: Path
) -> None:
    answers = [f"once {tmp_path / str(number)} killed" for number in range(4)]
    verdicts = await pool.score(await make(pool, seed=3), answers)
    assert _shape(verdicts) == [(0.735, Reason.SCORED)] * 4


async def test_crashing_answer_scores_zero_even_after_another_answer_killed_a_worker(
    pool: WorkerPool, tmp_path: Path
) -> None:
    verdicts = await pool.score(await make(pool, seed=3), [f"once {tmp_path / 'marker'} killed", "crash"])
    assert _shape(verdicts) == [(0.735, Reason.SCORED), (0.0, Reason.CRASH)]


async def test_scoring_survives_a_killed_fork_server(pool: WorkerPool, tmp_path: Path) -> None:
    problem, marker = await make(pool, seed=3), tmp_path / "marker"
    scoring = asyncio.create_task(pool.score(problem, [f"once {marker} hang", "3"]))
    await until(marker.exists)
    assert pool.fork_servers.current is not None
    pool.fork_servers.current.process.kill()
    assert _shape(await scoring) == [(0.735, Reason.SCORED), RIGHT]


async def test_scoring_a_problem_that_json_cannot_represent_raises(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    for params in ({"odd": {1, 2}}, {"deep": nested}):
        odd = replace(problem, spec=problem.spec.with_request(params=params))
        with pytest.raises(ScoringError, match=r"^ok: the problem cannot be sent to a worker"):
            await pool.score(odd, ["3"])
        assert _shape(await pool.score(problem, ["3"])) == [RIGHT]


async def test_answer_is_scored_again_after_it_crashed_a_worker_once(pool: WorkerPool, tmp_path: Path) -> None:
    problem = await make(pool, seed=3)
    verdicts = await pool.score(problem, ["3", f"once {tmp_path / 'marker'} crash", "4"])
    assert _shape(verdicts) == [RIGHT, (0.735, Reason.SCORED), WRONG]
    assert (pool.stats.crashes, pool.stats.workers_replaced) == (0, 1)


async def test_hanging_verifier_is_killed(fake_library: Path) -> None:
    async with running_pool(fake_library, scoring_deadline_s=0.5) as pool:
        verifier = pool.worker_pids[1]
        problem = await make(pool, seed=3)
        verdicts = await pool.score(problem, ["3", "hang", "4", "33", "number 0.5 0"])
        assert _shape(verdicts) == [RIGHT, (0.0, Reason.TIMEOUT), WRONG, WRONG, (0.49, Reason.SCORED)]
        assert (pool.stats.timeouts, pool.stats.workers_replaced) == (1, 1)
        await until(lambda: is_gone(verifier))


async def test_child_processes_of_a_verifier_are_killed(fake_library: Path, tmp_path: Path) -> None:
    async with running_pool(fake_library) as pool:
        pid_file = tmp_path / "pid"
        scoring = asyncio.create_task(pool.score(await make(pool), [f"spawn {pid_file}"]))
        await until(pid_file.exists)
        pid = int(pid_file.read_text())
        scoring.cancel()
        os.kill(pool.worker_pids[1], signal.SIGKILL)
        try:
            await until(lambda: is_gone(pid))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


async def test_scoring_deadline_excludes_the_time_to_build_the_dataset(fake_library: Path) -> None:
    """A deadline that passes before the verifier gets the answer is an infrastructure error, never a score of 0."""
    async with running_pool(fake_library, scoring_deadline_s=0.7) as pool:
        problem = await make(pool, "slow_build", seed=3)
        assert _shape(await pool.score(problem, ["3", "4"])) == [RIGHT, WRONG]


async def test_groups_are_scored_in_order_of_arrival(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    done: list[int] = []

    async def score(number: int) -> None:
        await pool.score(problem, [str(number)])
        done.append(number)

    await asyncio.gather(*map(score, range(5)))
    assert done == [0, 1, 2, 3, 4]


async def test_group_of_many_answers_does_not_block_other_groups(fake_library: Path) -> None:
    async with running_pool(fake_library, num_verifiers=1) as pool:
        problem = await make(pool, seed=3)
        long = asyncio.create_task(pool.score(problem, [f"sleep 0.03 {number}" for number in range(12)]))
        await until(lambda: pool.stats.scored > 0)
        assert _shape(await pool.score(problem, ["3"])) == [RIGHT]
        assert not long.done()
        assert _shape(await long) == [WRONG] * 12


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that a process sleeps")
async def test_group_with_a_sleeping_verifier_does_not_block_other_groups(
    fake_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "WORKER_STALL_S", 0.3)
    async with running_pool(fake_library, num_verifiers=1, scoring_deadline_s=0.3) as pool:
        problem = await make(pool, seed=3)
        sleeping = asyncio.create_task(pool.score(problem, ["sleep 3600"]))
        await asyncio.sleep(0)  # the group is queued
        assert _shape(await pool.score(problem, ["3"])) == [RIGHT]
        assert not sleeping.done()
        assert _shape(await sleeping) == [(0.0, Reason.TIMEOUT)]


async def test_group_with_hanging_answers_occupies_one_worker(fake_library: Path) -> None:
    async with running_pool(fake_library, num_verifiers=2, scoring_deadline_s=600.0) as pool:
        problem = await make(pool, seed=3)
        slow = asyncio.create_task(pool.score(problem, ["hang"]))
        for group in await asyncio.gather(*(pool.score(problem, ["3", str(number + 4)]) for number in range(40))):
            assert _shape(group) == [RIGHT, WRONG]
        assert not slow.done()


# ------------------------------------------------------------------ the budget of a group


async def test_group_over_its_scoring_budget_is_dropped(fake_library: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_pool(fake_library, scoring_deadline_s=0.1) as pool:
        problem = await make(pool, seed=3)
        with pytest.raises(ScoringError, match=r"^ok, seed 3: .*more processor time.*\([45] of 7 were scored\)$"):
            await pool.score(problem, ["3", *(f"hang {number}" for number in range(5)), "4"])
        assert [record.message for record in caplog.records if "the group is dropped" in record.message]
        assert _shape(await pool.score(problem, ["3"])) == [RIGHT]
        assert pool.stats.over_budget == 1


async def test_default_scoring_budget_of_a_group_allows_three_timeouts(fake_library: Path) -> None:
    async with running_pool(fake_library, scoring_deadline_s=0.1) as pool:
        answers = [f"hang {number}" for number in range(3)]
        verdicts = await pool.score(await make(pool, seed=3), [*answers, "3"])
        assert _shape(verdicts) == [(0.0, Reason.TIMEOUT)] * 3 + [RIGHT]


# ------------------------------------------------------------------ infrastructure errors


async def test_cancelled_scoring_frees_the_worker(fake_library: Path, tmp_path: Path) -> None:
    async with running_pool(fake_library, scoring_deadline_s=600.0) as pool:
        problem, marker = await make(pool, seed=3), tmp_path / "marker"
        hanging = asyncio.create_task(pool.score(problem, [f"once {marker} hang"]))
        await until(marker.exists)
        hanging.cancel()
        assert _shape(await pool.score(problem, ["3"])) == [RIGHT]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a deadline is time of the clock")
async def test_worker_suspended_for_one_second_is_kept(fake_library: Path, tmp_path: Path) -> None:
    async with running_pool(fake_library, scoring_deadline_s=0.3) as pool:
        problem, verifier = await make(pool, seed=3), pool.worker_pids[1]
        os.kill(verifier, signal.SIGSTOP)
        scoring = asyncio.create_task(pool.score(problem, ["3", "4"]))
        await asyncio.sleep(1.2)
        os.kill(verifier, signal.SIGCONT)
        assert _shape(await scoring) == [RIGHT, WRONG]
        assert (pool.stats.timeouts, pool.stats.workers_replaced) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a deadline is time of the clock")
async def test_worker_suspended_for_too_long_is_replaced(
    fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_pool(fake_library, scoring_deadline_s=1.0) as pool:
        problem, verifier, marker = await make(pool, seed=3), pool.worker_pids[1], tmp_path / "marker"
        monkeypatch.setattr("reasoning_env.workers.scoring.WORKER_START_TIMEOUT_S", 0.5)
        scoring = asyncio.create_task(pool.score(problem, [f"once {marker} hang", "3"]))
        await until(marker.exists)
        os.kill(verifier, signal.SIGSTOP)
        assert _shape(await scoring) == [(0.735, Reason.SCORED), RIGHT]
        assert (pool.stats.timeouts, pool.stats.workers_replaced) == (0, 1)


async def test_scoring_raises_if_the_verifier_fails_before_it_reads_the_answer(pool: WorkerPool) -> None:
    made = await make(pool, seed=3)
    for task, entry, reason in (
        ("unbuildable", made.entry, "^unbuildable, seed 1: "),
        ("no_such_task", made.entry, "^no_such_task, seed 1: "),
        ("build_crash", made.entry, "^build_crash: "),
        ("composite", b"broken", "^composite, seed 1: "),
    ):
        with pytest.raises(ScoringError, match=reason):
            await pool.score(replace(made, spec=spec(task, datasets=[]), entry=entry), ["3"])
        assert _shape(await pool.score(made, ["3"])) == [RIGHT]


async def test_scoring_raises_after_repeated_invalid_replies_of_workers(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = await make(pool, seed=3)
    monkeypatch.setattr(Worker, "receive", AsyncMock(return_value=Frame({"score": 1.0}, b"")))
    with pytest.raises(ScoringError, match=r"^ok: "):
        await pool.score(problem, ["3"])
    assert pool.stats.protocol_faults == 2


# ------------------------------------------------------------------ forged replies

GENUINE: dict[str, Any] = {"id": 1, "position": 0, "score": 0.5, "reason": "scored", "scoring_s": 0.1}
FORGED_FIELDS: list[dict[str, Any]] = [
    *({"score": score} for score in (1.5, -0.5, "1", True, float("nan"), None, 10**400)),
    *({"scoring_s": seconds} for seconds in (float("inf"), 10**400, "0")),
    # An unknown reason, reasons of answers without a score, and a value that is no string.
    *({"reason": reason} for reason in ("excellent", "timeout", ["scored"], "verifier_error")),
    *({"position": position} for position in (1, "0")),
    *({"parts": parts} for parts in ({"a": 10**400}, {"a": "1"}, dict.fromkeys(map(str, range(33)), 1), {"a" * 61: 1})),
]


@pytest.mark.parametrize("fields", FORGED_FIELDS, ids=str)
def test_verdict_with_an_invalid_field_is_a_protocol_fault(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolFault):
        read_verdict(Frame({**GENUINE, **fields}, b""), 0, "answer")


def test_valid_verdict_sent_by_a_worker_is_accepted() -> None:
    assert read_verdict(Frame(GENUINE, b""), 0, "answer") == Verdict(0.5, Reason.SCORED, "answer", 0.1)


def test_verdict_lists_the_formatting_removed_from_the_answer() -> None:
    reply = Frame({**GENUINE, "frames": ["label", "code"]}, b"")
    assert read_verdict(reply, 0, "answer").frames == ("label", "code")


@pytest.mark.parametrize("frames", ["label", ["label", "<script>"], ["label"] * 19, [1], {"label": 1}])
def test_verdict_with_an_invalid_formatting_list_is_a_protocol_fault(frames: object) -> None:
    with pytest.raises(ProtocolFault):
        read_verdict(Frame({**GENUINE, "frames": frames}, b""), 0, "answer")


FORGED_REPLIES = {
    "not json": FRAME.pack(4, 0) + b"evil",
    "not an object": FRAME.pack(2, 0) + b"[]",
    "no text": FRAME.pack(1, 0) + b"\x80",
    "too deep": FRAME.pack(900, 0) + b"[" * 900,
    "header too large": FRAME.pack(WORKER_LIMITS[Role.VERIFIER].header + 1, 0),
    "with a blob": encode_frame(GENUINE, b"pickle"),
    "another request": encode_frame({**GENUINE, "id": 99}),
    "no request": encode_frame({key: value for key, value in GENUINE.items() if key != "id"}),
    "a forged field": encode_frame({**GENUINE, "score": 1.5}),
    "empty": encode_frame({}),
    **{
        f"half a surrogate pair as {name}": encode_frame({**GENUINE, **fields})
        for name, fields in {"key": {"\ud800": 1}, "score": {"score": "\ud800"}, "reason": {"reason": "\ud800"}}.items()
    },
}


async def test_answer_that_forges_a_worker_reply_scores_zero(pool: WorkerPool) -> None:
    problem = await make(pool, seed=3)
    for count, (name, reply) in enumerate(FORGED_REPLIES.items(), start=1):
        verdicts = await pool.score(problem, [f"forge {reply.hex()}", "3", "4"])
        assert _shape(verdicts) == [(0.0, Reason.CRASH), RIGHT, WRONG], name
        assert (pool.stats.protocol_faults, pool.stats.workers_replaced) == (2 * count, 2 * count)


async def test_verdict_is_rejected_if_the_worker_sends_it_before_the_request(pool: WorkerPool, tmp_path: Path) -> None:
    """The worker sends a valid verdict, then a verdict on an answer that was not sent yet."""
    problem = await make(pool, seed=3)
    early = encode_frame(GENUINE) + encode_frame({**GENUINE, "id": 2, "score": 1.0, "reason": "no such reason"})
    first = await pool.score(problem, [f"once {tmp_path / 'marker'} forge {early.hex()}"])
    assert first[0].score == 0.5
    assert _shape(await pool.score(problem, ["4"])) == [WRONG]
    assert pool.stats.protocol_faults == 1


def test_verdict_is_rejected_if_the_worker_sends_it_for_an_earlier_answer() -> None:
    with pytest.raises(ProtocolFault):
        read_verdict(Frame(GENUINE, b""), 1, "answer")


async def test_scoring_raises_if_building_the_dataset_takes_too_long(
    fake_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_pool(fake_library) as pool:
        problem = await make(pool, "slow_build", seed=3)
        monkeypatch.setattr("reasoning_env.workers.scoring.WORKER_START_TIMEOUT_S", 0.2)
        with pytest.raises(ScoringError, match="building the task"):
            await pool.score(problem, ["3"])

"""Judge rows with score functions in sandboxed workers: results, errors, limits and permissions."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import pytest_asyncio
from aiohttp.test_utils import RawTestServer, TestClient

from reasoning_env.errors import ConfigError, InvalidReferenceError, RaisingFunctionError
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Problem, Reason, Verdict
from reasoning_env.session import Session
from reasoning_env.sources.score_function import ScoreFunction
from reasoning_env.workers import worker as worker_module
from reasoning_env.workers.protocol import Frame

FUNCTION = "tests.score_functions:score"
ROW = {"answer": "right"}

on_module_loop = pytest.mark.asyncio(loop_scope="module")


def session_of(score: str | ScoreFunction = FUNCTION, **settings: Any) -> Session[Problem]:
    small = {"num_verifiers": 1, "scoring_deadline_s": 0.5, "worker_memory_mb": 512}
    return Session(score=score, **{**small, **settings})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session[Problem]]:
    async with session_of() as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(session: Session[Problem]) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(RawTestServer(JudgeServer(session).handle)) as client:
        yield client


async def verdict_on(session: Session[Problem], completion: str, **row: Any) -> Verdict:
    [verdict] = await session.judge(row, [completion])
    return verdict


async def test_memory_limit_of_a_score_function_excludes_its_module_imports(tmp_path: Path) -> None:
    """The module reserves more address space than the limit. A completion may use up to the limit."""
    path = tmp_path / "large_rewards.py"
    path.write_text(
        "import mmap\n"
        "TAKEN = mmap.mmap(-1, 2 << 30)\n"
        "def score(completion):\n"
        "    return float(len(bytearray(int(completion) << 20)) > 0)\n"
    )
    async with session_of(f"{path}:score", scoring_deadline_s=10.0) as session:
        verdicts = await session.judge({}, ["128", "1024"])
    assert [verdict.reason for verdict in verdicts] == [Reason.SCORED, Reason.OUT_OF_MEMORY]


# ---------------------------------------------------------------------------- return values


@on_module_loop
async def test_score_function_may_return_32_reward_parts_with_long_names(session: Session[Problem]) -> None:
    verdict = await verdict_on(session, "long names")
    assert (verdict.score, len(verdict.parts or {})) == (0.5, 32)


@on_module_loop
async def test_score_function_cannot_change_the_row_for_later_completions(session: Session[Problem]) -> None:
    verdicts = await session.judge({"numbers": [1]}, ["change", "change again"])
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0]


@on_module_loop
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that a process sleeps")
async def test_sleeping_score_function_times_out(session: Session[Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleeping function uses no CPU time. It must not count as a process that the machine gives no CPU time."""
    monkeypatch.setattr(worker_module, "WORKER_STALL_S", 0.3)
    assert (await verdict_on(session, "sleep")).reason is Reason.TIMEOUT


async def test_score_function_that_starts_too_many_threads_counts_as_crashed(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells how many threads a process has")
    monkeypatch.setattr(worker_module, "MAX_THREADS", 30)
    async with session_of(ScoreFunction(FUNCTION, threads=True), scoring_deadline_s=60.0) as session:
        acts = ["start a thread", "start many threads", "start many threads and sleep", "right"]
        verdicts = await session.judge(ROW, acts)
    crash = (0.0, Reason.CRASH)
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [
        (1.0, Reason.SCORED),
        crash,
        crash,
        (1.0, Reason.SCORED),
    ]


async def test_completion_is_scored_even_if_the_next_one_starts_too_many_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pool may read a verdict late, when the worker already runs the next completion."""
    if sys.platform != "linux":
        pytest.skip("only Linux tells how many threads a process has")
    receive = worker_module.Worker.receive

    async def receive_late(worker: worker_module.Worker, deadline_s: float) -> Frame:
        reply = await receive(worker, deadline_s)
        for _ in range(30):
            if worker_module.thread_count(worker.pid) <= 30:
                await asyncio.sleep(0.01)
        return reply

    monkeypatch.setattr(worker_module, "MAX_THREADS", 30)
    monkeypatch.setattr(worker_module.Worker, "receive", receive_late)
    async with session_of(ScoreFunction(FUNCTION, threads=True), scoring_deadline_s=60.0) as session:
        verdicts = await session.judge(ROW, ["right", "start many threads and sleep"])
    assert [verdict.reason for verdict in verdicts] == [Reason.SCORED, Reason.CRASH]


async def test_scoring_times_out_if_the_score_function_ends_the_main_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells that a process sleeps")
    monkeypatch.setattr(worker_module, "WORKER_STALL_S", 0.3)
    async with session_of(ScoreFunction(FUNCTION, threads=True)) as session:
        assert (await verdict_on(session, "leave to a thread")).reason is Reason.TIMEOUT


@on_module_loop
async def test_score_function_that_returns_true_gives_score_1(session: Session[Problem]) -> None:
    assert (await verdict_on(session, "true")).score == 1.0


@pytest.mark.parametrize(
    ("completion", "error"),
    [
        ("nan", "ScoreError: the function must return a number from 0 to 1; got nan"),
        ("two", "ScoreError: the function must return a number from 0 to 1; got 2.0"),
        ("none", "ScoreError: the function must return a number from 0 to 1; got None"),
        ("text", "ScoreError: the function must return a number from 0 to 1; got '1.0'"),
        (
            "only parts",
            "ScoreError: the function must return a number, or a mapping with `score`; got a mapping without `score`",
        ),
        ("infinite part", "ScoreError: 'length' in the mapping must be a finite number; got inf"),
        ("many parts", "ScoreError: the mapping may have at most 32 numbers besides `score`; got 33"),
        ("raise", "ZeroDivisionError: division by zero"),
        ("leave", "SystemExit: None"),
    ],
)
@on_module_loop
async def test_verdict_has_the_error_of_the_score_function(
    session: Session[Problem], completion: str, error: str
) -> None:
    verdict = await verdict_on(session, completion)
    assert (verdict.score, verdict.reason, verdict.error) == (0.0, Reason.VERIFIER_ERROR, error)


@on_module_loop
async def test_judge_method_raises_if_the_row_has_a_completion_field(session: Session[Problem]) -> None:
    with pytest.raises(ConfigError, match="does not accept the row: multiple values for argument 'completion'"):
        await session.judge({"completion": "x"}, ["right"])


@on_module_loop
async def test_row_with_numpy_values_is_judged(session: Session[Problem]) -> None:
    assert (await verdict_on(session, "numbers", numbers=numpy.array([1, 2]), one=numpy.int64(1))).score == 1.0


def test_session_raises_if_its_argument_score_is_not_a_string() -> None:
    function: Any = len
    with pytest.raises(ConfigError, match=r"^score: must be a string of the form 'MODULE:FUNCTION'; got "):
        session_of(function)


@pytest.mark.parametrize("row", [{"a": {1}}, {"a": float("nan")}])
@on_module_loop
async def test_judging_a_row_that_json_cannot_represent_raises(session: Session[Problem], row: Any) -> None:
    with pytest.raises(ConfigError, match="row: must be a JSON object"):
        await session.judge(row, ["right"])


# ---------------------------------------------------------------------------- crashes, timeouts and denied actions


@pytest.mark.slow
@on_module_loop
async def test_completions_that_crash_a_score_function_do_not_affect_other_scores(session: Session[Problem]) -> None:
    reasons = {
        "never end": Reason.TIMEOUT,
        "take more memory": Reason.OUT_OF_MEMORY,
        "crash": Reason.CRASH,
        "exit": Reason.CRASH,
        "set a timer": Reason.CRASH,
    }
    verdicts = await session.judge(ROW, ["right", *reasons, "wrong", "right too"])
    assert [verdict.score for verdict in verdicts] == [1.0, *[0.0] * len(reasons), 0.0, 0.0]
    assert {str(verdict.answer): verdict.reason for verdict in verdicts[1:-2]} == reasons
    assert [verdict.reason for verdict in verdicts[-2:]] == [Reason.SCORED] * 2


@pytest.mark.parametrize(
    ("completion", "error"),
    [
        ("fork", "Operation not permitted; a verifier cannot start processes"),
        ("start a program", "Operation not permitted.*; a verifier cannot start processes"),
        ("start a thread", "can't start new thread; a verifier can start threads only with --threads"),
    ],
)
@on_module_loop
async def test_score_function_cannot_start_processes_or_threads(
    session: Session[Problem], completion: str, error: str
) -> None:
    verdict = await verdict_on(session, completion)
    assert verdict.reason is Reason.VERIFIER_ERROR
    assert re.search(error, str(verdict.error))


@on_module_loop
async def test_worker_pool_counts_actions_that_the_sandbox_denies_to_a_score_function(
    session: Session[Problem],
) -> None:
    before = session.pool.stats.refused
    await session.judge(ROW, ["fork", "right", "raise", "start a program"])
    assert session.pool.stats.refused == before + 2


async def test_first_action_that_the_sandbox_denies_to_a_score_function_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "reasoning_env.workers")
    async with session_of(FUNCTION) as session:
        await session.judge(ROW, ["fork", "start a program"])
    [line] = [record.getMessage() for record in caplog.records if "sandbox refused" in record.getMessage()]
    assert line.startswith("the sandbox refused an operation of the verifier of score: PermissionError: ")


# ---------------------------------------------------------------------------- permissions


@on_module_loop
async def test_score_function_cannot_read_files_that_it_was_not_granted(
    session: Session[Problem], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("content")
    verdict = await verdict_on(session, "read", path=str(tmp_path / "file"))
    assert verdict.reason is Reason.VERIFIER_ERROR
    assert "; a verifier can read only its module, Python's packages and --read paths" in str(verdict.error)
    assert (await verdict_on(session, "variable", name="PATH")).score == 0.0


@pytest.mark.slow
async def test_score_function_can_use_granted_files_threads_and_environment_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("content")
    monkeypatch.setenv("MY_VARIABLE", "value")
    function = ScoreFunction(FUNCTION, [tmp_path], ["MY_VARIABLE"], threads=True)
    async with session_of(function) as session:
        assert (await verdict_on(session, "read", path=str(tmp_path / "file"))).score == 1.0
        assert (await verdict_on(session, "variable", name="MY_VARIABLE")).score == 1.0
        assert (await verdict_on(session, "start a thread")).score == 1.0
        assert (await verdict_on(session, "fork")).reason is Reason.VERIFIER_ERROR


@pytest.mark.usefixtures("fresh_fork_servers")
async def test_score_function_defined_in_the_running_script_is_used(tmp_path: Path) -> None:
    """As in examples/math_verify_judge.py, one file may contain a score function and the script that uses it."""
    (tmp_path / "mine.py").write_text(
        "from reasoning_env import Session\ndef score(completion, **row):\n    return 0.25\n"
    )
    async with session_of(f"{tmp_path}/mine.py:score") as session:
        assert (await verdict_on(session, "x")).score == 0.25


# ---------------------------------------------------------------------------- functions that cannot be used


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("tests.score_functions", "tests.score_functions must have the form MODULE:FUNCTION"),
        ("nowhere:score", "there is no module nowhere"),
        ("nowhere.py:score", "there is no file .*/nowhere.py"),
        ("tests.score_functions:skore", "tests.score_functions has no function skore"),
        ("tests.score_functions:NUMBER", "tests.score_functions:NUMBER must be a function; it is 7"),
        ("tests.score_functions:Scorer", "tests.score_functions:Scorer must be a function; it is a class"),
        ("tests.score_functions:Scorer.score", "Scorer.score is not the plain name of a function"),
        ("tests.score_functions:asynchronous", "tests.score_functions:asynchronous is asynchronous"),
        ("tests.score_functions:asynchronous_object", "tests.score_functions:asynchronous_object is asynchronous"),
        ("tests.score_functions:generator", "tests.score_functions:generator is a generator"),
        ("tests.score_functions:takes_nothing", "tests.score_functions:takes_nothing does not accept a completion"),
    ],
)
async def test_session_with_an_unusable_score_function_does_not_start(function: str, error: str) -> None:
    with pytest.raises(ConfigError, match=f"^score: {error}"):
        await session_of(function).start()


async def test_error_contains_the_name_of_a_broken_score_module(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=r"broken\.py cannot be imported: ZeroDivisionError"):
        await session_of(f"{tmp_path}/broken.py:score").start()


def test_granting_access_to_a_missing_path_raises(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^read: there is no such file or folder"):
        ScoreFunction(FUNCTION, [tmp_path / "nothing"])


async def test_row_that_lacks_an_argument_of_the_score_function_raises() -> None:
    async with session_of("tests.score_functions:misspelt") as session:
        with pytest.raises(ConfigError) as raised:
            await session.judge(ROW, ["right", "wrong"])
    assert str(raised.value) == (
        "row: the function does not accept the row: missing a required argument: 'answr'; got ['answer']; "
        "accept every column as an argument, or add **columns: the call is score(completion, **row)"
    )


# ---------------------------------------------------------------------------- functions that raise


RAISING = "tests.score_functions:raising"


async def test_error_is_logged_if_the_score_function_raises_for_every_completion(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with session_of(RAISING) as session:
        await session.judge(ROW, ["right", "wrong"])
        assert not caplog.records
        await session.judge(ROW, ["wrong", "wrong"])
        await session.judge(ROW, ["wrong", "wrong"])
    assert [record.getMessage() for record in caplog.records] == [
        "the score function raised an error for all completions of a group, so they score 0 (ValueError: no right in "
        "the completion); so far, it raised an error for 75 % of 4 completions"
    ]


async def test_judging_raises_if_the_score_function_raised_for_all_of_100_completions() -> None:
    async with session_of(RAISING) as session:
        assert {verdict.score for verdict in await session.judge(ROW, ["wrong"] * 99)} == {0.0}
        with pytest.raises(RaisingFunctionError, match=r"at each of the first 100 completions; .*: ValueError"):
            await session.judge(ROW, ["wrong"])


async def test_judging_continues_if_the_score_function_raises_for_99_of_100_completions() -> None:
    async with session_of(RAISING) as session:
        await session.judge(ROW, ["right", *["wrong"] * 99])
        assert len(await session.judge(ROW, ["wrong"])) == 1


async def test_report_method_counts_verdicts_by_reason() -> None:
    async with session_of(RAISING) as session:
        await session.judge(ROW, ["right", "wrong", "wrong"])
        report = session.report()
    assert (report["verdicts/scored"], report["verdicts/verifier_error"], report["verdicts/timeout"]) == (1, 2, 0)


async def test_judge_server_returns_503_if_the_score_function_always_raises() -> None:
    async with session_of(RAISING) as session, TestClient(RawTestServer(JudgeServer(session).handle)) as client:
        reply = await client.post("/score", json={"row": ROW, "texts": ["wrong"] * 100})
        assert (reply.status, (await reply.json())["kind"]) == (503, "raises")
        assert "ValueError: no right in the completion" in (await reply.json())["error"]
        assert (await client.post("/score", json={"row": ROW, "texts": ["right"]})).status == 200
        metrics = await (await client.get("/metrics")).text()
    assert 'reasoning_judge_verdicts_total{reason="scored"} 1.0\n' in metrics


# ---------------------------------------------------------------------------- methods that need tasks


@on_module_loop
async def test_session_with_a_score_function_raises_if_given_a_problem_reference(session: Session[Problem]) -> None:
    with pytest.raises(ConfigError, match="subject: must be a row, because this session has a score function"):
        await session.judge("gcd:train:1", ["right"])


@on_module_loop
async def test_requesting_a_problem_raises_if_the_session_has_a_score_function(session: Session[Problem]) -> None:
    with pytest.raises(RuntimeError, match="a session with a score function has no tasks"):
        await session.next()


@on_module_loop
async def test_remake_method_raises_if_the_session_has_a_score_function(session: Session[Problem]) -> None:
    with pytest.raises(InvalidReferenceError, match="the library has no task 'gcd'"):
        await session.remake(f"gcd:train:1:-:0.1.25:{'0' * 16}:{{}}")


# ---------------------------------------------------------------------------- over HTTP


@on_module_loop
async def test_score_route_judges_the_completions_of_a_row(client: TestClient[Any, Any]) -> None:
    reply = await client.post("/score", json={"row": ROW, "texts": ["right", "parts", "nan"]})
    verdicts = (await reply.json())["verdicts"]
    assert [verdict["score"] for verdict in verdicts] == [1.0, 0.5, 0.0]
    assert verdicts[1]["parts"] == {"length": 3.0, "style": 0.25}
    assert verdicts[2]["error"].startswith("ScoreError")


@pytest.mark.parametrize("label", [ROW, '{"answer": "right"}'])
@on_module_loop
async def test_reward_route_accepts_a_row_in_the_label_field(client: TestClient[Any, Any], label: Any) -> None:
    assert await (await client.post("/rm", json={"label": label, "response": "right"})).json() == 1.0
    body = {"query": ["Q right"], "prompts": ["Q "], "labels": [label]}
    assert (await (await client.post("/get_reward", json=body)).json())["rewards"] == [1.0]


@on_module_loop
async def test_judge_with_a_score_function_returns_400_for_a_problem_reference(client: TestClient[Any, Any]) -> None:
    reply = await client.post("/rm", json={"label": "gcd:train:1", "response": "right"})
    assert (reply.status, "must be a row, because" in (await reply.json())["error"]) == (400, True)


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ('{"a": ' + "[" * 50 + "]" * 50 + "}", 400),
        ('{"a": [' + "[]," * 40_000 + "[]]}", 413),
        ('{"a": {}', 400),
        ('{"a": 1}, {"a": 1}', 400),
    ],
    ids=["too deep", "too many values", "incomplete", "two rows"],
)
@on_module_loop
async def test_reward_route_rejects_an_invalid_row_in_the_label_field(
    client: TestClient[Any, Any], last: str, status: int
) -> None:
    labels = [ROW, '{"answer": "right"}', last]
    reply = await client.post("/get_reward", json={"query": ["right"] * 3, "prompts": [""] * 3, "labels": labels})
    assert reply.status == status


@pytest.mark.parametrize("answer", ["é€😀", '"\\\n'])
@on_module_loop
async def test_score_route_accepts_a_row_with_any_characters(client: TestClient[Any, Any], answer: str) -> None:
    reply = await client.post("/score", json={"row": {"answer": answer}, "texts": [answer, "x"]})
    assert [verdict["score"] for verdict in (await reply.json())["verdicts"]] == [1.0, 0.0]

"""Any score function under the guard: what it returns, what it does instead, and what it cannot do."""

from __future__ import annotations

import math
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer

from reasoning_env.errors import ConfigError
from reasoning_env.judging.server import JudgeServer
from reasoning_env.records import Reason, Verdict
from reasoning_env.score_judge import ScoreJudge
from reasoning_env.workers import cpu_time

FUNCTION = "tests.score_functions:score"
ROW = {"answer": "right"}

on_module_loop = pytest.mark.asyncio(loop_scope="module")


def make_judge(function: str = FUNCTION, **how: Any) -> ScoreJudge:
    return ScoreJudge(function, **{"verifiers": 1, "deadline_s": 0.5, "memory_mb": 512, **how})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge() -> AsyncIterator[ScoreJudge]:
    async with make_judge() as judge:
        yield judge


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(judge: ScoreJudge) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(JudgeServer(judge).app())) as client:
        yield client


async def verdict_on(judge: ScoreJudge, completion: str, **row: Any) -> Verdict:
    [verdict] = await judge.judge(row, [completion])
    return verdict


async def test_imports_take_no_memory_of_completions(tmp_path: Path) -> None:
    """The module takes more addresses than the limit, and a completion as much as the limit leaves."""
    path = tmp_path / "large_rewards.py"
    path.write_text(
        "import mmap\n"
        "TAKEN = mmap.mmap(-1, 2 << 30)\n"
        "def score(completion):\n"
        "    return float(len(bytearray(int(completion) << 20)) > 0)\n"
    )
    async with make_judge(f"{path}:score", deadline_s=10.0) as judge:
        verdicts = await judge.judge({}, ["128", "1024"])
    assert [verdict.reason for verdict in verdicts] == [Reason.SCORED, Reason.OUT_OF_MEMORY]


# ---------------------------------------------------------------------------- what it returns


@on_module_loop
async def test_scores_in_order(judge: ScoreJudge) -> None:
    verdicts = await judge.judge(ROW, ["right", "wrong", "right"])
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [
        (1.0, Reason.SCORED),
        (0.0, Reason.SCORED),
        (1.0, Reason.SCORED),
    ]


@on_module_loop
async def test_further_numbers(judge: ScoreJudge) -> None:
    verdict = await verdict_on(judge, "parts")
    assert (verdict.score, verdict.parts) == (0.5, {"length": 3.0, "style": 0.25})


@on_module_loop
async def test_most_parts_with_longest_names(judge: ScoreJudge) -> None:
    verdict = await verdict_on(judge, "long names")
    assert (verdict.score, len(verdict.parts or {})) == (0.5, 32)


@on_module_loop
async def test_each_completion_has_its_own_row(judge: ScoreJudge) -> None:
    verdicts = await judge.judge({"numbers": [1]}, ["change", "change again"])
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0]


@on_module_loop
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that a process sleeps")
async def test_sleeping_function(judge: ScoreJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no processor time, and is told apart from a machine that gives none."""
    monkeypatch.setattr(cpu_time, "WORKER_STALL_S", 0.3)
    assert (await verdict_on(judge, "sleep")).reason is Reason.TIMEOUT


@on_module_loop
async def test_true_is_one(judge: ScoreJudge) -> None:
    assert (await verdict_on(judge, "true")).score == 1.0


@pytest.mark.parametrize(
    ("completion", "error"),
    [
        ("nan", "ScoreError: the function returned nan, which is not from 0 to 1"),
        ("two", "ScoreError: the function returned 2.0, which is not from 0 to 1"),
        ("none", "ScoreError: the function returned None, which is no number"),
        ("text", "ScoreError: the function returned '1.0', which is no number"),
        ("only parts", "ScoreError: the function returned a mapping without `score`"),
        ("infinite part", "ScoreError: 'length' of the mapping is inf, which is no finite number"),
        ("many parts", "ScoreError: the mapping has 33 numbers besides `score`, over 32"),
        ("raise", "ZeroDivisionError: division by zero"),
        ("leave", "SystemExit: None"),
    ],
)
@on_module_loop
async def test_error_is_told(judge: ScoreJudge, completion: str, error: str) -> None:
    verdict = await verdict_on(judge, completion)
    assert (verdict.score, verdict.reason, verdict.error) == (0.0, Reason.VERIFIER_ERROR, error)


@on_module_loop
async def test_row_names_the_completion(judge: ScoreJudge) -> None:
    [verdict] = await judge.judge({"completion": "x"}, ["right"])
    assert verdict.error == "TypeError: score() got multiple values for argument 'completion'"


@on_module_loop
async def test_row_of_numpy(judge: ScoreJudge) -> None:
    assert (await verdict_on(judge, "numbers", numbers=numpy.array([1, 2]), one=numpy.int64(1))).score == 1.0


def test_function_must_be_named() -> None:
    function: Any = len
    with pytest.raises(ConfigError, match=r"^function: must be a text, 'MODULE:FUNCTION'; got "):
        ScoreJudge(function)


@pytest.mark.parametrize("row", [{"a": {1}}, {"a": float("nan")}])
@on_module_loop
async def test_row_is_json(judge: ScoreJudge, row: Any) -> None:
    with pytest.raises(ConfigError, match="row: must be a JSON object"):
        await judge.judge(row, ["right"])


# ---------------------------------------------------------------------------- what it does instead


@pytest.mark.slow
@on_module_loop
async def test_bad_completions_harm_no_other(judge: ScoreJudge) -> None:
    reasons = {
        "never end": Reason.TIMEOUT,
        "take more memory": Reason.OUT_OF_MEMORY,
        "crash": Reason.CRASH,
        "exit": Reason.CRASH,
        "set a timer": Reason.CRASH,
    }
    verdicts = await judge.judge(ROW, ["right", *reasons, "wrong", "right too"])
    assert [verdict.score for verdict in verdicts] == [1.0, *[0.0] * len(reasons), 0.0, 0.0]
    assert {str(verdict.answer): verdict.reason for verdict in verdicts[1:-2]} == reasons
    assert [verdict.reason for verdict in verdicts[-2:]] == [Reason.SCORED] * 2


@on_module_loop
async def test_no_file_is_written(judge: ScoreJudge, tmp_path: Path) -> None:
    verdict = await verdict_on(judge, "write a file", path=str(tmp_path / "written"))
    assert verdict.reason is Reason.VERIFIER_ERROR
    assert list(tmp_path.iterdir()) == []


@on_module_loop
async def test_no_connection_is_made(judge: ScoreJudge) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        verdict = await verdict_on(judge, "connect", host=host, port=port)
    assert "Operation not permitted" in str(verdict.error)


@pytest.mark.parametrize("completion", ["fork", "start a thread"])
@on_module_loop
async def test_no_process_or_thread(judge: ScoreJudge, completion: str) -> None:
    assert (await verdict_on(judge, completion)).reason is Reason.VERIFIER_ERROR


# ---------------------------------------------------------------------------- what it may use


@on_module_loop
async def test_usual_function_sees_little(judge: ScoreJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("content")
    assert (await verdict_on(judge, "read", path=str(tmp_path / "file"))).reason is Reason.VERIFIER_ERROR
    assert (await verdict_on(judge, "variable", name="PATH")).score == 0.0


@pytest.mark.slow
async def test_what_is_allowed_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("content")
    monkeypatch.setenv("MY_VARIABLE", "value")
    async with make_judge(read=[tmp_path], environment=["MY_VARIABLE"], threads=True) as judge:
        assert (await verdict_on(judge, "read", path=str(tmp_path / "file"))).score == 1.0
        assert (await verdict_on(judge, "variable", name="MY_VARIABLE")).score == 1.0
        assert (await verdict_on(judge, "start a thread")).score == 1.0
        assert (await verdict_on(judge, "fork")).reason is Reason.VERIFIER_ERROR


async def test_function_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def score(completion, **row):\n    return 0.25\n")
    async with make_judge(f"{tmp_path}/mine.py:score") as judge:
        assert (await verdict_on(judge, "x")).score == 0.25


# ---------------------------------------------------------------------------- functions that cannot be used


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("tests.score_functions", "tests.score_functions is not of the form MODULE:FUNCTION"),
        ("nowhere:score", "there is no module nowhere"),
        ("nowhere.py:score", "there is no file .*/nowhere.py"),
        ("tests.score_functions:skore", "tests.score_functions has no function skore"),
        ("tests.score_functions:NUMBER", "tests.score_functions:NUMBER is not a function, but 7"),
        ("tests.score_functions:Scorer", "tests.score_functions:Scorer is a class, not a function"),
        ("tests.score_functions:Scorer.score", "Scorer.score cannot be the name of a function"),
        ("tests.score_functions:asynchronous", "tests.score_functions:asynchronous is asynchronous"),
        ("tests.score_functions:asynchronous_object", "tests.score_functions:asynchronous_object is asynchronous"),
        ("tests.score_functions:generator", "tests.score_functions:generator is a generator"),
        ("tests.score_functions:takes_nothing", "tests.score_functions:takes_nothing takes no completion"),
    ],
)
async def test_unusable_function(function: str, error: str) -> None:
    with pytest.raises(ConfigError, match=f"^function: {error}"):
        await make_judge(function).start()


async def test_module_that_raises(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=r"broken\.py cannot be imported: ZeroDivisionError"):
        await make_judge(f"{tmp_path}/broken.py:score").start()


@pytest.mark.parametrize("wrong", [{"verifiers": 0}, {"memory_mb": 0}, {"deadline_s": 0.0}, {"deadline_s": math.nan}])
def test_limit_out_of_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(wrong))}: must be"):
        make_judge(**wrong)


def test_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^read: there is no such file or folder"):
        make_judge(read=[tmp_path / "nothing"])


# ---------------------------------------------------------------------------- over HTTP


@on_module_loop
async def test_score_route(client: TestClient[Any, Any]) -> None:
    reply = await client.post("/score", json={"row": ROW, "texts": ["right", "parts", "nan"]})
    verdicts = (await reply.json())["verdicts"]
    assert [verdict["score"] for verdict in verdicts] == [1.0, 0.5, 0.0]
    assert verdicts[1]["parts"] == {"length": 3.0, "style": 0.25}
    assert verdicts[2]["error"].startswith("ScoreError")


@pytest.mark.parametrize("label", [ROW, '{"answer": "right"}'])
@on_module_loop
async def test_label_is_the_row(client: TestClient[Any, Any], label: Any) -> None:
    assert await (await client.post("/rm", json={"label": label, "response": "right"})).json() == 1.0
    body = {"query": ["Q right"], "prompts": ["Q "], "labels": [label]}
    assert (await (await client.post("/get_reward", json=body)).json())["rewards"] == [1.0]


@pytest.mark.parametrize("row", [[1], "nonsense", "{}", 7])
@on_module_loop
async def test_invalid_row(client: TestClient[Any, Any], row: Any) -> None:
    reply = await client.post("/score", json={"row": row, "texts": ["right"]})
    assert (reply.status, "- at `$.row`" in (await reply.json())["error"]) == (400, True)


@on_module_loop
async def test_reference_in_place_of_a_row(client: TestClient[Any, Any]) -> None:
    reply = await client.post("/rm", json={"label": "gcd:train:1", "response": "right"})
    assert (reply.status, "must be a row" in (await reply.json())["error"]) == (400, True)


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ('{"a": ' + "[" * 50 + "]" * 50 + "}", 400),
        ('{"a": [' + "[]," * 40_000 + "[]]}", 413),
        ('{"a": {}', 400),
        ('{"a": 1}, {"a": 1}', 400),
    ],
    ids=["deep", "many", "cut", "two"],
)
@on_module_loop
async def test_label_that_is_no_row(client: TestClient[Any, Any], last: str, status: int) -> None:
    labels = [ROW, '{"answer": "right"}', last]
    reply = await client.post("/get_reward", json={"query": ["right"] * 3, "prompts": [""] * 3, "labels": labels})
    assert reply.status == status


@pytest.mark.parametrize("answer", ["é€😀", '"\\\n'])
@on_module_loop
async def test_row_in_any_script(client: TestClient[Any, Any], answer: str) -> None:
    reply = await client.post("/score", json={"row": {"answer": answer}, "texts": [answer, "x"]})
    assert [verdict["score"] for verdict in (await reply.json())["verdicts"]] == [1.0, 0.0]

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp.test_utils import TestServer

import reasoning_env
from reasoning_env.bridge import Bridge
from reasoning_env.errors import ConfigError, GenerationError, InvalidReferenceError, ScoringError
from reasoning_env.server import JudgeServer
from reasoning_gym_testing.process_table import descendants, survivors
from tests.three_completions import SCORES, three_completions
from tests.waiting import PATIENCE_S

ROOT = Path(reasoning_env.__file__).parent.parent
SMALL: dict[str, Any] = {
    "tasks": ["chain_sum"],
    "seed": 1,
    "num_generators": 1,
    "num_verifiers": 1,
    "prefetch_problems": 2,
    "worker_niceness": 0,
}
WRONG = "<answer>wrong</answer>"


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with Bridge(**SMALL) as bridge:
        yield bridge


def right(problem: Any) -> str:
    return f"<answer>{problem.answer}</answer>"


def scores(verdicts: Any) -> list[float]:
    return [verdict.score for verdict in verdicts]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"taks": ["gcd"]}, "taks: there is no such setting; did you mean tasks?"),
        ({"temperature": 3}, "temperature: must be at most 2; got 3"),
    ],
)
def test_wrong_setting_is_one_line(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        Bridge(**fields)
    assert str(error.value) == text


def test_loop_of_the_docstring(bridge: Bridge) -> None:
    problem = bridge.next()
    assert bridge.messages(problem)[-1] == {"role": "user", "content": problem.question}
    verdicts = bridge.judge(problem, [right(problem), WRONG])
    bridge.observe(problem, verdicts)
    assert scores(verdicts) == [1.0, 0.0]
    assert bridge.report()["train/mean_score"] == 0.5


def test_hostile_completion_earns_nothing(bridge: Bridge) -> None:
    problem = bridge.next()
    assert scores(bridge.judge(problem, three_completions(problem))) == SCORES


def test_judge_takes_a_reference(bridge: Bridge) -> None:
    problem = bridge.next()
    assert scores(bridge.judge(problem.reference, [right(problem)])) == [1.0]


def test_bad_reference_is_raised(bridge: Bridge) -> None:
    with pytest.raises(InvalidReferenceError):
        bridge.judge("nonsense", [WRONG])


def test_many_threads_call_at_once(bridge: Bridge) -> None:
    def judge_one(_: int) -> float:
        problem = bridge.next()
        [verdict] = bridge.judge(problem, [right(problem)])
        assert verdict is not None
        return verdict.score

    with ThreadPoolExecutor(64) as threads:
        assert sum(threads.map(judge_one, range(128))) == 128.0


async def test_calls_from_an_event_loop(bridge: Bridge) -> None:
    problem = await bridge.anext()
    assert scores(await bridge.ajudge(problem, [right(problem)])) == [1.0]


@pytest.mark.parametrize("error", [ScoringError("a worker died"), GenerationError("not in time")])
def test_infrastructure_error_is_none(bridge: Bridge, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(bridge.session, "judge", AsyncMock(side_effect=error))
    problem = bridge.next()
    assert bridge.judge(problem, [WRONG, WRONG]) == [None, None]


def test_group_with_none_is_dropped(bridge: Bridge) -> None:
    problem = bridge.next()
    dropped = bridge.session.metrics.dropped["scoring_failed"]
    in_flight = bridge.session.in_flight
    bridge.observe(problem, [*bridge.judge(problem, [WRONG]), None])
    assert bridge.session.metrics.dropped["scoring_failed"] == dropped + 1
    assert bridge.session.in_flight == in_flight - 1


def test_resume_from_state(bridge: Bridge) -> None:
    state = bridge.state()
    with Bridge(**SMALL, state=state) as resumed:
        restored = resumed.next().reference
    assert restored == state["stream"]["positions"][0][2]


def test_pickle_in_same_process(bridge: Bridge) -> None:
    assert pickle.loads(pickle.dumps(bridge)) is bridge


def test_pickle_in_another_process(bridge: Bridge) -> None:
    script = f"import pickle; pickle.loads({pickle.dumps(bridge)!r})"
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert "a Bridge cannot be sent to another process; make one there" in ended.stderr


def test_bad_settings_are_an_error() -> None:
    with pytest.raises(ConfigError, match="chain_sun"):
        Bridge(**{**SMALL, "tasks": ["chain_sun"]})


def test_first_call_starts_workers(bridge: Bridge) -> None:
    problem = bridge.next()
    with Bridge(**SMALL, start=False) as later:
        assert later.session.pool.stats.fork_servers_started == 0
        assert scores(later.judge(problem.reference, [right(problem)])) == [1.0]


def test_closed_bridge_raises() -> None:
    bridge = Bridge(judge_url="http://127.0.0.1:9")
    bridge.close()
    bridge.close()
    with pytest.raises(RuntimeError, match="this Bridge is closed; make another"):
        bridge.next()


# ---------------------------------------------------------------------------- processes


def run_script(body: str) -> subprocess.CompletedProcess[str]:
    script = f"from reasoning_env.bridge import Bridge\nbridge = Bridge(**{SMALL!r})\n{body}"
    command = [sys.executable, "-W", "error", "-c", script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def test_bridge_after_fork() -> None:
    ended = run_script(
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        bridge.next()\n"
        "    except RuntimeError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(bridge.next().task)\n"
    )
    assert "before a fork; make another" in ended.stdout
    assert ended.stdout.endswith("chain_sum\n")


def test_unclosed_program_ends_cleanly() -> None:
    ended = run_script("print(bridge.next().task)")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "chain_sum\n", "")


def test_killed_program_leaves_no_worker() -> None:
    script = f"from reasoning_env.bridge import Bridge\nbridge = Bridge(**{SMALL!r})\nprint(1, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"1\n"
        workers = descendants(program.pid)
        assert workers
        program.kill()
    assert survivors(workers, PATIENCE_S) == set()


def test_example_runs() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "examples.own_loop"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.stdout.startswith("40 groups, mean score 0."), ended.stderr


def judge_in_child(found: Any) -> None:
    with Bridge(**SMALL) as bridge:
        problem = bridge.next()
        found.put(scores(bridge.judge(problem, [right(problem)])))


def test_bridge_in_daemonic_process() -> None:
    spawning = multiprocessing.get_context("spawn")
    found = spawning.Queue()
    child = spawning.Process(target=judge_in_child, args=(found,), daemon=True)
    child.start()
    assert found.get(timeout=PATIENCE_S) == [1.0]
    child.join()


# ---------------------------------------------------------------------------- a judge elsewhere


async def test_server_judges(bridge: Bridge) -> None:
    problem = await bridge.anext()

    class Elsewhere:
        async def judge(self, reference: str, completions: Any) -> Any:
            return await bridge.ajudge(reference, completions)

    async with TestServer(JudgeServer(Elsewhere()).app()) as server:
        attached = Bridge(judge_url=str(server.make_url("")).rstrip("/"))
        verdicts = await attached.ajudge(problem.reference, three_completions(problem))
        await asyncio.to_thread(attached.close)
    assert scores(verdicts) == SCORES


async def test_server_refuses_bad_reference(bridge: Bridge) -> None:
    class Elsewhere:
        async def judge(self, reference: str, completions: Any) -> Any:
            raise InvalidReferenceError(reference, "nothing of the kind")

    async with TestServer(JudgeServer(Elsewhere()).app()) as server:
        attached = Bridge(judge_url=str(server.make_url("")).rstrip("/"))
        with pytest.raises(reasoning_env.ReasoningEnvError, match="nothing of the kind"):
            await attached.ajudge("x", [WRONG])
        await asyncio.to_thread(attached.close)


def test_missing_server_gives_none() -> None:
    with Bridge(judge_url="http://127.0.0.1:9", judge_timeout_s=0.5) as attached:
        assert attached.judge("x", [WRONG]) == [None]

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp.test_utils import RawTestServer

import reasoning_env
from reasoning_env import bridge as bridge_module
from reasoning_env.bridge import Bridge
from reasoning_env.errors import ConfigError, GenerationError, InvalidReferenceError, ScoringError, WorkerError
from reasoning_env.judging.client import JudgeClient
from reasoning_env.judging.server import JudgeServer
from reasoning_env.settings import ReasoningSettings
from tests.three_completions import SCORES, three_completions
from tests.waiting import PATIENCE_S

ROOT = Path(reasoning_env.__file__).parent.parent
SMALL: dict[str, Any] = {
    "tasks": ["chain_sum"],
    "seed": 1,
    "num_generators": 1,
    "num_verifiers": 1,
}
CLOSE_S = 5.0
"""Seconds within which a bridge must close, whatever it is doing."""
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
        ({"juge": "x"}, "juge: there is no such setting; did you mean judge?"),
        (
            {"judge_url": "http://127.0.0.1:9"},
            "judge_url: is not a keyword of Bridge; use Bridge(judge=JudgeClient(URL)), with JudgeClient from "
            "reasoning_env",
        ),
        ({"temperature": 1.0}, "temperature: there is no such setting; did you mean eval_temperature?"),
        ({"group_size": "8"}, "group_size: must be a whole number; got '8'"),
        (
            {"settings": {"tasks": ["gcd"]}},
            "settings: must be a ReasoningSettings object; got {'tasks': ['gcd']}; pass keywords, as in "
            "Bridge(tasks=['gcd'])",
        ),
        (
            {"settings": ReasoningSettings(), "seed": 1},
            "seed cannot be combined with `settings`; pass all settings to ReasoningSettings, or all as keywords to "
            "Bridge",
        ),
        (
            {"state": {"stream": 1}},
            "state: this is not a session's state: stream: Input should be a valid dictionary; "
            "pass the result of `state()`",
        ),
    ],
)
def test_bridge_with_an_invalid_setting_raises(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        Bridge(**fields)
    assert str(error.value) == text


def test_bridge_docstring_example_works(bridge: Bridge) -> None:
    problem = bridge.next()
    assert bridge.messages(problem)[-1] == {"role": "user", "content": problem.question}
    verdicts = bridge.judge(problem, [right(problem), WRONG])
    bridge.observe(problem, verdicts)
    assert scores(verdicts) == [1.0, 0.0]
    assert bridge.report()["train/mean_score"] == 0.5


def test_problem_is_made_again_from_its_problem_reference(bridge: Bridge) -> None:
    problem = bridge.draw(7, level=0.5)
    assert bridge.remake(problem.reference).question == problem.question == bridge.draw(7, level=0.5).question
    assert scores(bridge.judge(problem, [right(problem)])) == [1.0]


def test_judging_an_invalid_problem_reference_raises(bridge: Bridge) -> None:
    with pytest.raises(InvalidReferenceError):
        bridge.judge("nonsense", [WRONG])


def test_bridge_judges_completions_given_as_messages(bridge: Bridge) -> None:
    problem = bridge.next()
    text = right(problem)
    forms: list[Any] = [
        text,
        {"role": "assistant", "content": text},
        {"role": "assistant", "content": [{"type": "text", "text": text}]},
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}],
        None,
        {"role": "assistant", "content": None},
    ]
    verdicts = bridge.judge(problem, forms)
    assert scores(verdicts) == [1.0] * 4 + [0.0] * 2
    assert verdicts[4] is not None and verdicts[4].reason == "no_text"


@pytest.mark.parametrize(
    ("completions", "text"),
    [
        (
            "<answer>1</answer>",
            "completions: must be a list of completions; got '<answer>1</answer>'; "
            "pass a single completion as [completion]",
        ),
        (7, "completions: must be a list of completions; got 7; pass a single completion as [completion]"),
        (["a", 7], "completions[1]: must be a string, a message with `content`, or None for no completion; got 7"),
        (
            [{"text": "a"}],
            "completions[0]: must be a string, a message with `content`, or None for no completion; got {'text': 'a'}",
        ),
        ([[]], "completions[0]: must be a string, a message with `content`, or None for no completion; got []"),
    ],
)
def test_completions_of_wrong_type_raise(bridge: Bridge, completions: Any, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        bridge.judge(bridge.next(), completions)
    assert str(error.value) == text


@pytest.mark.parametrize("problem", [None, 7])
def test_judging_none_or_a_number_raises(bridge: Bridge, problem: Any) -> None:
    with pytest.raises(ConfigError, match=r"^subject: must be a Problem, a problem's reference .*; got "):
        bridge.judge(problem, [WRONG])


def test_bridge_without_a_score_function_raises_if_given_a_row(bridge: Bridge) -> None:
    with pytest.raises(
        ConfigError, match="subject: must be a problem or a problem's reference, because this session has tasks; got "
    ):
        bridge.judge({"question": "?"}, [WRONG])


def test_messages_method_raises_if_given_a_problem_reference(bridge: Bridge) -> None:
    reference: Any = bridge.next().reference
    with pytest.raises(ConfigError, match=r"^problem: must be a Problem; got "):
        bridge.messages(reference)


def test_observe_method_raises_if_given_a_problem_reference(bridge: Bridge) -> None:
    reference: Any = bridge.next().reference
    with pytest.raises(ConfigError, match=r"^problem: must be a Problem; got "):
        bridge.observe(reference, [1.0])


def test_observe_method_accepts_scores_computed_by_the_caller(bridge: Bridge) -> None:
    bridge.report()
    bridge.observe(bridge.next(), [1.0, 0, 0.5, True])
    assert bridge.report()["train/mean_score"] == 0.625


def test_completions_marked_as_cut_are_counted_as_truncated(bridge: Bridge) -> None:
    bridge.report()
    problem = bridge.next()
    bridge.observe(problem, bridge.judge(problem, ["<think>hm", WRONG]), cut=[True, False])
    assert bridge.report()["train/share_truncated"] == 0.5


@pytest.mark.parametrize("verdicts", [[], "text", 7, [2.0], [float("nan")], [-1], ["1"], {"a": 1}])
def test_observe_method_raises_on_invalid_scores_or_verdicts(bridge: Bridge, verdicts: Any) -> None:
    problem = bridge.next()
    with pytest.raises(ConfigError, match=r"^verdicts") as error:
        bridge.observe(problem, verdicts)
    assert "\n" not in str(error.value)
    bridge.report()


def test_bridge_judges_completions_for_many_threads_at_once(bridge: Bridge) -> None:
    def judge_one(_: int) -> float:
        problem = bridge.next()
        [verdict] = bridge.judge(problem, [right(problem)])
        assert verdict is not None
        return verdict.score

    with ThreadPoolExecutor(64) as threads:
        assert sum(threads.map(judge_one, range(128))) == 128.0


@pytest.mark.parametrize(
    "error", [ScoringError("a worker died"), GenerationError("not in time"), WorkerError("none is alive")]
)
def test_completion_gets_no_verdict_after_an_infrastructure_error(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(bridge.session, "judge", AsyncMock(side_effect=error))
    problem = bridge.next()
    assert bridge.judge(problem, [WRONG, WRONG]) == [None, None]
    with pytest.raises(ScoringError, match="a completion could not be judged; try again; the log has the cause"):
        bridge.verdict(problem, WRONG)


async def test_verdict_method_judges_one_completion(bridge: Bridge) -> None:
    problem = bridge.next()
    text = right(problem)
    assert (bridge.verdict(problem, text).score, (await bridge.averdict(problem.reference, text)).score) == (1.0, 1.0)


def test_observe_method_drops_a_group_that_lacks_a_score(bridge: Bridge) -> None:
    problem = bridge.next()
    dropped = bridge.session.metrics.dropped["scoring_failed"]
    in_flight = bridge.session.in_flight
    bridge.observe(problem, [*bridge.judge(problem, [WRONG]), None])
    assert bridge.session.metrics.dropped["scoring_failed"] == dropped + 1
    assert bridge.session.in_flight == in_flight - 1


def test_resumed_bridge_first_returns_the_problem_in_flight(bridge: Bridge) -> None:
    bridge.next()  # at least one problem is in flight
    state = bridge.state()
    with Bridge(**SMALL, state=state) as resumed:
        restored = resumed.next().reference
    assert restored == state["stream"]["positions"][0][2]


def test_unpickling_in_the_same_process_returns_the_same_bridge(bridge: Bridge) -> None:
    assert pickle.loads(pickle.dumps(bridge)) is bridge


def test_unpickling_a_bridge_in_a_different_process_raises(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(bridge)
    monkeypatch.setattr(bridge_module, "_bridges", {})  # the processes of another program
    with pytest.raises(RuntimeError, match="a Bridge cannot be sent to another process; create one there"):
        pickle.loads(sent)


def test_bridge_raises_on_an_unknown_task() -> None:
    with pytest.raises(ConfigError, match="chain_sun"):
        Bridge(**{**SMALL, "tasks": ["chain_sun"]})


def test_first_method_call_on_a_bridge_starts_the_workers(bridge: Bridge) -> None:
    problem = bridge.next()
    with Bridge(**SMALL, start=False) as later:
        assert later.session.pool.stats.fork_servers_started == 0
        assert scores(later.judge(problem.reference, [right(problem)])) == [1.0]


def test_call_on_a_closed_bridge_raises() -> None:
    bridge = Bridge(judge=JudgeClient("http://127.0.0.1:9"))
    bridge.close()
    bridge.close()
    with pytest.raises(RuntimeError, match="this Bridge is closed; create a new one"):
        bridge.next()


# ---------------------------------------------------------------------------- the end


def close_together(bridge: Bridge, threads: int) -> float:
    """Close a bridge from several threads concurrently, and return the seconds until all calls have returned."""
    began = time.monotonic()
    with ThreadPoolExecutor(threads) as closing:
        list(closing.map(lambda _: bridge.close(), range(threads)))
    return time.monotonic() - began


def test_closing_the_bridge_ends_running_calls() -> None:
    """Two threads close the bridge while one call judges 50,000 answers and others draw problems."""
    bridge = Bridge(**SMALL)
    problem = bridge.next()
    began = threading.Barrier(21)

    def judge(count: int) -> None:
        began.wait()
        bridge.judge(problem, [f"<answer>{number}</answer>" for number in range(count)])

    def draw() -> None:
        began.wait()
        while True:
            bridge.next()

    with ThreadPoolExecutor(20) as threads:
        calls = [threads.submit(judge, 50_000)]
        calls += [threads.submit(judge, 5_000) for _ in range(18)]
        calls += [threads.submit(draw)]
        began.wait()
        while not bridge.session.pool.queued_jobs:
            time.sleep(0.01)
        assert close_together(bridge, 2) < CLOSE_S
        done, pending = wait(calls, timeout=CLOSE_S)
    assert pending == set()
    assert {str(call.exception()) for call in done} == {"this Bridge is closed; create a new one"}


def test_call_on_a_closing_bridge_raises() -> None:
    """Every call either returns or raises, at whatever time it is made."""
    bridge = Bridge(judge=JudgeClient("http://127.0.0.1:9"))

    def ask() -> None:
        with pytest.raises(RuntimeError, match="is closed"):
            while True:
                bridge.report()

    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(ask) for _ in range(8)]
        time.sleep(0.05)
        bridge.close()
        for call in asking:
            call.result(timeout=CLOSE_S)


# ---------------------------------------------------------------------------- processes


def run_script(body: str) -> subprocess.CompletedProcess[str]:
    script = f"from reasoning_env.bridge import Bridge\nbridge = Bridge(**{SMALL!r})\n{body}"
    command = [sys.executable, "-W", "error", "-c", script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def test_bridge_of_the_parent_process_stays_usable_after_a_fork() -> None:
    """A forked child cannot use the bridge. The parent can, and ends cleanly without closing the bridge."""
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
    assert "create a new Bridge after a fork" in ended.stdout
    assert ended.stdout.endswith("chain_sum\n")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.slow
def test_training_loop_example_runs() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "examples.own_loop"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.stdout.startswith("40 groups, mean score 0."), ended.stderr


# ---------------------------------------------------------------------------- judge servers


async def test_bridge_gets_verdicts_from_a_judge_server(bridge: Bridge) -> None:
    problem = await bridge.anext()

    class Elsewhere:
        async def judge(self, reference: str, completions: Any) -> Any:
            return await bridge.ajudge(reference, completions)

    async with RawTestServer(JudgeServer(Elsewhere()).handle) as server:
        attached = Bridge(judge=JudgeClient(str(server.make_url("")).rstrip("/")))
        verdicts = await attached.ajudge(problem.reference, three_completions(problem))
        await asyncio.to_thread(attached.close)
    assert scores(verdicts) == SCORES


def test_bridge_warns_if_its_state_was_saved_with_other_settings(caplog: pytest.LogCaptureFixture) -> None:
    with Bridge(**SMALL) as first:
        first.next()
        state = json.loads(json.dumps(first.state()))
    with Bridge(**{**SMALL, "seed": 2}, state=state) as second:
        second.next()
        second.next()
    assert ["saved with different values of seed;" in message for message in caplog.messages].count(True) == 1


def test_evaluation_problems_alternate_between_tasks() -> None:
    tasks = ["chain_sum", "gcd", "lcm", "spell_backward", "prime_factorization"]
    with Bridge(tasks=tasks, num_eval_samples_per_task=2, num_generators=1, num_verifiers=1) as bridge:
        asked = [problem.task for problem in bridge.evaluation_problems()]
    assert asked[:5] == asked[5:]
    assert sorted(asked[:5]) == sorted(tasks)
    assert asked[:5] != sorted(tasks)

"""Check the OpenEnv folder with OpenEnv's own client and validators, without Docker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv.validation", reason="needs the extra `openenv`: make integrations")

import httpx
from openenv.core.client_types import StepResult
from openenv.validation import Level, run_validation
from openenv.validation.types import CheckStatus, ProviderCapability
from websockets.sync.client import connect

from reasoning_env import Problem, Session
from reasoning_gym_testing.http_server import free_port
from tests.waiting import PATIENCE_S, wait_until

from .direct_judge import ARMS, arm, judge_directly

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "hub" / "openenv" / "reasoning_gym_environment"
WRONG = "<answer>no</answer>"
"""An answer that is wrong for every task."""
SETTINGS: dict[str, Any] = {"num_eval_samples_per_task": 1}
IMPLEMENTED = {
    "static.manifest",
    "runtime.startup",
    "runtime.reward_well_formed",
    "runtime.observation_schema",
    "runtime.state_contract",
}
"""The checks of OpenEnv 0.10 that do not need Docker."""


class RunningServer:
    """The server as a process, with the attributes that OpenEnv's validation reads from a running server."""

    def __init__(self, **settings: object) -> None:
        port = free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "server.app:app", "--port", str(port), "--log-level", "warning"],
            cwd=FOLDER,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYTHONDONTWRITEBYTECODE": "1",
                "REASONING_SETTINGS": json.dumps(settings),
            },
        )
        try:
            wait_until(self._is_healthy)
        except BaseException:
            self.stop()
            raise

    def _is_healthy(self) -> bool:
        assert self._process.poll() is None, "the server ended"
        try:
            return httpx.get(f"{self.base_url}/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def inspect(self) -> dict[str, object]:
        return {}

    def logs(self, max_bytes: int = 65536) -> str:
        return ""

    def exec(self, argv: list[str], timeout_s: float) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)


class Provider:
    """Runs the server on this machine for OpenEnv's validation, instead of in a container."""

    name = "process"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def build(self, root: Path, execution: object) -> str:
        return "sha256:" + "0" * 64

    def start(self, spec: object) -> RunningServer:
        return RunningServer()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    running = RunningServer(**SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client_module() -> Iterator[Any]:
    """The folder's client module. As its README says, Python's path contains the folder."""
    sys.path.insert(0, str(FOLDER))
    import client

    yield client
    sys.path.remove(str(FOLDER))
    for name in ("client", "models"):
        sys.modules.pop(name, None)


class Socket:
    """A WebSocket session that sends and receives JSON."""

    def __init__(self, server: RunningServer) -> None:
        self._connection = connect(server.base_url.replace("http", "ws") + "/ws")

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, kind: str, data: object = None) -> dict[str, Any]:
        """Return the reply to a message."""
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        self._connection.send(json.dumps(message))
        reply: dict[str, Any] = json.loads(self._connection.recv())
        return reply


@pytest.fixture
def socket(server: RunningServer) -> Iterator[Socket]:
    with Socket(server) as socket:
        yield socket


def test_openenv_folder_passes_all_checks_that_run_without_docker() -> None:
    report = run_validation(FOLDER, max_level=Level.RUNTIME, provider=Provider())
    by_status: dict[CheckStatus, set[str]] = {}
    for result in report.results:
        by_status.setdefault(result.status, set()).add(result.check_id)
    assert by_status.keys() == {CheckStatus.PASS, CheckStatus.SKIP}, report.results
    assert by_status[CheckStatus.PASS] == IMPLEMENTED
    skipped = {result.check_id: result.evidence for result in report.results if result.status is CheckStatus.SKIP}
    needs_docker = skipped.pop("runtime.network_policy")
    assert "missing provider capabilities" in needs_docker[0]
    assert {tuple(reasons) for reasons in skipped.values()} == {("grader not implemented in this build",)}


def test_openenv_folder_does_not_shadow_the_openenv_package() -> None:
    subprocess.run([sys.executable, "-c", "import openenv.core"], cwd=ROOT / "hub", check=True, timeout=PATIENCE_S)


def test_openenv_validate_command_accepts_the_served_environment(server: RunningServer) -> None:
    command = [Path(sys.executable).with_name("openenv"), "validate", "--url", server.base_url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stdout
    assert '"passed": true' in ended.stdout or "Verdict: PASS" in ended.stdout


async def test_concurrent_openenv_episodes_get_the_scores_that_the_session_gives(
    server: RunningServer, client_module: Any
) -> None:
    async with Session(**SETTINGS) as session:
        problems = [await session.draw(index) for index in range(200)]
        texts = [completion(problem, number) for number, problem in enumerate(problems)]
        expected = [
            (await session.judge(problem, [text]))[0].score for problem, text in zip(problems, texts, strict=True)
        ]

    async def play(numbers: range) -> dict[int, float]:
        rewards = {}
        async with client_module.ReasoningGymEnv(base_url=server.base_url) as env:
            for number in numbers:
                asked: StepResult[Any] = await env.reset(seed=number)
                assert asked.observation.messages[-1]["content"] == problems[number].question
                answered = await env.step(client_module.ReasoningGymAction(text=texts[number]))
                assert answered.done
                rewards[number] = answered.reward
        return rewards

    played = await asyncio.gather(*(play(range(first, 200, 8)) for first in range(8)))
    rewards = {number: reward for part in played for number, reward in part.items()}
    assert [rewards[number] for number in range(200)] == expected
    assert 0.0 in expected and 1.0 in expected


@pytest.mark.parametrize("rewards", ARMS)
def test_openenv_rewards_equal_the_scores_that_the_bridge_gives(rewards: str) -> None:
    server = RunningServer(**arm(rewards))
    try:
        with Socket(server) as socket:
            for reference, completion, score in judge_directly(rewards):
                socket.ask("reset", {"reference": reference})
                assert socket.ask("step", {"text": completion})["data"]["reward"] == score
    finally:
        server.stop()


def test_openenv_readme_example_runs_an_episode(
    server: RunningServer, client_module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = (FOLDER / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(shown.replace("http://127.0.0.1:8000", server.base_url), {})
    *_, judged, reference = capsys.readouterr().out.splitlines()
    assert judged.endswith(" scored")
    assert reference.startswith("gcd:train:")


def completion(problem: Problem, number: int) -> str:
    return WRONG if number % 3 == 0 else f"<think>hm</think><answer>{problem.answer}</answer>"


def test_openenv_observation_after_reset_has_only_the_prompt(socket: Socket) -> None:
    data = socket.ask("reset", {"task": "gcd", "seed": 3})["data"]
    observation = data["observation"]
    assert set(observation) == {"messages", "metadata", "reason", "parts"}
    assert (observation["metadata"], observation["reason"], observation["parts"]) == ({}, None, {})
    assert [message["role"] for message in observation["messages"]] == ["system", "user"]
    assert len(json.dumps(data)) < 2000


def test_openenv_state_has_the_problem_reference(socket: Socket) -> None:
    first = socket.ask("reset", {"task": "gcd", "level": 0.5, "seed": 3, "episode_id": "e"})
    state = socket.ask("state")["data"]
    assert (state["episode_id"], state["step_count"], state["task"], state["level"]) == ("e", 0, "gcd", 0.5)
    assert socket.ask("reset", {"reference": state["reference"]}) == first


@pytest.mark.parametrize("text", ["<answer>no</answer>", 42, 4.5, True, [1, 2], "", "\ud800", "x" * 3_000_000])
def test_text_of_an_openenv_step_may_be_a_string_or_number_or_list(socket: Socket, text: object) -> None:
    socket.ask("reset", {"task": "gcd", "seed": 3})
    reply = socket.ask("step", {"text": text})
    assert reply["type"] == "observation", str(reply)[:300]
    assert reply["data"]["done"]
    assert reply["data"]["reward"] == 0.0
    assert socket.ask("state")["data"]["step_count"] == 1


def test_openenv_reward_is_the_product_of_its_parts(socket: Socket) -> None:
    socket.ask("reset", {"task": "gcd", "seed": 3})
    data = socket.ask("step", {"text": WRONG})["data"]
    assert data["observation"]["parts"] == {"format": 1.0, "answer": data["reward"], "length": 1.0}
    assert data["observation"]["reason"] == "scored"


@pytest.mark.parametrize("action", [{}, {"text": None}, {"text": {"a": 1}}, {"answer": "5"}, {"text": "a", "b": 1}])
def test_openenv_step_refuses_invalid_actions(socket: Socket, action: dict[str, object]) -> None:
    socket.ask("reset", {"seed": 3})
    reply = socket.ask("step", action)
    assert (reply["type"], reply["data"]["code"]) == ("error", "VALIDATION_ERROR")
    assert socket.ask("step", {"text": "the session goes on"})["type"] == "observation"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"task": "gdc"}, "task: must be one of the selected tasks; got 'gdc'; did you mean gcd?"),
        ({"task": 7}, "task: Input should be a valid string; got '7'"),
        ({"level": 2}, "level: Input should be less than or equal to 1; got '2'"),
        ({"level": "0.5"}, "level: Input should be a valid number; got '0.5'"),
        ({"task": "acre", "level": 0.5}, "level: acre has no levels; got 0.5; omit the level"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0; got '-1'"),
        ({"seed": "x" * 10**6}, "seed: Input should be a valid integer; got '" + "x" * 100 + "'"),
        ({"taks": "gcd"}, "taks: Extra inputs are not permitted; got 'gcd'"),
        ({"episode_id": 5}, "episode_id: Input should be a valid string; got '5'"),
        ({"index": 3}, "split: is needed beside an index; train or test"),
        ({"split": "test"}, "index: is needed; name a task of the split"),
        ({"split": "all", "index": 1}, "split: Input should be 'train' or 'test'; got 'all'"),
        ({"split": "test", "index": 10**6}, "index: the split has "),
        ({"task": "gcd", "reference": "x"}, "task or level: cannot be combined with reference"),
        ({"reference": "x"}, "reference 'x': expected task:split:seed:level:library:question_hash:params"),
        ({"reference": "x" * 10**6}, "a reference has at most 65536 characters, not 1000000"),
    ],
)
def test_unknown_reset_option_returns_a_one_line_error(socket: Socket, options: dict[str, object], told: str) -> None:
    socket.ask("reset", {"seed": 3})
    reply = socket.ask("reset", options)
    assert reply["type"] == "error"
    assert told in reply["data"]["message"]
    assert socket.ask("step", {"text": WRONG})["type"] == "observation"


@pytest.mark.parametrize("kind", ["never asked", "answered"])
def test_openenv_step_before_reset_returns_an_error(socket: Socket, kind: str) -> None:
    if kind == "answered":
        socket.ask("reset", {"seed": 3})
        socket.ask("step", {"text": WRONG})
    reply = socket.ask("step", {"text": WRONG})
    assert reply["type"] == "error"
    assert "there is no problem to answer" in reply["data"]["message"]


def test_http_routes_return_errors_for_invalid_requests(server: RunningServer) -> None:
    reset = httpx.post(f"{server.base_url}/reset", json={"task": "gdc"})
    step = httpx.post(f"{server.base_url}/step", json={"action": {"text": "x"}})
    assert (reset.status_code, step.status_code) == (422, 422)
    assert "did you mean gcd?" in reset.json()["detail"]
    assert "reset first, in the same WebSocket session" in step.json()["detail"]


def test_http_reset_route_returns_a_problem(server: RunningServer) -> None:
    assert httpx.post(f"{server.base_url}/reset", json={}).json()["observation"]["messages"]


def route(server: RunningServer, name: str, **body: object) -> httpx.Response:
    return httpx.post(f"{server.base_url}/reasoning_gym_environment/{name}", json=body, timeout=PATIENCE_S)


def test_openenv_server_lists_splits_and_tasks(server: RunningServer, socket: Socket) -> None:
    splits = httpx.get(f"{server.base_url}/reasoning_gym_environment/splits").json()
    assert splits == [{"name": "train", "type": "train"}, {"name": "test", "type": "test"}]
    count = route(server, "num_tasks", split="test").json()["num_tasks"]
    tasks = route(server, "task_range", split="test", start=count - 2).json()["tasks"]
    assert [task["index"] for task in tasks] == [count - 2, count - 1]
    assert route(server, "task", split="test", index=count - 1).json()["task"] == tasks[-1]
    socket.ask("reset", {"split": "test", "index": count - 1})
    assert socket.ask("state")["data"]["reference"] == tasks[-1]["reference"]


def test_index_of_an_openenv_training_problem_is_the_seed(server: RunningServer, socket: Socket) -> None:
    assert route(server, "task", split="train", index=9).json()["task"] == {
        "id": "train-9",
        "split": "train",
        "index": 9,
    }
    by_index = socket.ask("reset", {"split": "train", "index": 9})
    assert by_index == socket.ask("reset", {"seed": 9})


@pytest.mark.parametrize(
    ("name", "body", "status", "told"),
    [
        ("task", {"split": "test", "index": 10**6}, 400, "Invalid task index"),
        ("task", {"split": "all", "index": 1}, 422, "split: Input should be 'train' or 'test'"),
        ("task", {"split": "test", "index": None}, 422, "valid integer"),
        ("task_range", {"split": "train"}, 422, "at most 1000 tasks are listed at a time"),
        ("num_tasks", {"split": None}, 422, "valid string"),
    ],
)
def test_openenv_task_routes_return_errors_for_invalid_requests(
    server: RunningServer, name: str, body: dict[str, object], status: int, told: str
) -> None:
    reply = route(server, name, **body)
    assert reply.status_code == status
    assert told in reply.text


def test_openenv_server_does_not_start_with_an_unknown_setting() -> None:
    with pytest.raises(AssertionError, match="the server ended"):
        RunningServer(taks="gcd")


def test_resetting_or_closing_an_openenv_episode_drops_the_problem_in_flight(
    monkeypatch: pytest.MonkeyPatch, client_module: Any
) -> None:
    from server import environment

    monkeypatch.setenv(environment.SETTINGS, '{"tasks": "gcd"}')
    try:
        env = environment.ReasoningGymEnvironment()
        for _ in range(3):
            env.reset()
        assert environment.bridge().session.in_flight == 1
        env.close()
        assert environment.bridge().session.in_flight == 0
    finally:
        environment.close_bridge()
        for name in ("server", "server.environment"):
            sys.modules.pop(name, None)

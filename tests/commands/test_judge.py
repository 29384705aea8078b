from __future__ import annotations

import asyncio
import errno
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reasoning_env
from reasoning_env.bridge import Bridge
from reasoning_env.commands import judge
from reasoning_env.commands.main import main
from reasoning_env.errors import ConfigError
from reasoning_env.settings import ReasoningSettings
from reasoning_gym_testing import Process, Processes
from reasoning_gym_testing.process_table import descendants, survivors
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(reasoning_env.__file__).parent.parent


class Server:
    """A running `judge` command that accepts the token `secret`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        wait_until(lambda: "\n" in process.stdout or not process.check(), "the start of the judge")
        self.url = process.stdout.split()[-1]

    def ask(self, body: dict[str, Any], token: str = "secret", route: str = "/score") -> Any:
        request = urllib.request.Request(
            f"{self.url}{route}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return json.load(reply)


@contextmanager
def running_judge(folder: Path, *more: str) -> Iterator[Server]:
    command = [ROOT / "reasoning_gym_environment.py", "judge", "--port", "0", "--generators", "1", "--verifiers", "1"]
    with Processes(folder, {"REASONING_JUDGE_TOKEN": "secret"}, isolated=True, grace_s=0.0) as processes:
        yield Server(processes.start("judge", [*command, *more], python=True))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_judge(tmp_path_factory.mktemp("judge"), "--log-json") as server:
        yield server


@pytest.fixture(scope="module")
def reference() -> str:
    with Bridge(tasks=["chain_sum"], seed=1, num_generators=1, num_verifiers=1) as bridge:
        return bridge.next().reference


def test_judge_server_accepts_the_right_bearer_token(server: Server, reference: str) -> None:
    verdicts = server.ask({"ref": reference, "texts": ["<answer>no</answer>"]})["verdicts"]
    assert [verdict["score"] for verdict in verdicts] == [0.0]


def test_metrics_of_the_judge_server_include_worker_metrics(server: Server, reference: str) -> None:
    server.ask({"ref": reference, "texts": ["<answer>no</answer>"]})
    request = urllib.request.Request(f"{server.url}/metrics", headers={"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        lines = reply.read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert [name for name in values if name.endswith("_created")] == []
    assert [name for name in values if name.startswith('reasoning_build_info{python="3.')] != []
    assert float(values["reasoning_workers_alive"]) == 2
    assert float(values["reasoning_workers_scored_total"]) >= 1
    assert float(values["reasoning_workers_resident_memory_bytes"]) > 2**20


def test_judge_command_with_the_log_json_option_prints_json_lines(server: Server) -> None:
    without_prompt = {"query": ["a"], "prompts": ["Q?"], "labels": ["x"]}
    with pytest.raises(urllib.error.HTTPError, match="422"):
        server.ask(without_prompt, route="/get_reward")
    wait_until(lambda: "\n" in server.process.stderr, "the line of the log")
    [told] = [json.loads(line) for line in server.process.stderr.splitlines()]
    assert (told["level"], told["logger"]) == ("WARNING", "reasoning_env.judging.server")


def test_judge_server_refuses_a_wrong_bearer_token(server: Server, reference: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        server.ask({"ref": reference, "texts": []}, "wrong")


def test_signal_to_the_judge_server_ends_all_workers(tmp_path: Path) -> None:
    """The command runs in a separate interpreter, as for users."""
    command = [sys.executable, "reasoning_gym_environment.py", "judge", "--port", "0", "--generators", "1"]
    environment = {"PATH": "", "HOME": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        workers = descendants(process.pid)
        assert workers
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in errors) == (0, False)
    assert survivors(workers, PATIENCE_S) == set()


def test_ray_option_raises_a_one_line_error_if_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install \S+\[ray\]'"):
        judge.judge_command(["--ray", "auto"], ROOT)


def test_judge_command_raises_a_one_line_error_if_the_port_is_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["judge", "--port", str(taken.getsockname()[1]), "--generators", "1"]
        assert main(words, {}, environment_file=tmp_path / "x.py") == 2
    assert "Address already in use" in capsys.readouterr().err.splitlines()[-1]


def test_judge_command_checks_its_port_before_joining_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_join_cluster", lambda *_: pytest.fail("joined a cluster first"))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="Address already in use"):
        judge.judge_command(["--ray", "auto", "--port", str(taken.getsockname()[1])], ROOT)


@pytest.mark.parametrize("options", [[], ["--verifiers", "2"]])
def test_judge_command_reads_the_rewards_setting_of_the_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {rewards: library, num_verifiers: 3, num_generators: 1, group_size: 4}")
    made = []

    def refuse(address: str, settings: ReasoningSettings, function: None) -> None:
        made.append((settings.rewards, settings.num_generators, settings.num_verifiers))
        raise ConfigError("enough")

    monkeypatch.setattr(judge, "_join_cluster", refuse)
    with pytest.raises(ConfigError, match="enough"):
        judge.judge_command(["--config", str(config), "--ray", "x", *options], ROOT)
    assert made == [("library", 1, 2 if options else 3)]


def test_judge_command_logs_which_config_file_settings_it_ignores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {group_size: 4, tasks: gcd, seed: 3, eval_level: 0.5}\nopenai: {model_name: x}")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="Ray is not installed"):
        judge.judge_command(["--config", str(config), "--ray", "x"], ROOT)
    ignored = "env.group_size, env.seed, env.eval_level, openai.model_name"
    assert caplog.messages == [f"`judge` ignores these settings: {ignored}"]


async def test_judge_server_warns_once_about_too_many_open_files(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    judge._log_accept_errors_once(loop)
    for _ in range(3):
        error = OSError(errno.EMFILE, "Too many open files")
        loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": error})
    closed = "Exception in callback BaseSelectorEventLoop._start_serving(...)"
    loop.call_exception_handler({"message": closed, "exception": ValueError("Invalid file descriptor: -1")})
    assert caplog.messages == [
        "cannot accept more connections: Too many open files; raise the limit on open files with ulimit -n"
    ]
    loop.call_exception_handler({"message": "another error", "exception": ValueError("odd")})
    assert caplog.messages[1:] == ["another error"]

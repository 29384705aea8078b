"""Check the files of the container images: copied files exist, and the commands parse."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from reasoning_env.atropos import commands
from reasoning_env.commands.judge import judge_command
from reasoning_env.commands.main import main
from reasoning_env.program.parser import CommandParser
from reasoning_gym_environment import ReasoningGymEnv

ROOT = Path(__file__).resolve().parents[2]
STEPS = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text()).splitlines()
"""The lines of the Dockerfile, with continuation lines joined."""
JUDGE = yaml.safe_load((ROOT / "compose.judge.yaml").read_text())["services"]
SERVICES = {**yaml.safe_load((ROOT / "compose.yaml").read_text())["services"], **JUDGE}
PAGE = (ROOT / "docs" / "run.md").read_text()


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options of a `judge` command."""
    parser = CommandParser()
    judge_command.add_options(parser)
    return parser.parse_args(arguments)


def service_command(name: str) -> Sequence[str]:
    """Return the command of a compose service, with default values for variables."""
    return [re.sub(r"\$\{\w+:-(.*)\}", r"\1", word) for word in SERVICES[name]["command"]]


def listed(keyword: str) -> Sequence[str]:
    """Return the words of the last Dockerfile instruction of this kind, which is written as a JSON list."""
    step = next(step for step in reversed(STEPS) if step.startswith(keyword))
    words: list[str] = json.loads(step[step.index("[") :])
    return words


def test_docker_image_starts_the_judge_server() -> None:
    program, command, *arguments = [*listed("ENTRYPOINT")[2:], *listed("CMD")]
    assert (program, command) == ("reasoning-gym-environment", "judge")
    assert (parsed(arguments).host, parsed(arguments).port) == ("0.0.0.0", 8400)


def test_docker_image_runs_as_a_non_root_user() -> None:
    assert "USER 10001:10001" in STEPS  # runAsNonRoot of Kubernetes needs a numeric user id


def test_dockerfile_copies_only_existing_files() -> None:
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [word for step in STEPS if re.match("COPY [^-]", step) for word in step.split()[1:-1]]
    assert [source for source in sources if not (ROOT / source).exists() or f"!{source}" not in sent] == []


class Health(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1)])
def test_image_health_check_fails_on_status_503(monkeypatch: pytest.MonkeyPatch, status: int, exit_code: int) -> None:
    monkeypatch.setattr(Health, "status", status)
    python, option, program = listed("HEALTHCHECK")
    assert (python, option) == ("python", "-c")
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        check = program.replace("8400", str(server.server_port))
        assert subprocess.run([sys.executable, "-S", option, check]).returncode == exit_code
        thread.join()


def test_serve_command_in_the_compose_file_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    command, *arguments = service_command("environment")
    arguments = [word.replace("/configs/", f"{ROOT}/configs/") for word in arguments]
    assert commands(ReasoningGymEnv)[command]([*arguments, "--print-config"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["env"]["rollout_server_url"] == "http://run-api:8000"
    assert printed["openai"][0]["base_url"] == "http://vllm:9001/v1"


def test_run_api_service_of_the_compose_file_listens_on_all_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    from atroposlib.cli import run_api

    started: dict[str, Any] = {}
    monkeypatch.setattr(run_api.uvicorn, "run", lambda app, **options: started.update(options))
    monkeypatch.setattr("sys.argv", ["run-api", *service_command("run-api")])
    run_api.main()
    assert (started["host"], started["port"]) == ("0.0.0.0", 8000)


def test_compose_services_have_no_capabilities_and_a_read_only_file_system() -> None:
    ours: Mapping[str, Mapping[str, Any]] = {name: service for name, service in SERVICES.items() if "build" in service}
    assert {service["build"]["target"] for service in ours.values()} <= {"judge", "atropos"}
    assert all(service["read_only"] and service["cap_drop"] == ["ALL"] for service in ours.values())


def test_judge_service_of_the_compose_file_requires_an_access_token() -> None:
    assert SERVICES["judge"]["environment"]["REASONING_JUDGE_TOKEN"].startswith("${REASONING_JUDGE_TOKEN:?")


def test_documented_container_commands_are_valid(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.findall(
        r"^docker run .* reasoning-gym-environment(?::atropos)? +(\w+) (.*)$", PAGE.replace("\\\n", ""), re.M
    )
    assert [command for command, _ in shown] == ["evaluate", "process"]
    for command, options in shown:
        words = [command, *shlex.split(options), "--print-config"]
        assert main(words, commands(ReasoningGymEnv), environment_file=ROOT / "reasoning_gym_environment.py") == 0
        assert "openai:" in capsys.readouterr().out


def test_judge_command_in_the_kubernetes_example_is_valid() -> None:
    deployment = yaml.safe_load((ROOT / "examples" / "judge_kubernetes.yaml").read_text())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    assert (command, parsed(arguments).num_verifiers) == ("judge", 8)

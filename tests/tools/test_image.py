"""The files of the images: each step can be done, and each command is accepted by the program that it names."""

from __future__ import annotations

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
from reasoning_env.commands.judge import _parse
from reasoning_gym_environment import ReasoningGymEnv
from tools.dockerfile import (
    DockerfileError,
    container_of,
    is_ignored,
    needed_stages,
    read_dockerfile,
    read_patterns,
)

ROOT = Path(__file__).resolve().parents[2]
STAGES = read_dockerfile((ROOT / "Dockerfile").read_text())
PATTERNS = read_patterns((ROOT / ".dockerignore").read_text())
COMPOSE = (ROOT / "compose.yaml").read_text()
JUDGE = yaml.safe_load((ROOT / "compose.judge.yaml").read_text())["services"]
SERVICES = {**yaml.safe_load(COMPOSE)["services"], **JUDGE}
PAGE = (ROOT / "docs" / "deployment.md").read_text()


def service_command(name: str) -> Sequence[str]:
    """Return a service's command with the defaults of its variables."""
    return [re.sub(r"\$\{\w+:-(.*)\}", r"\1", word) for word in SERVICES[name]["command"]]


def test_default_is_judge() -> None:
    container = container_of(STAGES, list(STAGES)[-1])
    program, command, *arguments = [*container.entrypoint[2:], *container.command]
    assert (program, command) == ("reasoning-gym-environment", "judge")
    assert (_parse(arguments).host, _parse(arguments).port) == ("0.0.0.0", 8400)


@pytest.mark.parametrize("target", ["judge", "atropos"])
def test_user_is_not_root(target: str) -> None:
    assert container_of(STAGES, target).user == "10001:10001"  # Kubernetes' runAsNonRoot wants a number


def test_targets_take_environment_alone() -> None:
    copied = [step for name in ("judge", "atropos") for step in STAGES[name].steps if step.keyword == "COPY"]
    assert {step.text for step in copied} == {"/opt/environment /opt/environment"}
    assert STAGES["judge"].base == STAGES["atropos"].base == "user"
    assert needed_stages(STAGES, ["judge"]) == ["system", "build", "build-judge", "user", "judge"]


@pytest.mark.parametrize("name", STAGES)
def test_copied_files_exist(name: str) -> None:
    for step in STAGES[name].steps:
        if step.keyword == "COPY" and "from" not in step.options:
            sources = step.words()[:-1]
            assert [source for source in sources if not (ROOT / source).exists()] == []
            assert [source for source in sources if is_ignored(Path(source), PATTERNS)] == []


class Health(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1)])
def test_health_check(monkeypatch: pytest.MonkeyPatch, status: int, exit_code: int) -> None:
    monkeypatch.setattr(Health, "status", status)
    python, option, program = container_of(STAGES, "judge").health
    assert (python, option) == ("python", "-c")
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        check = program.replace("8400", str(server.server_port))
        assert subprocess.run([sys.executable, "-S", option, check]).returncode == exit_code
        thread.join()


def test_serve_of_compose(capsys: pytest.CaptureFixture[str]) -> None:
    command, *arguments = service_command("environment")
    arguments = [word.replace("/configs/", f"{ROOT}/configs/") for word in arguments]
    assert commands(ReasoningGymEnv)[command]([*arguments, "--print-config"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["env"]["rollout_server_url"] == "http://run-api:8000"
    assert printed["openai"][0]["base_url"] == "http://vllm:9001/v1"


def test_run_api_of_compose(monkeypatch: pytest.MonkeyPatch) -> None:
    from atroposlib.cli import run_api

    started: dict[str, Any] = {}
    monkeypatch.setattr(run_api.uvicorn, "run", lambda app, **options: started.update(options))
    monkeypatch.setattr("sys.argv", ["run-api", *service_command("run-api")])
    run_api.main()
    assert (started["host"], started["port"]) == ("0.0.0.0", 8000)


def test_services_are_restricted() -> None:
    ours: Mapping[str, Mapping[str, Any]] = {name: service for name, service in SERVICES.items() if "build" in service}
    assert {service["build"]["target"] for service in ours.values()} <= STAGES.keys()
    assert all(service["read_only"] and service["cap_drop"] == ["ALL"] for service in ours.values())


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_starts_for_ever(name: str) -> None:
    assert SERVICES[name]["restart"] == "on-failure:5"
    assert SERVICES[name]["logging"]["options"].keys() == {"max-size", "max-file"}


def test_judge_of_compose_wants_a_token() -> None:
    assert SERVICES["judge"]["environment"]["REASONING_JUDGE_TOKEN"].startswith("${REASONING_JUDGE_TOKEN:?")


def test_required_variables_stop_no_training() -> None:
    assert ":?" not in COMPOSE


def test_one_cache_of_models() -> None:
    volumes = {name: service.get("volumes", []) for name, service in SERVICES.items()}
    assert "models:/root/.cache/huggingface" in volumes["vllm"]
    assert "models:/models:ro" in volumes["environment"]


def test_shown_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    commands_of_image = commands(ReasoningGymEnv)
    shown = re.findall(
        r"^docker run .* reasoning-gym-environment(?::atropos)? +(\w+) (.*)$", PAGE.replace("\\\n", ""), re.M
    )
    assert [command for command, _ in shown] == ["evaluate", "process"]
    for command, words in shown:
        assert commands_of_image[command]([*shlex.split(words), "--print-config"]) == 0
        assert "openai:" in capsys.readouterr().out


def test_judge_of_kubernetes() -> None:
    [deployment] = re.findall(r"```yaml\n(apiVersion.*?)```", PAGE, re.DOTALL)
    [container] = yaml.safe_load(deployment)["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    assert (command, _parse(arguments).verifiers) == ("judge", 8)


# ------------------------------------------------------------------ the reader of Dockerfiles

TEXT = """
FROM debian:trixie-slim AS one
ENV A=1 PATH=/bin:$PATH
# A comment stands between the lines of an instruction.
RUN first \\
    # and here
    && second
FROM one AS two
COPY --from=one /a /b
ENV A="$A and 2"
HEALTHCHECK --timeout=5s CMD ["true"]
"""


def test_lines_are_joined() -> None:
    one = read_dockerfile(TEXT)["one"]
    assert [(step.line, step.keyword, step.text) for step in one.steps[1:]] == [(5, "RUN", "first && second")]


def test_variables_of_base() -> None:
    container = container_of(read_dockerfile(TEXT), "two")
    assert container.environment["A"] == "1 and 2"
    assert container.environment["PATH"].startswith("/bin:/usr/local/sbin:")
    assert container.health == ["true"]


def test_options_of_copy() -> None:
    copy = read_dockerfile(TEXT)["two"].steps[0]
    assert (copy.options, copy.words()) == ({"from": "one"}, ["/a", "/b"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ADD a b", "line 2: ADD is not supported here"),
        ("FROM debian", "line 2: expected FROM IMAGE AS NAME; got FROM debian"),
        ("RUN --mount=type=cache x", "line 2: RUN has no option mount here"),
    ],
)
def test_unknown_instruction(line: str, said: str) -> None:
    with pytest.raises(DockerfileError, match=re.escape(said)):
        read_dockerfile(f"FROM debian:trixie-slim AS one\n{line}\n")


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("data_dumps", True),
        ("reasoning_env", False),
        ("reasoning_env/records.py", False),
        ("reasoning_env/problems/__pycache__", True),
        (".git/config", True),
    ],
)
def test_dockerignore(path: str, ignored: bool) -> None:
    assert is_ignored(Path(path), PATTERNS) is ignored

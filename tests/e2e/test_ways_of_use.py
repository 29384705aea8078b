"""Use the package in three ways: from a checkout, installed, and copied into another source tree.

Each program runs in a working directory outside the project, and can import only the copy of the package under test.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from reasoning_gym_testing import InferenceServer, Process, Processes

from .processes import REPOSITORY

pytestmark = pytest.mark.slow
SHIPPED = (
    "__init__.py",
    "__main__.py",
    "reasoning_gym_environment.py",
    "reasoning_env",
    "reasoning_audit",
    "demo",
    "reasoning_gym_testing",
    "reasoning_gym_taskset.py",
    "pyproject.toml",
    "requirements.txt",
    "LICENSE",
    "README.md",
)
SETUPTOOLS_NEEDED = 77

PROBE = """
import asyncio, importlib, json, sys
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

name, tokenizer, url = sys.argv[1:]
module = importlib.import_module(name)

class TrainingConfig(module.ReasoningGymEnvConfig):
    mine: int = 3

class TrainingEnv(module.ReasoningGymEnv):
    env_config_cls = TrainingConfig

    @classmethod
    def config_init(cls):
        server = APIServerConfig(server_type="vllm", base_url=f"{url}/v1", model_name="m", api_key="x")
        return TrainingConfig(tokenizer_name=tokenizer, use_wandb=False, tasks="chain_sum"), [server]

async def main():
    env = TrainingEnv(*TrainingEnv.config_init())
    try:
        await env.setup()
        item = await env.get_next_item()
    finally:
        await env.close()
    print(json.dumps({
        "module": sys.modules[module.ReasoningGymEnv.__module__].__file__,
        "dotted": module.ReasoningGymEnv.__module__,
        "core": sys.modules[type(item.problem).__module__].__file__,
        "question": item.problem.question,
        "prompt": item.prompt.text,
        "library": env.session.library.path,
        "mine": env.config.mine,
    }))

asyncio.run(main())
"""
"""A training config whose subclass adds a setting.

The script prints the paths of module, core and library in a new interpreter, and a problem with its prompt.
"""


def finish(process: Process) -> str:
    assert process.end() == 0, process.stderr
    return process.stdout


def start_probe(processes: Processes, name: str, module: str, path: Path, tokenizer: Path, url: str) -> Process:
    command = [sys.executable, "-c", PROBE, module, tokenizer, url]
    return processes.start(name, command, variables={"PYTHONPATH": str(path)})


def probed(process: Process, within: Path, *parts: str) -> dict[str, Any]:
    """Return the output of PROBE after checking the paths that it prints. `parts` are paths in the folder `within`."""
    found: dict[str, Any] = json.loads(finish(process).splitlines()[-1])
    assert found["mine"] == 3
    assert [found[part] for part in parts if not Path(found[part]).is_relative_to(within)] == []
    assert found["question"] in found["prompt"]
    assert "<answer>" in found["prompt"]
    return found


def copy_shipped(target: Path) -> Path:
    target.mkdir(parents=True)
    for name in SHIPPED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    return target


def installed_library() -> Path:
    """Return the folder of the library without importing the library into this process."""
    return Path(str(importlib.util.find_spec("reasoning_gym").submodule_search_locations[0]))


def install(source: Path, target: Path) -> None:
    """Run `pip install` without dependencies. Use this environment's setuptools if its version is new enough."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(source)]
    try:
        recent = int(importlib.metadata.version("setuptools").split(".")[0]) >= SETUPTOOLS_NEEDED
    except importlib.metadata.PackageNotFoundError:
        recent = False
    if recent:
        command += ["--no-build-isolation", "--no-index"]
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Ways:
    tree: Path
    target: Path
    from_checkout: Process
    dropped_in: Process
    installed: Process
    command: Process


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with InferenceServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def ways(processes: Processes, tmp_path_factory: pytest.TempPathFactory, url: str) -> Ways:
    """Start the programs of all three kinds of use in parallel."""
    tokenizer = REPOSITORY / "reasoning_gym_testing" / "tokenizer"
    from_checkout = start_probe(processes, "checkout", "reasoning_gym_environment", REPOSITORY, tokenizer, url)
    tree = tmp_path_factory.mktemp("tree")
    copied = copy_shipped(tree / "environments" / "reasoning_gym_environment")
    checkout = copied / "reasoning-gym"
    checkout.mkdir()
    (checkout / "reasoning_gym").symlink_to(installed_library())
    tokenizer = copied / "reasoning_gym_testing" / "tokenizer"
    dropped_in = start_probe(processes, "dropped_in", "environments.reasoning_gym_environment", tree, tokenizer, url)

    target = tmp_path_factory.mktemp("installed")
    install(copy_shipped(tmp_path_factory.mktemp("source") / "project"), target)
    tokenizer = target / "reasoning_gym_testing" / "tokenizer"
    installed = start_probe(processes, "installed", "reasoning_gym_environment", target, tokenizer, url)
    script = target / "bin" / "reasoning-gym-environment"
    command = processes.start(
        "command", [sys.executable, script, "demo", "--help"], variables={"PYTHONPATH": str(target)}
    )
    return Ways(tree, target, from_checkout, dropped_in, installed, command)


def test_package_is_importable_from_a_checkout(ways: Ways) -> None:
    probed(ways.from_checkout, REPOSITORY, "module", "core")


def test_package_is_importable_inside_another_source_tree(ways: Ways) -> None:
    found = probed(ways.dropped_in, ways.tree, "module", "core", "library")
    assert found["dotted"] == "environments.reasoning_gym_environment.reasoning_gym_environment"


@pytest.mark.parametrize(
    "how", [["-m", "environments.reasoning_gym_environment"], ["environments/reasoning_gym_environment"]]
)
def test_commands_run_inside_another_source_tree(ways: Ways, how: list[str]) -> None:
    def run(*command: str) -> str:
        ended = subprocess.run(command, cwd=ways.tree, capture_output=True, text=True)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    _, _python, *named = run(sys.executable, *how, "serve", "-h").splitlines()[0].split()
    assert "group_size" in run(sys.executable, *named[: named.index("serve")], "settings", "group_size")


@pytest.mark.parametrize("how", [["-m", "environments.reasoning_gym_environment"], ["-m", "reasoning_gym_environment"]])
def test_audit_prints_a_one_line_error_for_an_invalid_option(ways: Ways, how: list[str]) -> None:
    """Each installation has to recognize the ConfigError that the audit raises."""
    places = {"PYTHONPATH": str(ways.target)} if how[1] == "reasoning_gym_environment" else {}
    command = [sys.executable, *how, "audit", "--items", "0"]
    ended = subprocess.run(command, cwd=ways.tree, env={**os.environ, **places}, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"python -m {how[1]} audit: --items must be between")


def test_package_is_importable_after_installation(ways: Ways) -> None:
    found = probed(ways.installed, ways.target, "module", "core")
    assert Path(found["library"]) == installed_library()


def test_installed_command_runs(ways: Ways) -> None:
    assert "--batches" in finish(ways.command)


def _extra(requirement: Requirement) -> str | None:
    """Return the extra that a requirement belongs to; None for a requirement of the core."""
    found = re.search(r"extra == ['\"]([\w-]+)['\"]", str(requirement.marker))
    return found and found[1]


def _without_extra(requirement: Requirement) -> Requirement:
    if _extra(requirement) is not None:
        requirement.marker = None
    return requirement


def test_core_package_does_not_require_atropos(ways: Ways) -> None:
    [folder] = ways.target.glob("reasoning_gym_environment-*.dist-info")
    needed = map(Requirement, importlib.metadata.PathDistribution(folder).requires or [])
    core = {one.name for one in needed if _extra(one) is None}
    assert core >= {"reasoning-gym", "aiohttp"}
    assert not core & {"atroposlib", "transformers", "tokenizers", "wandb"}


def test_requirements_file_equals_package_requirements(ways: Ways) -> None:
    [folder] = ways.target.glob("reasoning_gym_environment-*.dist-info")
    needed = map(Requirement, importlib.metadata.PathDistribution(folder).requires or [])
    lines = (REPOSITORY / "requirements.txt").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert {_without_extra(one) for one in needed if _extra(one) in (None, "atropos")} == set(wanted)


def test_installation_adds_only_the_expected_modules(ways: Ways) -> None:
    [folder] = ways.target.glob("reasoning_gym_environment-*.dist-info")
    files = importlib.metadata.PathDistribution(folder).files or []
    names = {path.parts[0] for path in files} - {folder.name, "..", "__pycache__"}
    modules = {"reasoning_gym_environment.py", "reasoning_gym_taskset.py"}
    assert names == modules | {"reasoning_audit", "reasoning_env", "reasoning_gym_testing"}

"""Imports point one way; found in the sources themselves, so that imports inside functions count too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reasoning_env

ROOT = Path(reasoning_env.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
INSIDE_WORKERS = {"workers/library.py"}
"""Code that runs inside a worker process only, and may import the library."""
PARTS = ("tasks", "rollouts")


def _imports(module: Path) -> Iterator[str]:
    """Dotted names of everything that a module imports, relative ones resolved; names given as text count too."""
    package = ["reasoning_env", *module.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


def _users(*names: str) -> set[str]:
    """Modules that import one of the names, or something inside it."""
    return {
        module.relative_to(ROOT).as_posix()
        for module in MODULES
        for imported in _imports(module)
        if any(imported == name or imported.startswith(f"{name}.") for name in names)
    }


def test_only_code_inside_workers_imports_the_library() -> None:
    assert _users("reasoning_gym") == INSIDE_WORKERS


def test_library_code_is_imported_inside_workers_only() -> None:
    """The parent's side, and whoever uses it, must not come to the library by way of it either."""
    assert _users("reasoning_env.workers.library") == {"workers/child.py"}
    assert _users("reasoning_env.workers.child") == set()


@pytest.mark.parametrize("name", ["atroposlib", "wandb", "reasoning_gym_environment"])
def test_nothing_in_the_core_imports(name: str) -> None:
    assert _users(name) == set()


def test_only_the_command_line_reaches_the_demo() -> None:
    assert _users("demo", "reasoning_gym_demo") == {"commands/main.py"}


@pytest.mark.parametrize("module", ["records.py", "errors.py"])
def test_records_and_errors_import_nothing_of_the_package(module: str) -> None:
    assert [name for name in _imports(ROOT / module) if name.startswith("reasoning_env")] == []


@pytest.mark.parametrize("part", PARTS)
def test_tasks_rewards_and_rollouts_do_not_know_each_other(part: str) -> None:
    users = _users(*(f"reasoning_env.{other}" for other in PARTS if other != part))
    assert [user for user in users if user.startswith(f"{part}/")] == []


@pytest.mark.parametrize("part", [*PARTS, "workers"])
def test_parts_import_no_module_above_them(part: str) -> None:
    allowed = {"reasoning_env.records", "reasoning_env.errors", "reasoning_env.library_facts", f"reasoning_env.{part}"}
    allowed |= {"workers": {"reasoning_env.verifiers"}, "tasks": {"reasoning_env.settings"}}.get(part, set())
    above = {
        name
        for module in (ROOT / part).rglob("*.py")
        for name in _imports(module)
        if name.startswith("reasoning_env") and ".".join(name.split(".")[:2]) not in allowed
    }
    assert above - {"reasoning_env"} == set()


def test_importing_the_core_loads_neither_library_nor_framework() -> None:
    script = "import sys, reasoning_env; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT.parent, capture_output=True, text=True, check=True, timeout=100
    ).stdout.split()
    assert "reasoning_env" in loaded
    assert not {"reasoning_gym", "atroposlib", "wandb", "transformers", "torch"} & set(loaded)

"""Check the rules of docs/architecture.md: which module may import, name or export what."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import reasoning_env
from reasoning_env.tasks import COMPOSITE, TASKS

ROOT = Path(reasoning_env.__file__).parent.parent
PACKAGES = ("reasoning_env", "reasoning_audit", "reasoning_gym_testing", "demo", "learn", "benchmarks")
FRONT_DOOR = "reasoning_gym_environment"
MAX_FLOORS = 14
MAX_FACADE = 24
PAGE = ROOT / "docs" / "architecture.md"
INSIDE_WORKERS = {"reasoning_env/workers/library.py"}
"""Modules that run only inside worker processes and may import the library."""
ADAPTER = "reasoning_env/atropos/"
ATROPOS_KNOWLEDGE = re.compile(
    r"atroposlib|ServerManager|managed_server|server_healthy|check_task|eval_sem|max_n_completions|BaseEnv\b"
    r"|/(register|disconnect|status)-env|/register-env|/scored_data|/wandb_info|/latest_example|/reset_data|run-api"
)
"""Words that only the adapter may use: Atropos, attributes of its servers, endpoints of run-api."""


def sources(*folders: str) -> list[Path]:
    return [ROOT / f"{FRONT_DOOR}.py", *(path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))]


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


@cache
def imports(module: Path) -> set[tuple[str, ...]]:
    """Return the absolute names that a module imports, as tuples of their parts; names passed as strings count too."""
    package = module.relative_to(ROOT).parts[:-1]
    found: set[tuple[str, ...]] = set()
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            source = (*base, *(node.module or "").split(".")) if node.module else base
            found |= {(*source, alias.name) for alias in node.names}
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                found.add(tuple(str(node.args[0].value).split(".")))
    return found


def room(parts: tuple[str, ...]) -> str | None:
    """Return the folder or top-level module to which a name of this project belongs; None for other names."""
    if parts[0] == "reasoning_env" and len(parts) > 1:
        below = ROOT / "reasoning_env" / parts[1]
        if below.is_dir() or below.with_suffix(".py").exists():
            return f"reasoning_env/{parts[1]}"
        return "reasoning_env"
    return parts[0] if parts[0] in (*PACKAGES, FRONT_DOOR) else None


@pytest.fixture(scope="module")
def rooms() -> dict[str, set[str]]:
    """For each folder or top-level module of the project, the others that it imports."""
    found: dict[str, set[str]] = {}
    for module in sources(*PACKAGES):
        parts = module.relative_to(ROOT).with_suffix("").parts
        here = room(parts[:-1] if parts[-1] == "__init__" else parts)
        assert here is not None
        found.setdefault(here, set()).update(name for name in map(room, imports(module)) if name not in (here, None))
    return found


def test_only_source_files_of_the_tasks_package_contain_task_names() -> None:
    naming = {path.relative_to(ROOT).as_posix(): named_tasks(path) for path in sources("reasoning_env")}
    assert {
        name: tasks for name, tasks in naming.items() if tasks and not name.startswith("reasoning_env/tasks/")
    } == {}


def named_tasks(path: Path) -> set[str]:
    """Return the task names that a module contains as a string or as an identifier.

    Names of the standard library (`math.gcd`) and names of two letters do not count.
    """
    found: set[str] = set()
    of_python: set[str] = set()
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Constant(value=str(name)) | ast.Name(id=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                found.add(name)
            case ast.ImportFrom(module=str(module), names=names, level=0) if module in sys.stdlib_module_names:
                of_python.update(alias.name for alias in names)
            case _:
                continue
    return {name for name in found & TASKS.keys() - {COMPOSITE} - of_python if len(name) > 2}


def users(*names: str, folders: tuple[str, ...] = ("reasoning_env",)) -> set[str]:
    """Return the modules that import one of the names, or a member of one."""
    wanted = [tuple(name.split(".")) for name in names]
    return {
        module.relative_to(ROOT).as_posix()
        for module in sources(*folders)
        if any(imported[: len(name)] == name for imported in imports(module) for name in wanted)
    }


def test_package_imports_have_no_cycles(rooms: dict[str, set[str]]) -> None:
    floors: dict[str, int] = {}

    def floor(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above, f"a cycle of imports: {' -> '.join((*above, name))}"
        if name not in floors:
            # The only imports upwards: the command line looks up the commands `demo` and `audit` on request.
            beside = {"demo", "reasoning_audit"} if name == "reasoning_env/commands" else set()
            below = rooms.get(name, set()) - beside
            floors[name] = 1 + max((floor(other, (*above, name)) for other in below), default=0)
        return floors[name]

    assert max(map(floor, rooms)) <= MAX_FLOORS, sorted(floors.items(), key=lambda item: item[1])


def test_lowest_layer_of_the_architecture_page_imports_nothing_of_the_package(
    rooms: dict[str, set[str]],
) -> None:
    above, _, _ = PAGE.read_text().partition("import nothing of the package")
    bottom = re.findall(r"`(\w+)`", above.rpartition("the rest of the core.")[2])
    assert {"records", "errors"} < set(bottom)
    assert {name: rooms[f"reasoning_env/{name}"] for name in bottom} == {name: set() for name in bottom}
    assert rooms["reasoning_env/settings"] == {"reasoning_env/errors"}


def test_the_packages_problems_rewards_and_dumps_do_not_import_each_other(rooms: dict[str, set[str]]) -> None:
    parts = {f"reasoning_env/{name}" for name in ("problems", "rewards", "dumps")}
    assert {part: rooms[part] & parts for part in parts} == {part: set() for part in parts}


def test_only_the_listed_packages_import_the_session_module(rooms: dict[str, set[str]]) -> None:
    hosts = {f"reasoning_env/{name}" for name in ("atropos", "bridge", "commands", "data", "integrations", "program")}
    hosts.add("reasoning_env")
    inside = {name for name in rooms if name.startswith("reasoning_env")}
    assert {name for name in inside if "reasoning_env/session" in rooms[name]} <= hosts


def test_only_the_commands_package_imports_the_reports_package(rooms: dict[str, set[str]]) -> None:
    above = {"benchmarks", "reasoning_audit"}
    assert {name for name, known in rooms.items() if "reasoning_env/reports" in known} - above == {
        "reasoning_env/commands"
    }


def test_core_does_not_import_the_audit() -> None:
    assert users("reasoning_audit") == {"reasoning_env/commands/main.py"}


def test_audit_imports_neither_a_trainer_adapter_nor_the_judge_nor_the_bridge(rooms: dict[str, set[str]]) -> None:
    hosts = {f"reasoning_env/{name}" for name in ("atropos", "integrations", "judging", "bridge")} | {FRONT_DOOR}
    assert rooms["reasoning_audit"] & hosts == set()


def test_commands_package_is_imported_only_by_module_reasoning_gym_environment(rooms: dict[str, set[str]]) -> None:
    beside = {"benchmarks", "reasoning_env/commands"}
    assert {name for name, known in rooms.items() if "reasoning_env/commands" in known} - beside == {FRONT_DOOR}


def test_only_workers_import_reasoning_gym() -> None:
    assert users("reasoning_gym") == INSIDE_WORKERS
    assert users("reasoning_env.workers.library") == {"reasoning_env/workers/child.py"}
    assert users("reasoning_env.workers.child") == set()


def test_only_the_atropos_adapter_imports_atropos() -> None:
    knowing = {
        module.relative_to(ROOT).as_posix(): found[0]
        for module in sources("reasoning_env")
        if (found := ATROPOS_KNOWLEDGE.findall(module.read_text()))
    }
    assert {name for name in knowing if not name.startswith(ADAPTER)} == {f"{FRONT_DOOR}.py"}, knowing


def test_atropos_adapter_is_imported_only_by_module_reasoning_gym_environment(rooms: dict[str, set[str]]) -> None:
    above = {"benchmarks", "reasoning_gym_testing", "demo", "learn"}
    reached = {name for name, known in rooms.items() if "reasoning_env/atropos" in known}
    assert reached - above == {FRONT_DOOR}


@pytest.mark.parametrize("host", ["nemo_gym", "openenv"])
def test_hub_packages_import_only_public_names(host: str) -> None:
    ours = {name[1:] for path in sources(f"hub/{host}") for name in imports(path) if name[0] == "reasoning_env"}
    # The front door is among the sources.
    of_the_front_door = {name[1:] for name in imports(ROOT / f"{FRONT_DOOR}.py") if name[0] == "reasoning_env"}
    assert ours - of_the_front_door <= {(), *((name,) for name in reasoning_env.__all__)}


@cache
def public_modules() -> tuple[tuple[str, ...], ...]:
    """Return the modules that the package's docstring lists as public, as tuples of their parts."""
    listed = re.findall(r"^- (.*?):", reasoning_env.__doc__ or "", re.MULTILINE)
    return tuple(tuple(name.split(".")) for line in listed for name in re.findall(r"`([\w.]+)`", line))


def is_public(name: tuple[str, ...]) -> bool:
    """Return True if users may import this name, given as a tuple of its parts."""
    is_listed = any(name[: len(module)] == module for module in public_modules())
    return not any(part.startswith("_") for part in name) and (is_listed or ".".join(name) in reasoning_env.__all__)


def test_modules_listed_as_public_exist() -> None:
    assert len(public_modules()) > 10
    places = [ROOT.joinpath("reasoning_env", *module) for module in public_modules()]
    assert [place for place in places if not place.is_dir() and not place.with_suffix(".py").is_file()] == []


@pytest.mark.parametrize("folder", ["reasoning_audit", "examples", "hub", "learn"])
def test_other_folders_import_only_public_names_of_the_core(folder: str) -> None:
    ours = {
        (path.name, ".".join(name[1:]))
        for path in (ROOT / folder).rglob("*.py")
        for name in imports(path)
        if name[0] == "reasoning_env" and name[1:]
    }
    assert {use for use in ours if not is_public(tuple(use[1].split(".")))} == set()


def test_code_in_docs_imports_only_public_names() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.ipynb")]
    lines = re.findall(r"from reasoning_env([\w.]*) import ([\w, ]+)", "\n".join(page.read_text() for page in pages))
    names = {f"{module}.{name.strip()}".removeprefix(".") for module, names in lines for name in names.split(",")}
    assert len(names) > 10
    assert {name for name in names if not is_public(tuple(name.split(".")))} == set()


def pages_paths(text: str) -> set[Path]:
    """Return the paths that a text contains. A path may be relative to an earlier folder on its line."""
    found = set()
    for row in text.splitlines():
        folders = [ROOT, ROOT / "reasoning_env"]
        for name in re.findall(r"`([a-z_/]+(?:/|\.py))`", row):
            place = next((folder / name for folder in folders if (folder / name).exists()), None)
            assert place is not None, f"{PAGE.name} names {name}, which does not exist"
            folders.append(place if place.is_dir() else place.parent)
            found.add(place)
    return found


def test_architecture_page_names_existing_files() -> None:
    assert len(pages_paths(PAGE.read_text())) >= 20


def test_architecture_page_names_every_package(rooms: dict[str, set[str]]) -> None:
    text = PAGE.read_text()
    own = {name.removeprefix("reasoning_env/") for name in rooms if name.startswith("reasoning_env/")}
    assert {name for name in own if f"`{name}/`" not in text and f"`{name}.py`" not in text} == set()


RECIPES = ROOT / "docs" / "development.md"


def test_development_page_names_existing_files() -> None:
    named = re.findall(r"`([\w./]*/[\w./]*|\w+\.(?:toml|md)|Makefile)`", RECIPES.read_text())
    files = {name for name in named if "NAME" not in name}
    assert len(files) >= 20
    assert [name for name in files if not (ROOT / name).exists() and not (ROOT / "reasoning_env" / name).exists()] == []
    assert all((ROOT / name).parent.is_dir() for name in named if "NAME" in name)


def test_each_public_name_is_defined_in_only_one_module() -> None:
    """The modules of faster generators are exempt, because they copy names of the library."""
    places: dict[str, list[str]] = {}
    for path in sources("reasoning_env", "reasoning_audit"):
        if path.parent.name == "faster":
            continue
        for name in defined_names(path):
            places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_glossary_terms_are_defined_in_the_file_that_the_glossary_names() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| `([\w/.]+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 20
    missing = [noun for noun, path in rows if noun not in defined_names(ROOT / "reasoning_env" / path)]
    assert missing == []


def defined_names(path: Path) -> Iterator[str]:
    """Yield the public constants, type aliases and classes that a module defines."""
    for node in parsed(path).body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                continue
        yield from (name for name in names if not name.startswith("_") and name not in ("T", "R", "logger"))


def test_learn_package_uses_only_public_names() -> None:
    modules = (ROOT / "learn").rglob("*.py")
    named = {name for module in modules for name in imports(module) if name[0] == "reasoning_env"}
    assert named <= {("reasoning_env", name) for name in reasoning_env.__all__}


def test_number_of_names_that_the_package_exports_is_limited() -> None:
    assert len(reasoning_env.__all__) <= MAX_FACADE


def test_package_exports_no_name_of_the_atropos_adapter() -> None:
    assert not [name for name in reasoning_env.__all__ if "atropos" in getattr(reasoning_env, name).__module__]


ADDS_ATROPOS = {"atroposlib", "wandb", "transformers", "tokenizers"}


def test_only_the_adapter_imports_packages_of_the_atropos_extra() -> None:
    # Only the command `tasks --tokenizer_name` reads a tokenizer; it reports a missing package.
    allowed = (ADAPTER, f"{FRONT_DOOR}.py", "reasoning_env/integrations/trl.py", "reasoning_env/commands/samples.py")
    found = users(*ADDS_ATROPOS)
    assert {name for name in found if not name.startswith(allowed)} == set()


def test_importing_the_core_loads_no_framework() -> None:
    """Import all public names and the commands of the core without the packages of the extra `atropos`."""
    script = (
        "import sys\n"
        f"for name in {sorted(ADDS_ATROPOS)}: sys.modules[name] = None\n"
        "import reasoning_env\n"
        "[getattr(reasoning_env, name) for name in reasoning_env.__all__]\n"
        "print(*{name.split('.')[0] for name, module in sys.modules.items() if module})\n"
        "import reasoning_env.judging.server, reasoning_env.commands.judge, reasoning_env.commands.evaluate\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    loaded = ended.stdout.split()
    assert "reasoning_env" in loaded
    assert not {"reasoning_gym", "sympy", "torch", "aiohttp", "rich"} & set(loaded)


def test_import_error_names_the_package_extra_if_atropos_is_missing() -> None:
    script = "import sys; sys.modules['atroposlib'] = None; import reasoning_gym_environment"
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("ImportError: the packages for Atropos are not installed; run `pip")

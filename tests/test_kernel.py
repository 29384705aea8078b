"""The kernel (all modules that `Session` and `Bridge` import) is small and needs few packages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import reasoning_env

ROOT = Path(reasoning_env.__file__).parent.parent
MAX_LINES = 18_700
"""Maximum number of lines in the modules that `Session` and `Bridge` import, including worker processes."""
PACKAGES = {"pydantic", "yaml", "numpy", "mpmath", "msgspec", "typing_extensions"}
"""The packages that the kernel imports. Worker processes also import reasoning-gym and its dependencies."""
IMPORTED_AS = {"PyYAML": "yaml"}


def test_session_and_bridge_import_a_limited_number_of_code_lines() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in kernel()}
    assert sum(lines.values()) <= MAX_LINES, "\n".join(sorted(path.as_posix() for path in lines))


def test_session_and_bridge_import_only_listed_packages() -> None:
    found = {name.split(".")[0] for path in kernel() for name in imported_names(path)}
    assert found - sys.stdlib_module_names - {"reasoning_env", "reasoning_gym"} <= PACKAGES


def test_packages_imported_by_session_and_bridge_are_declared_requirements() -> None:
    """An installation without extras has the packages for the kernel, `evaluate` and `judge`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {IMPORTED_AS.get(name, name) for name in map(name_of, project["dependencies"])}
    assert declared >= PACKAGES | {"aiohttp", "rich", "prometheus_client"}
    required = {name_of(line) for line in (ROOT / "requirements.txt").read_text().splitlines() if line[:1].isalpha()}
    assert required >= {name_of(line) for line in project["dependencies"]}


def test_judging_a_problem_needs_no_server_packages() -> None:
    """Make and judge a problem in a process without the packages of servers, clients and terminals."""
    script = (
        "import sys\n"
        "for name in ('aiohttp', 'rich', 'prometheus_client'): sys.modules[name] = None\n"
        "from reasoning_env import Bridge\n"
        "with Bridge(tasks=['gcd'], num_generators=1, num_verifiers=1) as bridge:\n"
        "    problem = bridge.next()\n"
        "    print(bridge.judge(problem, [f'<answer>{problem.answer}</answer>'])[0].score)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (ended.stdout, ended.returncode) == ("1.0\n", 0), ended.stderr


def name_of(requirement: str) -> str:
    return re.split(r"[<>=~\[; ]", requirement)[0]


@cache
def kernel() -> frozenset[Path]:
    """Return the files that `Session` and `Bridge` import, directly or indirectly.

    Worker processes start from a file's path.
    """
    package = ROOT / "reasoning_env"
    waiting = [package / "session.py", package / "bridge.py", *(package / "workers").rglob("*.py")]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [file for name in imported_names(path) for file in files_of(name)]
    return frozenset(found)


def files_of(name: str) -> Iterator[Path]:
    """Yield the project's files that run when a dotted name is imported, including those of parent packages."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        place = ROOT.joinpath(*parts[:count])
        yield from (file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file())


def imported_names(path: Path) -> Iterator[str]:
    """Yield the absolute names that a module imports at run time, including imports within functions."""
    package = path.relative_to(ROOT).parts[:-1]
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                waiting += node.orelse
                continue
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = [*package[: len(package) - level + 1], *filter(None, [module])] if level else [str(module)]
                yield from (".".join([*base, alias.name]) for alias in names)
        waiting += ast.iter_child_nodes(node)

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.sources.modules import TaskModuleError, import_task_modules

REGISTERS = "from registry_of_test import DATASETS\nif 'gcd' in DATASETS: DATASETS[{!r}] = object()\n"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A registry with one task. Task modules import the registry as `registry_of_test`."""
    datasets: dict[str, Any] = {"gcd": object()}
    monkeypatch.setitem(sys.modules, "registry_of_test", SimpleNamespace(DATASETS=datasets))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield datasets
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return str(folder / name)


def test_task_module_given_as_a_file_is_imported(tmp_path: Path, registry: dict[str, Any]) -> None:
    path = write(tmp_path, "my_tasks.py", REGISTERS.format("mine"))
    found = import_task_modules([path], registry).modules
    assert (list(found), found["mine"].name, found["mine"].read_paths) == (["mine"], "my_tasks", (path,))


def test_task_module_is_imported_by_its_dotted_name(tmp_path: Path, registry: dict[str, Any]) -> None:
    write(tmp_path, "lab/__init__.py", "")
    write(tmp_path, "lab/words.py", REGISTERS.format("mine"))
    found = import_task_modules(["lab.words"], registry, str(tmp_path)).modules
    assert found["mine"].name == "lab.words"


def test_verifier_of_a_task_package_gets_access_to_the_package_folder(tmp_path: Path, registry: dict[str, Any]) -> None:
    write(tmp_path, "lab_of_words/__init__.py", REGISTERS.format("mine"))
    found = import_task_modules(["lab_of_words"], registry, str(tmp_path)).modules
    assert found["mine"].read_paths == (str(tmp_path / "lab_of_words"),)


def test_task_module_imports_a_helper_module_from_the_same_folder(tmp_path: Path, registry: dict[str, Any]) -> None:
    write(tmp_path, "helper_of_mine.py", "NAME = 'helped'")
    text = "from helper_of_mine import NAME\nfrom registry_of_test import DATASETS\nDATASETS[NAME] = object()"
    assert list(import_task_modules([write(tmp_path, "my_tasks.py", text)], registry).modules) == ["helped"]


def test_recorded_version_of_a_task_module_changes_with_its_code(tmp_path: Path, registry: dict[str, Any]) -> None:
    releases = set()
    for folder, comment in (("a", ""), ("b", ""), ("c", "# changed")):
        path = write(tmp_path / folder, "my_tasks.py", REGISTERS.format("mine") + comment)
        releases.add(import_task_modules([path], registry).modules["mine"].release)
        del registry["mine"], sys.modules["my_tasks"], sys.path[-1]
    assert len(releases) == 2
    assert all(release.startswith("my_tasks@") for release in releases)


def test_release_of_a_task_package_is_the_package_version(tmp_path: Path, registry: dict[str, Any]) -> None:
    write(tmp_path, "lab_of_words/__init__.py", REGISTERS.format("mine"))
    write(tmp_path, "lab_of_words-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: lab-of-words\nVersion: 1.2")
    sys.path.append(str(tmp_path))
    assert import_task_modules(["lab_of_words"], registry).modules["mine"].release == "lab_of_words@1.2"


BAD = {
    "raises": ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero (line 1 of raises.py)"),
    "exits": ("raise SystemExit(3)", "cannot be imported: SystemExit: 3 (line 1 of exits.py)"),
    "misspelt": ("def f(:", "cannot be imported: SyntaxError: invalid syntax (misspelt.py, line 1)"),
    "needs": ("import no_such_thing", "cannot be imported: ModuleNotFoundError: No module named 'no_such_thing'"),
    "silent": ("", "registers no task; call reasoning_gym.factory.register_dataset"),
    "takes": (REGISTERS.format("gcd"), "registers a name that already exists: gcd"),
    "refused": (
        "raise ValueError(\"Dataset 'gcd' is already registered\")",
        "registers a name that already exists: Dataset 'gcd' is already registered",
    ),
    "shouts": (REGISTERS.format("GCD"), "registers GCD, which differs from gcd only in upper and lower case"),
    "blank": (REGISTERS.format("a b"), "registers 'a b', but a task name may contain only letters"),
    "colon": (REGISTERS.format("a:b"), "registers 'a:b', but a task name may contain only letters"),
}


@pytest.mark.parametrize("name", BAD)
def test_broken_task_module_raises_a_one_line_error(name: str, tmp_path: Path, registry: dict[str, Any]) -> None:
    text, message = BAD[name]
    with pytest.raises(TaskModuleError) as raised:
        import_task_modules([write(tmp_path, f"{name}.py", text)], registry)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_task_module_raises(registry: dict[str, Any]) -> None:
    with pytest.raises(TaskModuleError, match=r"^there is no module no_such_lab; use a name"):
        import_task_modules(["no_such_lab"], registry)


@pytest.mark.parametrize(
    ("entry", "message"), [("no/such.py", "there is no file no/such.py"), ("a/folder", "a/folder is not a .py file")]
)
def test_missing_task_module_file_raises(entry: str, message: str, registry: dict[str, Any]) -> None:
    with pytest.raises(TaskModuleError, match=message):
        import_task_modules([entry], registry)


def test_two_task_modules_with_one_name_raise(tmp_path: Path, registry: dict[str, Any]) -> None:
    paths = [write(tmp_path / folder, "my_tasks.py", REGISTERS.format(folder)) for folder in ("a", "b")]
    with pytest.raises(TaskModuleError, match=r"^two modules have the name my_tasks: .*/a/.* and .*/b/.*; rename"):
        import_task_modules(paths, registry)


def test_task_module_with_the_name_of_an_installed_module_raises(tmp_path: Path, registry: dict[str, Any]) -> None:
    path = write(tmp_path, "statistics.py", REGISTERS.format("mine"))
    with pytest.raises(TaskModuleError, match="has the same name as another module, statistics; rename the file"):
        import_task_modules([path], registry)


def test_task_module_named_twice_is_imported_once(tmp_path: Path, registry: dict[str, Any]) -> None:
    path = write(tmp_path, "my_tasks.py", REGISTERS.format("mine"))
    assert list(import_task_modules([path, path], registry).modules) == ["mine"]


SOURCES = {
    "no_source": ("def make_source(): return 7", "make_source() of .* must return a Source; got int"),
    "raising": ("def make_source(): raise ValueError('no')", r"make_source\(\) of .* raised ValueError: no"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_task_source_with_missing_methods_raises(name: str, tmp_path: Path, registry: dict[str, Any]) -> None:
    text, message = SOURCES[name]
    with pytest.raises(TaskModuleError, match=message.replace("()", r"\(\)")):
        import_task_modules([write(tmp_path, f"{name}.py", text)], registry)

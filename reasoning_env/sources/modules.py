"""Import the modules in the setting `task_modules`. Runs only in the process that workers are forked from.

A module registers tasks with reasoning-gym, or has a function `make_source()` that returns a source of other tasks
(`contract.py`), or both. The setting has a module's importable name, or the path of a `.py` file. The user's own code
is trusted, so it is imported before the sandbox starts.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ..runtime.text import error_text
from .contract import Source

TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", re.ASCII)
"""Valid task names."""


class TaskModuleError(Exception):
    """A module cannot be used. The message is one line."""


@dataclass(frozen=True)
class ImportedModules:
    """The modules by registered task, and the sources that `make_source()` returned."""

    modules: Mapping[str, TaskModule]
    sources: Sequence[Source]
    read_paths: frozenset[str]


@dataclass(frozen=True)
class TaskModule:
    """An imported module: its name, which is also the category of its tasks, and its release.

    `read_paths` is the folder of a package, or the single file. The sandbox lets workers read these paths.
    """

    name: str
    release: str
    read_paths: tuple[str, ...]


def import_task_modules(
    entries: Sequence[str],
    registry: MutableMapping[str, object],
    folder: str | None = None,
    announce: Callable[[str], None] = lambda entry: None,
) -> ImportedModules:
    """Import modules, which register tasks in `registry`, and return the tasks and sources.

    `folder`, the user's working directory, is searched last. `announce` is called with each entry before its import.
    Raises TaskModuleError if

    - two modules have the same name,
    - a module is missing, raises, or registers no task, or
    - a task has the name of another task, or an invalid name (see TASK_NAME).
    """
    named: dict[str, str] = {}
    for entry in dict.fromkeys(entries):
        name = module_name(entry)
        if name in named:
            raise TaskModuleError(f"two modules have the name {name}: {named[name]} and {entry}; rename one of them")
        named[name] = entry
    found: dict[str, TaskModule] = {}
    sources: list[Source] = []
    readable: set[str] = set()
    for name, entry in named.items():
        before = dict(registry)
        announce(entry)
        module = _import(name, entry, folder)
        _check_names(name, before, registry)
        new = [task for task in registry if task not in before]
        if hasattr(module, "make_source"):
            sources.append(_make_source(entry, module))
        elif not new:
            raise TaskModuleError(
                f"{entry} registers no task; call reasoning_gym.factory.register_dataset for each of its tasks"
            )
        described = TaskModule(name, release_of(name, module, is_file=_is_path(entry)), read_paths(module))
        found |= dict.fromkeys(new, described)
        readable.update(described.read_paths)
    return ImportedModules(found, sources, frozenset(readable))


def _make_source(entry: str, module: ModuleType) -> Source:
    try:
        source = module.make_source()
    except Exception as error:
        raise TaskModuleError(f"make_source() of {entry} raised {_describe(error)}") from error
    if not isinstance(source, Source):
        raise TaskModuleError(f"make_source() of {entry} must return a Source; got {type(source).__name__}")
    return source


def import_module(entry: str, folder: str | None) -> ModuleType:
    """Import one module of the user, as `import_task_modules` does. Raises TaskModuleError."""
    return _import(module_name(entry), entry, folder)


def module_name(entry: str) -> str:
    """Return the name of a module: the name itself, or the name of its file without `.py`."""
    return Path(entry).stem if _is_path(entry) else entry


def absolute_entry(entry: str) -> str:
    """Return the absolute path of a module's file; return the name of a module unchanged."""
    return str(Path(entry).expanduser().absolute()) if _is_path(entry) else entry


def _is_path(entry: str) -> bool:
    return entry.endswith(".py") or os.sep in entry


def _import(name: str, entry: str, folder: str | None) -> ModuleType:
    try:
        if _is_path(entry):
            return _import_file(name, Path(entry))
        if folder is not None and folder not in sys.path:
            sys.path.append(folder)
        return importlib.import_module(name)
    except TaskModuleError:
        raise
    except ModuleNotFoundError as error:
        if not _is_path(entry) and error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise TaskModuleError(
                f"there is no module {name}; use a name that Python can import, or the path of a .py file"
            ) from error
        raise TaskModuleError(f"{entry} cannot be imported: {_describe(error)}") from error
    except BaseException as error:  # a module may raise anything during its import, even SystemExit
        if isinstance(error, ValueError) and "already registered" in str(error):
            raise TaskModuleError(f"{entry} registers a name that already exists: {error}") from error
        raise TaskModuleError(f"{entry} cannot be imported: {_describe(error)}") from error


def _import_file(name: str, path: Path) -> ModuleType:
    if path.suffix != ".py":
        raise TaskModuleError(f"{path} is not a .py file; for a package, use the name that Python imports")
    if not path.is_file():
        raise TaskModuleError(f"there is no file {path}")
    other = sys.modules.get(name)
    if other is None:
        found = importlib.util.find_spec(name) if name.isidentifier() else None
        is_other = found is not None and (found.origin is None or not _is_same(found.origin, path))
    else:
        is_other = not _is_same(getattr(other, "__file__", None) or "", path)
    if is_other:
        raise TaskModuleError(f"{path} has the same name as another module, {name}; rename the file")
    if other is not None:
        return other
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # to unpickle the module's objects, pickle looks the module up by name
    # Like a script, the file can import modules beside it. The folder comes last, so that it hides no installed module.
    sys.path.append(str(path.parent))
    spec.loader.exec_module(module)
    return module


def _is_same(path: str, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _describe(error: BaseException) -> str:
    """Return an error as one line, with the last line of code in its traceback."""
    text = error_text(error)
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return text
    return f"{text} (line {frames[-1].lineno} of {os.path.basename(frames[-1].filename)})"


def _check_names(module: str, before: Mapping[str, object], registry: Mapping[str, object]) -> None:
    known = {task.casefold(): task for task in before}
    for task, classes in registry.items():
        if task in before:
            if classes is not before[task]:
                raise TaskModuleError(f"{module} registers a name that already exists: {task}")
        elif not isinstance(task, str) or TASK_NAME.fullmatch(task) is None:
            raise TaskModuleError(
                f"{module} registers {task!r}, but a task name may contain only letters, digits and _ . + -"
            )
        elif task.casefold() in known:
            other = known[task.casefold()]
            raise TaskModuleError(f"{module} registers {task}, which differs from {other} only in upper and lower case")
        else:
            known[task.casefold()] = task


# ------------------------------------------------------------------ releases


def release_of(name: str, module: ModuleType, *, is_file: bool) -> str:
    """Return `NAME@VERSION` if an installed distribution has the module; else `NAME@HASH` with a hash of the source.

    An editable installation gets a hash, because code may change while the version stays the same.
    """
    version = None if is_file else _installed_version(name.partition(".")[0], module)
    if version is None:
        digest = hashlib.blake2b(digest_size=6)
        for file in _source_files(module):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        version = digest.hexdigest()
    return f"{name}@{version}".replace(":", "")  # a colon separates the parts of a reference


def _installed_version(package: str, module: ModuleType) -> str | None:
    """Return the version of the distribution that installed a package; None if no distribution installed it."""
    first, *_ = _source_files(module) or [Path()]
    # Most distributions have their package's name. Looking up the names of all packages takes half a second.
    names = [package]
    if not {"site-packages", "dist-packages"}.isdisjoint(first.parts):
        names += importlib.metadata.packages_distributions().get(package, ())
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            distribution = importlib.metadata.distribution(name)
            if first.resolve().is_relative_to(Path(str(distribution.locate_file(""))).resolve()):
                return distribution.version
    return None


def _source_files(module: ModuleType) -> list[Path]:
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    if folders:
        return sorted(file for folder in folders for file in folder.rglob("*.py"))
    return [Path(str(module.__file__))]


def read_paths(module: ModuleType) -> tuple[str, ...]:
    """Return the paths that workers may read: the folder of a package, or the single file of a module."""
    folders = tuple(str(folder) for folder in getattr(module, "__path__", ()))
    return folders or (str(module.__file__),)

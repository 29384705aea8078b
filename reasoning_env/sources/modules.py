"""Import the modules of `task_modules`. Runs in the fork server only.

A module registers tasks with reasoning-gym, or has a function `make_source()` that returns a source of other tasks
(`contract.py`), or both. It is a name that Python can import, or the path of a `.py` file.

The code is the user's own: it is imported before the sandbox closes, in the process that workers are forked from, and
never in the process of the event loop.
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
"""Names that references, patterns and lists of names can hold."""


class TaskModuleError(Exception):
    """A module cannot be used; the text is one line."""


@dataclass(frozen=True)
class ImportedModules:
    """What modules add: for each task that is registered with reasoning-gym, its module; and sources of other tasks."""

    modules: Mapping[str, TaskModule]
    sources: Sequence[Source]
    read_paths: frozenset[str]


@dataclass(frozen=True)
class TaskModule:
    """An imported module: its name, which is also the category of its tasks, and its release.

    `read_paths` are the folder of a package, or the one file: what its late imports and its data may read.
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
    """Import the modules, which register tasks in `registry`, and return what they add.

    `folder` is the working directory of the user, in which modules are looked for last. `announce` is told each entry
    before its import. Raises TaskModuleError:

    - two modules have one name
    - a module is missing, raises, or registers no task
    - a task has the name of another task, or a name that a reference cannot hold
    """
    named: dict[str, str] = {}
    for entry in dict.fromkeys(entries):
        name = module_name(entry)
        if name in named:
            raise TaskModuleError(f"two modules are called {name}: {named[name]} and {entry}")
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
                f"{entry} registers no task: call register_dataset of reasoning_gym.factory for each of its tasks"
            )
        described = TaskModule(name, release_of(name, module, is_file=_is_path(entry)), read_paths(module))
        found |= dict.fromkeys(new, described)
        readable.update(described.read_paths)
    return ImportedModules(found, sources, frozenset(readable))


def _make_source(entry: str, module: ModuleType) -> Source:
    try:
        source = module.make_source()
    except Exception as error:
        raise TaskModuleError(f"{entry} makes no source: {_describe(error)}") from error
    if not isinstance(source, Source):
        raise TaskModuleError(f"make_source() of {entry} returns {type(source).__name__}, which is no Source")
    return source


def import_module(entry: str, folder: str | None) -> ModuleType:
    """Import one module of the user's, as `import_task_modules` does. Raises TaskModuleError."""
    return _import(module_name(entry), entry, folder)


def module_name(entry: str) -> str:
    """Return the name of a module: the name itself, or the name of its file without `.py`."""
    return Path(entry).stem if _is_path(entry) else entry


def absolute_entry(entry: str) -> str:
    """Return the absolute path of a module's file; the name of a module stays."""
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
                f"there is no module {name}: give a name that Python can import, or the path of a .py file"
            ) from error
        raise TaskModuleError(f"{entry} cannot be imported: {_describe(error)}") from error
    except BaseException as error:  # whatever a module raises while it is imported, SystemExit included
        if isinstance(error, ValueError) and "already registered" in str(error):
            raise TaskModuleError(f"{entry} registers a name that exists: {error}") from error
        raise TaskModuleError(f"{entry} cannot be imported: {_describe(error)}") from error


def _import_file(name: str, path: Path) -> ModuleType:
    if path.suffix != ".py":
        raise TaskModuleError(f"{path} is no .py file; write the name of a package as Python imports it")
    if not path.is_file():
        raise TaskModuleError(f"there is no file {path}")
    other = sys.modules.get(name)
    if other is None:
        found = importlib.util.find_spec(name) if name.isidentifier() else None
        is_other = found is not None and (found.origin is None or not _is_same(found.origin, path))
    else:
        is_other = not _is_same(getattr(other, "__file__", None) or "", path)
    if is_other:
        raise TaskModuleError(f"{path} has the name of another module, {name}: rename the file")
    if other is not None:
        return other
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # entries hold objects of the module, which are unpickled by its name
    # Modules beside the file can be imported, as for a script. Last, so that none of them hides an installed module.
    sys.path.append(str(path.parent))
    spec.loader.exec_module(module)
    return module


def _is_same(path: str, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _describe(error: BaseException) -> str:
    """Return an error in one line, with the last line of code that the traceback names."""
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
                raise TaskModuleError(f"{module} registers a name that exists: {task}")
        elif not isinstance(task, str) or TASK_NAME.fullmatch(task) is None:
            raise TaskModuleError(
                f"{module} registers the name {task!r}: a name has letters, digits and _ . + - alone, and no blank"
            )
        elif task.casefold() in known:
            other = known[task.casefold()]
            raise TaskModuleError(f"{module} registers a name that exists in other letters: {task} beside {other}")
        else:
            known[task.casefold()] = task


# ------------------------------------------------------------------ releases


def release_of(name: str, module: ModuleType, *, is_file: bool) -> str:
    """Return `NAME@VERSION` of the module's installed distribution, or `NAME@HASH` of its source if it has none.

    The hash covers the one file, or all `.py` files below the folder of a package. An editable installation changes
    without its version, so it has a hash.
    """
    version = None if is_file else _installed_version(name.partition(".")[0], module)
    if version is None:
        digest = hashlib.blake2b(digest_size=6)
        for file in _source_files(module):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        version = digest.hexdigest()
    return f"{name}@{version}".replace(":", "")


def _installed_version(package: str, module: ModuleType) -> str | None:
    """Return the version of the distribution that installed a package; None if the package lies elsewhere."""
    first, *_ = _source_files(module) or [Path()]
    # Most distributions have their package's name. To ask for the names of all packages takes half a second.
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
    """Return the folder of a package, or the one file of a module."""
    folders = tuple(str(folder) for folder in getattr(module, "__path__", ()))
    return folders or (str(module.__file__),)

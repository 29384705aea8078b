"""Faster functions that replace slow generators of the library and make the same problems. Used by generator workers.

Each module has the functions for one task or a few tasks, and the proof that questions, answers and metadata stay the
same. A task's declaration names its faster functions. The functions are installed only if the library's files are those
for which the proof was written.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Collection, Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ...tasks import find_task
from ...tasks.declaration import Replacement
from .facts import answer_integer_facts, cache_deductions


def fits(replacement: Replacement, library: Path) -> bool:
    """Return True if the library's module has the same content as when the replacement was proven correct."""
    digest = sha256()
    files = library / replacement.module.replace(".", "/")
    for file in sorted(files.glob("*.py")) if files.is_dir() else [files.with_suffix(".py")]:
        digest.update(file.read_bytes() if file.exists() else b"")
    return digest.hexdigest().startswith(replacement.fingerprint)


class FasterGenerators:
    """The faster functions for a library, without functions for which `fits` returns False.

    `warnings` names the tasks of the functions that are left out.
    """

    def __init__(self, library: ModuleType, tasks: Collection[str]) -> None:
        self._library = library
        possible = {task: faster for task in sorted(tasks) if (faster := find_task(task).faster) is not None}
        folder = Path(str(library.__file__)).parent
        self._fitting = [faster for faster in possible.values() if fits(faster, folder)]
        others = ", ".join(task for task, faster in possible.items() if faster not in self._fitting)
        self.warnings = (
            [f"generators of {others} stay slow, because the faster code does not fit this library"] if others else []
        )

    def install(self) -> None:
        """In this process, replace the library's functions with the faster functions."""
        if "sympy" in sys.modules:  # a checkout may not use sympy, whose import takes 0.3 s
            cache_deductions(import_module("sympy.core.facts").FactKB)
            answer_integer_facts(import_module("sympy").Integer)
        for replacement in self._fitting:
            module, function = replacement.installer.split(".")
            install = getattr(import_module(f".{module}", __name__), function)
            install(import_module(f"{self._library.__name__}.{replacement.module}"))


def edited(function: Any, replacements: Mapping[str, str], **names: object) -> Any:
    """Return a copy of a function, compiled after replacements in its source. `names` are extra globals of the copy.

    Raises ValueError unless each string to replace occurs exactly once.
    """
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in replacements.items():
        if source.count(old) != 1:
            raise ValueError(f"this text must occur exactly once in the source of {function.__qualname__}: {old}")
        source = source.replace(old, new)
    compiled: dict[str, Any] = {}
    exec(compile(source, inspect.getfile(function), "exec"), {**vars(inspect.getmodule(function)), **names}, compiled)
    return compiled[function.__name__]

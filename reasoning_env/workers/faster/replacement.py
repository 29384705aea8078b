"""What each module of this folder offers: faster functions of one task, and when they fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Replacement:
    """`install` puts the functions of a task into a module of the library, or into the modules of a package.

    The argument for sameness rests on its files; `fingerprint` is the first 16 digits of their SHA-256.
    """

    task: str
    module: str
    fingerprint: str
    install: Callable[[Any], None]

    def fits(self, library: Path) -> bool:
        """Whether the library in a folder has the very source that this was made for."""
        source = library / self.module.replace(".", "/")
        digest = sha256()
        for file in sorted(source.glob("*.py")) if source.is_dir() else [source.with_suffix(".py")]:
            digest.update(file.read_bytes() if file.exists() else b"")
        return digest.hexdigest().startswith(self.fingerprint)

    def put_into(self, library: ModuleType) -> None:
        self.install(import_module(f"{library.__name__}.{self.module}"))

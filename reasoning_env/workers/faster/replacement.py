"""What each module of this folder offers: faster functions of one task, and when they fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

FindModule = Callable[[str], Any]
"""Gives a module of the library by its name inside it, as in "games.countdown"."""


@dataclass(frozen=True)
class Replacement:
    """`install` puts the functions of a task into the library's modules.

    `source` is the file of the library, or the folder of files, that the argument for sameness rests on, and
    `fingerprint` the first 16 digits of its SHA-256.
    """

    task: str
    source: str
    fingerprint: str
    install: Callable[[FindModule], None]

    def fits(self, library: Path) -> bool:
        """Whether the library in a folder has the very source that this was made for."""
        source = library / self.source
        digest = sha256()
        for file in sorted(source.glob("*.py")) if source.is_dir() else [source]:
            digest.update(file.read_bytes() if file.exists() else b"")
        return digest.hexdigest().startswith(self.fingerprint)

"""Make the library's slow generators fast, without changing a single problem. Generator workers only.

Each module holds faster functions of a task or two, with the argument why every question, answer and piece of metadata
stays the same. They take the place of the library's own where its files are, byte for byte, those of the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from . import arithmetic, futoshiki, game_of_life, knight_swap, number_sequence, quantum_lock, sokoban, zebra_puzzles


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


REPLACEMENTS = (
    Replacement("countdown", "games.countdown", "349cd7042a92a8b5", arithmetic.install_countdown),
    Replacement("futoshiki", "games.futoshiki", "1e17d801b9695f35", futoshiki.install),
    Replacement("game_of_life", "algorithmic.game_of_life", "0cd5e37e542f2e95", game_of_life.install),
    Replacement("knight_swap", "games.knight_swap", "a9de444d885125e0", knight_swap.install),
    Replacement("number_sequence", "cognition.number_sequences", "55e52b526312c06e", number_sequence.install),
    Replacement("puzzle24", "games.puzzle24", "542f8a43867de1cc", arithmetic.install_puzzle24),
    Replacement("quantum_lock", "graphs.quantum_lock", "2f96d165fe0a33fb", quantum_lock.install),
    Replacement("sokoban", "games.contrib.sokoban.src", "7549344e2aaa16b2", sokoban.install),
    Replacement("zebra_puzzles", "logic.contrib.logic_puzzle", "ba1a7c8a8e587cc4", zebra_puzzles.install),
)


class FasterGenerators:
    """The replacements that fit a library; `warnings` tell which of its `tasks` have other sources than the known."""

    def __init__(self, library: ModuleType, tasks: Collection[str]) -> None:
        self._library = library
        known = [replacement for replacement in REPLACEMENTS if replacement.task in tasks]
        self._fitting = [replacement for replacement in known if replacement.fits(Path(str(library.__file__)).parent)]
        others = ", ".join(replacement.task for replacement in known if replacement not in self._fitting)
        self.warnings = [f"fast_generators: this library's {others} are not as known and stay slow"] if others else []

    def install(self) -> None:
        """Replace the library's functions in this process."""
        for replacement in self._fitting:
            replacement.install(import_module(f"{self._library.__name__}.{replacement.module}"))

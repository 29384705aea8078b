"""Make the library's slow generators fast, without changing a single problem. Generator workers only.

Each module holds faster functions of a task or two, with the argument why every question, answer and piece of metadata
stays the same. They take the place of the library's own where its files are, byte for byte, those of the argument.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class Replacement:
    """Functions of a task, `ours`, for a module of the library, or for the modules of a package.

    The argument for sameness rests on its files; `fingerprint` is the first 16 digits of their SHA-256.
    """

    task: str
    module: str
    fingerprint: str
    ours: str

    def fits(self, library: Path) -> bool:
        """Tell whether the library in a folder has the very files of the argument."""
        files = library / self.module.replace(".", "/")
        digest = sha256()
        for file in sorted(files.glob("*.py")) if files.is_dir() else [files.with_suffix(".py")]:
            digest.update(file.read_bytes() if file.exists() else b"")
        return digest.hexdigest().startswith(self.fingerprint)


REPLACEMENTS = (
    Replacement("countdown", "games.countdown", "349cd7042a92a8b5", "arithmetic"),
    Replacement("futoshiki", "games.futoshiki", "1e17d801b9695f35", "futoshiki"),
    Replacement("game_of_life", "algorithmic.game_of_life", "0cd5e37e542f2e95", "game_of_life"),
    Replacement("intermediate_integration", "algebra.intermediate_integration", "74838f0224b504e3", "integration"),
    Replacement("knight_swap", "games.knight_swap", "a9de444d885125e0", "knight_swap"),
    Replacement("number_sequence", "cognition.number_sequences", "55e52b526312c06e", "number_sequence"),
    Replacement("puzzle24", "games.puzzle24", "542f8a43867de1cc", "arithmetic"),
    Replacement("quantum_lock", "graphs.quantum_lock", "2f96d165fe0a33fb", "quantum_lock"),
    Replacement("sokoban", "games.contrib.sokoban.src", "7549344e2aaa16b2", "sokoban"),
    Replacement("sudoku", "games.sudoku", "dcb9e0c968d33b0f", "sudoku"),
    Replacement("zebra_puzzles", "logic.contrib.logic_puzzle", "ba1a7c8a8e587cc4", "zebra_puzzles"),
)


class FasterGenerators:
    """The replacements that fit a library; `warnings` name the `tasks` whose sources differ."""

    def __init__(self, library: ModuleType, tasks: Collection[str]) -> None:
        self._library = library
        possible = [replacement for replacement in REPLACEMENTS if replacement.task in tasks]
        folder = Path(str(library.__file__)).parent
        self._fitting = [replacement for replacement in possible if replacement.fits(folder)]
        others = ", ".join(replacement.task for replacement in possible if replacement not in self._fitting)
        self.warnings = [f"fast_generators: this library's {others} are not as known and stay slow"] if others else []

    def install(self) -> None:
        """Replace the library's functions in this process."""
        for replacement in self._fitting:
            ours = import_module(f".{replacement.ours}", __name__)
            ours.install(import_module(f"{self._library.__name__}.{replacement.module}"))

"""Make the library's slow generators fast, without changing a single problem. Generator workers only.

Each module holds faster functions of a task or two, with the argument why every question, answer and piece of metadata
stays the same. They take the place of the library's own where its files are, byte for byte, those of the argument.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from types import ModuleType

from . import arithmetic, futoshiki, game_of_life, knight_swap, number_sequence, quantum_lock, sokoban, zebra_puzzles

MODULES = (arithmetic, futoshiki, game_of_life, knight_swap, number_sequence, quantum_lock, sokoban, zebra_puzzles)
REPLACEMENTS = [replacement for module in MODULES for replacement in module.REPLACEMENTS]


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
            replacement.install(lambda name: import_module(f"{self._library.__name__}.{name}"))

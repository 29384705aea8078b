"""Make the library's slow generators fast, without changing a single problem. Generator workers only.

Each module holds faster functions of a task or two, with the argument why every question, answer and piece of metadata
stays the same. They take the place of the library's own where its files are, byte for byte, those of the argument.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Replacement:
    """Faster functions of a task for a module of the library, or for the modules of a package.

    `ours` names the function of this package that puts them there, as `module.function`.
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
    Replacement("bf", "code.bf", "dc71afe6d2da7641", "bf.install"),
    Replacement("countdown", "games.countdown", "349cd7042a92a8b5", "arithmetic.install_countdown"),
    Replacement("figlet_font", "cognition.figlet_fonts", "a39ae5e48acca901", "small.install_figlet_font"),
    Replacement("futoshiki", "games.futoshiki", "1e17d801b9695f35", "latin.install_futoshiki"),
    Replacement("game_of_life", "algorithmic.game_of_life", "0cd5e37e542f2e95", "small.install_game_of_life"),
    Replacement(
        "intermediate_integration",
        "algebra.intermediate_integration",
        "74838f0224b504e3",
        "small.install_intermediate_integration",
    ),
    Replacement("knight_swap", "games.knight_swap", "a9de444d885125e0", "knight_swap.install"),
    Replacement("number_sequence", "cognition.number_sequences", "55e52b526312c06e", "small.install_number_sequence"),
    Replacement(
        "polynomial_multiplication",
        "algebra.polynomial_multiplication",
        "4a2d9db4b720f178",
        "small.install_polynomial_multiplication",
    ),
    Replacement("puzzle24", "games.puzzle24", "542f8a43867de1cc", "arithmetic.install_puzzle24"),
    Replacement("quantum_lock", "graphs.quantum_lock", "2f96d165fe0a33fb", "small.install_quantum_lock"),
    Replacement("sokoban", "games.contrib.sokoban.src", "7549344e2aaa16b2", "sokoban.install"),
    Replacement("sudoku", "games.sudoku", "dcb9e0c968d33b0f", "latin.install_sudoku"),
    Replacement("zebra_puzzles", "logic.contrib.logic_puzzle", "ba1a7c8a8e587cc4", "zebra_puzzles.install"),
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
            module, function = replacement.ours.split(".")
            install = getattr(import_module(f".{module}", __name__), function)
            install(import_module(f"{self._library.__name__}.{replacement.module}"))


def edited(function: Any, replacements: Mapping[str, str], **names: Any) -> Any:
    """Compile a function with replaced text; `names` holds what the new text uses beyond the function's own names.

    The function's file must be the one that the replacements were written for. Raises ValueError for an old text that
    is not there exactly once.
    """
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in replacements.items():
        if source.count(old) != 1:
            raise ValueError(f"not once in {function.__qualname__}: {old}")
        source = source.replace(old, new)
    compiled: dict[str, Any] = {}
    exec(compile(source, inspect.getfile(function), "exec"), {**vars(inspect.getmodule(function)), **names}, compiled)
    return compiled[function.__name__]

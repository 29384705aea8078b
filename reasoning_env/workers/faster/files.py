"""codeio, figlet_font, rush_hour and spell_backward: read a file once; the dataset of each level takes its part.

The same data, in the file's order.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from . import OF_BASE, edited


def install_codeio(module: Any) -> None:
    @cache
    def read_programs() -> list[dict[str, Any]]:
        with module.gzip.open(module.get_data_file_path("codeio.jsonl.gz"), "rt", encoding="utf-8") as file:
            return [module.json.loads(line) for line in file]

    dataset = module.CodeIODataset
    from_memory = {
        'with gzip.open(self._data_path, "rt", encoding="utf-8") as f:': "if True:",
        "[json.loads(line) for line in f]": "read_programs()",
    }
    dataset.__init__ = edited(dataset.__init__, {**from_memory, **OF_BASE}, read_programs=read_programs)


def install_figlet_font(module: ModuleType) -> None:
    @cache
    def read_words() -> list[str]:
        with module.get_data_file_path("anagrams.jsonl").open() as file:
            return [word for line in file for word in module.json.loads(line)["words"]]

    dataset = module.FigletFontDataset
    from_memory = {"for line in f\n": "", 'json.loads(line)["words"]': "read_words()"}
    dataset.__init__ = edited(dataset.__init__, {**from_memory, **OF_BASE}, read_words=read_words)


def install_rush_hour(module: Any) -> None:
    @cache
    def read_boards() -> list[tuple[str, int]]:
        with module.get_data_file_path("rush_18k.txt").open() as file:
            return [(parts[1], int(parts[0])) for line in file if len(parts := line.split()) >= 2]

    def __init__(self: Any, config: Any) -> None:
        module.ProceduralDataset.__init__(self, config=config, seed=config.seed, size=config.size)
        self.puzzles = [puzzle for puzzle in read_boards() if config.min_moves <= puzzle[1] <= config.max_moves]
        if not self.puzzles:
            raise ValueError(f"No puzzles found with moves between {config.min_moves} and {config.max_moves}")

    module.RushHourDataset.__init__ = __init__


def install_spell_backward(module: Any) -> None:
    @cache
    def read_words(name: str) -> list[str]:
        return [word for line in module.read_data_file(name).splitlines() if (word := line.strip()).isalnum()]

    def __init__(self: Any, config: Any) -> None:
        module.ProceduralDataset.__init__(self, config=config, seed=config.seed, size=config.size)
        words = read_words(config.data_file)
        self.words = [word for word in words if config.min_word_len <= len(word) <= config.max_word_len]

    module.SpellBackwardDataset.__init__ = __init__

"""codeio and figlet_font: read a file once; the dataset of each level takes its part.

The same data, in the file's order.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from . import edited

OF_BASE = {"super().__init__(": "ProceduralDataset.__init__(self, "}
"""A compiled function has no class that `super()` could find."""


def install_codeio(module: ModuleType) -> None:
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

"""Code and commands from the trainer pages in `docs/`, for the tests that run them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = "\n".join((DOCS / name).read_text() for name in ("trainers.md", "own.md", "tasks.md"))


def shown_block(language: str, word: str) -> str:
    """Return the first code block in this language that contains a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", SHOWN, re.DOTALL | re.MULTILINE)
    return next(block for block in blocks if word in block)


def shown_commands(word: str) -> list[list[str]]:
    """Return the commands of the first shell block that contains a word, each as a list of words."""
    lines = shown_block("bash", word).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines]

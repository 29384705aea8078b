"""A hook of mkdocs: the documentation's site begins with the README, and has the page of `learn`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "index.md": ("README.md", {"](docs/": "](", "](learn/README.md": "](learning.md"}),
    "learning.md": ("learn/README.md", {"](../docs/": "]("}),
}
"""Pages that lie outside `docs`: their names in the site, their files, and how their links begin here and there."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages; mkdocs calls this by its name once it has found those of `docs`."""
    for name, (source, links) in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        for here, there in links.items():
            text = text.replace(here, there)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links of the pages of `docs` to the page of `learn`."""
    return markdown.replace("](../learn/README.md", "](learning.md").replace("](../README.md", "](index.md")

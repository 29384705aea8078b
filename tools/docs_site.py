"""A hook of mkdocs: add the README as the first page of the site, and the READMEs of `learn` and of the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "index.md": (
        "README.md",
        {"](docs/": "](", "](learn/README.md": "](learning.md", "](reasoning_audit/README.md": "](audit.md"},
    ),
    "learning.md": ("learn/README.md", {"](../docs/": "]("}),
    "audit.md": ("reasoning_audit/README.md", {"](../docs/": "]("}),
}
"""Pages outside `docs` by their name in the site: the file, and the beginnings of links in file and site."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages. mkdocs calls this function by its name after it has found the pages of `docs`."""
    for name, (source, links) in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        for here, there in links.items():
            text = text.replace(here, there)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links to the READMEs in the pages of `docs` into links of the site."""
    for name, (source, _) in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the content of the page of settings into an element of the class `settings`, which `docs/site.css` styles."""
    return f'<div class="settings">{html}</div>' if page.file.src_uri == "settings.md" else html

"""A hook of mkdocs: README, changelog, and the READMEs of `learn`, `hub` and the audit are pages of the site too."""

from __future__ import annotations

import re
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
    "nemo-gym.md": ("hub/nemo_gym/README.md", {"](../../docs/": "]("}),
    "openenv.md": ("hub/openenv/reasoning_gym_environment/README.md", {"](../../../docs/": "]("}),
    "changelog.md": (
        "CHANGELOG.md",
        {
            "](docs/": "](",
            "](reasoning_audit/README.md": "](audit.md",
        },
    ),
}
"""Pages outside `docs` by their name in the site: the file, and the beginnings of links in file and site."""


def on_config(config: Any) -> Any:
    """Name the version in the foot of each page. mkdocs calls this function by its name at the start."""
    source = (ROOT / "reasoning_env" / "__init__.py").read_text(encoding="utf-8")
    [version] = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    config.copyright = f"reasoning-gym environment {version}"
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages. mkdocs calls this function by its name after it has found the pages of `docs`."""
    for name, (source, links) in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        for here, there in links.items():
            text = text.replace(here, there)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links to files outside `docs` in the pages of `docs` into links of the site."""
    for name, (source, _) in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the content of the page of settings into an element of the class `settings`, which `docs/site.css` styles."""
    return f'<div class="settings">{html}</div>' if page.file.src_uri == "settings.md" else html

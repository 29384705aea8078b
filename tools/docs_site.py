"""A hook of mkdocs: add pages from outside `docs`, and the help of each command, to the documentation's site."""

from __future__ import annotations

import os
import re
import subprocess
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


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files outside `docs` into links of the site, and add the help of each command to its page."""
    for name, (source, _) in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    if page.file.src_uri == "commands.md":
        page.meta["hide"] = ["toc"]  # the table lists the commands, and the help needs the room
        markdown += _sections_of_commands()
    return markdown


def _sections_of_commands() -> str:
    """Return a table of the commands, and a section for each with the output of its `--help`."""
    commands = re.findall(r"^  (\w+) +(\S.*)$", _help(), re.MULTILINE)
    rows = "".join(f"| [{name}](#{name}) | {words} |\n" for name, words in commands)
    sections = "".join(f"\n## {name}\n\n```text\n{_help(name)}```\n" for name, _ in commands)
    return f"\n| command | what it does |\n| --- | --- |\n{rows}{sections}"


def _help(*command: str) -> str:
    """Return what `--help` prints, of a command or of the whole program. Needs the environment that `make` makes."""
    words = [str(ROOT / ".venv/bin/python"), "reasoning_gym_environment.py", *command, "--help"]
    wide = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(words, cwd=ROOT, env=wide, check=True, capture_output=True, text=True).stdout


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the content of a page into an element whose class is the page's name, for `docs/site.css`."""
    return f'<div class="page-{Path(page.file.src_uri).stem}">{html}</div>'

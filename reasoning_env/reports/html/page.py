"""Fill the page's template with script, style, data and a policy that lets nothing else run."""

from __future__ import annotations

import base64
import gzip
import hashlib
from importlib.resources import files
from pathlib import Path

from ...errors import ConfigError
from ...files import replace_file

STYLES = ("uPlot.min.css", "style.css")
SCRIPTS = ("uPlot.iife.min.js", "app.js")


def make_page(data: bytes) -> str:
    """Return the page that shows `data`, which is JSON in ASCII.

    The data are in it as base64 of gzip, so no text in them can be taken for markup. The policy allows this script and
    this style by their hashes, and no connection to anywhere.
    """
    assets = files(__package__) / "assets"
    style, script = (
        "\n".join((assets / name).read_text(encoding="utf-8") for name in names) for names in (STYLES, SCRIPTS)
    )
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = (assets / "index.html").read_text(encoding="utf-8")
    for name, value in {
        "POLICY": policy,
        "STYLE": style,
        "SCRIPT": script,
        "DATA": base64.b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii"),
    }.items():
        page = page.replace(f"%%{name}%%", value)
    return page


def write_page(path: Path, page: str) -> None:
    """Write the file beside its place, then rename it; raises ConfigError where that is not possible."""
    try:
        replace_file(path, [page.encode()], mode=0o666)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; choose another file with `-o FILE`") from error


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"

"""The `settings` command: settings with default, range and meaning; all, or those with some words.

Atropos' settings are read from a file, because importing its classes takes seconds; a test holds the file to them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ConfigError, did_you_mean
from ..settings import ReasoningSettings, default_text, range_text
from ..terminal import Table, print_json

ATROPOS_SETTINGS = Path(__file__).with_name("atropos_settings.json")
COLUMNS = {"SETTING": "", "DEFAULT": "", "RANGE": "", "MEANING": ""}

SettingRow = Sequence[str]
"""Name, default, range and meaning."""


def settings_command(argv: Sequence[str]) -> int:
    """Print the settings; returns 0. Raises ConfigError where none has the words that are looked for."""
    options = _parse(argv)
    found = {title: [row for row in rows if _has(row, options.words)] for title, rows in all_settings().items()}
    found = {title: rows for title, rows in found.items() if rows}
    if not found:
        names = [row[0] for rows in all_settings().values() for row in rows]
        hint = did_you_mean(options.words[-1].lower(), names)
        raise ConfigError(f"no setting has {' and '.join(options.words)} in its name or meaning{hint}")
    if options.json:
        print_json({title: Table(COLUMNS, rows).records() for title, rows in found.items()})
    elif options.markdown:
        print("\n\n".join(f"#### {title}\n\n{_markdown(rows)}" for title, rows in found.items()))
    else:
        for title, rows in found.items():
            print(f"{title}\n")
            Table(COLUMNS, rows).print()
            print()
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="settings", description="Print all settings, or search them.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only settings with these in their name or meaning")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="the tables of the README")
    forms.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser.parse_args(argv)


def all_settings() -> dict[str, Sequence[SettingRow]]:
    """Return all settings in sections, by their titles."""
    own = [
        (name, default_text(field), range_text(field), field.description or "")
        for name, field in ReasoningSettings.model_fields.items()
    ]
    atropos: Mapping[str, Sequence[SettingRow]] = json.loads(ATROPOS_SETTINGS.read_text())
    return {"This environment's settings (`--env.NAME`)": own, **atropos}


def _has(row: SettingRow, words: Sequence[str]) -> bool:
    name, _default, _range, meaning = row
    return all(word.lower() in f"{name} {meaning}".lower() for word in words)


def _markdown(rows: Sequence[SettingRow]) -> str:
    lines = ["| setting | default | range | meaning |", "| --- | --- | --- | --- |"]
    for name, default, allowed, meaning in rows:
        shown = default if default in ("empty", "none", "a text") else f"`{default}`"
        cells = (f"`{name}`", shown, allowed, meaning)
        lines.append("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |")
    return "\n".join(lines)

"""The command `settings`: print all settings, or the settings with some words.

The settings of Atropos are known only to its own package, whose import takes seconds. `settings.json` beside this
module holds what the command shows of `ReasoningGymEnv`, so that neither the seconds nor the package are needed.
`python -m tools.settings_page` writes the file, and a test compares the file with the class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ..errors import ConfigError, did_you_mean
from ..runtime.terminal import Table, print_json
from .options import ABOUT, settings_parser, short_names
from .parser import program

SETTINGS_FILE = Path(__file__).with_name("settings.json")

SettingRow = tuple[str, str, str, str]
"""Name, default, range and meaning."""


class SettingsPage(TypedDict):
    """What the command shows."""

    rows: Mapping[str, Sequence[SettingRow]]
    """Settings by the titles of their sections."""
    schema: Mapping[str, Any]
    """The JSON Schema of a file for `--config`."""


def settings_command(argv: Sequence[str], folder: Path | None = None, page: SettingsPage | None = None) -> int:
    """Print all settings, or the settings with some words, and return 0.

    Without a page, the settings are those of `ReasoningGymEnv`. Raises ConfigError if no setting has the words.
    """
    options = settings_parser(program()).read(argv)
    shown = read_page() if page is None else page
    words = options["words"]
    if words and options["json"]:
        raise ConfigError("--json prints the schema of all settings", remedy="leave the words out")
    all_rows = shown["rows"]
    if not options["markdown"] and not options["json"]:
        short = {command: short_names(command) for command in ABOUT}
        all_rows = {title: [_with_short_names(row, short) for row in rows] for title, rows in all_rows.items()}
    matching = {title: [row for row in rows if _has_words(row, words)] for title, rows in all_rows.items()}
    matching = {title: rows for title, rows in matching.items() if rows}
    if not matching:
        names = [name for rows in shown["rows"].values() for name, *_ in rows]
        remedy = did_you_mean(words[-1].lower(), names)
        raise ConfigError(f"no setting has {' and '.join(words)} in its name or meaning", remedy=remedy)
    if options["json"]:
        print_json(shown["schema"])
    elif options["markdown"]:
        print("\n\n".join(f"#### {title}\n\n{_markdown(rows)}" for title, rows in matching.items()))
    else:
        for title, rows in matching.items():
            print(f"{title}\n")
            Table({"SETTING": "", "DEFAULT": "", "RANGE": "", "MEANING": ""}, rows).print()
            print()
    return 0


def read_page() -> SettingsPage:
    """Return the content of `settings.json`."""
    page: SettingsPage = json.loads(SETTINGS_FILE.read_text())
    return page


def encode_page(page: SettingsPage) -> str:
    """Return the text of `settings.json`."""
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"


def _has_words(row: SettingRow, words: Sequence[str]) -> bool:
    """Tell whether all words stand in a setting's name, its choices or its meaning."""
    name, _default, choices, meaning = row
    return all(word.lower() in f"{name} {choices} {meaning}".lower() for word in words)


def _with_short_names(row: SettingRow, short: Mapping[str, Mapping[str, str]]) -> SettingRow:
    """Return the row with the `short` options of the setting, by command, behind its meaning.

    `Written short: evaluate --limit.` An option of all commands stands without a command.
    """
    name, default, choices, meaning = row
    commands_of: dict[str, list[str]] = {}
    for command, options in short.items():
        for option, setting in options.items():
            if setting.partition(".")[2] == name:
                commands_of.setdefault(option, []).append(command)
    texts = []
    for option, commands in commands_of.items():
        texts += [option] if len(commands) == len(short) else [f"{command} {option}" for command in commands]
    return name, default, choices, f"{meaning.rstrip('.')}. Written short: {', '.join(texts)}." if texts else meaning


ON_PAGES: Mapping[str, str] = {"server_type": "[a type of server](servers.md)"}
"""Ranges that another page of the documentation tells, by setting."""


def _markdown(rows: Sequence[SettingRow]) -> str:
    lines = ["| setting | default | range | meaning |", "| --- | --- | --- | --- |"]
    for name, default, allowed, meaning in rows:
        shown = default if default in ("empty", "none", "a text") else f"`{default}`"
        cells = (f"`{name}`", shown, ON_PAGES.get(name, allowed), meaning)
        lines.append("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |")
    return "\n".join(lines)

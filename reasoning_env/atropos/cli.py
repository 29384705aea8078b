"""The commands of an environment class: `serve`, `process` and `settings`.

API keys never appear in the output or the log.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..data.training import Selection, write_kept
from ..inference.addresses import find_secrets
from ..program.config_files import warn_of_ignored
from ..program.options import OptionParser, full_parser
from ..program.parser import errors_for_user
from ..program.running import start_log
from ..program.selection import check_selection
from ..program.settings import settings_command
from ..program.shared_options import read_selection
from ..runtime.text import pluralize, redact
from ..settings.given import description_line
from ..storage.folders import FOLDER, find_checkout
from .config import (
    BASE_RANGES,
    SERVER_RANGES,
    needs_tokenizer,
    tune_process_for_event_loop,
)
from .environment import EnvironmentClass
from .launch import build_launch, server_class
from .modes.mode import Mode
from .modes.process import Process
from .modes.serve import Serve

logger = logging.getLogger(__name__)


def commands(env_cls: EnvironmentClass) -> dict[str, Callable[[Sequence[str]], int]]:
    """Return an environment class' commands by name; each takes arguments and returns an exit status."""
    managers = {Serve: "env_manager", Process: "process_manager"}
    running = {
        mode_cls.name: functools.partial(run_environment, env_cls, mode_cls, manager)
        for mode_cls, manager in managers.items()
    }
    return {
        **running,
        "settings": functools.partial(print_settings, env_cls),
    }


def environment_options(env_cls: EnvironmentClass, command: str) -> OptionParser:
    """Return the parser of `serve` or `process`, with all settings of an environment class."""
    defaults, servers = env_cls.config_init()
    return full_parser(command, type(defaults).model_fields, server_class(servers).model_fields)


def own_defaults(env_cls: EnvironmentClass) -> dict[str, object]:
    """Return the settings to which an environment class gives its own defaults."""
    defaults, _ = env_cls.config_init()
    return defaults.model_dump(exclude_unset=True)


# ------------------------------------------------------------------ serve and process


def run_environment(env_cls: EnvironmentClass, mode_cls: type[Mode], manager: str, argv: Sequence[str]) -> int:
    """Run a mode's command and return the exit status. `manager` is the name of the environment's method to call.

    Raises ConfigError for a user's mistake, and the errors that the environment's method raises.
    """
    parser = environment_options(env_cls, mode_cls.name)
    options = parser.read(argv)
    names = parser.setting_names(argv)
    selection = read_selection(options)
    if selection.pass_rates is not None and selection.keep is None:
        parser.error("--pass-rate needs --keep")
    mode = mode_cls()
    with errors_for_user(names):
        launch = build_launch(env_cls, mode, options)
    secrets = find_secrets(launch.server_list)
    # Remove the key from the command line, which wandb and other packages store.
    sys.argv[1:] = [mode.name, *(redact(word, secrets) for word in argv)]
    start_log(secrets, quiet="quiet" in options, verbose="verbose" in options, as_json="log-json" in options)
    warn_of_ignored(mode.name, launch.ignored)
    if "print-config" in options:
        print(launch.as_yaml(), end="")
        return 0
    with errors_for_user(names, secrets):
        # Report wrong paths and wrong tasks before loading a tokenizer and waiting for a trainer.
        mode.check_files(launch.config)
        asyncio.run(check_selection(launch.config, find_checkout(FOLDER)))
        if needs_tokenizer(launch.servers):
            name = launch.config.tokenizer_name
            slow = "" if Path(name).exists() else " (without a network connection, it fails after a minute or more)"
            logger.info("loading the tokenizer %s%s", name, slow)
        env = env_cls(launch.config, launch.servers, slurm=launch.slurm, testing=launch.testing)
        tune_process_for_event_loop()
        try:
            asyncio.run(getattr(env, manager)())
        finally:
            env.print_summary()
            _write_kept(env.groups_path, selection)
    return 0


def _write_kept(groups: Path | None, selection: Selection) -> None:
    """If `--keep` is given, write training rows into the folder of the file `groups`."""
    if groups is not None and selection.keep is not None:
        path, number = write_kept(groups, selection)
        print(f"wrote {pluralize(number, 'training row')} to {path}")


# ------------------------------------------------------------------ settings


def print_settings(env_cls: EnvironmentClass, argv: Sequence[str]) -> int:
    """Print an environment class' settings that match the words `argv`; raises ConfigError if no setting matches."""
    defaults, _ = env_cls.config_init()
    return settings_command(argv, fields=type(defaults).model_fields, schema=lambda: settings_schema(env_cls))


def settings_schema(env_cls: EnvironmentClass) -> dict[str, object]:
    """Return the JSON Schema of a file for `--config`."""
    defaults, servers = env_cls.config_init()
    sections: dict[str, object] = {}
    definitions: dict[str, object] = {}
    for section, config_cls, ranges in (
        ("env", type(defaults), BASE_RANGES),
        ("openai", server_class(servers), SERVER_RANGES),
    ):
        schema = config_cls.model_json_schema()
        definitions |= schema.get("$defs", {})
        properties = schema["properties"]
        for name, entry in properties.items():
            field = config_cls.model_fields[name]
            # pydantic omits defaults that a factory creates
            entry.setdefault("default", field.get_default(call_default_factory=True))
            if field.description:
                entry["description"] = description_line(field)
        for name, limits in ranges.items():
            if name in properties:
                words = properties[name].get("description", "").removesuffix(".")
                properties[name]["description"] = f"{words}. It must be {limits.words}.".removeprefix(". ")
        sections[section] = {"type": "object", "additionalProperties": False, "properties": properties}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": sections,
        "$defs": definitions,
    }

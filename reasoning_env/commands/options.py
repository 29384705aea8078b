"""Parsers of the commands; the options of `serve`, `process` and `evaluate` are made from the fields of the settings.

The values of settings stay texts here. pydantic reads them later, like the values of a file.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pydantic.fields import FieldInfo

from ..dumps.chat import KEEP
from ..errors import ConfigError, did_you_mean
from ..settings import ReasoningSettings, default_text, range_text

ABOUT = {
    "serve": """\
Generate problems, score completions, and send groups whose scores differ to a trainer.

Ctrl-C lets groups in flight finish; a second Ctrl-C ends at once. If the trainer saves
checkpoints, the same command resumes the run.""",
    "process": """\
Write groups of scored completions to a file, one JSON line a group; no trainer is needed.

The same command finishes a file that is not complete. 64 groups are under way at a time, so
1000 groups take some 16 times as long as one. `report FILE` shows them.""",
    "evaluate": """\
Score a model on a fixed set of problems, the same on every machine.

All tasks at 5 problems each are about 500 completions, 16 of them under way at a time.
`--dry-run` shows what would be sent, and sends nothing.""",
}
"""Description of each command, for its help."""

SHORT = {
    "--preset": "env.eval_preset",
    "--model": "openai.model_name",
    "--base-url": "openai.base_url",
    "--tasks": "env.tasks",
    "--temperature": "env.temperature",
    "--seed": "env.seed",
}
SHORT_IN: Mapping[str, Mapping[str, str]] = {
    "serve": {},
    "process": {"-n": "env.group_size"},
    "evaluate": {
        "--tasks": "env.eval_tasks",
        "--limit": "env.num_eval_samples_per_task",
        "-n": "env.eval_repeats",
        "--repeats": "env.eval_repeats",
        "--temperature": "env.eval_temperature",
        "--max-tokens": "env.eval_max_completion_tokens",
        "--seed": "env.eval_seed",
    },
}
"""Short names of settings, as in other evaluation tools: of all commands, and of one command."""


def short_names(command: str) -> dict[str, str]:
    """Return the short options of a command, with their settings."""
    return {**SHORT, **SHORT_IN[command]}


class CommandParser(argparse.ArgumentParser):
    """Raises ConfigError for a mistake; argparse itself would print the usage and end the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(exit_on_error=False, **options)
        self.register("type", int, _whole_number)
        self.register("type", float, _number)

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Return the values of the options. Raises ConfigError for a mistake."""
        values, unknown = self.parse_known_args(args, namespace)
        if unknown:
            raise self.unknown_option(unknown[0])
        return values

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the values of the options, and the words that are no options. Raises ConfigError for a mistake."""
        try:
            return super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            if error.argument_name is None:
                self.error(error.message)
            raise ConfigError(error.message, setting=_as_typed(error.argument_name, args or ())) from error

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError for a mistake that is about no single option, such as a missing argument or two options."""
        raise ConfigError(message)

    def unknown_option(self, word: str) -> ConfigError:
        """Return the error for a word that is no option and no value."""
        name = word.partition("=")[0]
        if not name.startswith("--"):
            return ConfigError(f"{word!r} is not an option", remedy="options begin with --, as in --NAME VALUE")
        return ConfigError(f"there is no option {name}", remedy=did_you_mean(name, self._option_string_actions))

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as error:
            example = "as in --NAME VALUE, or --NAME=VALUE where the value begins with a minus"
            raise argparse.ArgumentError(action, f"{error.message}, {example}") from error

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(map(repr, action.choices))
            raise argparse.ArgumentError(action, f"must be one of {choices}; got {value!r}")


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number; got {text!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None


def _as_typed(names: str, argv: Sequence[str]) -> str:
    """Return the one of an option's names (`-n/--repeats`) that stands on a command line; all names where none does."""
    words = {word.partition("=")[0] for word in argv}
    return next((name for name in names.split("/") if name in words), names)


class OptionParser(CommandParser):
    """The parser of a command whose options are settings."""

    word_option: str | None = None
    """The option that a word without a name is the value of: the model of `evaluate`. None: such words are mistakes."""

    def read(self, argv: Sequence[str]) -> dict[str, Any]:
        """Return the values of the options, by name.

        Raises ConfigError:
            An option is not known.
            An option has no value.
            A word is neither an option nor a value.
        """
        options, unknown = self.parse_known_args(argv)
        values = vars(options)
        for word in unknown:
            is_word = not word.startswith("-") and "=" not in word
            if not is_word or self.word_option is None or self.word_option in values:
                raise self.unknown_option(word)
            values[self.word_option] = word
        return values

    def typed(self, argv: Sequence[str]) -> dict[str, str]:
        """Return how each option of a command line was written, by its name."""
        words = [word.partition("=")[0] for word in argv if word.startswith("-")]
        actions = self._option_string_actions
        return {actions[word].dest: word for word in words if word in actions}


def option_parser(
    program: str,
    command: str,
    env_fields: Mapping[str, FieldInfo],
    server_fields: Mapping[str, FieldInfo],
) -> OptionParser:
    """Return the parser of a command.

    Args:
        program: How the user calls the program.
        command: `serve`, `process` or `evaluate`.
        env_fields: The settings of the environment, options as `--env.NAME`.
        server_fields: The settings of an inference server, options as `--openai.NAME`.

    The values of settings are texts, and not checked.
    """
    parser = OptionParser(
        prog=f"{program} {command}",
        usage=f"%(prog)s{' [MODEL]' if command == 'evaluate' else ''} [options]",
        description=ABOUT[command],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    group = parser.add_argument_group("the command")
    help_text_of_config = "a YAML file with settings; of several files the later ones win, and options win over all"
    group.add_argument("--config", metavar="FILE", action="append", help=help_text_of_config)
    group.add_argument("--slurm", metavar="BOOL", help="take the inference servers from SLURM's list of nodes")
    group.add_argument("--testing", metavar="BOOL", help="use Atropos' mock server")
    group.add_argument(
        "--print-config",
        action="store_true",
        dest="print-config",
        help="print all settings as a file for --config, without keys, and end",
    )
    if command == "process":
        group.add_argument(
            "--keep",
            choices=KEEP,
            help="write chat data for fine-tuning beside the file of groups: `best` has the best completion of each "
            "group with a score above 0, `correct` the right completions, `all` every completion",
        )
    if command == "evaluate":
        parser.word_option = "openai.model_name"
        group.add_argument("--dry-run", action="store_true", dest="dry-run", help="show what would be sent, and end")
        group.add_argument("--json", action="store_true", help="print results.json in place of the tables")
        group.add_argument(
            "--fail-under", type=_share, metavar="SCORE", dest="fail-under", help="end with status 1 below this score"
        )
    tone = group.add_mutually_exclusive_group()
    tone.add_argument("--quiet", action="store_true", help="log warnings only")
    tone.add_argument("-v", "--verbose", action="store_true", help="also log the set-up, and the module of each line")
    short = short_names(command)
    group = parser.add_argument_group("short names of settings")
    for option in dict.fromkeys(short.values()):
        names = [name for name, setting in short.items() if setting == option]
        group.add_argument(*names, metavar="VALUE", dest=option, help=f"--{option}")
    group = parser.add_argument_group("settings of the environment")
    for name, field in env_fields.items():
        group.add_argument(f"--env.{name}", metavar="VALUE", dest=f"env.{name}", help=_field_help(name, field))
    if server_fields:
        group = parser.add_argument_group("settings of the inference server")
        for name, field in server_fields.items():
            group.add_argument(
                f"--openai.{name}", metavar="VALUE", dest=f"openai.{name}", help=_field_help(name, field)
            )
    return parser


def _share(text: str) -> float:
    """Read a number from 0 to 1."""
    with contextlib.suppress(ValueError):
        if 0.0 <= float(text) <= 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number from 0 to 1; got {text!r}")


def settings_parser(program: str) -> OptionParser:
    """Return the parser of the command `settings`."""
    parser = OptionParser(prog=f"{program} settings", description="Print all settings, or search them.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only settings with these words in name or meaning")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="the tables of docs/settings.md")
    forms.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser


def help_text(program: str, command: str) -> str:
    """Return a command's help. Atropos' settings are only named: their import takes seconds."""
    if command == "settings":
        return settings_parser(program).format_help().rstrip()
    parser = option_parser(program, command, ReasoningSettings.model_fields, {})
    parser.epilog = f"""\
Atropos' own settings are options too, those of the run (--env.group_size, --env.tokenizer_name,
--env.max_token_length, --env.total_steps ...) and of the inference server (--openai.base_url,
--openai.model_name, --openai.server_type ...). `{program} settings` lists all of them.

example:
  {program} {command} --base-url http://localhost:8000/v1 --model Qwen/Qwen3-8B --tasks games,gcd"""
    return parser.format_help().rstrip()


def _field_help(name: str, field: FieldInfo) -> str:
    facts = "; ".join(words for words in (range_text(field), f"default: {default_text(field)}") if words)
    return f"{field.description or name} ({facts})".replace("%", "%%")

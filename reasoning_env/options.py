"""The options of the commands that need the environment class, made from the fields of its settings.

Values stay texts here: pydantic reads them later, as it reads those of a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pydantic.fields import FieldInfo

from .dumps.chat import KEEP
from .errors import ConfigError, did_you_mean
from .settings import ReasoningSettings, default_text, range_text

ABOUT = {
    "serve": """\
Generate problems, score completions, and send groups whose scores differ to a trainer.

Ctrl-C lets groups in flight finish; a second one ends at once. Where the trainer saves
checkpoints, the run goes on when it is started again.""",
    "process": """\
Write groups of scored completions to a file, one JSON line a group; no trainer is needed.

The same command goes on with a file that was not finished, whatever ended it. 64 groups are
under way at a time, so that 1000 take some 16 times as long as one. Look at them with the
command `report FILE`.""",
    "evaluate": """\
Score a model on a fixed set of problems, the same on every machine.

All tasks at 5 problems each are about 500 completions, 16 of them under way at a time.""",
}
"""What each command does, for its help."""


class OptionParser(argparse.ArgumentParser):
    """Raises ConfigError for a mistake, which argparse would answer with the usage and the end of the process."""

    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += ", as in --NAME VALUE, or --NAME=VALUE where the value begins with a minus"
        raise ConfigError(message)

    def read(self, argv: Sequence[str]) -> dict[str, Any]:
        """Return the values of the options, by name.

        Raises ConfigError for an option that is not known, one without its value, and a word that is neither.
        """
        options, unknown = self.parse_known_args(argv)
        for word in unknown:
            if not word.startswith("--"):
                raise ConfigError(f"{word!r} is not an option; options begin with --, as in --env.group_size 8")
            name = word.partition("=")[0]
            raise ConfigError(f"there is no option {name}{did_you_mean(name, self._option_string_actions)}")
        return vars(options)


def option_parser(
    program: str,
    command: str,
    env_fields: Mapping[str, FieldInfo],
    server_fields: Mapping[str, FieldInfo],
) -> OptionParser:
    """Return the parser of a command whose settings have these fields.

    `program` is how the program is called. Values are texts and are not checked, but for those of `--keep`.
    """
    parser = OptionParser(
        prog=f"{program} {command}",
        usage="%(prog)s [options]",
        description=ABOUT[command],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    group = parser.add_argument_group("the command")
    group.add_argument("--config", metavar="FILE", help="a YAML file with settings; options win over it")
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
            "group that earned anything, `correct` all right ones, `all` every one",
        )
    group = parser.add_argument_group("settings of the environment")
    for name, field in env_fields.items():
        shortcuts = ["--preset"] if name == "eval_preset" else []
        group.add_argument(
            f"--env.{name}", *shortcuts, metavar="VALUE", dest=f"env.{name}", help=_field_help(name, field)
        )
    if server_fields:
        group = parser.add_argument_group("settings of the inference server")
        for name, field in server_fields.items():
            group.add_argument(
                f"--openai.{name}", metavar="VALUE", dest=f"openai.{name}", help=_field_help(name, field)
            )
    return parser


def settings_parser(program: str) -> OptionParser:
    """Return the parser of the command `settings`."""
    parser = OptionParser(prog=f"{program} settings", description="Print all settings, or search them.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only settings with these in their name or meaning")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="the tables of the README")
    forms.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser


def help_text(program: str, command: str) -> str:
    """Return a command's help. Atropos' settings are named only: importing its classes takes seconds."""
    if command == "settings":
        return settings_parser(program).format_help().rstrip()
    parser = option_parser(program, command, ReasoningSettings.model_fields, {})
    parser.epilog = f"""\
Atropos' own settings are options too, those of the run (--env.group_size, --env.tokenizer_name,
--env.max_token_length, --env.total_steps ...) and of the inference server (--openai.base_url,
--openai.model_name, --openai.server_type ...). `{program} settings` lists all of them.

example:
  {program} {command} --config configs/vllm.yaml --env.tasks games,gcd --env.group_size 8"""
    return parser.format_help().rstrip()


def _field_help(name: str, field: FieldInfo) -> str:
    facts = "; ".join(words for words in (range_text(field), f"default: {default_text(field)}") if words)
    return f"{field.description or name} ({facts})".replace("%", "%%")

"""Parsers of the commands; the options of `serve`, `process` and `evaluate` are made from the fields of the settings.

The values of settings stay texts here. pydantic reads them later, like the values of a file.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_args

from pydantic.fields import FieldInfo

from ..data.training import Selection
from ..dumps.format import Keep
from ..errors import ConfigError, did_you_mean
from ..runtime.text import visible
from ..settings import ReasoningSettings, Rewards
from ..storage.config_files import read_core_settings
from ..storage.folders import DISTRIBUTION
from .values import at_least_one, number, pass_rates, share, whole_number

ABOUT = {
    "serve": """\
Generate problems, score completions, and send groups whose scores differ to a
trainer. Ctrl-C lets groups in flight finish; a second Ctrl-C ends at once. The
same command resumes the run if the trainer saves checkpoints.""",
    "process": """\
Write groups of scored completions to a file, one JSON line a group; no trainer is
needed. The same command finishes a file that is not complete. 64 groups are under
way at a time. `report FILE` shows them.""",
    "evaluate": """\
Score a model on a fixed set of problems, the same on every machine. All tasks at 5
problems each are about 500 completions.""",
}
"""What each command does, for its help."""

_SERVER_HELP = {
    "--base-url URL": "address of the inference server",
    "--model NAME": "model to ask for",
}
_LENGTH_HELP = {
    "--env.tokenizer_name NAME": "the model's tokenizer: a folder, or a name on the hub",
    "--env.max_token_length N": "tokens of prompt and completion at most",
}
_PROBLEMS_HELP = {
    "--tasks NAMES": "names, globs and categories, joined by commas: gcd,games",
    "--env.complexity_mode MODE": "levels: random, or curriculum (they follow the learner)",
    "--seed N": "seed of the problems",
}
_COMMAND_HELP = {
    "--config FILE": "YAML file with settings; later files and options win",
    "--print-config": "print all settings as such a file, and end",
    "--quiet, -v": "log warnings only; log the set-up too",
    "--log-json": "log each line as a JSON object",
}
HELP_SECTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "serve": {
        "the model": {**_SERVER_HELP, **_LENGTH_HELP, "--temperature T": "sampling temperature"},
        "the problems": _PROBLEMS_HELP,
        "the run": {
            "--env.rollout_server_url URL": "address where the trainer takes groups",
            "--env.group_size N": "completions of each problem",
            "--env.total_steps N": "the trainer's steps until the run ends",
            "--env.steps_per_eval N": "steps between evaluations; 0: none",
        },
        "the command": _COMMAND_HELP,
    },
    "process": {
        "the model": {**_SERVER_HELP, **_LENGTH_HELP, "--temperature T": "sampling temperature"},
        "the problems": _PROBLEMS_HELP,
        "the file": {
            "--env.data_path_to_save_groups FILE": "file of groups",
            "--env.total_steps N": "groups to write",
            "-n N": "completions of each problem",
            "--keep WHICH": "also write rows to train on: best, correct, all or pairs",
            "--pass-rate LOW..HIGH": "with --keep: only groups with such a pass rate",
            "--max-per-problem N": "with --keep: rows of one question at most",
        },
        "the command": _COMMAND_HELP,
    },
    "evaluate": {
        "the model": {
            **_SERVER_HELP,
            "--chat": "chat completions only; else text, for a server that has none",
            "--env.chat_template plain": "text completions, for a base model",
            "--temperature T": "sampling temperature",
            "--max-tokens N": "tokens of a completion at most",
            "--concurrency N": "problems under way at a time (default: 16)",
        },
        "the problems": {
            "--tasks NAMES": "names, globs and categories, joined by commas: gcd,games",
            "--preset NAME": "a published protocol: rg-easy or rg-hard",
            "--limit N": "problems of each task",
            "-n N, --repeats N": "completions of each problem",
            "--seed N": "seed of the problems",
        },
        "the result": {
            "--dry-run": "show what would be sent, and send nothing",
            "--json": "print results.json in place of the tables",
            "--fail-under SCORE": "end with status 1 below this mean score",
            "--max-failed SHARE": "and above this share of failed completions (default: 0.05)",
        },
        "the command": _COMMAND_HELP,
    },
}
"""The options that the help of a command shows, by purpose. `settings` prints all."""

SHORT = {
    "--preset": "env.eval_preset",
    "--model": "openai.model_name",
    "--base-url": "openai.base_url",
    "--tasks": "env.tasks",
    "--task-modules": "env.task_modules",
    "--checkout": "env.checkout",
    "--temperature": "env.temperature",
    "--seed": "env.seed",
    "--rewards": "env.rewards",
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
        "--concurrency": "env.max_eval_workers",
        "--max-tokens": "env.eval_max_completion_tokens",
        "--seed": "env.eval_seed",
    },
}
"""Short names of settings, as in other evaluation tools: of all commands, and of one command."""


def short_names(command: str) -> dict[str, str]:
    """Return the short options of a command, with their settings."""
    return {**SHORT, **SHORT_IN[command]}


def program() -> str:
    """Return the command that called this program, as it was typed: the console script, a module, or a file."""
    words = sys.orig_argv[1:]
    if words and Path(words[0]).name == DISTRIBUTION:
        return DISTRIBUTION
    if "-m" in itertools.takewhile(lambda word: word.startswith("-"), words):
        return f"python -m {words[words.index('-m') + 1]}"
    return f"python {shlex.quote(sys.argv[0])}"


class UnknownOptionError(ConfigError):
    """There is no option with the name `name`."""

    def __init__(self, name: str, *, remedy: str | None = None) -> None:
        self.name = name
        super().__init__(f"there is no option {name}", remedy=remedy)


class CommandParser(argparse.ArgumentParser):
    """Raises ConfigError for a mistake; argparse itself would print the usage and end the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(exit_on_error=False, allow_abbrev=False, **options)
        self.register("type", int, whole_number)
        self.register("type", float, number)

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
        self._check_written(args or ())
        try:
            return super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            if error.argument_name is None:
                self.error(error.message)
            raise ConfigError(error.message, setting=_as_typed(error.argument_name, args or ())) from error

    def _check_written(self, argv: Sequence[str]) -> None:
        """Raise ConfigError for a switch with a value, and for a setting that is given twice.

        If a setting is given twice, argparse silently takes the last value. Options whose values add up, such as
        `--config`, and switches may be repeated.
        """
        written: dict[str, str] = {}
        for word in itertools.takewhile(lambda word: word != "--", argv):
            if not word.startswith("-"):
                continue
            name = word.partition("=")[0]
            if not word.startswith("--"):
                name = name[:2]  # `-n3` is `-n 3`
            action = self._option_string_actions.get(name)
            if action is None:
                continue
            if action.nargs == 0 and word.startswith("--") and "=" in word:
                raise ConfigError("takes no value", setting=name)
            before = written.get(action.dest)
            written[action.dest] = name
            if before not in (None, name):
                raise ConfigError(f"{before} and {name} set the same setting", remedy="give only one of them")
            if before == name and action.nargs != 0 and not isinstance(action, argparse._AppendAction):
                raise ConfigError("is given twice", setting=name, remedy="give it once")

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError for a mistake that is about no single option, such as a missing argument or two options."""
        raise ConfigError(message)

    def unknown_option(self, word: str) -> ConfigError:
        """Return the error for a word that is no option and no value."""
        name = word.partition("=")[0]
        if not name.startswith("--"):
            return ConfigError(
                f"{word!r} is not an option",
                remedy="options begin with --, as in --NAME VALUE; put a value with spaces in quotes",
            )
        return UnknownOptionError(name, remedy=did_you_mean(name, self._option_string_actions))

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as error:
            example = "as in --NAME VALUE, or --NAME=VALUE where the value begins with a minus"
            raise argparse.ArgumentError(action, f"{error.message}, {example}") from error

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(map(repr, action.choices))
            raise argparse.ArgumentError(action, f"must be one of {choices}; got {value!r}")


def _as_typed(names: str, argv: Sequence[str]) -> str:
    """Return the name of an option (`-n/--repeats`) that a command line uses; all its names if it uses none."""
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
            A setting is given by two names.
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
        """Return how each option of a command line was written, by its name.

        A switch such as --chat is left out: it is no name of the setting that it sets.
        """
        words = [word.partition("=")[0] for word in argv if word.startswith("-")]
        actions = self._option_string_actions
        return {actions[word].dest: word for word in words if word in actions and actions[word].const is None}


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
    parser = OptionParser(prog=f"{program} {command}", argument_default=argparse.SUPPRESS)
    parser.add_argument("--config", action="append")
    if command != "evaluate":
        parser.add_argument("--slurm")
        parser.add_argument("--testing")
    parser.add_argument("--print-config", action="store_true", dest="print-config")
    if command == "process":
        add_selection_options(parser)
    if command != "serve":
        parser.add_argument("--chat", action="store_const", const="chat", dest="openai.server_type")
    if command == "evaluate":
        parser.word_option = "openai.model_name"
        parser.add_argument("--dry-run", action="store_true", dest="dry-run")
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--fail-under", type=share, dest="fail-under")
        parser.add_argument("--max-failed", type=share, dest="max-failed")
    tone = parser.add_mutually_exclusive_group()
    tone.add_argument("--quiet", action="store_true")
    tone.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--log-json", action="store_true", dest="log-json")
    short = short_names(command)
    for option in dict.fromkeys(short.values()):
        names = [name for name, setting in short.items() if setting == option]
        parser.add_argument(*names, dest=option)
    for name in env_fields:
        parser.add_argument(f"--env.{name}", dest=f"env.{name}")
    for name in server_fields:
        parser.add_argument(f"--openai.{name}", dest=f"openai.{name}")
    return parser


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose completions to train on."""
    parser.add_argument(
        "--keep",
        choices=[keep.value for keep in Keep],
        help="write rows to train on: the best completion of each group, the correct ones, all, or pairs of a correct "
        "completion and another, for preference training",
    )
    parser.add_argument(
        "--pass-rate", type=pass_rates, metavar="LOW..HIGH", help="only what has such a pass rate: 0.2..0.8"
    )
    parser.add_argument(
        "--max-per-problem", type=at_least_one, metavar="N", help="with --keep: rows of one question at most"
    )


def read_selection(parser: CommandParser, options: Mapping[str, Any]) -> Selection:
    """Return what the options choose. Raises ConfigError for a limit without --keep."""
    keep = options.get("keep")
    limit = options.get("max_per_problem")
    if limit is not None and keep is None:
        parser.error("--max-per-problem goes with --keep")
    return Selection(None if keep is None else Keep(keep), options.get("pass_rate"), limit)


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add --config, --rewards and where tasks come from to a command whose options are not the settings themselves."""
    help_text_of_config = "a YAML file with settings, as `serve` takes it; of several files the later ones win"
    parser.add_argument("--config", metavar="FILE", action="append", default=[], help=help_text_of_config)
    parser.add_argument(
        "--task-modules",
        "--task_modules",
        metavar="NAME,NAME",
        help="modules that add your own tasks: names that Python can import, or paths of .py files",
    )
    parser.add_argument("--checkout", metavar="FOLDER", help="a folder with another reasoning_gym package")
    parser.add_argument(
        "--rewards",
        choices=get_args(Rewards),
        help="corrected; scored by the library's verifiers; or the library as it is (default: of --config, or strict)",
    )


def file_settings(
    options: argparse.Namespace, defaults: Mapping[str, object], given: Mapping[str, object]
) -> ReasoningSettings:
    """Return the settings of the files of --config, under the settings `given` and over the `defaults`.

    `options` are those of a command with `add_config_option`; its other options are given too.

    Names on stderr what the files hold for other commands. Raises the errors of `read_core_settings`.
    """
    more = {"task_modules": options.task_modules, "checkout": options.checkout, "rewards": options.rewards}
    given = {**given, **{name: value for name, value in more.items() if value is not None}}
    settings, others = read_core_settings(options.config, defaults, given)
    if others:
        print(f"not used by this command: {visible(', '.join(others))}", file=sys.stderr)
    return settings


def settings_parser(program: str) -> OptionParser:
    """Return the parser of the command `settings`."""
    parser = OptionParser(prog=f"{program} settings", description="Print all settings, or search them.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only settings with these words in name or meaning")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="the tables of docs/settings.md")
    forms.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser


def help_text(program: str, command: str) -> str:
    """Return a command's help, which fits a screen: the options in common use, by purpose."""
    if command == "settings":
        return settings_parser(program).format_help().rstrip()
    word = " [MODEL]" if command == "evaluate" else ""
    lines = [f"usage: {program} {command}{word} [options]", "", ABOUT[command], ""]
    for title, options in HELP_SECTIONS[command].items():
        lines.append(f"{title}:")
        lines += [f"  {option:<29} {words}" for option, words in options.items()]
    lines += [
        "",
        "Every setting is an option, --env.NAME or --openai.NAME. `settings WORD` searches",
        f"the settings, and this lists all of them: {program} settings",
    ]
    if command != "evaluate":
        lines += [
            "Further options: --slurm true (servers from SLURM's list of nodes), --testing true",
            "(Atropos' mock server).",
        ]
    return "\n".join(lines)

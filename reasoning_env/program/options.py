"""The options of `serve`, `process` and `evaluate`: every setting; those in common use have short names and help.

The values of settings stay texts here. pydantic reads them later, like the values of a file.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ..settings.removed import REMOVED, UNUSED
from .parser import CommandParser, share
from .shared_options import add_selection_options

ABOUT = {
    "serve": "Generate problems, score completions, and send groups whose scores differ to a trainer. Press Ctrl-C to "
    "stop after the current groups, and again to stop at once. Run the same command again to resume, if the trainer "
    "saves checkpoints.",
    "process": "Sample and score completions, and write each group to a file as a line of JSON. Run the same command "
    "again to finish an incomplete file. `report FILE` makes a page of the groups.",
    "evaluate": "Score a model on a fixed set of problems, the same on every machine. With 5 problems of each "
    "task, this takes about 500 completions.",
}
"""What each command does, for its help."""

SECTIONS = ("env.", "openai.")
"""Beginnings of the names of settings."""
OptionGroup: TypeAlias = argparse._ActionsContainer


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

    def setting_names(self, argv: Sequence[str]) -> dict[str, str]:
        """Return what the user of a command line calls each setting, by the names that errors use.

        The core names a setting without its section. A setting that was not typed is named `env.NAME`.
        """
        typed = self.typed(argv)
        names = [action.dest for action in self._actions if action.dest.startswith("env.")]
        return {**{name.removeprefix("env."): typed.get(name, name) for name in names}, **typed}

    def short_names(self) -> dict[str, str]:
        """Return the options that are short names of settings, each with its setting."""
        return {
            option: action.dest
            for option, action in self._option_string_actions.items()
            if action.dest.startswith(SECTIONS) and option != f"--{action.dest}" and action.const is None
        }

    def add_hidden(self, option: str, setting: str) -> None:
        """Add an option that the help does not show, unless it is there."""
        if option not in self._option_string_actions:
            self.add_argument(option, dest=setting, help=argparse.SUPPRESS)


def option_parser(
    program: str,
    command: str,
    env_fields: Iterable[str],
    server_fields: Iterable[str],
) -> OptionParser:
    """Return the parser of a command.

    Args:
        program: How the user calls the program.
        command: `serve`, `process` or `evaluate`.
        env_fields: The settings of the environment, options as `--env.NAME`.
        server_fields: The settings of an inference server, options as `--openai.NAME`.

    The values of settings are texts, and not checked. The help fits a screen.
    """
    evaluates = command == "evaluate"
    more = "" if evaluates else ". Also: --slurm true, --testing true"
    parser = OptionParser(
        prog=f"{program} {command}",
        usage=f"{program} {command}{' [MODEL]' if evaluates else ''} [options]",
        description=ABOUT[command],
        epilog="Every setting is an option, --env.NAME or --openai.NAME. `settings WORD` searches the settings, and "
        f"this lists all of them: {program} settings{more}",
        argument_default=argparse.SUPPRESS,
        add_help=False,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=40, width=100),
    )
    model = parser.add_argument_group("the model")
    problems = parser.add_argument_group("the problems")
    if evaluates:
        parser.word_option = "openai.model_name"
        _add_evaluation_options(model, problems, parser.add_argument_group("the result"))
    else:
        _add_training_options(model, problems)
        if command == "process":
            _add_file_options(parser.add_argument_group("the file"))
        else:
            _add_run_options(parser.add_argument_group("the run"))
        parser.add_hidden("--preset", "env.eval_preset")
        parser.add_hidden("--slurm", "slurm")
        parser.add_hidden("--testing", "testing")
    if command != "serve":
        help_text = "use chat completions only"
        model.add_argument("--chat", action="store_const", const="chat", dest="openai.server_type", help=help_text)
    _add_command_options(parser.add_argument_group("the command"))
    for name in ("task_modules", "checkout", "rewards"):
        parser.add_hidden(f"--{name.replace('_', '-')}", f"env.{name}")
    for name in [*env_fields, *REMOVED, *UNUSED]:
        parser.add_hidden(f"--env.{name}", f"env.{name}")
    for name in server_fields:
        parser.add_hidden(f"--openai.{name}", f"openai.{name}")
    return parser


def _add_setting(group: OptionGroup, setting: str, metavar: str, help_text: str, *short: str) -> None:
    """Add a setting by its short names, or by its own name where it has none."""
    group.add_argument(*(short or [f"--{setting}"]), dest=setting, metavar=metavar, help=help_text)


def _add_server_options(model: OptionGroup) -> None:
    _add_setting(model, "openai.base_url", "URL", "address of the inference server", "--base-url")
    _add_setting(model, "openai.model_name", "NAME", "name of the model on the server", "--model")


TASKS_HELP = "names, globs or categories, separated by commas: gcd,games"


def _add_training_options(model: OptionGroup, problems: OptionGroup) -> None:
    _add_server_options(model)
    _add_setting(model, "env.tokenizer_name", "NAME", "the model's tokenizer: a folder, or a name on the hub")
    _add_setting(model, "env.max_token_length", "N", "limit of tokens, prompt and completion")
    _add_setting(model, "env.temperature", "T", "sampling temperature", "--temperature")
    _add_setting(problems, "env.tasks", "NAMES", TASKS_HELP, "--tasks")
    _add_setting(problems, "env.complexity_mode", "MODE", "levels: random, or curriculum (follows the model)")
    _add_setting(problems, "env.seed", "N", "seed of the problems", "--seed")


def _add_run_options(run: OptionGroup) -> None:
    _add_setting(run, "env.rollout_server_url", "URL", "address of the server that hands batches to the trainer")
    _add_setting(run, "env.group_size", "N", "completions of each problem")
    _add_setting(run, "env.total_steps", "N", "end the run after this many steps of the trainer")
    _add_setting(run, "env.steps_per_eval", "N", "steps between evaluations; 0 turns them off")


def _add_file_options(file: OptionGroup) -> None:
    _add_setting(file, "env.data_path_to_save_groups", "FILE", "file to write the groups to")
    _add_setting(file, "env.total_steps", "N", "number of groups to write")
    _add_setting(file, "env.group_size", "N", "completions of each problem", "-n")
    add_selection_options(file)


def _add_evaluation_options(model: OptionGroup, problems: OptionGroup, result: OptionGroup) -> None:
    _add_server_options(model)
    _add_setting(model, "env.chat_template", "plain", "use text completions without a chat template, for a base model")
    _add_setting(model, "env.eval_temperature", "T", "sampling temperature", "--temperature")
    _add_setting(model, "env.eval_max_completion_tokens", "N", "limit of tokens for a completion", "--max-tokens")
    _add_setting(
        model, "env.max_eval_workers", "N", "problems to sample at the same time (default: 16)", "--concurrency"
    )
    _add_setting(problems, "env.eval_tasks", "NAMES", TASKS_HELP, "--tasks")
    _add_setting(problems, "env.eval_preset", "NAME", "a published protocol: rg-easy or rg-hard", "--preset")
    _add_setting(problems, "env.num_eval_samples_per_task", "N", "problems of each task", "--limit")
    _add_setting(problems, "env.eval_repeats", "N", "completions of each problem", "-n", "--repeats")
    _add_setting(problems, "env.eval_seed", "N", "seed of the problems", "--seed")
    result.add_argument(
        "--dry-run", action="store_true", dest="dry-run", help="print the plan of the evaluation, and send no request"
    )
    result.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    result.add_argument(
        "--fail-under",
        type=share,
        dest="fail-under",
        metavar="SCORE",
        help="exit with status 1 if the mean score is lower",
    )
    result.add_argument(
        "--max-failed",
        type=share,
        dest="max-failed",
        metavar="SHARE",
        help="or if more completions failed (with --fail-under: 0.05)",
    )


def _add_command_options(command: OptionGroup) -> None:
    command.add_argument(
        "--config", action="append", metavar="FILE", help="YAML file with settings; options and later files override it"
    )
    command.add_argument(
        "--print-config", action="store_true", dest="print-config", help="print all settings as a YAML file, and exit"
    )
    tone = command.add_mutually_exclusive_group()
    tone.add_argument("--quiet", action="store_true", help="log only warnings and errors")
    tone.add_argument("-v", "--verbose", action="store_true", help="also log how the run is set up")
    command.add_argument("--log-json", action="store_true", dest="log-json", help="log each line as a JSON object")


def settings_parser(program: str) -> OptionParser:
    """Return the parser of the command `settings`."""
    parser = OptionParser(
        prog=f"{program} settings",
        description="Print all settings, or search them.",
        epilog="Options of all commands that generate or score problems: "
        "--config FILE: a YAML file with settings; later files override earlier ones. "
        "--rewards WORD: strict (corrected verifiers), plain (the library's verifiers on the same problems) or library "
        "(the library's problems, answers and verifiers). "
        "--task-modules NAME,NAME: modules with your own tasks, as names that Python can import or paths of .py files. "
        "--checkout FOLDER: a folder with another reasoning_gym package.",
    )
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="list only settings whose name or description has these words"
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="print the tables of docs/settings.md")
    forms.add_argument("--json", action="store_true", help="print the JSON Schema of all settings")
    return parser


def help_text(program: str, command: str) -> str:
    """Return a command's help: the options in common use, by purpose."""
    parser = settings_parser(program) if command == "settings" else option_parser(program, command, (), ())
    return parser.format_help().rstrip()


def short_names(command: str) -> dict[str, str]:
    """Return the short options of a command, with their settings."""
    return option_parser("", command, (), ()).short_names()

"""The options of `serve`, `process` and `evaluate`: one per setting. Only common settings have short names and help.

The values of settings stay strings here. pydantic parses them later, like the values in a `--config` file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .parser import CommandParser, program, share
from .shared_options import add_selection_options

ABOUT = {
    "serve": "Generate problems, score completions, and send groups whose scores differ to Atropos' trainer API. Press "
    "Ctrl-C to stop after the current groups, and again to stop at once. To resume, run the same command again; "
    "this needs a trainer that saves checkpoints.",
    "process": "Sample and score completions, and write each group to a file as a line of JSON. Run the same command "
    "again to finish an incomplete file. `report FILE` makes a web page about the groups.",
    "evaluate": "Score a model on a fixed set of problems, the same on every machine. By default these are 5 problems "
    "of each task, about 500 completions. Run the same command again to finish an interrupted evaluation.",
}
"""Description of each command for its help."""

SECTIONS = ("env.", "openai.")
"""Prefixes of the names of settings."""
OptionGroup: TypeAlias = argparse._ActionsContainer


class OptionParser(CommandParser):
    """The parser of a command whose options are settings."""

    word_option: str | None = None
    """The setting that a word without an option name sets, as in `evaluate MODEL`. None: such a word is an error."""

    def read(self, argv: Sequence[str]) -> dict[str, Any]:
        """Return the values of the given options, by their `dest`. The `dest` of a setting is the setting's name.

        Raises ConfigError if

        - an option is unknown or has no value,
        - two options set the same setting, or
        - a word is neither an option nor a value. One such word is allowed if `word_option` is set.
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
        """Map the name of each setting in `argv` to the option that sets it, such as `--model`.

        Switches such as --chat, which set a fixed value, are omitted.
        """
        words = [word.partition("=")[0] for word in argv if word.startswith("-")]
        actions = self._option_string_actions
        return {actions[word].dest: word for word in words if word in actions and actions[word].const is None}

    def setting_names(self, argv: Sequence[str]) -> dict[str, str]:
        """For each name that a setting has in errors, return the name that the user wrote.

        Errors of `ReasoningSettings` omit `env.`. A setting that the user did not write is shown as `env.NAME`.
        """
        typed = self.typed(argv)
        names = [action.dest for action in self._actions if action.dest.startswith("env.")]
        return {**{name.removeprefix("env."): typed.get(name, name) for name in names}, **typed}

    def short_names(self) -> dict[str, str]:
        """Map each short option, such as `--limit`, to the name of the setting that it sets."""
        return {
            option: action.dest
            for option, action in self._option_string_actions.items()
            if action.dest.startswith(SECTIONS) and option != f"--{action.dest}" and action.const is None
        }

    def add_hidden(self, option: str, setting: str) -> None:
        """Add an option that the help does not show, unless the option exists."""
        if option not in self._option_string_actions:
            self.add_argument(option, dest=setting, help=argparse.SUPPRESS)


def of_section(section: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are settings of a section (`env` or `openai`), under their names without the section."""
    prefix = f"{section}."
    return {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}


def option_parser(
    program: str,
    command: str,
    env_fields: Iterable[str] = (),
    server_fields: Iterable[str] = (),
) -> OptionParser:
    """Return the parser of a command. Values of settings stay strings.

    Args:
        program: How the user calls the program.
        command: `serve`, `process` or `evaluate`.
        env_fields: Settings of the environment to add as options `--env.NAME`, which the help does not show.
        server_fields: Settings of a server to add as options `--openai.NAME`, which the help does not show.
    """
    evaluates = command == "evaluate"
    key = "Set the server's key in OPENAI_API_KEY. " if evaluates else ""
    slurm = "" if evaluates else " `--slurm true` takes the servers' addresses from Slurm's environment variables."
    parser = OptionParser(
        prog=f"{program} {command}",
        usage=f"{program} {command}{' [MODEL]' if evaluates else ''} [options]",
        description=ABOUT[command],
        epilog=f"{key}Every setting is an option: --env.NAME, --openai.NAME. "
        f"List all settings with `{program} settings`; search with `settings WORD`.{slurm}",
        argument_default=argparse.SUPPRESS,
        add_help=False,
    )
    model = parser.add_argument_group("model")
    problems = parser.add_argument_group("problems")
    if evaluates:
        parser.word_option = "openai.model_name"
        _add_evaluation_options(model, problems, parser.add_argument_group("result"))
    else:
        _add_training_options(model, problems)
        if command == "process":
            _add_file_options(parser.add_argument_group("file"))
        else:
            _add_run_options(parser.add_argument_group("run"))
        parser.add_hidden("--preset", "env.eval_preset")
        parser.add_hidden("--slurm", "slurm")
        parser.add_hidden("--testing", "testing")
    if command != "serve":
        help_text = "use only chat completions"
        model.add_argument("--chat", action="store_const", const="chat", dest="openai.server_type", help=help_text)
    _add_command_options(parser.add_argument_group("other options"))
    for name in ("task_modules", "checkout", "rewards"):
        parser.add_hidden(f"--{name.replace('_', '-')}", f"env.{name}")
    for name in env_fields:
        parser.add_hidden(f"--env.{name}", f"env.{name}")
    for name in server_fields:
        parser.add_hidden(f"--openai.{name}", f"openai.{name}")
    return parser


def full_parser(command: str, env_fields: Iterable[str], server_fields: Iterable[str]) -> OptionParser:
    """Return the parser of a command with all settings, including those that were removed or have no effect.

    If the user sets such a setting, an error or a warning says what to do instead.
    """
    from ..settings.removed import REMOVED, UNUSED  # imported here because `-h` does not need pydantic

    return option_parser(program(), command, [*env_fields, *REMOVED, *UNUSED], server_fields)


def _add_setting(group: OptionGroup, setting: str, metavar: str, help_text: str, *short: str) -> None:
    """Add an option for a setting: under the short names or, if there are none, under the setting's name."""
    group.add_argument(*(short or [f"--{setting}"]), dest=setting, metavar=metavar, help=help_text)


def _add_server_options(model: OptionGroup) -> None:
    _add_setting(model, "openai.base_url", "URL", "inference server (default: http://localhost:9001/v1)", "--base-url")
    _add_setting(model, "openai.model_name", "NAME", "name of the model on the server", "--model")


TASKS_HELP = "tasks, globs or categories, such as gcd,games (default: all)"


def _add_training_options(model: OptionGroup, problems: OptionGroup) -> None:
    _add_server_options(model)
    _add_setting(model, "env.tokenizer_name", "NAME", "the model's tokenizer: a folder, or a Hugging Face name")
    _add_setting(model, "env.max_token_length", "N", "maximum tokens of prompt plus completion (default: 2048)")
    _add_setting(model, "env.temperature", "T", "sampling temperature (default: 1.0)", "--temperature")
    _add_setting(problems, "env.tasks", "NAMES", TASKS_HELP, "--tasks")
    _add_setting(problems, "env.complexity_mode", "MODE", "difficulty: random, or curriculum (adapts to the model)")
    _add_setting(problems, "env.seed", "N", "seed of the problems (default: 42)", "--seed")


def _add_run_options(run: OptionGroup) -> None:
    _add_setting(run, "env.rollout_server_url", "URL", "address of the trainer's API (default: http://localhost:8000)")
    _add_setting(run, "env.group_size", "N", "completions per problem (default: 4)")
    _add_setting(run, "env.total_steps", "N", "training steps to run (default: 1000)")
    _add_setting(run, "env.steps_per_eval", "N", "training steps between evaluations; 0: no evaluations (default: 100)")


def _add_file_options(file: OptionGroup) -> None:
    _add_setting(
        file, "env.data_path_to_save_groups", "FILE", "file to write groups to (default: data/reasoning_gym.jsonl)"
    )
    _add_setting(file, "env.total_steps", "N", "number of groups to write (default: 1000)")
    _add_setting(file, "env.group_size", "N", "completions per problem (default: 4)", "-n")
    add_selection_options(file)


def _add_evaluation_options(model: OptionGroup, problems: OptionGroup, result: OptionGroup) -> None:
    _add_server_options(model)
    _add_setting(model, "env.chat_template", "plain", "for a base model: text completions, no chat template")
    _add_setting(model, "env.eval_temperature", "T", "sampling temperature (default: 0.6)", "--temperature")
    _add_setting(model, "env.eval_max_completion_tokens", "N", "token limit of each completion", "--max-tokens")
    _add_setting(model, "env.max_eval_workers", "N", "maximum problems in flight (default: 16)", "--concurrency")
    _add_setting(problems, "env.eval_tasks", "NAMES", TASKS_HELP, "--tasks")
    _add_setting(
        problems, "env.eval_preset", "NAME", "protocol of the Reasoning Gym paper: rg-easy or rg-hard", "--preset"
    )
    _add_setting(problems, "env.num_eval_samples_per_task", "N", "problems per task (default: 5)", "--limit")
    _add_setting(problems, "env.eval_repeats", "N", "completions per problem (default: 1)", "-n", "--repeats")
    _add_setting(problems, "env.eval_seed", "N", "seed of the problems (default: 123)", "--seed")
    result.add_argument(
        "--dry-run", action="store_true", dest="dry-run", help="print what would be evaluated, and send no request"
    )
    result.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    result.add_argument(
        "--fail-under",
        type=share,
        dest="fail-under",
        metavar="SCORE",
        help="exit with status 1 if the mean score is below SCORE",
    )
    result.add_argument(
        "--max-failed",
        type=share,
        dest="max-failed",
        metavar="SHARE",
        help="exit with status 1 if more than SHARE of the completions failed",
    )


def _add_command_options(command: OptionGroup) -> None:
    command.add_argument(
        "--config", action="append", metavar="FILE", help="YAML file with settings; options override its values"
    )
    command.add_argument(
        "--print-config", action="store_true", dest="print-config", help="print all settings as a YAML file, and exit"
    )
    tone = command.add_mutually_exclusive_group()
    tone.add_argument("--quiet", action="store_true", help="log only warnings and errors")
    tone.add_argument("-v", "--verbose", action="store_true", help="log more about the setup of the run")
    command.add_argument("--log-json", action="store_true", dest="log-json", help="log each line as a JSON object")


def settings_parser(program: str) -> OptionParser:
    """Return the parser of the command `settings`."""
    parser = OptionParser(
        prog=f"{program} settings",
        usage=f"{program} settings [WORD ...] [options]",
        description="Print all settings, or search them. You can set them in a YAML file (--config FILE) or with the "
        "options --env.NAME and --openai.NAME of `serve`, `process` and `evaluate`.",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="list only settings whose name and description together have all these words",
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="print the settings as Markdown tables")
    forms.add_argument("--json", action="store_true", help="print the JSON Schema of all settings")
    return parser


def help_text(program: str, command: str) -> str:
    """Return a command's help: the commonly used options, by purpose."""
    parser = settings_parser(program) if command == "settings" else option_parser(program, command)
    return parser.format_help().rstrip()


def short_names(command: str) -> dict[str, str]:
    """Map each short option of a command, such as `--limit`, to the name of the setting that it sets."""
    return option_parser("", command).short_names()

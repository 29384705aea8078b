"""The `tasks` command: list the library's tasks, or show sample problems."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from ..errors import ConfigError
from ..program.parser import Command, CommandParser, at_least_one, mapping, names
from ..program.shared_options import add_config_option, add_problem_options


def _show_tasks(options: argparse.Namespace, folder: Path) -> int:
    """Print a table of all tasks or, if the user names tasks, samples of these tasks in full. Returns 0.

    Raises ConfigError for options that cannot be combined, and if a name matches no task.
    """
    from .samples import show_tasks  # imported here because `-h` does not need it

    _complete(options)
    return show_tasks(options, folder)


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        type=_names_or_reference,
        metavar="NAME",
        help="show samples of these tasks: names, globs (`*_sorting`) or categories (`games`), separated by commas; "
        "case does not matter. With a problem's reference (TASK:...), show this problem. Without NAME: a table of all "
        "tasks",
    )
    parser.add_argument("--prompt", action="store_true", help="show the whole prompt that the model receives")
    parser.add_argument("--system_prompt", metavar="TEXT", help="with --prompt: use this system prompt")
    parser.add_argument(
        "--tokenizer_name",
        metavar="MODEL",
        help="with --prompt: show the exact prompt for this model (a folder, or a name on the Hugging Face hub), and "
        "the prompt's number of tokens",
    )
    parser.add_argument(
        "--chat_template",
        metavar="PATH",
        help="with --tokenizer_name: a Jinja file with the chat template, or `plain` for no template",
    )
    parser.add_argument(
        "--chat_template_kwargs",
        type=mapping,
        default={},
        metavar="MAPPING",
        help="with --tokenizer_name: variables for the chat template, such as '{enable_thinking: false}'",
    )
    parser.add_argument(
        "--samples",
        type=at_least_one,
        metavar="N",
        help="number of samples per task (default: one; if you set neither --level nor --prompt, also one at each of "
        "the levels 0, 0.5 and 1)",
    )
    add_problem_options(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_config_option(parser)


def _names_or_reference(text: str) -> list[str]:
    """Read names separated by commas, or one reference, which may contain commas."""
    return [text] if _is_reference(text) else names(text)


def _is_reference(text: str) -> bool:
    """Return True for a problem's reference: it contains a colon. Names of tasks have no colon."""
    return ":" in text


def _complete(options: argparse.Namespace) -> None:
    """Move references in `names` to `references`, derive `levels` from `level`, and give `samples` a default.

    Raises ConfigError for options that cannot be combined.
    """
    from ..tasks import SHOWN_LEVELS

    given = list(itertools.chain.from_iterable(options.names))
    options.references = [text for text in given if _is_reference(text)]
    options.names = [text for text in given if not _is_reference(text)]
    options.levels = [options.level]
    if options.samples is None:
        options.samples = 1
        if options.names and not options.prompt and options.level is None:
            options.levels = [None, *SHOWN_LEVELS]
    if not given and (options.prompt or options.params):
        raise ConfigError("--prompt and --params need the name of a task, as in `tasks gcd --prompt`")
    if options.system_prompt is not None and not options.prompt:
        raise ConfigError("--system_prompt needs --prompt")
    if options.tokenizer_name is not None and not options.prompt:
        raise ConfigError("--tokenizer_name needs --prompt")
    if options.tokenizer_name is None and (options.chat_template or options.chat_template_kwargs):
        raise ConfigError("--chat_template and --chat_template_kwargs need --tokenizer_name")


tasks_command = Command(
    "tasks",
    "List the tasks, or show samples of the named tasks.",
    _add_options,
    _show_tasks,
    names={"tasks": ""},
)

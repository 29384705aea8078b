"""Parse the options of commands. Errors name settings as the user typed them."""

from __future__ import annotations

import argparse
import itertools
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from ..errors import ConfigError, ReasoningEnvError, did_you_mean
from ..runtime.text import redact
from ..storage.folders import DISTRIBUTION

if TYPE_CHECKING:
    from ..data.problems import ProblemForm
    from ..data.training import PassRates
    from ..dumps.format import Keep


def program() -> str:
    """Return how the user started this program: the console script, a module, or a file."""
    words = sys.orig_argv[1:]
    if words and Path(words[0]).name == DISTRIBUTION:
        return DISTRIBUTION
    if "-m" in itertools.takewhile(lambda word: word.startswith("-"), words):
        return f"python -m {words[words.index('-m') + 1]}"
    return f"python {shlex.quote(sys.argv[0])}"


class HelpFormatter(argparse.HelpFormatter):
    """Help that is at most 100 columns wide, and that breaks no word at a hyphen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=40, width=min(100, shutil.get_terminal_size((100, 24)).columns))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


class CommandParser(argparse.ArgumentParser):
    """An argument parser that raises ConfigError for mistakes instead of exiting."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter} | options, exit_on_error=False, allow_abbrev=False)
        self._positionals.title = "arguments"
        self.register("type", int, whole_number)
        self.register("type", float, number)

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Return the values of the options. Raises ConfigError for a mistake."""
        self.usage = self.usage or self._short_usage()
        values, unknown = self.parse_known_args(args, namespace)
        if unknown:
            raise self.unknown_option(unknown[0])
        return values

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the values of the options, and the words that match no option. Raises ConfigError for a mistake."""
        self._check_written(args or ())
        try:
            return super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            if error.argument_name is None:
                self.error(error.message)
            raise ConfigError(error.message, setting=_as_typed(error.argument_name, args or ())) from error

    def _check_written(self, argv: Sequence[str]) -> None:
        """Raise ConfigError for a switch with a value, and for a setting that is set twice.

        Switches may be repeated. Options that collect values, such as `--config`, may be repeated too.
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
                raise ConfigError("this option takes no value", setting=name, remedy=f"write {name} alone")
            before = written.get(action.dest)
            written[action.dest] = name
            if before not in (None, name):
                raise ConfigError(f"{before} and {name} set the same setting", remedy="use only one of them")
            if before == name and action.nargs != 0 and not isinstance(action, argparse._AppendAction):
                raise ConfigError("appears twice", setting=name, remedy="use it once")

    def _short_usage(self) -> str:
        """Return a usage line: required options and positional arguments, then `[options]` for the other options."""
        groups = [group for group in self._mutually_exclusive_groups if group.required]
        in_groups = [action for group in groups for action in group._group_actions]
        actions = [action for action in self._actions if action.required or action in in_groups or _is_word(action)]
        formatter = argparse.HelpFormatter(self.prog, width=1000)
        formatter.add_usage(None, actions, groups, prefix="")
        return f"{formatter.format_help().strip()} [options]".replace("%", "%%")

    def names(self) -> dict[str, str]:
        """Map each option's `dest` to the option, such as `--model`. The `dest` of a setting is the setting's name."""
        return {action.dest: action.option_strings[0] for action in self._actions if action.option_strings}

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError for a mistake that concerns no single option, such as a missing argument."""
        raise ConfigError(message)

    def unknown_option(self, word: str) -> ConfigError:
        """Return the error for a word that is neither an option nor a value."""
        name = word.partition("=")[0]
        if not name.startswith("--"):
            return ConfigError(
                f"unexpected argument {word!r}",
                remedy="options begin with --, as in --NAME VALUE; quote values that contain spaces",
            )
        remedy = did_you_mean(name, self._option_string_actions) or f"`{self.prog} --help` lists the options"
        return ConfigError(f"there is no option {name}", remedy=remedy)

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as error:
            example = "as in --NAME VALUE, or --NAME=VALUE if the value begins with a minus sign"
            raise argparse.ArgumentError(action, f"{error.message}, {example}") from error

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(map(repr, action.choices))
            raise argparse.ArgumentError(action, f"must be one of {choices}; got {value!r}")


def _is_word(action: argparse.Action) -> bool:
    """Return True for an argument without a name, such as the PATH of `report PATH`."""
    return not action.option_strings


def _as_typed(names: str, argv: Sequence[str]) -> str:
    """Return which of an option's names (`-n/--repeats`) a command line uses; all names if it uses none."""
    words = {word.partition("=")[0] for word in argv}
    return next((name for name in names.split("/") if name in words), names)


@contextmanager
def errors_for_user(names: Mapping[str, str], secrets: Sequence[str] = ()) -> Iterator[None]:
    """In this program's errors, name settings as the user did (see `names`) and remove secrets. Re-raise the errors."""
    try:
        yield
    except ReasoningEnvError as error:
        error.text = redact(error.describe(names), secrets)
        raise


@dataclass(frozen=True)
class Command:
    """A command with its own options, unlike `serve`, `process` and `evaluate`, whose options are the settings.

    - `add_options` declares the options. If an option is a setting, its `dest` is the setting's name.
    - `work` runs the command and returns the exit status. Its second argument is a folder that may contain a checkout
      of the library.
    - `names` maps settings to the names that errors show, or to "" for no name. Settings that are the `dest`
      of an option need no entry.
    """

    name: str
    description: str
    add_options: Callable[[CommandParser], None]
    work: Callable[[argparse.Namespace, Path], int]
    names: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, argv: Sequence[str], folder: Path) -> int:
        """Run the command. Raises ConfigError for a mistake of the user, and the errors that `work` raises."""
        parser = CommandParser(prog=f"{program()} {self.name}", description=self.description)
        self.add_options(parser)
        options = parser.parse_args(argv)
        options.command_line = shlex.join([self.name, *argv])
        with errors_for_user({**parser.names(), **self.names}):
            return self.work(options, folder)


# ------------------------------------------------------------------ values of options
# Each function raises ArgumentTypeError with the expected form.


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number; got {text!r}") from None


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; got {text!r}") from None


def share(text: str) -> float:
    """Read a number from 0 to 1."""
    with suppress(ValueError):
        if 0.0 <= float(text) <= 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number from 0 to 1; got {text!r}")


def at_least_one(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text!r}")
    return int(text)


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


# Each of these functions contains its own imports, so that `-h` does not wait for them.


def keep(text: str) -> Keep:
    """Read the value of --keep, which says what completions become training rows."""
    from ..dumps.format import Keep

    return Keep(one_of(text, [choice.value for choice in Keep]))


def problem_form(text: str) -> ProblemForm:
    """Read the value of --format, which says what columns the written rows have."""
    from ..data.problems import ProblemForm

    return ProblemForm(one_of(text, [form.value for form in ProblemForm]))


def rewards(text: str) -> str:
    """Read the value of the setting `rewards`."""
    from ..settings import Rewards

    return one_of(text, get_args(Rewards))


def one_of(text: str, choices: Sequence[str]) -> str:
    if text not in choices:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(map(repr, choices))}; got {text!r}")
    return text


def pass_rates(text: str) -> PassRates:
    """Read a range of pass rates."""
    from ..data.training import PassRates

    low, _, high = text.partition("..")
    with suppress(ValueError):
        if 0.0 <= float(low) <= float(high) <= 1.0:
            return PassRates(float(low), float(high))
    raise argparse.ArgumentTypeError(f"must be LOW..HIGH with numbers from 0 to 1, such as 0.2..0.8; got {text!r}")


def shard(text: str) -> tuple[int, int]:
    """Read K/N: part number K of N parts."""
    part, _, parts = text.partition("/")
    if part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts):
        return int(part), int(parts)
    raise argparse.ArgumentTypeError(f"must be K/N with K from 1 to N, such as 3/16; got {text!r}")


NUMBER_OF_SEEDS = 2**32
"""reasoning-gym accepts seeds below this number."""


def seed(text: str) -> int:
    """Read a seed for reasoning-gym."""
    if not text.isdecimal() or int(text) >= NUMBER_OF_SEEDS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to {NUMBER_OF_SEEDS - 1}; got {text!r}")
    return int(text)


def mapping(text: str) -> Mapping[str, object]:
    """Read a mapping in YAML."""
    from ..settings.given import parse_mapping

    try:
        params = parse_mapping(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; got {text!r}") from error
    assert isinstance(params, dict)
    return params

"""The `keep` command: write rows to train on from groups that are already in files. Needs no server."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ..data.training import Selection, TrainingForm, keep_rows
from ..runtime.text import visible
from .options import CommandParser, program
from .values import at_least_one, pass_rates


def keep_command(argv: Sequence[str]) -> int:
    """Write the chosen rows and their card; returns 0.

    Raises ConfigError for a wrong option, and for files without groups.
    """
    parser = CommandParser(
        prog=f"{program()} keep",
        description="Write rows to train on, from dumps, process files and evaluations.",
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file of groups, or a folder of files")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="ends in .jsonl or .parquet")
    parser.add_argument(
        "--format",
        choices=[form.value for form in TrainingForm],
        default=TrainingForm.MESSAGES.value,
        help="messages: a row for each completion; pairs: a correct completion and another of the same group, for "
        "preference training (default: %(default)s)",
    )
    parser.add_argument("--correct", action="store_true", help="messages: only correct completions")
    parser.add_argument(
        "--pass-rate", type=pass_rates, metavar="LOW..HIGH", help="only groups with such a pass rate: 0.1..0.9"
    )
    parser.add_argument("--max-per-problem", type=at_least_one, metavar="N", help="rows of one question at most")
    options = parser.parse_args(argv)
    if options.correct and TrainingForm(options.format) is TrainingForm.PAIRS:
        parser.error("--correct goes with --format messages: a pair has a correct completion and another")
    selection = Selection(options.pass_rate, options.correct, options.max_per_problem)
    card = keep_rows(
        options.paths, options.out, TrainingForm(options.format), selection, command="keep " + shlex.join(argv)
    )
    if card["skipped"]["lines"]:
        print(f"skipped: {card['skipped']['lines']} lines or files, the first: {visible(card['skipped']['first'])}")
    print(
        f"{card['groups']} groups, {card['outside']} with a pass rate out of range; "
        f"{card['repeated']} repeated completions"
    )
    print(f"{options.out}: {card['rows']} rows")
    return 0

"""The command `audit` and its output.

The exit status is 1 if a finding has at least the severity `--fail-on`. So CI can check a new release of the library.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from reasoning_env.errors import ConfigError
from reasoning_env.program.parser import Command
from reasoning_env.storage.folders import check_writable

from .options import NEVER, add_options, check_options

if TYPE_CHECKING:
    from .report import Report

# The functions that do the work import the modules that `-h` does not need.


def _audit(options: argparse.Namespace, folder: Path) -> int:
    """Run the audit, then save and print the report. Return 1 if a finding is at least as severe as --fail-on, else 0.

    Raises:

    - ConfigError: an option or a file cannot be used
    - WorkerError: no problem could be audited
    """
    from .rows import audit_rows
    from .tasks import audit_tasks

    check_options(options)
    _check_output(options.output)  # now, because an audit takes minutes
    report = audit_tasks(options, folder) if options.score is None else audit_rows(options)
    return _finish(report, options)


def _check_output(path: Path) -> None:
    """Raise ConfigError if the path cannot be written, or exists and is not the result of an audit."""
    from reasoning_env.storage.reading import read_json

    check_writable(path.parent, "--output")
    if not path.exists():
        return
    try:
        is_audit = path.is_file() and (path.stat().st_size == 0 or "audits" in read_json(path))
    except (OSError, ValueError, TypeError):  # TypeError: the file is a JSON number
        is_audit = False
    if not is_audit:
        raise ConfigError(
            f"{path} exists, and is not the result of an audit", setting="--output", remedy="choose another file"
        )


def _finish(report: Report, options: argparse.Namespace) -> int:
    """Save and print the report, and return the exit status.

    If the report cannot be saved, print it and then raise ConfigError.
    """
    from reasoning_env.storage.files import replace_file

    from .findings import Severity, is_at_least
    from .report import encode_report, print_report

    text = encode_report(report)
    output = options.output
    failure: OSError | None = None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, [f"{text}\n".encode()], mode=0o666)
    except OSError as error:
        failure = error
    fails = options.fail_on != NEVER and is_at_least(report.findings, Severity(options.fail_on))
    if options.json:
        print(text, flush=True)
    else:
        print_report(report, fails=fails)
    if failure is not None:
        raise ConfigError(
            f"{output} cannot be written: {failure.strerror}", setting="--output", remedy="use another file"
        ) from failure
    if not options.json:
        print(f"all numbers: {output}")
    return int(fails)


audit_command = Command(
    "audit",
    "Check each task's verifier with right answers, slightly changed answers, and answers that need no reasoning.",
    add_options,
    _audit,
)

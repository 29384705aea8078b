"""The `recover` command: completes the files of rollouts that a killed run left behind."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .errors import ConfigError
from .rollouts import Outcome, PartReport, recover_folder


def recover_command(argv: Sequence[str], default_folder: Path) -> int:
    """Recover one folder and print what was done; returns 1 when a file could not be completed, and 0 otherwise.

    Raises ConfigError for a folder that is none or cannot be read.
    """
    folder = _parse(argv, default_folder)
    try:
        reports = recover_folder(folder)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be read: {error.strerror}; name the folder that holds the dumps: `recover FOLDER`"
        ) from error
    for report in reports:
        print(_line(report))
    print(_conclusion(folder, reports))
    return int(any(report.outcome is Outcome.FAILED for report in reports))


def _parse(argv: Sequence[str], default_folder: Path) -> Path:
    parser = argparse.ArgumentParser(
        prog="recover",
        description="Complete the rollout files (`.jsonl.part`) that a killed run left behind: cut off a torn last "
        "line and give them their final names. Files of a run that is alive are left alone. Every run that dumps into "
        "the folder does the same when it starts.",
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=default_folder, metavar="FOLDER", help="default: %(default)s"
    )
    folder: Path = parser.parse_args(argv).folder
    return folder


def _line(report: PartReport) -> str:
    name = report.part.name
    torn = f", {report.torn_bytes} bytes of a torn line cut off" if report.torn_bytes else ""
    if report.outcome is Outcome.COMPLETED:
        groups = "1 group" if report.groups == 1 else f"{report.groups} groups"
        return f"completed  {report.target.name if report.target else name}: {groups}{torn}"
    if report.outcome is Outcome.DELETED:
        return f"deleted    {name}: no whole group{torn}"
    if report.outcome is Outcome.IN_USE:
        return f"in use     {name}: left alone"
    return f"FAILED     {name}: {report.problem}"


def _conclusion(folder: Path, reports: Sequence[PartReport]) -> str:
    if not reports:
        return f"nothing to do in {folder}"
    counts = Counter(report.outcome for report in reports)
    told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    return f"{folder}: {told}"

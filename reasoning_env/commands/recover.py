"""The `recover` command: cuts torn last lines off the dumps that killed runs left behind."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..dumps.format import is_dump
from ..dumps.recovery import MIN_AGE_S, TornFile, recover_file, recover_folder
from ..errors import ConfigError


def recover_command(argv: Sequence[str], default_folder: Path) -> int:
    """Recover a folder or file and print what was done; returns 1 if mending a file failed, else 0.

    Raises ConfigError for a path that cannot be read, or that is no file of dumps.
    """
    path = _parse(argv, default_folder)
    if path.is_file() and not is_dump(path):
        raise ConfigError(f"{path} is no file of dumps: those are named reasoning_gym_environment_..._NUMBER.jsonl")
    try:
        torn = list(filter(None, [recover_file(path)])) if path.is_file() else recover_folder(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}; name the folder that holds the dumps: `recover FOLDER`"
        ) from error
    for file in torn:
        print(_line(file))
    if not torn:
        print(f"nothing to do in {path}")
    return int(any(file.problem is not None for file in torn))


def _parse(argv: Sequence[str], default_folder: Path) -> Path:
    parser = argparse.ArgumentParser(
        prog="recover",
        description="Cut off the torn last line that a killed run may have left in a file of dumps. In a folder, files "
        f"that changed within the last {MIN_AGE_S:.0f} seconds are left alone, because their runs may be alive. A file "
        "that is named is mended in any case: name it only when its run has ended.",
    )
    parser.add_argument(
        "path", nargs="?", type=Path, default=default_folder, metavar="FOLDER", help="or one file; default: %(default)s"
    )
    path: Path = parser.parse_args(argv).path
    return path


def _line(file: TornFile) -> str:
    if file.problem is not None:
        return f"FAILED      {file.path.name}: {file.problem}"
    if file.cut:
        return f"cut         {file.path.name}: {file.torn_bytes} bytes of a torn line"
    return f"left alone  {file.path.name}: torn, but it changed just now; its run may be alive"

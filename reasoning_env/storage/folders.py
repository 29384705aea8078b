"""Find folders: the installation, a user's own checkout of the library, and the dumps. Check that a folder is writable.

Except in `check_writable`, the argument `folder` is the folder that contains the environment's module.
"""

from __future__ import annotations

import importlib.metadata
import logging
import re
import shlex
import tempfile
from pathlib import Path

from ..errors import ConfigError

logger = logging.getLogger(__name__)

CHECKOUT = "reasoning-gym"
"""Name of the folder with a user's own checkout of the library, beside the environment's module."""


DISTRIBUTION = "reasoning-gym-environment"
"""Name of the installed package and of its command."""
FOLDER = Path(__file__).resolve().parents[2]
"""Folder that contains this package: a clone, or the folder of installed packages."""


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    In a clone, the command installs the clone with the extra. Otherwise, the command names the extra's packages.
    """
    if (FOLDER / "pyproject.toml").exists():
        return f"pip install {shlex.quote(f'{FOLDER}[{extra}]')}"
    # The distribution's name cannot be used, because this project does not own it in any package index.
    needed = importlib.metadata.requires(DISTRIBUTION) or []
    packages = [line.partition(";")[0].strip() for line in needed if re.search(rf"extra == .{extra}\W", line)]
    return shlex.join(["pip", "install", *packages])


def find_checkout(folder: Path) -> Path | None:
    """Return the user's own checkout of the library in `folder`; None if there is none."""
    checkout = folder / CHECKOUT
    if (checkout / "reasoning_gym" / "__init__.py").exists():
        return checkout
    if checkout.exists():
        logger.warning("%s contains no reasoning_gym package, so the installed package is used", checkout)
    return None


def default_dumps_folder(folder: Path) -> Path:
    """Return `data_dumps/` beside the module or, for an installed module, in the working directory.

    A clone, an editable installation and a copy in another source tree do not count as installed.
    """
    has_metadata = any(folder.glob("reasoning_gym_environment-*.dist-info"))
    installed = has_metadata or not {"site-packages", "dist-packages"}.isdisjoint(folder.parts)
    return (Path.cwd() if installed else folder) / "data_dumps"


def check_writable(folder: Path, setting: str) -> None:
    """Raise ConfigError, which names `setting`, unless files can be made in `folder`. The folder need not exist yet."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        fault = f"{folder} cannot be made, because {nearest} is not a folder"
        raise ConfigError(fault, setting=setting, remedy="use another folder")
    # Make a file, because permission bits let root write everywhere, even below `/proc`, where writing fails.
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(
            f"{folder} cannot be written to ({nearest}: {reason})", setting=setting, remedy="use another folder"
        ) from error

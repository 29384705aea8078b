"""Folders: this installation, the user's own checkout of the library, the dumps, and one that can be written to.

`folder` is the folder of the environment's module, except in `check_writable`.
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
"""Name of a user's own checkout of the library in the module's folder."""


DISTRIBUTION = "reasoning-gym-environment"
"""Name of the installed package and of its command."""
FOLDER = Path(__file__).resolve().parents[2]
"""Folder of this package: a clone, or the folder into which it was installed."""


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra: from the clone, or each by its own name.

    No line names the distribution itself: in no index does that name belong to this project.
    """
    if (FOLDER / "pyproject.toml").exists():
        return f"pip install {shlex.quote(f'{FOLDER}[{extra}]')}"
    needed = importlib.metadata.requires(DISTRIBUTION) or []
    packages = [line.partition(";")[0].strip() for line in needed if re.search(rf"extra == .{extra}\W", line)]
    return shlex.join(["pip", "install", *packages])


def find_checkout(folder: Path) -> Path | None:
    """Return the user's own checkout of the library in `folder`, or None."""
    checkout = folder / CHECKOUT
    if (checkout / "reasoning_gym" / "__init__.py").exists():
        return checkout
    if checkout.exists():
        logger.warning("%s holds no reasoning_gym package; the installed one is used", checkout)
    return None


def default_dumps_folder(folder: Path) -> Path:
    """Return `data_dumps/` in the module's folder; for an installed module, in the working directory.

    Only an installer leaves a `.dist-info` beside the module. A clone, an editable installation and a copy in another
    source tree have none.
    """
    has_metadata = any(folder.glob("reasoning_gym_environment-*.dist-info"))
    installed = has_metadata or not {"site-packages", "dist-packages"}.isdisjoint(folder.parts)
    return (Path.cwd() if installed else folder) / "data_dumps"


def check_writable(folder: Path, setting: str) -> None:
    """Raise ConfigError, which names the setting, unless files can be made in `folder`, or in a folder of that name.

    A temporary file is made for that in the folder or, where the folder is not there yet, in the nearest folder above.
    Permissions alone do not tell: everything is permitted to root, also below `/proc`.
    """
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ConfigError(f"{folder} cannot be made, because {nearest} is no folder", setting=setting)
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(
            f"{folder} cannot be written to ({nearest}: {reason})", setting=setting, remedy="name another folder"
        ) from error

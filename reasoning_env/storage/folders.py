"""Where things lie by default: the user's own checkout of the library, and the dumps.

`folder` is always the one that holds the environment's module.
"""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)

CHECKOUT = "reasoning-gym"
"""What a user's own checkout of the library is called in the module's folder."""


def find_checkout(folder: Path) -> Path | None:
    """Return the user's own checkout of the library in `folder`, or None where there is none."""
    checkout = folder / CHECKOUT
    if (checkout / "reasoning_gym" / "__init__.py").exists():
        return checkout
    if checkout.exists():
        logger.warning("%s holds no reasoning_gym package; the installed one is used", checkout)
    return None


def default_dumps_folder(folder: Path) -> Path:
    """Return `data_dumps/` in the module's folder; for an installed module, in the working directory.

    An installer leaves its `.dist-info` beside the module; a clone, an editable installation and a folder that was put
    into another source tree have none.
    """
    has_metadata = any(folder.glob("reasoning_gym_environment-*.dist-info"))
    installed = has_metadata or not {"site-packages", "dist-packages"}.isdisjoint(folder.parts)
    return (Path.cwd() if installed else folder) / "data_dumps"

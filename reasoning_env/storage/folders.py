"""Default folders: the user's own checkout of the library, and the dumps.

`folder` is always the folder of the environment's module.
"""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)

CHECKOUT = "reasoning-gym"
"""Name of a user's own checkout of the library in the module's folder."""


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

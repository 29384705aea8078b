"""Where things lie by default: the user's own checkout of the library, the dumps, and evaluations.

`folder` is always the one that holds the environment's module.
"""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)

DISTRIBUTION = "reasoning_gym_environment"
INSTALLED_IN = {"site-packages", "dist-packages"}
CHECKOUT = "reasoning-gym"
DUMPS = "data_dumps"
EVALS = "evals"


def find_checkout(folder: Path) -> Path | None:
    """Return the user's own checkout of the library, `CHECKOUT` in `folder`, or None where there is none."""
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
    installed = any(folder.glob(f"{DISTRIBUTION}-*.dist-info")) or not INSTALLED_IN.isdisjoint(folder.parts)
    return (Path.cwd() if installed else folder) / DUMPS

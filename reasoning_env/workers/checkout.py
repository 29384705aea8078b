"""Find the user's own checkout of the library, which is used in place of the installed package."""

from __future__ import annotations

import logging
from pathlib import Path

logger = logging.getLogger(__name__)


def find_checkout(folder: Path) -> Path | None:
    """The user's own checkout of the library, `reasoning-gym/` in `folder`, or None where there is none."""
    checkout = folder / "reasoning-gym"
    if (checkout / "reasoning_gym" / "__init__.py").exists():
        return checkout
    if checkout.exists():
        logger.warning("%s holds no reasoning_gym package; the installed one is used", checkout)
    return None

"""What is found around a run: the user's own checkout of the library, a wandb account."""

from __future__ import annotations

import contextlib
import logging
import netrc
import os
from pathlib import Path
from urllib.parse import urlsplit

logger = logging.getLogger(__name__)


def find_checkout(folder: Path) -> Path | None:
    """The user's own checkout of the library, `reasoning-gym/` in `folder`, or None where there is none."""
    checkout = folder / "reasoning-gym"
    if (checkout / "reasoning_gym" / "__init__.py").exists():
        return checkout
    if checkout.exists():
        logger.warning("%s holds no reasoning_gym package; the installed one is used", checkout)
    return None


def has_wandb_account() -> bool:
    """Whether wandb would find a key in the environment or in netrc, where `wandb login` puts it."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(str(path)).authenticators(host) is not None
    return False

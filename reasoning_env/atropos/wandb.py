"""What this environment does about wandb: find an account."""

from __future__ import annotations

import contextlib
import netrc
import os
from pathlib import Path
from urllib.parse import urlsplit


def has_wandb_account() -> bool:
    """Whether wandb would find a key in the environment or in netrc, where `wandb login` puts it."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        return netrc.netrc(str(path)).authenticators(host) is not None
    return False

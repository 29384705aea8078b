"""For every test: no request ever leaves this machine."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

"""The machine's certificates. `conftest.py` hides them from the HTTP clients of the tests."""

from __future__ import annotations

import os

VARIABLES = ("SSL_CERT_DIR", "SSL_CERT_FILE")


def environment_with_certificates() -> dict[str, str]:
    """Return environment variables for a program that downloads packages itself."""
    others = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return others | {name: value for name in VARIABLES if (value := os.environ[f"MACHINE_{name}"])}

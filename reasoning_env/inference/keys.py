"""Keys of inference servers, as settings name them."""

from __future__ import annotations

import os

from ..errors import ConfigError

NO_KEY = "x"
"""The key for servers that need no key; OpenAI's client refuses to be made without a key."""


def read_key(key: str, *, for_chat: bool) -> str:
    """Return a server's key, `$NAME` from that variable; NO_KEY for none.

    With `for_chat`, no key means the variable OPENAI_API_KEY if it is set, as for other clients of chat servers. Raises
    ConfigError if the variable NAME is not set.
    """
    if key.startswith("$"):
        value = os.environ.get(key[1:])
        if not value:
            raise ConfigError(f"the environment variable {key[1:]} is not set", setting="openai.api_key")
        return value
    default = os.environ.get("OPENAI_API_KEY") if for_chat else None
    return (default or NO_KEY) if key in ("", NO_KEY) else key

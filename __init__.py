"""The reasoning-gym environment as a package, for a folder that is dropped into another source tree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig

__all__ = ["ReasoningGymEnv", "ReasoningGymEnvConfig"]

_FOLDER = Path(__file__).resolve().parent


def _import_core() -> None:
    """Import this folder's `reasoning_env` under its own name, by which the front door imports it.

    Nothing else in this folder becomes importable: its `tests` and `tools` would hide those of the other tree.

    Raises ImportError if another copy of `reasoning_env` has been imported.
    """
    sys.path.insert(0, str(_FOLDER))
    try:
        import reasoning_env
    finally:
        sys.path.remove(str(_FOLDER))
    found = Path(str(reasoning_env.__file__)).resolve().parent
    if found != _FOLDER / "reasoning_env":
        raise ImportError(f"{_FOLDER} cannot be used beside {found}, which has been imported; uninstall one of them")


_import_core()


def __getattr__(name: str) -> Any:
    """Import the front door when one of its names is used, and not with the package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import reasoning_gym_environment

    return getattr(reasoning_gym_environment, name)

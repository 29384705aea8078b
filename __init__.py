"""The reasoning-gym environment as a package, for a folder that is dropped into another source tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig

__all__ = ["ReasoningGymEnv", "ReasoningGymEnvConfig"]


def __getattr__(name: str) -> Any:
    """Import the front door when it is asked for, and not with the package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import reasoning_gym_environment

    return getattr(reasoning_gym_environment, name)

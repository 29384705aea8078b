"""The environment for OpenEnv: a client and its models. The server is in `server`."""

from .client import ReasoningGymEnv
from .models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState

__all__ = ["ReasoningGymAction", "ReasoningGymEnv", "ReasoningGymObservation", "ReasoningGymState"]

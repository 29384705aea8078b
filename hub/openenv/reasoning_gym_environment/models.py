"""What client and server say to each other. An episode is one problem and one answer."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def as_text(value: Any) -> Any:
    """Write what a client read as JSON from a model's reply as it stood there: `42` came as a number."""
    return json.dumps(value) if isinstance(value, int | float | list) else value


class ReasoningGymAction(Action):
    text: Annotated[str, BeforeValidator(as_text)] = Field(description="The whole completion, as the model wrote it")


class ReasoningGymObservation(Observation):
    """After a reset the messages of the problem, and after a step the reason of the reward and its parts.

    It never holds the right answer, nor the reference, from which the answer can be made again.
    """

    messages: list[dict[str, str]] = Field(default_factory=list, description="The conversation to complete")
    reason: str | None = Field(default=None, description="How the reward came about: scored, no_answer, too_long ...")
    parts: dict[str, float] = Field(default_factory=dict, description="Numbers whose product is the reward")


class ReasoningGymState(State):
    """For the trainer, not for the model: `reset(reference=...)` serves the same problem again."""

    task: str | None = Field(default=None, description="Name of the task")
    level: float | None = Field(default=None, description="Difficulty from 0 to 1; None at the library's defaults")
    reference: str | None = Field(default=None, description="The problem's public name")


class ResetOptions(BaseModel):
    """What `reset` takes. Without options, the next problem of the settings."""

    model_config = ConfigDict(extra="forbid", strict=True)

    episode_id: str | None = Field(default=None, max_length=255)
    seed: int | None = Field(default=None, ge=0)
    task: str | None = None
    level: float | None = Field(default=None, ge=0.0, le=1.0)
    reference: str | None = None
    split: Literal["train", "test"] | None = None
    index: int | None = Field(default=None, ge=0)

"""The messages between client and server. An episode has one problem and one answer."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def as_text(value: Any) -> Any:
    """Convert a number or a list back to text, because some clients parse a reply such as `42` as JSON."""
    return json.dumps(value) if isinstance(value, int | float | list) else value


class ReasoningGymAction(Action):
    text: Annotated[str, BeforeValidator(as_text)] = Field(description="The whole completion, as the model wrote it")


class ReasoningGymObservation(Observation):
    """The problem's messages after a reset; the reason for the reward and the reward's parts after a step.

    An observation never contains the right answer, nor the reference, from which the answer can be generated.
    """

    messages: list[dict[str, str]] = Field(default_factory=list, description="The conversation to complete")
    reason: str | None = Field(default=None, description="Reason for the reward: scored, no_answer, too_long ...")
    parts: dict[str, float] = Field(default_factory=dict, description="Numbers whose product is the reward")


class ReasoningGymState(State):
    """The state of an episode, which only the trainer may see. `reset(reference=...)` serves the same problem again."""

    task: str | None = Field(default=None, description="Name of the task")
    level: float | None = Field(default=None, description="Difficulty from 0 to 1; None for the library's defaults")
    reference: str | None = Field(default=None, description="The problem's public name")


class ResetOptions(BaseModel):
    """The options of `reset`. Without options, `reset` serves the next problem that the settings select."""

    model_config = ConfigDict(extra="forbid", strict=True)

    episode_id: str | None = Field(default=None, max_length=255)
    seed: int | None = Field(default=None, ge=0)
    task: str | None = None
    level: float | None = Field(default=None, ge=0.0, le=1.0)
    reference: str | None = None
    split: Literal["train", "test"] | None = None
    index: int | None = Field(default=None, ge=0)

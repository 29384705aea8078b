"""Limits of a judge server: sizes, numbers and times of requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class JudgeLimits(BaseModel):
    """Limits of one request to a judge server, and of all requests."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    head_timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds for the head of a request, and between two requests of a connection."""
    body_timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 30.0
    """Seconds for the body of a request."""
    max_texts: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """Most completions in a request."""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 12
    """Largest body of a request, in megabytes. A group of 64 completions of 32,000 tokens has about 8. While the server
    reads a body of 12, other requests wait for 50 ms at most."""
    max_waiting: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """Requests that may wait at a time. A further request gets 429."""
    max_held_mb: Annotated[int, Field(ge=2, le=1_048_576)] = 512
    """Megabytes of all bodies that are read or wait. A further body gets 503."""

    @property
    def max_values(self) -> int:
        """Most JSON values in a request: the three lists of /get_reward, and prompts that are lists of messages."""
        return 8 * self.max_texts + 64

"""The settings that limit requests to a judge server."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class JudgeLimits(BaseModel):
    """Limits of a request to a judge server."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    max_texts: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """maximum completions per request"""
    max_body_mb: Annotated[int, Field(ge=1, le=1024)] = 12
    """maximum body of a request in megabytes; 64 completions of 32,000 tokens have about 8 MB"""

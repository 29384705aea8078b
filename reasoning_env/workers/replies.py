"""Turn workers' replies into records. A verifier worker has read model text and may reply anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import GenerationError, ScoringError
from ..records import Problem, ProblemSpec, Reason, Verdict
from .protocol import Frame, ProtocolFault

MAX_SCORING_S = 1e6
"""More than any deadline: a verifier worker that claims to have worked for longer lies."""


class _Reply(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _GeneratedReply(_Reply):
    question: str
    answer: str | None
    metadata_bytes: int
    """How much of the frame's blob is metadata; the rest is the library's entry."""
    generation_s: float
    seed: int
    flawed: int
    params: dict[str, Any]
    level: float | None


class _VerdictReply(_Reply):
    position: int
    score: float = Field(ge=0.0, le=1.0)
    scoring_s: float = Field(ge=0.0, le=MAX_SCORING_S)
    reason: Literal["scored", "verifier_error"]


def read_problem(spec: ProblemSpec, reply: Frame) -> Problem:
    """Return a generator's problem; raises GenerationError for a reported error, and ProtocolFault."""
    if "error" in reply.header:
        raise GenerationError(f"{spec.task}, seed {spec.seed}: {reply.header['error']}")
    try:
        fields = _GeneratedReply.model_validate(reply.header).model_dump()
        split = fields.pop("metadata_bytes")
        spec = replace(spec, seed=fields.pop("seed"))
        return Problem(spec=spec, metadata_json=reply.blob[:split].decode(), entry=reply.blob[split:], **fields)
    except ValueError as error:
        raise ProtocolFault(f"a problem that cannot be one: {error}") from error


def check_ready(reply: Frame, spec: ProblemSpec) -> None:
    """Check that a verifier worker has built its task; raises ScoringError if not, and ProtocolFault."""
    _raise_fault(reply, spec)
    if reply.header.get("ready") is not True:
        raise ProtocolFault(f"a verdict before the verifier worker was ready: {str(reply.header)[:200]}")


def read_verdict(reply: Frame, position: int, answer: str, spec: ProblemSpec) -> Verdict:
    """Return the verdict at a position; raises ScoringError for a fault of ours, and ProtocolFault."""
    _raise_fault(reply, spec)
    try:
        said = _VerdictReply.model_validate(reply.header)
    except ValidationError as error:
        raise ProtocolFault(f"a verdict that cannot be one: {str(error)[:500]}") from error
    if said.position != position or (said.score > 0.0 and said.reason != Reason.SCORED.value):
        raise ProtocolFault(f"a verdict that cannot be one: {said}")
    return Verdict(said.score, Reason(said.reason), answer, said.scoring_s)


def _raise_fault(reply: Frame, spec: ProblemSpec) -> None:
    if "fault" in reply.header:
        fault = str(reply.header["fault"])[:500]
        raise ScoringError(f"{spec.task}, seed {spec.seed}: the verifier worker cannot score: {fault}")

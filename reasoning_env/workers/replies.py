"""Check what workers reply before it becomes a record: a verifier worker has read model text, and may say anything."""

from __future__ import annotations

from typing import Any, TypeGuard

from ..errors import GenerationError, ScoringError
from ..records import Problem, ProblemSpec, Reason, Verdict
from .protocol import Frame, ProtocolFault

MAX_SCORING_S = 1e6
"""More than any deadline: a verifier worker that claims to have worked for longer lies."""
VERIFIER_REASONS = [reason.value for reason in (Reason.SCORED, Reason.VERIFIER_ERROR, Reason.BLOCKED)]


def read_problem(spec: ProblemSpec, reply: Frame) -> Problem:
    header = reply.header
    if "error" in header:
        raise GenerationError(f"{spec.task}, seed {spec.seed}: {header['error']}")
    try:
        split = header["metadata_bytes"]
        return Problem(
            spec=spec,
            question=header["question"],
            answer=header["answer"],
            metadata_json=reply.blob[:split].decode(),
            entry=reply.blob[split:],
            generation_s=header["generation_s"],
            flaw=header["flaw"],
            params=header["params"],
            level=header["level"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolFault(f"a problem that cannot be one: {type(error).__name__}: {error}") from error


def raise_fault(header: dict[str, Any], spec: ProblemSpec) -> None:
    if "fault" in header:
        raise ScoringError(
            f"{spec.task}, seed {spec.seed}: the verifier worker cannot score: {str(header['fault'])[:500]}"
        )


def read_verdict(header: dict[str, Any], position: int, answer: str, spec: ProblemSpec) -> Verdict:
    """Check a verifier worker's reply field by field: it comes from a process that has read model text."""
    raise_fault(header, spec)
    score, seconds, reason = header.get("score"), header.get("scoring_s"), header.get("reason")
    if (
        header.get("position") != position
        or not _is_number(score, 1.0)
        or not _is_number(seconds, MAX_SCORING_S)
        or reason not in VERIFIER_REASONS
        or (score > 0.0 and reason != Reason.SCORED.value)
    ):
        raise ProtocolFault(f"a verdict that cannot be one: {str(header)[:200]}")
    return Verdict(float(score), Reason(reason), answer, float(seconds))


def _is_number(value: Any, highest: float) -> TypeGuard[float]:
    """Whether a value is a number from 0 to `highest`; an integer may be too large to become a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value <= highest

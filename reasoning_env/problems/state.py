"""The state of a session as JSON values. This is the only module that checks a state which a caller passes."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import AfterValidator, Field, Strict, TypeAdapter
from typing_extensions import TypedDict  # pydantic cannot read the TypedDict of Python 3.11

from ..errors import ConfigError, InvalidReferenceError
from ..records import ProblemSpec
from ..storage.values import Count, Name, Number, Share, describe
from .references import Reference

NOT_GENERATED = "0" * 16
"""Stands for the question's hash in the reference of a problem that was drawn but not yet generated."""


def _check_reference(text: str) -> str:
    try:
        Reference.parse(text)
    except InvalidReferenceError as error:
        raise ValueError(str(error)) from error
    return text


GroupCount = Annotated[Number, Field(ge=0)]
"""A count of groups that decays with each new group, so it may be a fraction."""
PositionState = tuple[Count, Count, Annotated[str, Strict(), AfterValidator(_check_reference)]]
"""Index, attempt and reference of a problem that is in flight or was drawn ahead."""
ArmState = tuple[Share | None, GroupCount, GroupCount, GroupCount, Count]
"""The state of an arm (a task at one level): the level, then the four fields of `ArmCounts`."""


class StreamState(TypedDict):
    """The state of a problem stream: drawn problems, and excluded tasks and levels."""

    next_index: Count
    positions: list[PositionState]
    failures_in_a_row: NotRequired[dict[Name, Count]]
    quarantined: NotRequired[list[Name]]
    ceilings: NotRequired[dict[Name, Share]]


class SessionState(TypedDict):
    """The result of `Session.state`: the state of the stream of problems and of the estimator."""

    instance: NotRequired[Count]
    stream: StreamState
    sampler: dict[Name, list[ArmState]]
    """The estimator's state, by task."""


_STATE = TypeAdapter(SessionState)


def read_state(state: object) -> SessionState:
    """Return the state of an earlier run; unknown keys are left out. Raises ConfigError for an invalid state."""
    try:
        return _STATE.validate_python(state)
    except ValueError as error:
        raise ConfigError(
            f"this is not a session's state: {describe(error)}", setting="state", remedy="pass the result of `state()`"
        ) from error


def pack_position(spec: ProblemSpec, question_hash: str | None) -> list[object]:
    """Return a drawn spec as a list that `PositionState` describes.

    `question_hash` is None unless the position was restored from an earlier run in which its problem was in flight.
    """
    reference = Reference(
        task=spec.task,
        split=spec.split,
        seed=spec.seed,
        level=spec.level,
        library="",
        question_hash=question_hash or NOT_GENERATED,
        params=spec.params,
    )
    return [spec.index, spec.attempt, str(reference)]


def unpack_position(position: PositionState) -> tuple[ProblemSpec, str | None]:
    """Return (spec, question hash) of a position. The hash is None unless the problem was in flight."""
    index, attempt, text = position
    reference = Reference.parse(text)
    # References in a state have only the parameters of the request, without those of the level.
    spec = reference.spec(index=index, attempt=attempt).with_request(params_are_whole=False)
    if reference.question_hash == NOT_GENERATED:
        return spec.with_request(exact_seed=False), None
    return spec, reference.question_hash

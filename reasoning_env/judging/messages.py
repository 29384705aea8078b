"""The requests and replies of a judge server, as typed records."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..records import Reason, Row

TOKEN_VARIABLE = "REASONING_JUDGE_TOKEN"
"""Environment variable with a judge's token. Clients send the token, and the server requires the token."""


class ScoreRequest(msgspec.Struct):
    """A request to judge completions (`texts`) of one problem, given by its reference (`ref`), or of one `row`."""

    texts: list[str]
    ref: str | None = None
    row: Row | None = None


class RmRequest(msgspec.Struct):
    """A request that slime or miles sends. `label` is a problem's reference, a row, or a row's JSON."""

    response: str
    label: str | Row


class GetRewardRequest(msgspec.Struct):
    """A request that OpenRLHF sends: `query` has each prompt followed by its completion."""

    query: list[str]
    prompts: list[str]
    labels: list[str | Row]


class VerdictRow(msgspec.Struct):
    """A verdict. The score function sets `parts` and `error`, if the request has a `row`."""

    score: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
    reason: Reason
    answer: str | None
    parts: dict[str, float] | None = None
    error: str | None = None


class ScoreReply(msgspec.Struct):
    """The verdicts on the texts of a ScoreRequest, in order."""

    verdicts: list[VerdictRow]


class Refusal(msgspec.Struct):
    """Why a request got no verdicts. `kind` distinguishes refusals that have the same status."""

    error: str = ""
    kind: str | None = None

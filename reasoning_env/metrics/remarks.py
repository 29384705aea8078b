"""Texts of log lines about outcomes that are so frequent that the setup probably causes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..records import Reason
from .outcomes import HELD_BACK, TRUNCATED


@dataclass(frozen=True)
class Remark:
    """A log line about a frequent outcome that has a likely cause in the setup.

    The remark is logged if at least `share` of the completions have the outcome. `fact` describes these completions.
    `advice` names likely causes and remedies; `{limit}` in `advice` stands for the name of the token limit.
    """

    share: float
    fact: str
    advice: str

    def text(self, share: float, limit: str) -> str:
        return f"{share:.0%} of completions {self.fact}: {self.advice.format(limit=limit)}"


REMARKS: Mapping[str, Remark] = {
    TRUNCATED: Remark(0.10, "were cut off without an answer", "raise the token limit: {limit}"),
    HELD_BACK: Remark(
        0.10,
        "have an answer only in the reasoning, which the server returned separately",
        "the server's reasoning parser puts answers into the reasoning; start the server without a parser, or with "
        "the parser of this model",
    ),
    Reason.NO_TEXT.value: Remark(
        0.10,
        "have no text",
        "the model stops at once, or the server returns the model's whole text as reasoning; check the chat template "
        "and the server's reasoning parser",
    ),
    Reason.NO_ANSWER.value: Remark(
        0.50,
        "have no answer tags",
        "the model does not follow the format (see `Small models` in docs/train.md), or has the wrong chat template",
    ),
    Reason.UNCLOSED_THINKING.value: Remark(
        0.10,
        "have unclosed thinking",
        "the model does not close its thinking, or `thinking` is wrong for this model (docs/models.md)",
    ),
    Reason.UNCLOSED_ANSWER.value: Remark(
        0.10,
        "have an answer tag that is not closed",
        "perhaps a stop string ends completions at `</answer>`; configure the server to return the stop string too",
    ),
    Reason.REPEATED_ANSWER.value: Remark(
        0.02,
        "give the same answer more than once and therefore score 0",
        "in `system_prompt`, request one pair of answer tags at the end of the completion",
    ),
    Reason.SEVERAL_ANSWERS.value: Remark(
        0.10,
        "have several answers",
        "perhaps the model's thinking has an unknown format and contains answers; set `thinking` to the model's "
        "format (docs/models.md)",
    ),
    Reason.EMPTY_ANSWER.value: Remark(
        0.10,
        "have an empty answer",
        "perhaps the model copies empty answer tags from the prompt; change `system_prompt`",
    ),
    Reason.TOO_LONG.value: Remark(
        0.10, "have an answer that is too long to be judged", "the model puts its reasoning into the answer tags"
    ),
    Reason.REFUSED.value: Remark(
        0.02, "were refused", "the model or a filter of the server refuses the questions; read some completions"
    ),
    Reason.VERIFIER_ERROR.value: Remark(
        0.10, "made the verifier fail", "the task's verifier probably has a bug; `report` shows these answers"
    ),
    Reason.TIMEOUT.value: Remark(
        0.02,
        "made the verifier exceed its deadline",
        "unless the answers look like an attack, raise `scoring_deadline_s`",
    ),
    Reason.OUT_OF_MEMORY.value: Remark(
        0.02,
        "made the verifier exceed its memory limit",
        "unless the answers look like an attack, raise `worker_memory_mb`",
    ),
    Reason.CRASH.value: Remark(
        0.02, "ended the verifier's process", "the answers attack the verifier, or the verifier has a bug"
    ),
}
"""The remarks, by outcome. Right, partial and wrong answers need none."""


def outcome_remarks(shares: Mapping[str, float], limit: str) -> dict[str, str]:
    """Return the text to log for each outcome that is frequent enough. `limit` is the name of the token limit."""
    return {
        word: remark.text(shares[word], limit)
        for word, remark in REMARKS.items()
        if shares.get(word, 0.0) >= remark.share
    }

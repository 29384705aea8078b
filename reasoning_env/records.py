"""The records that flow from the choice of a task to the trainer's group, all frozen.

A `Rollout` carries a completion and its verdict; `dataclasses.replace` makes the next version of it. This module
imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar


class Split(StrEnum):
    """Which stream a problem belongs to; the two never share a seed."""

    TRAIN = "train"
    EVAL = "eval"


class Reason(StrEnum):
    """Why a rollout has the score it has; every verdict carries exactly one."""

    SCORED = "scored"
    """The verifier returned a number for the answer, whether high or low."""
    NO_ANSWER = "no_answer"
    SEVERAL_ANSWERS = "several_answers"
    UNCLOSED_ANSWER = "unclosed_answer"
    EMPTY_ANSWER = "empty_answer"
    TOO_LONG = "too_long"
    VERIFIER_ERROR = "verifier_error"
    """The verifier raised, or returned something that is not a finite number, for every form of this answer."""
    TIMEOUT = "timeout"
    """The verifier was still working on this answer at its deadline and was killed."""
    CRASH = "crash"
    """The verifier worker died while it scored this answer, or broke the protocol, twice."""


class DropReason(StrEnum):
    """Why a problem gave no group, or its group never came to the trainer."""

    INFERENCE = "inference_failed"
    SCORING = "scoring_failed"
    PROMPT_TOO_LONG = "prompt_too_long"
    TIMED_OUT = "timed_out"
    """Its completions took longer than `worker_timeout` while other requests succeeded."""
    UNDELIVERED = "undelivered"
    """A scored group that was refused, or that JSON cannot hold."""


class Rejection(StrEnum):
    """Why this run does not serve a sound problem, and draws again."""

    HELD_OUT = "held_out"
    """The evaluation set asks the question."""
    TOO_LONG = "too_long"
    """Prompt and expected answer do not fit."""


@dataclass(frozen=True)
class TaskInfo:
    """A task of the registry; `category` is the library's word for its family (`algebra`, `games`)."""

    name: str
    category: str


@dataclass(frozen=True)
class ProblemRequest:
    """Which problem the library is to make: all that a generator worker is told.

    `seed` is passed to the library (0 <= seed < 2**32). `params` are the library's own, as a user set them. `level`, in
    [0, 1], is the difficulty that all other parameters follow; None for the library's defaults. A rejected problem is
    replaced by the problem of a seed derived from this one, unless `as_is`. The problem is number `item` of a dataset
    of `dataset_size`, which only published evaluation sets set.
    """

    task: str
    seed: int
    params: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    as_is: bool = False
    item: int = 0
    dataset_size: int = 1


@dataclass(frozen=True)
class ProblemSpec:
    """A request at a position of a stream: enough to make the same problem again.

    `index` is the position (0, 1, 2 ...), and `attempt` counts its redraws.
    """

    request: ProblemRequest
    split: Split
    index: int
    attempt: int = 0

    @property
    def task(self) -> str:
        return self.request.task

    @property
    def seed(self) -> int:
        return self.request.seed

    @property
    def params(self) -> Mapping[str, Any]:
        return self.request.params

    @property
    def level(self) -> float | None:
        return self.request.level

    def with_request(self, **changes: Any) -> ProblemSpec:
        """Return the same position with other fields of the request."""
        return replace(self, request=replace(self.request, **changes))


@dataclass(frozen=True)
class Problem:
    """A generated problem.

    `answer` is the oracle's answer as text, or None for tasks where many answers are right. `metadata_json` is the
    library's metadata as JSON text, left unparsed because few need it. `entry` is the library's own record as bytes
    that only a verifier worker opens. `params` are the parameters it was generated with, and `level` their difficulty:
    None at the library's defaults, and not always the level of the spec. A composite's `level` is its member's, on top
    of `params`. `spec` has the seed it was generated with; `flawed` counts the seeds rejected before, by cause.
    `reference` is the problem's public name, from which any process generates it again.
    """

    spec: ProblemSpec
    question: str = field(repr=False)
    answer: str | None = field(repr=False)
    metadata_json: str = field(repr=False)
    entry: bytes = field(repr=False)
    generation_s: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    flawed: Mapping[str, int] = field(default_factory=dict)
    reference: str = ""

    @property
    def task(self) -> str:
        return self.spec.task


@dataclass(frozen=True)
class Prompt:
    """A conversation ready to be completed: its messages, the rendered text and the text's token ids.

    Where the server renders it, there is neither text nor tokens, and `estimated_tokens` is at least as many.
    """

    messages: tuple[Mapping[str, str], ...] = field(repr=False)
    text: str = field(repr=False)
    tokens: tuple[int, ...] = field(repr=False)
    estimated_tokens: int = 0


@dataclass(frozen=True)
class Sampling:
    """How to sample.

    Prompt and completion together stay strictly below `token_limit` tokens, and the completion alone takes at most
    `max_completion_tokens`, where that is set.
    """

    temperature: float
    top_p: float
    token_limit: int
    split: str
    max_completion_tokens: int | None = None

    def completion_budget(self, prompt: Prompt) -> int:
        """Return the tokens left for a completion; may be zero or negative."""
        special_tokens = 2  # that a server may add around a prompt
        left = self.token_limit - 1 - special_tokens - (len(prompt.tokens) or prompt.estimated_tokens)
        return left if self.max_completion_tokens is None else min(left, self.max_completion_tokens)


@dataclass(frozen=True)
class Timeouts:
    """Limits of a request for completions, in seconds.

    `reply_s` is for one try, None for no limit; `outage_s` is how long requests may fail, or no server be healthy,
    until that is an error, infinite for ever. With `tries`, a request is tried so often, without pauses.
    """

    reply_s: float | None
    outage_s: float
    tries: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What an answer earned: `score` in [0, 1], the reason, the scored text and the seconds it took."""

    score: float
    reason: Reason
    answer: str | None = None
    scoring_s: float = 0.0

    CORRECT_SCORE: ClassVar[float] = 0.99
    """An answer counts as correct from this score on, in training and evaluation alike."""

    @property
    def correct(self) -> bool:
        """Whether the answer counts as correct."""
        return self.score >= self.CORRECT_SCORE


@dataclass(frozen=True)
class Rollout:
    """One completion of a problem's prompt.

    `tokens` holds prompt and completion; `masks` has the same length, -100 over the prompt and the token id over the
    completion; `logprobs`, where the server gave them, has the same length with 1.0 over the prompt. Long ones are
    arrays: a list takes ten times the memory. Chat servers mostly tell only the number of the completion's tokens,
    `token_count`. Some return the model's reasoning apart from its text, as `thinking`; no answer is read from it.
    `score` is the reward that is sent, after the length penalty; in evaluation the verdict's.
    """

    text: str = field(repr=False)
    tokens: Sequence[int] = field(repr=False)
    masks: Sequence[int] = field(repr=False)
    logprobs: Sequence[float] | None = field(repr=False)
    finish_reason: str
    verdict: Verdict | None = None
    score: float = 0.0
    token_count: int | None = None
    thinking: str = field(default="", repr=False)

    @property
    def completion_tokens(self) -> int | None:
        """Return how many tokens the completion has; None where the server does not say."""
        if self.token_count is not None or not self.tokens:
            return self.token_count
        return len(self.masks) - self.masks.count(-100)

    @property
    def truncated(self) -> bool:
        """Whether the token budget ended the completion."""
        return self.finish_reason == "length"


@dataclass(frozen=True)
class Group:
    """All rollouts of one problem, with the prompt's messages, each a mapping with `role` and `content`.

    `thinking_formats` names the formats of thinking that were removed before the answers were read, None
    where nobody has said.
    """

    problem: Problem
    messages: tuple[Mapping[str, str], ...] = field(repr=False)
    rollouts: tuple[Rollout, ...]
    thinking_formats: tuple[str, ...] | None = None

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(rollout.score for rollout in self.rollouts)

    @property
    def has_signal(self) -> bool:
        """Whether the scores differ, so that their advantages are not all zero; never in a group of one."""
        return len(set(self.scores)) > 1

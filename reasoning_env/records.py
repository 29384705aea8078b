"""The records that a problem passes through, from the choice of a task to the trainer's group. All are frozen.

A `Rollout` carries a completion and its verdict; `dataclasses.replace` makes its next version. Imports nothing of the
package.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from inspect import Signature

# ASCII: otherwise the long s counts as a spelling of s.
OPENING_TAG = re.compile(r"<answer>", re.IGNORECASE | re.ASCII)
"""Begins an answer in a completion."""
Row = Mapping[str, Any]
"""A row of a user's data: values by the names of its columns."""
Subject = str | Row
"""What completions are judged by: a problem's reference, or a row."""


LEVEL_STEPS = 16
"""Number of steps from the easiest level of a task to the hardest: workers have parameters for these levels alone."""


def level_step(level: float) -> int:
    """Return the step that is nearest to a level."""
    return math.floor(level * LEVEL_STEPS + 0.5)


class Split(StrEnum):
    """The stream of a problem. The two streams share no seed."""

    TRAIN = "train"
    EVAL = "eval"


class Reason(StrEnum):
    """The reason for a rollout's score; every verdict has exactly one."""

    SCORED = "scored"
    """The verifier returned a number for the answer."""
    NO_TEXT = "no_text"
    """The completion has no text: the model wrote nothing, or the server returned everything as reasoning."""
    NO_ANSWER = "no_answer"
    """The text has no answer tags."""
    UNCLOSED_THINKING = "unclosed_thinking"
    """Thinking began and never ended, so whatever stands behind its mark is no answer."""
    REPEATED_ANSWER = "repeated_answer"
    """Several pairs of answer tags, with the same content in each."""
    SEVERAL_ANSWERS = "several_answers"
    """Several answer tags in any other way."""
    REFUSED = "refused"
    """The server or the model refused to answer, and the server says so."""
    UNCLOSED_ANSWER = "unclosed_answer"
    EMPTY_ANSWER = "empty_answer"
    TOO_LONG = "too_long"
    VERIFIER_ERROR = "verifier_error"
    """For every form of the answer, the verifier raised or returned no finite number."""
    TIMEOUT = "timeout"
    """The verifier exceeded the deadline of the answer and was killed."""
    OUT_OF_MEMORY = "out_of_memory"
    """The verifier worker reached its memory limit while it scored the answer, twice."""
    CRASH = "crash"
    """The verifier worker ended itself (a fatal signal, an exit) or broke the protocol at the answer, twice.

    A worker that is killed from outside (SIGKILL) is an infrastructure error, and never a score."""

    @property
    def has_answer(self) -> bool:
        """Whether the completion held one answer, which went to a verifier."""
        return self in (Reason.SCORED, Reason.VERIFIER_ERROR, Reason.TIMEOUT, Reason.OUT_OF_MEMORY, Reason.CRASH)


class Ending(StrEnum):
    """How a completion ended. ENDING_WORDS has the words by which servers say so."""

    FINISHED = "finished"
    """The model ended it, or came to a stop text."""
    CUT = "cut"
    """It came to a limit of tokens."""
    REFUSED = "refused"
    """The server's filter ended it, or the model refused to answer."""
    BROKEN_OFF = "broken_off"
    """The server ended it for a reason of its own: the completion is not the model's, and never scored."""

    @classmethod
    def of(cls, word: str | None) -> Ending:
        """Return the ending that a server's word means, in any case; no word at all means FINISHED.

        A word that is in no row of ENDING_WORDS means BROKEN_OFF.
        """
        if not word:
            return cls.FINISHED
        return _ENDINGS.get(word.lower(), cls.BROKEN_OFF)


ENDING_WORDS: Mapping[Ending, str] = {
    Ending.FINISHED: "stop eos eos_token end_turn stop_sequence tool_calls tool_call tool_use function_call "
    "complete completed",
    Ending.CUT: "length max_tokens max_output_tokens max_length model_length token_limit error_limit repetition "
    "model_context_window_exceeded",
    Ending.REFUSED: "content_filter content_filtered refusal sensitive safety recitation blocklist "
    "prohibited_content spii guardrail_intervened error_toxic",
    Ending.BROKEN_OFF: "abort aborted cancelled canceled user_cancel error network_error "
    "insufficient_system_resource timeout malformed_function_call null",
}
"""The words for each ending, with blanks between.

They are those of OpenAI, Anthropic, Bedrock, Cohere, DeepSeek, Gemini, Mistral, TGI, vLLM, SGLang, verl, xAI and Z.ai.

`repetition` is vLLM's limit on loops; `null` stands for a completion of which a server says nothing. The words of
BROKEN_OFF are those that are known to mean it; every other word means it too, and is logged.
"""
_ENDINGS = {word: ending for ending, words in ENDING_WORDS.items() for word in words.split()}


class DropReason(StrEnum):
    """Why a problem gave no group, or its group did not reach the trainer."""

    INFERENCE = "inference_failed"
    SCORING = "scoring_failed"
    PROMPT_TOO_LONG = "prompt_too_long"
    TIMED_OUT = "timed_out"
    """The completions took longer than `worker_timeout` while other requests succeeded."""
    UNDELIVERED = "undelivered"
    """A scored group was refused, or JSON cannot hold it."""


class Rejection(StrEnum):
    """Why this run does not serve a sound problem, and draws again."""

    HELD_OUT = "held_out"
    """The evaluation set asks the question."""
    TOO_LONG = "too_long"
    """Prompt and expected answer do not fit."""
    REPEATED = "repeated"
    """The question was asked before, in a set or a file that asks none twice."""


@dataclass(frozen=True)
class TaskInfo:
    """A task of a source. `category` is the source's name for its family (`algebra`, `games`).

    `left_out` is why training leaves the task out unless it is named; "" for other tasks.
    """

    name: str
    category: str
    left_out: str = ""


@dataclass(frozen=True)
class LibraryInfo:
    """The library that the workers imported: version, folder, tasks in name order.

    `adjustable` are the tasks that have levels of difficulty. `system_prompt` is the message of the library's own
    evaluation; empty where the library has none. `releases` names what makes the tasks that are not the library's own.
    A session tries the tasks of `to_try` at its start. `score_signature` tells what a score function takes; None where
    there is none, and for a function of C.
    """

    version: str
    path: str
    tasks: tuple[TaskInfo, ...]
    warnings: tuple[str, ...]
    adjustable: frozenset[str]
    system_prompt: str = ""

    releases: Mapping[str, str] = field(default_factory=dict)
    to_try: frozenset[str] = frozenset()
    score_signature: Signature | None = None

    def __repr__(self) -> str:
        """Return a line without the names of the tasks."""
        return f"<reasoning-gym {self.version} in {self.path!r}, with {len(self.tasks)} tasks>"

    @property
    def modules(self) -> Mapping[str, str]:
        """The versions of the modules that add tasks to the library's own, by `module NAME`."""
        named = (release.rpartition("@") for release in sorted(set(self.releases.values())))
        return {f"module {name}": version for name, _, version in named}

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of everything that makes tasks: `reasoning_gym`, and the modules."""
        return {"reasoning_gym": self.version, **self.modules}

    def release(self, task: str) -> str:
        """Return the release that makes the problems of a task, as references name it."""
        return self.releases.get(task, self.version)


@dataclass(frozen=True)
class ProblemRequest:
    """A request for one problem: everything that a generator worker receives.

    `seed` is passed to the library (0 <= seed < 2**32). `params` are the library's own, as a user set them. `level`, in
    [0, 1], is the difficulty that all other parameters follow; None for the library's defaults.

    - Unless `as_is`, a rejected problem is replaced by the problem of a seed derived from this one.
    - `as_published` keeps the library's question, and the library's answer even where the answer is wrong.
    - `clarified` says whether the question is clarified; None clarifies the question unless `as_published`.
    - The problem is number `item` of a dataset of `dataset_size`.
    - `params_are_whole` says that `params` hold all parameters of the level; a changed meaning of the level then has no
      effect.

    Who sets what:

    | request of | sets |
    | --- | --- |
    | training, and the fixed evaluation set | nothing |
    | `Session.make` and the trial of a task | `as_is` |
    | a reference | `as_is`, `params_are_whole`, and `clarified` both ways until the question's hash fits |
    | a reference with the library's rewards | `as_is`, `params_are_whole`, `as_published` |
    | a preset | `as_is`, `clarified` as False; `item` and `dataset_size` in tasks with `built_for_each_seed` |
    | any, with `rewards: library` | `as_is` and `as_published`, which the worker sets |
    """

    task: str
    seed: int
    params: Mapping[str, object] = field(default_factory=dict)
    level: float | None = None
    as_is: bool = False
    item: int = 0
    dataset_size: int = 1
    as_published: bool = False
    clarified: bool | None = None
    params_are_whole: bool = False


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
    def params(self) -> Mapping[str, object]:
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

    - `spec` has the seed that made the problem; `flawed` counts the seeds that were rejected before, by cause.
    - `answer` is the oracle's answer as text; None for tasks with many right answers.
    - `metadata_json` is the library's metadata as JSON text, unparsed because few callers need it.
    - `entry` is the library's own record, as bytes that only a verifier worker opens.
    - `params` are the parameters of generation, and `level` their difficulty: None at the library's defaults, and not
      always the level of the spec. The level of a composite is its member's, applied over `params`.
    - `reference` is the problem's public name, from which any process generates the problem again.
    - `as_library` marks a problem of `rewards: library`: its completions are scored as the library's evaluation does.
    """

    spec: ProblemSpec
    question: str = field(repr=False)
    answer: str | None = field(repr=False)
    metadata_json: str = field(repr=False)
    entry: bytes = field(repr=False)
    generation_s: float = 0.0
    params: Mapping[str, object] = field(default_factory=dict)
    level: float | None = None
    flawed: Mapping[str, int] = field(default_factory=dict)
    reference: str = ""
    as_library: bool = False

    @property
    def task(self) -> str:
        return self.spec.task

    @property
    def library_answer(self) -> str | None:
        """The library's own answer, where it is wrong and `answer` is another; None where `answer` is the library's."""
        if '"library_answer"' not in self.metadata_json:
            return None
        metadata = json.loads(self.metadata_json)
        return metadata.get("library_answer") if isinstance(metadata, dict) else None

    @property
    def known_answer(self) -> str | None:
        """A right answer: `answer`, or the example of the metadata where many are right; None without either."""
        if self.answer is not None:
            return self.answer
        metadata = json.loads(self.metadata_json)
        if isinstance(metadata, dict):
            for key in ("example_answer", "example_correct_answer", "possible_answer"):
                example = metadata.get(key)
                if example:
                    return example if isinstance(example, str) else json.dumps(example)
        return None


@dataclass(frozen=True)
class Prompt:
    """A conversation to be completed: messages, rendered text, token ids of the text.

    If the server renders the prompt, text and tokens are empty, and `estimated_tokens` is an upper estimate.
    """

    messages: tuple[Mapping[str, str], ...] = field(repr=False)
    text: str = field(repr=False)
    tokens: tuple[int, ...] = field(repr=False)
    estimated_tokens: int = 0


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of a request.

    Prompt and completion together stay strictly below `token_limit` tokens. A completion has at most
    `max_completion_tokens`, if that is set.
    """

    temperature: float
    top_p: float
    token_limit: int
    split: str
    max_completion_tokens: int | None = None

    @property
    def least_budget(self) -> int:
        """The fewest tokens for a completion; problems whose prompt leaves fewer are skipped and counted."""
        least = min(64, self.token_limit // 4)
        return least if self.max_completion_tokens is None else min(least, self.max_completion_tokens)

    def completion_budget(self, prompt: Prompt) -> int:
        """Return the number of tokens left for a completion; may be zero or negative."""
        special_tokens = 2  # that a server may add around a prompt
        left = self.token_limit - 1 - special_tokens - (len(prompt.tokens) or prompt.estimated_tokens)
        return left if self.max_completion_tokens is None else min(left, self.max_completion_tokens)


@dataclass(frozen=True)
class Timeouts:
    """Limits of a request for completions, in seconds.

    `reply_s` limits one try; None for no limit. `outage_s` limits the time in which requests fail or no server is
    healthy; infinite for no limit. `away_s` is that limit while no server answers, which may be a restart, where it is
    longer. With `tries`, a request is tried that many times, without pauses.
    """

    reply_s: float | None
    outage_s: float
    tries: int | None = None
    away_s: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The score of an answer in [0, 1], its reason, the scored text, and the seconds that scoring took.

    Only a user's own scorer sets `own_parts` (further numbers by name) and `error` (its own error message).
    """

    score: float
    reason: Reason
    answer: str | None = None
    scoring_s: float = 0.0
    frames: tuple[str, ...] = ()
    """Names of the frames around the answer, which came off before its value was read, from outside."""
    own_parts: Mapping[str, float] | None = None
    error: str | None = None

    CORRECT_SCORE: ClassVar[float] = 0.99
    """Lowest score of a correct answer, in training and evaluation."""

    def __repr__(self) -> str:
        """Return a line with the beginning and the end of the answer, which may have 20,000 characters."""
        return f"Verdict(score={self.score:g}, reason={self.reason.value!r}, answer={reprlib.repr(self.answer)})"

    @property
    def correct(self) -> bool:
        """Whether the answer counts as correct."""
        return self.score >= self.CORRECT_SCORE

    @property
    def parts(self) -> Mapping[str, float]:
        """Three numbers whose product is the score: `format`, `answer` and `length`; or the parts of a user's scorer.

        `format` is 1 for one answer that went to a verifier, else 0. `answer` is the verifier's score. `length` is 1:
        the length penalty is of a group (`Rollout.parts`).
        """
        if self.own_parts is not None:
            return self.own_parts
        return {"format": float(self.reason.has_answer), "answer": self.score, "length": 1.0}


class Pool(Protocol):
    """What makes problems and scores answers: `workers.pool.WorkerPool`, which also tells the errors of each method."""

    async def check(self, params: Sequence[tuple[str, Mapping[str, object], float | None]]) -> list[str]: ...

    async def generate(self, spec: ProblemSpec, deadline_s: float, *, cpu_s: float | None = None) -> Problem: ...

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]: ...


@dataclass(frozen=True)
class Rollout:
    """A completion of a problem's prompt.

    - `tokens` are the token ids of prompt and completion.
    - `masks` has the same length: -100 over the prompt, token ids over the completion.
    - `logprobs`, if the server gives them, has the same length: 1.0 over the prompt.
    - `token_count` is the completion's number of tokens, from chat servers that return no tokens.
    - `thinking` is reasoning that some servers return apart from the text. No answer is read from it.
    - `score` is the reward that is sent, after the length penalty; in evaluation, the verdict's score.
    - `finish_reason` is the server's own word for how the completion ended; "" if the server does not say.

    Long sequences are arrays: a list takes ten times the memory.
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
        """Number of tokens of the completion; None if the server does not tell."""
        if self.token_count is not None or not self.tokens:
            return self.token_count
        return len(self.masks) - self.masks.count(-100)

    @property
    def parts(self) -> Mapping[str, float]:
        """The parts of the verdict, with what the length penalty left of its score as `length`. Empty before it."""
        if self.verdict is None:
            return {}
        # A score of 0 has no penalty, which needs 0.5 at least.
        left = self.score / self.verdict.score if self.verdict.score > 0 else 1.0
        return {**self.verdict.parts, "length": left}

    @property
    def ending(self) -> Ending:
        """How the completion ended."""
        return Ending.of(self.finish_reason)


@dataclass(frozen=True)
class Group:
    """All rollouts of a problem, with the prompt's messages, each a mapping with `role` and `content`.

    `thinking_formats` names the formats of thinking that were removed before the answers were read; None if unknown.
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
        """Whether the scores differ, so that not all advantages are zero. False for a group of one."""
        return len(set(self.scores)) > 1

"""Frozen dataclasses for requests, problems, completions, verdicts and groups.

Judging a `Rollout` returns a copy with a verdict. This module imports no other module of the package.
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

# Without ASCII, IGNORECASE matches the long s (U+017F) too.
OPENING_TAG = re.compile(r"<answer>", re.IGNORECASE | re.ASCII)
"""Matches the tag before an answer in a completion."""
Row = Mapping[str, Any]
"""A row of a user's data: values by column name."""
Subject = str | Row
"""The source of the right answer for a completion: a problem's reference, or a row."""


LEVEL_STEPS = 16
"""Number of steps from a task's easiest level to its hardest. Workers round levels to whole steps."""


def level_step(level: float) -> int:
    """Return the number of the step (0 to LEVEL_STEPS) that is nearest to a level in [0, 1]."""
    return math.floor(level * LEVEL_STEPS + 0.5)


class Split(StrEnum):
    """The stream that a problem comes from. Training and evaluation share no seeds."""

    TRAIN = "train"
    EVAL = "eval"


class Reason(StrEnum):
    """The reason for a rollout's score; every verdict has exactly one."""

    SCORED = "scored"
    """The verifier returned a number for the answer."""
    NO_TEXT = "no_text"
    """The completion is empty: the model wrote nothing, or the server returned everything as reasoning."""
    NO_ANSWER = "no_answer"
    """The completion has no answer tags."""
    UNCLOSED_THINKING = "unclosed_thinking"
    """The thinking never ended, so no text after its opening mark counts as an answer."""
    REPEATED_ANSWER = "repeated_answer"
    """Several pairs of answer tags, all with the same content."""
    SEVERAL_ANSWERS = "several_answers"
    """Several answer tags that do not repeat one answer: contents differ, or an opening or closing tag is missing."""
    REFUSED = "refused"
    """The server reports that it, or the model, refused to answer."""
    UNCLOSED_ANSWER = "unclosed_answer"
    EMPTY_ANSWER = "empty_answer"
    TOO_LONG = "too_long"
    VERIFIER_ERROR = "verifier_error"
    """For every tried notation of the answer, the verifier raised an error or returned no finite number."""
    TIMEOUT = "timeout"
    """The verifier took longer than the deadline for an answer, and was killed."""
    OUT_OF_MEMORY = "out_of_memory"
    """In both of two attempts, the verifier worker reached its memory limit while it scored the answer."""
    CRASH = "crash"
    """In both of two attempts, the verifier worker ended itself (a fatal signal, an exit) or broke the protocol. A
    worker that is killed from outside is an infrastructure error."""

    @property
    def has_answer(self) -> bool:
        """Whether the completion had exactly one answer, so that a verifier was called."""
        return self in (Reason.SCORED, Reason.VERIFIER_ERROR, Reason.TIMEOUT, Reason.OUT_OF_MEMORY, Reason.CRASH)


class Ending(StrEnum):
    """How a completion ended. ENDING_WORDS maps each ending to the servers' values of `finish_reason`."""

    FINISHED = "finished"
    """The model ended the completion or reached a stop string."""
    CUT = "cut"
    """The completion reached a token limit."""
    REFUSED = "refused"
    """The server's filter ended the completion, or the model refused to answer."""
    BROKEN_OFF = "broken_off"
    """The server aborted the completion, which is discarded and requested again."""

    @classmethod
    def of(cls, word: str | None) -> Ending:
        """Return the ending for a server's `finish_reason`; case does not matter.

        No `finish_reason` means FINISHED. A value that is missing from ENDING_WORDS means BROKEN_OFF.
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
"""Values of `finish_reason` for each ending, separated by spaces.

The values are those of OpenAI, Anthropic, Bedrock, Cohere, DeepSeek, Gemini, Mistral, TGI, vLLM, SGLang, verl, xAI and
Z.ai. An unknown value counts as BROKEN_OFF and is logged; the values of BROKEN_OFF listed here are not logged.
"""
_ENDINGS = {word: ending for ending, words in ENDING_WORDS.items() for word in words.split()}


class DropReason(StrEnum):
    """Why a problem produced no group, or why its group did not reach the trainer."""

    INFERENCE = "inference_failed"
    SCORING = "scoring_failed"
    PROMPT_TOO_LONG = "prompt_too_long"
    TIMED_OUT = "timed_out"
    """The inference server took longer than `worker_timeout`, while other requests succeeded."""
    UNDELIVERED = "undelivered"
    """The trainer's API refused a scored group, or the group cannot be written as JSON."""


class Rejection(StrEnum):
    """Why this run skips a valid problem and generates another problem instead."""

    HELD_OUT = "held_out"
    """The evaluation set has the same question."""
    TOO_LONG = "too_long"
    """The expected answer exceeds `rewards.MAX_ANSWER_BYTES`, or prompt and answer together exceed the token limit."""
    REPEATED = "repeated"
    """The problem set or file already has the same question."""


@dataclass(frozen=True)
class TaskInfo:
    """A task of reasoning-gym or of a user's module, with its category, such as `algebra` or `games`.

    `left_out` is the reason why training excludes the task by default; "" for other tasks, and for reasoning-gym's
    tasks, whose reasons are in `tasks.Task`.
    """

    name: str
    category: str
    left_out: str = ""


@dataclass(frozen=True)
class LibraryInfo:
    """The library that the workers imported: version, folder, and tasks sorted by name.

    - `adjustable` are the tasks that have levels of difficulty.
    - `system_prompt` is the system message of the library's own evaluation; empty if the library has none.
    - `releases` maps each task of a user's module to the module's `NAME@VERSION`.
    - `to_try` are the tasks for which a session generates and scores a trial problem at its start.
    - `score_signature` is the signature of the user's score function; None if unknown.
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
        """Return one line that describes the library, without the task names."""
        return f"<reasoning-gym {self.version} in {self.path!r}, with {len(self.tasks)} tasks>"

    @property
    def modules(self) -> Mapping[str, str]:
        """The versions of the users' modules that provide tasks. Each key is `module NAME`."""
        named = (release.rpartition("@") for release in sorted(set(self.releases.values())))
        return {f"module {name}": version for name, _, version in named}

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of reasoning-gym and of the users' modules. The keys are `reasoning_gym` and `module NAME`."""
        return {"reasoning_gym": self.version, **self.modules}

    def release(self, task: str) -> str:
        """Return the release of the library or module that generates a task's problems, as written in references."""
        return self.releases.get(task, self.version)


@dataclass(frozen=True)
class ProblemRequest:
    """A request for one problem: everything that a generator worker receives.

    - `seed` is passed to the library (0 <= seed < 2**32).
    - `params` are the library's parameters that the user set.
    - `level`, in [0, 1], determines all other parameters; None for the library's defaults.
    - `exact_seed`: if False, the problem of a derived seed replaces a rejected problem.
    - `uncorrected` keeps the library's own question and answer, even if the answer is wrong.
    - `clarified`: reword the question to remove ambiguities; None means true unless `uncorrected`.
    - `item` and `dataset_size`: the problem is number `item` of a dataset of `dataset_size` problems.
    - `params_are_whole`: `params` contain all parameters of the level, so the workers do not look up the level.

    Each kind of request sets these fields. A flag without a value is set to True:

    | request | sets |
    | --- | --- |
    | training, and the fixed evaluation set | nothing |
    | `Session.make`, and a trial problem at the start | `exact_seed` |
    | generating from a `Problem.reference` | `exact_seed`, `params_are_whole`, `clarified` |
    | the same, if the clarified question lacks the reference's hash | as above, but `clarified` = False |
    | the same, with the library's rewards | `exact_seed`, `params_are_whole`, `uncorrected` |
    | a preset | `exact_seed`; `clarified` = False; `item` and `dataset_size` for tasks with `constructor_uses_seed` |
    | any request with `rewards: library` | `exact_seed` and `uncorrected`; the worker sets them |
    """

    task: str
    seed: int
    params: Mapping[str, object] = field(default_factory=dict)
    level: float | None = None
    exact_seed: bool = False
    item: int = 0
    dataset_size: int = 1
    uncorrected: bool = False
    clarified: bool | None = None
    params_are_whole: bool = False


@dataclass(frozen=True)
class ProblemSpec:
    """A `ProblemRequest` and its position in a stream of problems: enough to generate the same problem again.

    `index` is the position (0, 1, 2 ...). `attempt` is the number of problems rejected earlier at this position.
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
        """Return a copy of this spec at the same position, in which `changes` replace fields of `request`."""
        return replace(self, request=replace(self.request, **changes))


@dataclass(frozen=True)
class Problem:
    """A generated problem.

    - `spec` has the seed that produced the problem. `flawed` counts the seeds rejected before this seed, by cause.
    - `answer` is the right answer as a string; None for tasks with many right answers.
    - `metadata_json` is the library's metadata as a JSON string.
    - `entry` is the library's own record, pickled; only verifier workers unpickle it.
    - `params` are all parameters of the task; for `composite`, those in `spec.request`.
    - `level` is the valid level nearest to the requested level; None for the library's defaults. For `composite`, it is
      the level of the member task that made the problem.
    - `reference` is the problem's public name, from which any process can generate the problem again.
    - `as_library`: whether completions are scored as in the library's own evaluation (setting `rewards: library`).
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
        """The library's own answer if `answer` corrects it, else None."""
        if '"library_answer"' not in self.metadata_json:
            return None
        metadata = json.loads(self.metadata_json)
        return metadata.get("library_answer") if isinstance(metadata, dict) else None

    @property
    def known_answer(self) -> str | None:
        """A right answer: `answer`, or else the example answer in the metadata; None if both are missing."""
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
    """A conversation for the model to continue: its messages, the rendered text, and the token ids of the text.

    If the server applies the chat template, text and tokens are empty. `estimated_tokens` is then an upper estimate of
    the number of tokens.
    """

    messages: tuple[Mapping[str, str], ...] = field(repr=False)
    text: str = field(repr=False)
    tokens: tuple[int, ...] = field(repr=False)
    estimated_tokens: int = 0


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of a request.

    Prompt and completion together have fewer than `token_limit` tokens. A completion has at most
    `max_completion_tokens` tokens, if that is set.
    """

    temperature: float
    top_p: float
    token_limit: int
    split: str
    max_completion_tokens: int | None = None

    @property
    def least_budget(self) -> int:
        """Minimum tokens for a completion. Problems whose prompt leaves fewer tokens are skipped and counted."""
        least = min(64, self.token_limit // 4)
        return least if self.max_completion_tokens is None else min(least, self.max_completion_tokens)

    def completion_budget(self, prompt: Prompt) -> int:
        """Return how many tokens the prompt leaves for a completion. The number may be zero or negative."""
        special_tokens = 2  # a server may add two special tokens around a prompt
        left = self.token_limit - 1 - special_tokens - (len(prompt.tokens) or prompt.estimated_tokens)
        return left if self.max_completion_tokens is None else min(left, self.max_completion_tokens)


@dataclass(frozen=True)
class Verdict:
    """An answer's score in [0, 1], the reason for the score, the answer, and the seconds that scoring took.

    `own_parts` are the other numbers that a user's score function returned. `error` is an error's message.
    """

    score: float
    reason: Reason
    answer: str | None = None
    scoring_s: float = 0.0
    frames: tuple[str, ...] = ()
    """Names of the formatting (such as `code`) that was removed from around the answer, the outermost first."""
    own_parts: Mapping[str, float] | None = None
    error: str | None = None

    CORRECT_SCORE: ClassVar[float] = 0.99
    """Minimum score of a correct answer, in training and evaluation."""

    def __repr__(self) -> str:
        """Return one line with the answer shortened, because an answer may have 20,000 characters."""
        return f"Verdict(score={self.score:g}, reason={self.reason.value!r}, answer={reprlib.repr(self.answer)})"

    @property
    def correct(self) -> bool:
        """Whether the answer counts as correct."""
        return self.score >= self.CORRECT_SCORE

    @property
    def parts(self) -> Mapping[str, float]:
        """Numbers that explain the score: those of a user's score function or, without one, the following three.

        `format` is 1 if a verifier was called, else 0. `answer` is the verifier's score. `length` is 1, because
        only `Rollout.parts` has the length penalty. The score is the product.
        """
        if self.own_parts is not None:
            return self.own_parts
        return {"format": float(self.reason.has_answer), "answer": self.score, "length": 1.0}


class Pool(Protocol):
    """The methods of `workers.pool.WorkerPool` that sessions use. `WorkerPool` documents the errors of each method."""

    async def check(self, params: Sequence[tuple[str, Mapping[str, object], float | None]]) -> list[str]: ...

    async def generate(self, spec: ProblemSpec, deadline_s: float, *, cpu_s: float | None = None) -> Problem: ...

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]: ...


@dataclass(frozen=True)
class Rollout:
    """A completion of a problem's prompt.

    - `tokens` are the token ids of prompt and completion.
    - `masks` has the same length: -100 over the prompt, token ids over the completion.
    - `logprobs` has the same length: 1.0 over the prompt. None if the server returns no log-probabilities.
    - `token_count` is the number of completion tokens that a chat server reports without returning the tokens.
    - `thinking` is reasoning that some servers return separately. Answers are never read from `thinking`.
    - `score` is the reward for the trainer, after the length penalty; in evaluations, the verdict's score.
    - `finish_reason` is the server's own value; "" if the server sends none.

    Long sequences are arrays because lists take ten times the memory.
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
        """Number of completion tokens; None if the server does not report the number."""
        if self.token_count is not None or not self.tokens:
            return self.token_count
        return len(self.masks) - self.masks.count(-100)

    @property
    def parts(self) -> Mapping[str, float]:
        """`Verdict.parts`, with the factor of the length penalty under the key `length`; empty without a verdict."""
        if self.verdict is None:
            return {}
        # A score of 0 has no length penalty, which applies only to scores of at least 0.5.
        left = self.score / self.verdict.score if self.verdict.score > 0 else 1.0
        return {**self.verdict.parts, "length": left}

    @property
    def ending(self) -> Ending:
        """How the completion ended."""
        return Ending.of(self.finish_reason)


@dataclass(frozen=True)
class Group:
    """All rollouts of a problem, and the prompt's messages. Each message is a mapping with `role` and `content`.

    `thinking_formats` names the thinking formats that were removed before answers were read; None if unknown.
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
        """Whether the scores differ, so that some advantage is not 0. False for a group of one, unlike in metrics."""
        return len(set(self.scores)) > 1

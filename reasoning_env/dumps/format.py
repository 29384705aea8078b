"""The format of dumps: names of files, and how to write a group as a line of strict JSON and read it back.

**Files.** A dump has its final name from its first line on. The name contains the uuid of the run. Only the process
that created a dump appends to it, so any number of processes may share a folder.

**Lines.** A line is ASCII. Other characters are escaped, so no model output can end a line early or break the
encoding, and a lone surrogate is read back unchanged. A high surrogate followed by a low surrogate is read back as the
character that the pair encodes.

**Torn lines.** A complete line ends in a newline. If a process is killed while it writes, or the power fails, the last
line of a file may be torn: it has no newline, or has NUL bytes. A reader skips a torn last line with a warning. A
torn line stays the last line: no later run appends to a dump. Before a run continues a file of `process` or of an
evaluation, the run removes the torn line.

**A line of `process` or of an evaluation** has the keys of a dump's line and further keys. Its first key is `key`. The
value of `key` is unique in the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, JsonValue, TypeAdapter

from ..metrics.outcomes import outcome
from ..records import Ending, Group, Problem, Rollout, Verdict
from ..runtime.text import encode_strictly, printable
from ..storage.files import header_path, read_made_with
from ..storage.reading import parse_json
from ..storage.values import Count, FreeJson, Name, Number, Time


@dataclass(frozen=True)
class DumpKind:
    """A kind of dump: the prefix of its file names, and the maximum number of groups in a file."""

    prefix: str
    groups_per_file: int

    def path(self, folder: Path, run_uuid: str, number: int) -> Path:
        return folder / f"{self.prefix}_{run_uuid}_{number:04d}.jsonl"


PASSED = DumpKind("reasoning_gym_environment_rollouts", 100)
FAILED = DumpKind("reasoning_gym_environment_FAILED_rollouts", 50)

_NAME = re.compile(rf"(?:{PASSED.prefix}|{FAILED.prefix})_.+_\d{{4,}}\.jsonl", re.DOTALL)


def is_dump(path: Path) -> bool:
    """Return True if the path has the name of a dump file."""
    return _NAME.fullmatch(path.name) is not None


class Keep(StrEnum):
    """Which completions of a group become training rows."""

    BEST = "best"
    """The completion with the best score, if this score is above 0."""
    CORRECT = "correct"
    ALL = "all"
    PAIRS = "pairs"
    """Pairs of a correct and a wrong completion, for preference training."""


def kept_path(groups: Path, keep: Keep) -> Path:
    """Return the path of the training rows that the command `process` writes."""
    return groups.with_stem(f"{groups.stem}-{keep}")


def derived_files(groups: Path) -> set[Path]:
    """Return the paths that `process` may write beside a file of groups; empty if the file has no header."""
    if not header_path(groups).exists():
        return set()
    return {groups.with_suffix(".parquet"), *(kept_path(groups, keep) for keep in Keep)}


def model_of(file: Path) -> str | None:
    """Return the models in a file's header, separated by commas; None if it names none or is missing, as in dumps."""
    made_with = read_made_with(file)
    models = made_with.get("models", [made_with["model"]] if "model" in made_with else [])
    return ",".join(map(str, models)) or None if isinstance(models, list) else None


def encode_group(
    group: Group,
    *,
    more: Mapping[str, object] | None = None,
    more_of_rollouts: Sequence[Mapping[str, object]] | None = None,
) -> bytes:
    """Return a group as a line with a newline.

    `more` has keys to add to the line, and `more_of_rollouts` has keys to add to each rollout. Values unknown to JSON
    (a NaN in the metadata, an enum among the parameters) become strings. Raises ValueError for invalid `metadata_json`.
    """
    # A call that encodes holds the interpreter lock until it ends. So encode each rollout in a call of its own: one
    # call for a group of long completions would block the event loop for tens of milliseconds.
    prompt = [{"role": message["role"], "content": message["content"]} for message in group.messages]
    extras = more_of_rollouts or [{}] * len(group.rollouts)
    rollouts = ", ".join(
        [
            encode_strictly({**_rollout(prompt, rollout), **extra})
            for rollout, extra in zip(group.rollouts, extras, strict=True)
        ]
    )
    formats = group.thinking_formats
    thinking = {} if formats is None else {"thinking_formats": list(formats)}
    item_id = encode_strictly(group.problem.task)
    rest = encode_strictly({**_facts(group.problem), **thinking, **(more or {})})
    return f'{{"item_id": {item_id}, "rollouts": [{rollouts}], {rest[1:]}\n'.encode("ascii")


def _rollout(prompt: Sequence[Mapping[str, str]], rollout: Rollout) -> dict[str, object]:
    verdict = rollout.verdict
    members = {
        "conversation": [*prompt, {"role": "assistant", "content": rollout.text}],
        "score": rollout.score,
        "reason": None if verdict is None else verdict.reason.value,
        "answer": None if verdict is None else verdict.answer,
        "finish_reason": rollout.finish_reason,
        "verifier_score": None if verdict is None else verdict.score,
        "tokens": rollout.completion_tokens,
    }
    if verdict is not None and verdict.frames:
        members["frames"] = list(verdict.frames)
    if rollout.thinking:
        members["thinking"] = rollout.thinking
    return members


def _facts(problem: Problem) -> dict[str, object]:
    spec = problem.spec
    request = spec.request
    return {
        "seed": spec.seed,
        "index": spec.index,
        "split": spec.split.value,
        "params": problem.params,
        "level": problem.level,
        "expected_answer": problem.answer,
        **({} if problem.library_answer is None else {"library_answer": problem.library_answer}),
        "metadata": json.loads(problem.metadata_json),
        "reference": problem.reference,
        **({"item": request.item, "dataset_size": request.dataset_size} if request.dataset_size > 1 else {}),
    }


# ---------------------------------------------------------------------------- reading a line


def _message(message: Any) -> dict[str, object]:
    try:
        return {key: message[key] for key in ("role", "content")}
    except (KeyError, TypeError) as error:
        raise ValueError("a message must be an object with `role` and `content`") from error


_Message = Annotated[Mapping[str, str], BeforeValidator(_message)]
DumpedMessages = tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class DumpedRollout:
    """One rollout of a dumped group.

    Only `conversation` and `score` are required; unknown keys are ignored.

    - `conversation`: messages with `role` and `content`; the completion is the last message.
    - `thinking`: the thinking that the server returned separately.
    - `score`: the reward for the trainer, in [0, 1].
    - `verifier_score`: the score before the length penalty, in [0, 1].
    - `frames`: names of the formatting that was removed from the answer.
    - `tokens`: the number of completion tokens.
    - `seconds` (until the group's completions arrived) and `library_score` (reasoning-gym's own): only in evaluations.
    """

    conversation: Annotated[tuple[_Message, ...], Field(min_length=1)] = field(repr=False)
    score: Number
    reason: Name | None = None
    answer: str | None = None
    finish_reason: Name | None = None
    verifier_score: Number | None = None
    library_score: Number | None = None
    tokens: Count | None = None
    seconds: Number | None = None
    thinking: str = ""
    frames: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return one line with the beginning of the answer."""
        answer = "none" if self.answer is None else printable(repr(self.answer), 60)
        return f"<rollout with score {self.score:g}, reason {self.reason}, answer {answer}>"

    @property
    def prompt(self) -> DumpedMessages:
        """The messages of the conversation except the last message, which is the completion."""
        return self.conversation[:-1]

    @property
    def completion(self) -> str:
        return self.conversation[-1]["content"]

    @property
    def judged_score(self) -> float:
        """The verifier's score before the length penalty; `score` if the line has no `verifier_score`."""
        return self.score if self.verifier_score is None else self.verifier_score

    @property
    def correct(self) -> bool:
        """True if the completion is correct. A length penalty does not make it wrong."""
        return self.judged_score >= Verdict.CORRECT_SCORE

    @cached_property
    def outcome(self) -> str:
        """The outcome of the completion: one of `outcomes.OUTCOMES`, or a `reason` that this version does not know."""
        cut = Ending.of(self.finish_reason) is Ending.CUT
        return outcome(self.judged_score, self.reason, cut=cut, thinking=self.thinking)


@dataclass(frozen=True)
class DumpedGroup:
    """The group in one line of a file. Only `item_id` and `rollouts` are required.

    - `item_id`: the task's name.
    - `reference`: any process can generate the problem again from it.
    - `failed`: in evaluations, the number of completions that the server did not return.
    - `sent`: in evaluations, the format and parameters of the requests.
    - `item` and `dataset_size`: the problem is entry `item` of reasoning-gym's dataset of this size, made with `seed`.
    - `thinking_formats`: names of the thinking formats that were removed before answers were read.
    - `library_answer`: reasoning-gym's own answer, only if `expected_answer` corrects it.
    - `key`: identifies the group in a file of `process` or of an evaluation.
    - `time` (seconds since 1970) and `step` (of the trainer): in dumps, when the dump's writer got the group.
    """

    item_id: Name
    rollouts: tuple[DumpedRollout, ...]
    seed: Count | None = None
    index: Count | None = None
    split: Name | None = None
    params: Mapping[str, FreeJson] = field(default_factory=dict)
    level: Number | None = None
    expected_answer: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict, repr=False)
    failed: Count | None = None
    item: Count | None = None
    dataset_size: Count | None = None
    reference: Name | None = None
    thinking_formats: tuple[Name, ...] | None = None
    library_answer: str | None = None
    time: Time | None = None
    step: Count | None = None
    key: str | None = None
    sent: JsonValue = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Return one line with the reference (without one, the task), the level and the scores."""
        level = "" if self.level is None else f" at level {self.level:g}"
        scores = ", ".join(f"{score:g}" for score in self.scores)
        name = self.item_id if self.reference is None else self.reference
        return f"<group {printable(name, 100)}{level}, scores {printable(scores, 100)}>"

    @property
    def prompt(self) -> DumpedMessages:
        """The prompt of the first completion; empty if there are no completions."""
        return self.rollouts[0].prompt if self.rollouts else ()

    @property
    def question(self) -> str | None:
        """The content of the prompt's last message; None if the prompt has no message."""
        return self.prompt[-1]["content"] if self.prompt else None

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(rollout.score for rollout in self.rollouts)

    def digest(self) -> bytes | None:
        """Return a hash that is equal for copies of the group's line; None if the group has no `time`.

        Without a time, equal lines may be two groups of one problem.
        """
        if self.time is None:
            return None
        facts = (self.item_id, self.reference, self.seed, self.index, self.level, self.time, self.step)
        texts = [(each.score, [tuple(message.values()) for message in each.conversation]) for each in self.rollouts]
        return hashlib.blake2b(repr((facts, texts)).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def facts(self, model: str | None) -> dict[str, object]:
        """Return the columns that tables of groups, rollouts and training rows have in common (see `FACT_COLUMNS`).

        `params` is a JSON string. Unknown values are None.
        """
        return {
            "task": self.item_id,
            "seed": self.seed,
            "index": self.index,
            "reference": self.reference,
            "params": json.dumps(dict(self.params)),
            "level": self.level,
            "pass_rate": self.pass_rate,
            "group_size": len(self.rollouts),
            "model": model,
            "expected_answer": self.expected_answer,
        }

    @property
    def pass_rate(self) -> float | None:
        """The share of correct completions; None if the group has no completion."""
        if not self.rollouts:
            return None
        return sum(rollout.correct for rollout in self.rollouts) / len(self.rollouts)


FACT_COLUMNS = {
    "task": "text",
    "seed": "count",
    "index": "count",
    "reference": "text",
    "params": "text",
    "level": "number",
    "pass_rate": "number",
    "group_size": "count",
    "model": "text",
    "expected_answer": "text",
}
"""The columns of `DumpedGroup.facts`, each with its type in Parquet (see `TYPES` in `data/tables.py`)."""

_GROUP = TypeAdapter(DumpedGroup)


def read_group(line: bytes) -> DumpedGroup:
    """Return the group of one line. Raises ValueError for a line that is not a group."""
    return as_group(parse_json(line))


def as_group(line: object) -> DumpedGroup:
    """Return the group in a line that was parsed as JSON. Raises ValueError for an invalid line."""
    return _GROUP.validate_python(_with_tokens(line))


def _with_tokens(line: object) -> object:
    """Add the number of tokens of each completion to a line that `process` wrote, and return the line.

    The masks give the numbers: a mask is -100 at the tokens of the prompt. An empty mask gives no number.
    """
    if not isinstance(line, dict):
        return line
    masks = line.get("masks")
    rollouts = line.get("rollouts")
    if isinstance(masks, list) and isinstance(rollouts, list) and len(masks) == len(rollouts):
        for rollout, mask in zip(rollouts, masks, strict=True):
            if isinstance(rollout, dict) and isinstance(mask, list) and mask:
                rollout.setdefault("tokens", len(mask) - mask.count(-100))
    return line

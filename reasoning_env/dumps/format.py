"""The format of dumps: the names of the files, and a group as one line of strict JSON, written and read.

**Files.** A file has its final name from its first line on. The name carries the uuid of the run, and only the process
that created a file appends to it, so any number of processes may share a folder.

**Lines.** The text is ASCII: everything else is escaped, so no text of a model can end a line early or break the
encoding, and a lone surrogate reads back as itself. The one exception is JSON's own: a high surrogate right before a
low one reads back as the single character that the two stand for.

**Torn lines.** A line is whole when its newline is there. A process that is killed while it writes, or a power failure,
can leave the last line of a file torn: without its newline, or with zero bytes in it. A reader skips a torn last line
with a warning, and no writer appends behind one: a dump is only ever appended to by the process that made it, and a
file that a later run goes on with is cut back to its last whole line first.

**A line of `process` or of an evaluation** has the same keys and some more. It begins with its `key`, which no
other line of the file has.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Strict, TypeAdapter

from ..metrics.outcomes import outcome
from ..records import Group, Problem, Rollout, Verdict

_encode = json.JSONEncoder(allow_nan=False).encode


@dataclass(frozen=True)
class DumpKind:
    """One of the two kinds of dumps: how its files are named, and how many groups each of them holds."""

    prefix: str
    groups_per_file: int

    def path(self, folder: Path, run_uuid: str, number: int) -> Path:
        return folder / f"{self.prefix}_{run_uuid}_{number:04d}.jsonl"


PASSED = DumpKind("reasoning_gym_environment_rollouts", 100)
FAILED = DumpKind("reasoning_gym_environment_FAILED_rollouts", 50)

_NAME = re.compile(rf"(?:{PASSED.prefix}|{FAILED.prefix})_.+_\d{{4,}}\.jsonl", re.DOTALL)


def is_dump(path: Path) -> bool:
    """Tell whether the path is named like a file of dumps that a writer appends to."""
    return _NAME.fullmatch(path.name) is not None


def header_path(groups: Path) -> Path:
    """Return where `process` keeps the settings that a file of groups was made with; dumps have none."""
    return groups.with_name(f"{groups.name}.header")


def is_torn(line: bytes) -> bool:
    """Tell whether the last line of a file was not written to its end."""
    if line.endswith(b"\n") and b"\0" not in line:
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False


def encode_group(
    group: Group, *, more: Mapping[str, Any] | None = None, more_of_rollouts: Sequence[Mapping[str, Any]] | None = None
) -> bytes:
    """Return the group's line, with its newline; `more` adds keys to it, `more_of_rollouts` to rollouts.

    Values that JSON cannot hold (a NaN in the metadata, an enum among the parameters) are written as their text.
    Raises ValueError when `metadata_json` is not JSON.
    """
    # One call of the encoder holds the interpreter's lock until it is done. A call for each rollout lets the event loop
    # in between; one for a group of long completions would stall it for tens of milliseconds.
    prompt = [{"role": message["role"], "content": message["content"]} for message in group.messages]
    extras = more_of_rollouts or [{}] * len(group.rollouts)
    rollouts = ", ".join(
        [_json({**_rollout(prompt, rollout), **extra}) for rollout, extra in zip(group.rollouts, extras, strict=True)]
    )
    formats = group.thinking_formats
    thinking = {} if formats is None else {"thinking_formats": list(formats)}
    item_id, rest = _json(group.problem.task), _json({**_facts(group.problem), **thinking, **(more or {})})
    return f'{{"item_id": {item_id}, "rollouts": [{rollouts}], {rest[1:]}\n'.encode("ascii")


def _rollout(prompt: Sequence[Mapping[str, str]], rollout: Rollout) -> dict[str, Any]:
    verdict = rollout.verdict
    return {
        "conversation": [*prompt, {"role": "assistant", "content": rollout.text}],
        "score": rollout.score,
        "reason": verdict and verdict.reason.value,
        "answer": verdict and verdict.answer,
        "finish_reason": rollout.finish_reason,
        "verifier_score": verdict and verdict.score,
        "tokens": rollout.completion_tokens,
        **({"thinking": rollout.thinking} if rollout.thinking else {}),
    }


def _facts(problem: Problem) -> dict[str, Any]:
    spec = problem.spec
    return {
        "seed": spec.seed,
        "index": spec.index,
        "split": spec.split.value,
        "params": problem.params,
        "level": problem.level,
        "expected_answer": problem.answer,
        "metadata": json.loads(problem.metadata_json),
        "reference": problem.reference,
        **({"item": spec.item, "dataset_size": spec.dataset_size} if spec.dataset_size > 1 else {}),
    }


def _json(value: Any) -> str:
    try:
        return _encode(value)
    except (TypeError, ValueError):
        # Rare, so only a value that needs it pays for the slow walk over everything in it.
        return _encode(_json_value(value))


def _json_value(value: Any) -> Any:
    """Return the value with everything that JSON cannot hold replaced by its text."""
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


# ---------------------------------------------------------------------------- reading a line


def _message(message: Any) -> dict[str, Any]:
    try:
        return {key: message[key] for key in ("role", "content")}
    except (KeyError, TypeError) as error:
        raise ValueError("a message is an object with `role` and `content`") from error


# A JSON true is no number, and a number in quotes is none either.
_Int = Annotated[int, Strict()]
_Float = Annotated[float, Strict()]


@dataclass(frozen=True)
class DumpedRollout:
    """One rollout as it was dumped.

    Only `conversation` and `score` have to be there; keys that this version does not know are ignored.
    `conversation` holds messages with `role` and `content`, the completion last; `thinking` is what a server gave apart
    from it. `score` is the reward that was sent, `verifier_score` the one before the length penalty. `tokens` are those
    of the completion. `seconds` and `library_score`, which the library's own rules give, are an evaluation's.
    """

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)

    conversation: tuple[Annotated[Mapping[str, str], BeforeValidator(_message)], ...] = field(repr=False)
    score: _Float
    reason: str | None = None
    answer: str | None = None
    finish_reason: str | None = None
    verifier_score: _Float | None = None
    library_score: _Float | None = None
    tokens: _Int | None = None
    seconds: _Float | None = None
    thinking: str = ""

    @property
    def judged_score(self) -> float:
        """The verifier's score, before any length penalty; the reward where the line has no other."""
        return self.score if self.verifier_score is None else self.verifier_score

    @property
    def correct(self) -> bool:
        """Whether the completion counts as correct, whatever a length penalty took."""
        return self.judged_score >= Verdict.CORRECT_SCORE

    @property
    def outcome(self) -> str:
        """What became of the completion: one of `outcomes.OUTCOMES`, or a later version's reason."""
        return outcome(self.judged_score, self.reason, self.finish_reason)


@dataclass(frozen=True)
class DumpedGroup:
    """One line. Only `item_id` and `rollouts` have to be there.

    `item_id` is the task's name; any process makes the problem again from `reference`. In evaluations,
    `failed` counts the completions that no server gave. Where there is a `dataset_size`, the problem is number `item`
    of the library's dataset of that size and seed. What was taken for thinking is named by `thinking_formats`.
    """

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)

    item_id: str
    rollouts: tuple[DumpedRollout, ...]
    seed: _Int | None = None
    index: _Int | None = None
    split: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    level: _Float | None = None
    expected_answer: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    failed: _Int | None = None
    item: _Int | None = None
    dataset_size: _Int | None = None
    reference: str | None = None
    thinking_formats: tuple[str, ...] | None = None

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(rollout.score for rollout in self.rollouts)


_GROUP = TypeAdapter(DumpedGroup)


def read_group(line: bytes) -> DumpedGroup:
    """Return the group of one line; raises ValueError or RecursionError for one that is none."""
    # The JSON parser of pydantic refuses lone surrogates, which a model's text may hold.
    return _GROUP.validate_python(_with_tokens(json.loads(line.decode("utf-8"))))


def _with_tokens(line: Any) -> Any:
    """Return a line of `process` with each completion's number of tokens: masks are -100 over the prompt.

    The masks of chat servers are empty, which says nothing of the number.
    """
    masks = line.get("masks") if isinstance(line, dict) else None
    if isinstance(masks, list) and isinstance(line.get("rollouts"), list) and len(masks) == len(line["rollouts"]):
        for rollout, mask in zip(line["rollouts"], masks, strict=True):
            if isinstance(rollout, dict) and isinstance(mask, list) and mask:
                rollout.setdefault("tokens", len(mask) - mask.count(-100))
    return line

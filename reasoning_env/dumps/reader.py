"""Reading groups back, one at a time, so that memory does not grow with the files.

One reader for the three kinds of files that hold groups: dumps, the file of `process`, and `samples.jsonl` of an
evaluation. Only `item_id`, `rollouts`, `conversation` and `score` have to be there; everything else is None or empty
where a file lacks it, and keys that this version does not know are ignored.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Strict, TypeAdapter, ValidationError

from ..errors import ReasoningEnvError
from ..outcomes import outcome
from ..records import CORRECT_SCORE
from .format import is_torn

logger = logging.getLogger(__name__)

PROMPT_MASK = -100
"""What the masks in a file of `process` hold for the tokens of the prompt."""


class DumpFormatError(ReasoningEnvError):
    """A line that is no group: names the file, the line, counted from 1, and the problem."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}; mend the file, or read with strict=False to skip the damage")
        self.path = path
        self.line = line
        self.problem = problem


OnDamage = Callable[[DumpFormatError], None]


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
        return self.judged_score >= CORRECT_SCORE

    @property
    def outcome(self) -> str:
        """What became of the completion: one of `outcomes.OUTCOMES`, or a later version's reason."""
        return outcome(self.judged_score, self.reason, self.finish_reason)


@dataclass(frozen=True)
class DumpedGroup:
    """One line.

    `item_id` is the task's name. In evaluations, `problem` is a hash of question and answer, and `failed` counts the
    completions that no server gave. Where there is a `dataset_size`, the problem is number `item` of the library's
    dataset of that size and seed.
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
    problem: str | None = None

    @property
    def scores(self) -> tuple[float, ...]:
        return tuple(rollout.score for rollout in self.rollouts)


_GROUP = TypeAdapter(DumpedGroup)


def _warn(error: DumpFormatError) -> None:
    logger.warning("skipped: %s", error)


def read_groups(path: Path | str, *, strict: bool = True, on_damage: OnDamage = _warn) -> Iterator[DumpedGroup]:
    """Return the groups of a file, or of a folder's `.jsonl` and `.jsonl.gz` files in name order.

    Blank lines are passed over, and a torn last line is skipped. Raises OSError when the path cannot be read, and
    DumpFormatError at any other malformed line; with `strict=False` such a line is skipped, as is the rest of a damaged
    `.gz` file. `on_damage` is called for each that is skipped.
    """
    return chain.from_iterable(_read_file(file, strict, on_damage) for file in list_files(Path(path)))


def list_files(path: Path) -> list[Path]:
    """Return the files that `read_groups` reads; raises OSError when the path cannot be read."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.gz")))
    path.stat()  # raises here, at the call, rather than at the first group
    return [path]


def _read_file(path: Path, strict: bool, on_damage: OnDamage) -> Iterator[DumpedGroup]:
    def skip(error: DumpFormatError) -> None:
        if strict:
            raise error
        on_damage(error)

    number = 0
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    continue
                try:
                    group = read_group(line)
                except (ValueError, RecursionError) as error:
                    if is_torn(line) and not lines.peek(1):
                        on_damage(DumpFormatError(path, number, "the last line is torn; `recover` cuts it off"))
                    else:
                        skip(DumpFormatError(path, number, _describe(error)))
                else:
                    yield group
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        skip(DumpFormatError(path, number + 1, f"damaged gzip data ({error})"))


def read_group(line: bytes) -> DumpedGroup:
    """Return the group of one line; raises ValueError or RecursionError for one that is none."""
    # The JSON parser of pydantic refuses lone surrogates, which a model's text may hold.
    return _GROUP.validate_python(_with_tokens(json.loads(line.decode("utf-8"))))


def _open(path: Path) -> BufferedReader | gzip.GzipFile:
    # Bytes, because text mode would also end lines at a lone carriage return.
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _with_tokens(line: Any) -> Any:
    """Return a line of `process` with each completion's number of tokens, counted in its masks."""
    masks = line.get("masks") if isinstance(line, dict) else None
    if isinstance(masks, list) and isinstance(line.get("rollouts"), list) and len(masks) == len(line["rollouts"]):
        for rollout, mask in zip(line["rollouts"], masks, strict=True):
            if isinstance(rollout, dict) and isinstance(mask, list):
                rollout.setdefault("tokens", len(mask) - mask.count(PROMPT_MASK))
    return line


def _describe(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
    if isinstance(error, json.JSONDecodeError):
        # The decoder's own text speaks of a line 1, which would stand beside the line in the file.
        return f"not JSON ({error.msg} at character {error.pos} of {len(error.doc)})"
    return str(error)

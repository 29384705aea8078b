"""References: public names of problems. Any process can make a problem again, and check it by `question_hash`.

A reference is written as `task:split:seed:level:library:question_hash:params`, for example

    gcd:train:913282751:0.25:0.1.25:5f1c0d9e8a7b6c5d:{"min_value": 10}

- `seed` can be `45+3/50` in published evaluation sets: item 3 of a dataset of 50 items with the seed 45.
- `level` is `-` at the library's defaults.
- `library` is the release that made the problem: the version of reasoning-gym, or `NAME@VERSION` of a module of
  `task_modules`. With the setting `rewards: library`, `+library` follows, and every judge scores as the library does.
- `params` is JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import InvalidReferenceError
from ..records import Problem, ProblemRequest, ProblemSpec, Split

MAX_LENGTH = 65_536
"""Maximum characters of a reference, which may be untrusted. References of `composite` can have 2,800 characters."""
MAX_PARAMS_DEPTH = 32
"""Limit for the nesting of parameters. The parameters of `composite` have three levels, or four if there are lists."""
AS_LIBRARY = "+library"
_SEED = re.compile(r"(\d{1,10})(?:\+(\d{1,9})/(\d{1,9}))?", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{16}", re.ASCII)


def hash_question(question: str) -> str:
    """Return a question's hash: 16 hexadecimal digits. Lone surrogates are allowed."""
    return hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def hash_without_whitespace(question: str) -> str:
    """Return a hash that is equal for questions that differ only in whitespace."""
    return hash_question(" ".join(question.split()))


def without_release(reference: str) -> str:
    """Return a reference without the library release, to compare references that different releases made."""
    fields = reference.split(":", 6)  # the last field, the parameters, may contain colons
    return ":".join([*fields[:4], *fields[5:]])


def module_of(reference: str) -> str | None:
    """Return the module that made a problem; None for reasoning-gym and for an invalid reference."""
    fields = reference.split(":", 6)
    name, at, _ = fields[4].rpartition("@") if len(fields) == 7 else ("", "", "")
    return name if at else None


def describe_release(release: str) -> str:
    """Return the name of a release for messages: `reasoning-gym 0.1.25`, or `NAME@VERSION` of a module."""
    return release if "@" in release else f"reasoning-gym {release}"


def _read_params(text: str) -> dict[str, object]:
    """Parse the parameters in a reference. Raises ValueError unless they are a JSON object of limited depth."""
    too_deep = f"parameters are nested more than {MAX_PARAMS_DEPTH} levels deep"
    try:
        params = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    if not isinstance(params, dict):
        raise ValueError("parameters must be a JSON object")
    level: list[object] = [params]
    for _ in range(MAX_PARAMS_DEPTH):
        containers = [value for value in level if isinstance(value, dict | list)]
        level = [item for value in containers for item in (value.values() if isinstance(value, dict) else value)]
    if any(isinstance(value, dict | list) for value in level):
        raise ValueError(too_deep)
    return params


@dataclass(frozen=True)
class Reference:
    """The values from which a problem can be made again, and the hash of the problem's question.

    `library` is the release that made the problem. `seed` is in [0, 2**32). `as_library` means the library's own
    question, answer and score, without corrections.
    """

    task: str
    split: Split
    seed: int
    level: float | None
    library: str
    question_hash: str
    params: Mapping[str, object] = field(default_factory=dict)
    item: int = 0
    dataset_size: int = 1
    as_library: bool = False

    def __str__(self) -> str:
        item = "" if self.dataset_size == 1 else f"+{self.item}/{self.dataset_size}"
        level = "-" if self.level is None else repr(self.level)
        # Sort the keys, so that equal problems have equal references.
        params = json.dumps(dict(self.params), sort_keys=True, default=str)
        library = self.library + (AS_LIBRARY if self.as_library else "")
        return f"{self.task}:{self.split}:{self.seed}{item}:{level}:{library}:{self.question_hash}:{params}"

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse a reference. Raises InvalidReferenceError, whose message says what is wrong."""
        if len(text) > MAX_LENGTH:
            raise InvalidReferenceError(text, f"a reference has at most {MAX_LENGTH} characters, not {len(text)}")
        fields = text.split(":", 6)
        if len(fields) != 7:
            raise InvalidReferenceError(text, "expected task:split:seed:level:library:question_hash:params")
        task, split, seed, level, library, question_hash, params = fields
        numbers = _SEED.fullmatch(seed)
        if not task or numbers is None or int(numbers[1]) >= 2**32:
            raise InvalidReferenceError(text, "must begin with a task and a seed from 0 to 4294967295")
        if not _HASH.fullmatch(question_hash):
            raise InvalidReferenceError(
                text, f"a question's hash has 16 hexadecimal digits, not {question_hash[:40]!r}"
            )
        try:
            parsed_params = _read_params(params)
            parsed_level = None if level == "-" else float(level)
            parsed_split = Split(split)
        except ValueError as error:
            raise InvalidReferenceError(text, str(error)) from None
        if parsed_level is not None and not 0.0 <= parsed_level <= 1.0:
            raise InvalidReferenceError(text, f"a level must be from 0 to 1, not {level}")
        item = int(numbers[2] or 0)
        size = int(numbers[3] or 1)
        if item >= size:
            raise InvalidReferenceError(text, f"a dataset of {size} items has no item {item}: items count from 0")
        return cls(
            task=task,
            split=parsed_split,
            seed=int(numbers[1]),
            level=parsed_level,
            library=library.removesuffix(AS_LIBRARY),
            question_hash=question_hash,
            params=parsed_params,
            item=item,
            dataset_size=size,
            as_library=library.endswith(AS_LIBRARY),
        )

    @classmethod
    def of(cls, problem: Problem, library: str) -> Reference:
        """Return the reference of a problem. `library` is the release that made the problem."""
        spec = problem.spec
        return cls(
            task=spec.task,
            split=spec.split,
            seed=spec.seed,
            level=problem.level,
            library=library,
            question_hash=hash_question(problem.question),
            params=problem.params,
            item=spec.request.item,
            dataset_size=spec.request.dataset_size,
            as_library=problem.as_library,
        )

    def spec(self, *, index: int = 0, attempt: int = 0) -> ProblemSpec:
        """Return a spec of exactly this problem. `index` and `attempt` are the spec's place in a stream."""
        request = ProblemRequest(
            task=self.task,
            seed=self.seed,
            params=self.params,
            level=self.level,
            exact_seed=True,
            params_are_whole=True,
            item=self.item,
            dataset_size=self.dataset_size,
        )
        return ProblemSpec(request, self.split, index, attempt)

    def matches(self, problem: Problem) -> bool:
        """Return True if `problem` has the question of this reference."""
        return hash_question(problem.question) == self.question_hash

    def check(self, problem: Problem, library: str) -> None:
        """Raise InvalidReferenceError unless `problem`, made by the release `library`, has this question."""
        if self.matches(problem):
            return
        cause = "the reference was altered"
        if library != self.library:
            cause = f"the reference was made by {describe_release(self.library)}, but {library} is installed"
        raise InvalidReferenceError(str(self), f"this reference now gives a different question; {cause}")

"""Score with bare verifiers, and record what the verifiers do with an answer. Runs only in an audit's worker processes.

A bare verifier is the verifier as its author wrote it, without the guards of `reasoning_env`. `BareSource` and
`WatchedSource` wrap the source of problems (`PoolSettings.source_wrapper`). A watched scorer calls the bare verifier
twice for each answer. `Verdict.own_parts` has both results, and counts of Python's audit events.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from types import CodeType

from reasoning_env.records import ProblemRequest
from reasoning_env.sources.contract import Answers, Generated, Source, SourceTask
from reasoning_env.sources.score_function import as_number

BARE = f"{__name__}:BareSource"
"""The name of `BareSource`, as a value of `PoolSettings.source_wrapper`."""
WATCHED = f"{__name__}:WatchedSource"
"""The name of `WatchedSource`, as a value of `PoolSettings.source_wrapper`."""
CANARY = "audit_canary"
"""A word in hostile answers that no verifier uses. If a Python audit event has this word, the answer was executed."""
PROCESS_EVENTS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")


class Watched(StrEnum):
    """The keys of `Verdict.own_parts` under which a watched worker records numbers about an answer."""

    RAW = "raw"
    """Key of the number that the verifier returned."""
    AGAIN = "again"
    """Key of the number that the verifier returned at the second call with the same answer."""
    NO_NUMBER = "no number"
    """Key of a flag, set to 1 if the verifier returned no finite number."""
    FAILED = "failed"
    """Key of a flag, set to 1 if the verifier raised an error."""
    # The keys of the counts of a `Watch`:
    FILE = "file"
    SOCKET = "socket"
    PROCESS = "process"
    IMPORT = "import"
    CODE = "code"


EXECUTED = (Watched.FILE, Watched.SOCKET, Watched.PROCESS, Watched.IMPORT, Watched.CODE)
"""If the count under one of these keys is above 0, the verifier executed the answer."""


class Watch:
    """Counts events inside `with armed()`, by key: FILE, SOCKET, PROCESS, IMPORT and CODE.

    Files, imports and code count only if they name the CANARY, because verifiers have files and imports of their own.
    """

    def __init__(self) -> None:
        self.seen: Counter[Watched] = Counter()
        self._is_armed = False
        self.listen()

    def listen(self) -> None:
        """Call `_on_event` for each of Python's audit events in this process from now on."""
        sys.addaudithook(self._on_event)

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        self.seen.clear()
        self._is_armed = True
        try:
            yield
        finally:
            self._is_armed = False

    def _on_event(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._is_armed:
            kind = kind_of(event, arguments)
            if kind is not None:
                self.seen[kind] += 1


def kind_of(event: str, arguments: tuple[object, ...]) -> Watched | None:
    """Return the key of the count that an audit event of Python increases; None if the event increases no count."""
    if event == "exec":
        return Watched.CODE if isinstance(arguments[0], CodeType) and _contains_canary_name(arguments[0]) else None
    if event == "open" or event.startswith(("os.mkdir", "os.rename", "os.remove")):
        return Watched.FILE if CANARY in str(arguments[0]) else None
    if event == "import":
        return Watched.IMPORT if CANARY in str(arguments[0]) else None
    if event.startswith("socket."):
        return Watched.SOCKET
    return Watched.PROCESS if event in PROCESS_EVENTS else None


def _contains_canary_name(code: CodeType) -> bool:
    """Return True if code uses the canary as a variable name. A string with the canary does not count."""
    return CANARY in code.co_names or any(
        _contains_canary_name(constant) for constant in code.co_consts if isinstance(constant, CodeType)
    )


class BareAnswers:
    """Scores answers with bare verifiers. Each answer gets a new verifier, because verifiers may change the problem."""

    def __init__(self, make: Callable[[], Callable[[str], object]]) -> None:
        self._make = make
        make()  # if the problem's entry is unreadable, this raises before an answer can be blamed

    def score(self, answer: str) -> float:
        """Return the score, limited to [0, 1]. Raises the verifier's errors; ValueError if the result is no number."""
        returned = self._make()(answer)
        number = as_number(returned)
        if number is None or not math.isfinite(number):
            raise ValueError(f"the verifier returned {returned!r:.60}, which is not a finite number")
        return min(1.0, max(0.0, number))


class WatchedAnswers:
    """Scores answers with a bare verifier (see the module). `parts` records the calls, by key in `Watched`.

    The score is limited to [0, 1]; 0 if the verifier raises an error or returns no number.
    """

    def __init__(self, verify: Callable[[str], object], watch: Watch) -> None:
        self._verify = verify
        self._watch = watch
        self.parts: Mapping[str, float] = {}

    def score(self, answer: str) -> float:
        parts: dict[Watched, float] = {}
        with self._watch.armed():
            number = self._call(answer, parts, Watched.RAW)
            if Watched.RAW in parts:
                self._call(answer, parts, Watched.AGAIN)
        parts |= self._watch.seen
        self.parts = {str(name): value for name, value in parts.items()}
        return min(1.0, max(0.0, number))

    def _call(self, answer: str, parts: dict[Watched, float], name: Watched) -> float:
        try:
            returned = self._verify(answer)
        except MemoryError:
            raise
        except BaseException:  # an answer may make a verifier raise any error, even SystemExit
            parts[Watched.FAILED] = 1.0
            return 0.0
        number = as_number(returned)
        if number is None or not math.isfinite(number):
            parts[Watched.NO_NUMBER] = 1.0
            return 0.0
        parts[name] = number
        return number


class BareSource(Source):
    """Wraps a source of problems, and scores answers with bare verifiers (see the module)."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def tasks(self) -> Mapping[str, SourceTask]:
        return self._source.tasks

    def generate(self, request: ProblemRequest) -> Generated:
        return self._source.generate(request)

    def scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None, *, plainly: bool
    ) -> Answers:
        return BareAnswers(partial(self._source.bare_scorer, task, params, entry, level))

    def check(self, task: str, params: Mapping[str, object], level: float | None) -> str | None:
        return self._source.check(task, params, level)

    def describe(self, task: str) -> Mapping[str, Mapping[str, object]]:
        return self._source.describe(task)


class WatchedSource(BareSource):
    """Does the same as `BareSource`, and observes the verifiers with a `Watch`."""

    _watch: Watch | None = None

    def scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None, *, plainly: bool
    ) -> Answers:
        # Make the watch after the fork: only verifier processes need the hook, and no hook can be removed.
        if self._watch is None:
            self._watch = Watch()
        return WatchedAnswers(self._source.bare_scorer(task, params, entry, level), self._watch)

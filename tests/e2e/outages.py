"""Faults of a line as tests see them: that groups come again, what was said, and what became of every group."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from demo.policy import ScriptedPolicy
from testing import Line, Policy, Process, wait_until
from testing.recorded_environment import read_journal

from .policies import TASKS

T = TypeVar("T")

HANDFUL = 6
"""Lines of the log that a fault may cost."""
STEADILY = 5
"""Groups that arrive before a fault counts as over; the first of them may have been under way when it began."""
MEANWHILE = 30
"""More groups than are under way at any time: so many arrive only where work goes on during a fault."""
QUIET = {"progress_interval_s": 3600, "steps_per_eval": 0}
"""Settings under which the log holds nothing of progress, and nothing is evaluated."""

_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING|ERROR|CRITICAL) [\w.]+: ", re.MULTILINE)


@dataclass(frozen=True)
class LogLine:
    """A line of the log that has a head; what follows without one (a traceback) is part of `text`."""

    level: str
    text: str


def log_lines(log: str) -> list[LogLine]:
    """The lines of a log that users see."""
    heads = list(_LOG_LINE.finditer(log))
    ends = [head.start() for head in heads[1:]] + [len(log)]
    return [LogLine(head[1], log[head.end() : end].rstrip()) for head, end in zip(heads, ends, strict=False)]


def quiet_line(folder: Path, latency_s: float, policy: Policy | None = None, **options: Any) -> Line:
    """A line with the scripted policy, or another one, whose environments say little."""
    policy = policy or ScriptedPolicy(skill=0.6, seed=1)
    return Line(folder, policy, latency_s=latency_s, **{"tasks": TASKS, **QUIET, **options})


@dataclass(frozen=True)
class Outage:
    """What the environment logged from the begin of a fault until groups came steadily after it."""

    lines: tuple[LogLine, ...]

    @property
    def text(self) -> str:
        return "\n".join(f"{line.level} {line.text}" for line in self.lines)


def ride_out(
    line: Line,
    environment: Process,
    begin: Callable[[], None],
    end: Callable[[], None] = lambda: None,
    duration_s: float = 0.0,
    *,
    groups_meanwhile: int = 0,
    until_logged: bool = False,
) -> Outage:
    """Cause a fault, end it after a while, and wait until groups arrive again.

    The fault lasts at least `duration_s`, and until so many groups have arrived during it, and until the environment
    has logged something. Raises TimeoutError where that, or groups after it, do not come.
    """
    mark, began = len(environment.stderr), time.monotonic()
    begin()
    time.sleep(duration_s)
    wait_for_groups(line, count=groups_meanwhile, since=began)
    wait_until(lambda: not until_logged or log_lines(environment.stderr[mark:]), 60, "a line of the log")
    ended = time.monotonic()
    end()
    wait_for_groups(line, count=STEADILY, since=ended)
    return Outage(tuple(log_lines(environment.stderr[mark:])))


def wait_for_groups(line: Line, *, count: int = 1, since: float = 0.0, timeout_s: float = 90.0) -> None:
    """Wait until so many groups have arrived at run-api since a time."""
    wait_until(
        lambda: sum(delivery.at > since for delivery in list(line.proxy.delivered)) >= count, timeout_s, "a delivery"
    )


def wait_for_words(environment: Process, words: str, timeout_s: float = 90.0) -> None:
    """Wait until the log says something."""
    wait_until(lambda: words in environment.stderr, timeout_s, f"'{words}' in the log")


@dataclass(frozen=True)
class Scored:
    """A group that was scored: its position in the stream, and its scores if it is to be delivered."""

    index: int
    kept: tuple[float, ...] | None


def handed_out(environment: Process) -> list[dict[str, Any]]:
    """The problems in the order in which they were handed out, with the fields that the journal has of them."""
    return read_journal(environment.folder, "handed_out")


def scored(environment: Process) -> list[Scored]:
    """All groups in the order in which they were scored."""
    groups = read_journal(environment.folder, "scored")
    return [Scored(group["index"], group["scores"] and tuple(group["scores"])) for group in groups]


@dataclass(frozen=True)
class Account:
    """What became of the problems of an environment that served alone and was stopped by SIGTERM.

    Problems are named by their positions; `kept` and `delivered` are the scores of groups, in order, each once.
    """

    exit_code: int
    never_scored: tuple[int, ...]
    scored_twice: tuple[int, ...]
    delivered_twice: int
    kept: tuple[tuple[float, ...], ...]
    delivered: tuple[tuple[float, ...], ...]


def settle(line: Line, environment: Process) -> Account:
    """Stop an environment and account for its groups."""
    exit_code = environment.end(signal.SIGTERM)
    groups = scored(environment)
    times = Counter(group.index for group in groups)
    arrived: dict[str, tuple[float, ...]] = {}
    for delivery in line.proxy.delivered:
        arrived.setdefault(delivery.key, delivery.scores)
    return Account(
        exit_code=exit_code,
        never_scored=tuple(sorted({problem["index"] for problem in handed_out(environment)} - times.keys())),
        scored_twice=tuple(index for index, count in times.items() if count > 1),
        delivered_twice=len(line.proxy.delivered) - len(arrived),
        kept=tuple(group.kept for group in groups if group.kept is not None),
        delivered=tuple(arrived.values()),
    )


def check_words(outage: Outage) -> None:
    """The fault cost no more lines of the log than a reader can take in."""
    assert len(outage.lines) <= HANDFUL, outage.text


def check_account(account: Account, *, broken_connections: bool = False) -> None:
    """Everything that was handed out was scored once, and everything worth sending arrived in order, and once.

    Where connections broke after groups had gone out, they are sent again and may arrive twice.
    """
    assert account.never_scored == ()
    assert account.scored_twice == ()
    assert account.delivered == account.kept
    assert account.delivered_twice == 0 or broken_connections
    assert account.exit_code == 143


@contextmanager
def all_at_once(scenarios: Mapping[str, Callable[[], T]]) -> Iterator[Mapping[str, Future[T]]]:
    """Run scenarios at the same time, on threads; each future's `result()` gives or raises what its scenario did."""
    with ThreadPoolExecutor(len(scenarios)) as executor:
        yield {name: executor.submit(scenario) for name, scenario in scenarios.items()}

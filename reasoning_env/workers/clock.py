"""Freeze the clock: some generators run code that reads the time, but a seed must always give the same problem."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager

NOON = datetime.datetime(2025, 1, 1, 12, tzinfo=datetime.UTC)
"""The frozen time. Local time is always UTC, whatever the machine's time zone."""


class _Date(datetime.date):
    @classmethod
    def today(cls) -> _Date:
        return cls(NOON.year, NOON.month, NOON.day)


class _Datetime(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Datetime:
        return cls(NOON.year, NOON.month, NOON.day, NOON.hour, tzinfo=tz)

    @classmethod
    def today(cls) -> _Datetime:
        return cls.now()

    @classmethod
    def utcnow(cls) -> _Datetime:
        return cls.now()


@contextmanager
def frozen_clock() -> Iterator[None]:
    """Stop the clock at NOON inside the context. `time.sleep` returns at once."""
    seconds = NOON.timestamp()
    real_gmtime = time.gmtime
    real_strftime = time.strftime

    def gmtime(at: float | None = None) -> time.struct_time:
        return real_gmtime(seconds if at is None else at)

    still: dict[object, dict[str, object]] = {
        time: {
            "time": lambda: seconds,
            "time_ns": lambda: int(seconds) * 10**9,
            "gmtime": gmtime,
            "localtime": gmtime,
            "ctime": lambda at=None: time.asctime(gmtime(at)),
            "strftime": lambda form, at=None: real_strftime(form, at or gmtime()),
            "perf_counter": lambda: 0.0,
            "monotonic": lambda: 0.0,
            "process_time": lambda: 0.0,
            "sleep": lambda seconds: None,
        },
        datetime: {"date": _Date, "datetime": _Datetime},
    }
    real = {module: {name: getattr(module, name) for name in names} for module, names in still.items()}
    try:
        _put(still)
        yield
    finally:
        _put(real)


def _put(values: dict[object, dict[str, object]]) -> None:
    for module, names in values.items():
        for name, value in names.items():
            setattr(module, name, value)

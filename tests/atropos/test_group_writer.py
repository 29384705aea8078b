from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import strategies as st

from reasoning_env.atropos.group_writer import BackgroundWriter


class Writer:
    """Keeps what it is given, each time only when `gate` is open."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.threads: set[str] = set()
        self.closed = 0
        self.gate = threading.Event()
        self.gate.set()

    def write(self, obj: Any) -> None:
        assert self.gate.wait(30.0)
        self.threads.add(threading.current_thread().name)
        if obj.get("broken"):
            raise OSError("no space left")
        self.written.append(obj)

    def close(self) -> None:
        self.closed += 1


def test_closing_writes_everything_in_order() -> None:
    writer = Writer()
    background = BackgroundWriter(writer)
    for number in range(100):
        background.write({"number": number})
    background.close()
    assert writer.written == [{"number": number} for number in range(100)]
    assert writer.closed == 1


def test_writing_waits_for_nothing_and_happens_elsewhere() -> None:
    writer = Writer()
    writer.gate.clear()
    background = BackgroundWriter(writer)
    background.write({"number": 1})
    assert writer.written == []
    writer.gate.set()
    background.close()
    assert writer.written == [{"number": 1}]
    assert threading.current_thread().name not in writer.threads


def test_keys_that_the_caller_adds_afterwards_are_not_written() -> None:
    writer = Writer()
    writer.gate.clear()
    background = BackgroundWriter(writer)
    group = {"number": 1}
    background.write(group)
    group["added"] = 2
    writer.gate.set()
    background.close()
    assert writer.written == [{"number": 1}]


def test_closing_twice_closes_once() -> None:
    writer = Writer()
    background = BackgroundWriter(writer)
    background.close()
    background.close()
    assert writer.closed == 1


def test_group_that_cannot_be_written_is_reported_and_the_next_one_written(caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer()
    background = BackgroundWriter(writer)
    background.write({"broken": True})
    background.write({"number": 2})
    background.close()
    assert writer.written == [{"number": 2}]
    assert caplog.messages == ["a group could not be written and is dropped: OSError: no space left"]


def test_freezing_lets_the_line_under_way_become_whole_and_no_other_begin() -> None:
    writer = Writer()
    writer.gate.clear()
    background = BackgroundWriter(writer)
    background.write({"number": 1})
    background.write({"number": 2})
    while not background._writing.locked():
        time.sleep(0.001)
    threading.Timer(0.1, writer.gate.set).start()
    background.freeze(30.0)
    assert writer.written == [{"number": 1}]
    background._writing.release()
    background.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)
GROUPS = st.dictionaries(st.text(), JSON | st.lists(JSON, max_size=4), max_size=4)

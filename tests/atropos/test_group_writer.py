from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import jsonlines
import pytest

from reasoning_env.atropos.group_writer import BackgroundWriter, write_in_background

WAIT_S = 60.0


class Writer:
    """Keeps what it is given, each time only when `gate` is open; `begun` is set once it waits there."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.threads: set[str] = set()
        self.begun = threading.Event()
        self.gate = threading.Event()

    def write(self, obj: Any) -> None:
        self.begun.set()
        assert self.gate.wait(WAIT_S)
        self.threads.add(threading.current_thread().name)
        if obj.get("broken"):
            raise OSError("no space left")
        self.written.append(obj)

    def close(self) -> None:
        pass


def test_file_holds_every_group_in_order_once_it_is_closed_however_often(tmp_path: Path) -> None:
    path = tmp_path / "groups.jsonl"
    writer = write_in_background(jsonlines.open(path, "w"), str(path))
    assert writer is not None
    for number in range(100):
        writer.write({"number": number})
    for _ in range(2):
        writer.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"number": number} for number in range(100)]


def test_without_a_file_there_is_no_writer() -> None:
    assert write_in_background(None, None) is None


def test_group_is_written_elsewhere_as_it_was_when_it_was_given() -> None:
    writer = Writer()
    background = BackgroundWriter(writer)
    group = {"number": 1}
    background.write(group)
    group["added"] = 2
    assert writer.written == []
    writer.gate.set()
    background.close()
    assert writer.written == [{"number": 1}]
    assert threading.current_thread().name not in writer.threads


def test_group_that_cannot_be_written_is_reported_and_the_next_one_written(caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer()
    writer.gate.set()
    background = BackgroundWriter(writer)
    background.write({"broken": True})
    background.write({"number": 2})
    background.close()
    assert writer.written == [{"number": 2}]
    [message] = caplog.messages
    assert "no space left" in message


def test_freezing_lets_the_line_under_way_become_whole_and_no_other_begin() -> None:
    writer = Writer()
    background = BackgroundWriter(writer)
    background.write({"number": 1})
    background.write({"number": 2})
    assert writer.begun.wait(WAIT_S)
    freezing = threading.Thread(target=background.freeze, args=(WAIT_S,))
    freezing.start()
    while not background._frozen:
        time.sleep(0.001)
    writer.gate.set()
    freezing.join()
    assert writer.written == [{"number": 1}]
    background._writing.release()
    background.close()
    assert writer.written == [{"number": 1}]

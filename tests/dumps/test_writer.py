"""The dump writer: files, their content, start and end."""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reasoning_env.dumps.reader import stream_groups
from reasoning_env.dumps.writer import RolloutDumper
from reasoning_env.metrics.stats import DumpStats
from reasoning_env.records import Group

from .conftest import MakeDumper
from .groups import FAILED, PASSED, failed, indices, make_group, names, passed


def _writer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rollout-writer"]


# Which groups go where


def test_dump_file_is_filled_before_the_next_file_begins(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    for index in range(201):
        dumper.offer(passed(index))
        if index <= 100:
            dumper.offer(failed(index))
    dumper.close()
    lines = {path.name: indices(stream_groups(path)) for path in dumps.iterdir()}
    expected = {PASSED.format(batch): list(range(201))[100 * batch : 100 * (batch + 1)] for batch in range(3)}
    expected |= {FAILED.format(batch): list(range(101))[50 * batch : 50 * (batch + 1)] for batch in range(3)}
    assert lines == expected


@pytest.mark.parametrize(
    ("scores", "options", "kind"),
    [
        ((0.7, 0.0), {}, None),
        ((0.7000001, 0.0), {}, "passed"),
        ((0.2, 1.0), {}, "passed"),
        ((0.0, -0.0), {"score_threshold": 0.0}, "failed"),
        ((0.0, 1e-300), {}, None),
        ((0.0, 1e-300), {"score_threshold": 0.0}, "passed"),
        ((1.0, 1.0), {"score_threshold": 1.0}, None),
        ((0.0,), {"dump_passed": False}, "failed"),
        ((1.0,), {"dump_passed": False}, None),
        ((1.0,), {"dump_failed": False}, "passed"),
        ((0.0,), {"dump_failed": False}, None),
    ],
)
def test_group_scores_decide_whether_the_group_is_dumped_as_passed_or_failed(
    make_dumper: MakeDumper, scores: tuple[float, ...], options: dict[str, Any], kind: str | None
) -> None:
    dumper = make_dumper(**options)
    dumper.offer(make_group(scores))
    dumper.close()
    stats = dumper.stats()
    assert (stats.passed_groups, stats.failed_groups) == (kind == "passed", kind == "failed")


def test_dump_line_has_time_and_step(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper(step=lambda: 3)
    before = time.time()
    dumper.offer(passed())
    dumper.close()
    [group] = stream_groups(dumps)
    assert group.step == 3
    assert group.time == pytest.approx(before, abs=60)


def test_existing_dump_files_are_not_changed(make_dumper: MakeDumper, tmp_path: Path) -> None:
    (tmp_path / PASSED.format(0)).write_bytes(b"to")  # an incomplete line: the writer leaves the file unchanged
    for _ in range(2):
        dumper = make_dumper(tmp_path)
        dumper.offer(passed())
        dumper.close()
    assert names(tmp_path) == [PASSED.format(number) for number in range(3)]
    assert (tmp_path / PASSED.format(0)).read_bytes() == b"to"


# What is in the files


HOSTILE = ["\udfff\ud800", "\x00\x07\r\n\u2028\u2029\x85\x0b\x0c", '"}]}\n{"item_id": "forged"', "\\ud800 \\n \\"]
TEXT = st.text(st.characters()) | st.sampled_from(HOSTILE)  # including lone surrogates
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
GROUPS = st.builds(
    make_group,
    scores=st.lists(st.just(0.0) | st.floats(0.0, 1.0, allow_subnormal=True), min_size=1, max_size=4).map(tuple),
    index=st.integers(0, 2**40),
    text=TEXT,
    params=st.dictionaries(st.text(), PLAIN, max_size=3),
    metadata_json=st.dictionaries(st.text(), PLAIN, max_size=3).map(json.dumps),
    verdict=st.booleans(),
)


def offered(group: Group) -> tuple[Any, ...]:
    problem = group.problem
    text = group.rollouts[0].text
    # JSON parsers join a high and a following low surrogate to one character.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return problem.spec.index, group.scores, text, problem.params, json.loads(problem.metadata_json)


def read_back(path: Path) -> list[tuple[Any, ...]]:
    groups = list(stream_groups(path)) if path.exists() else []
    texts = [group.rollouts[-1].conversation[-1]["content"] for group in groups]
    return [
        (group.index, group.scores, text, group.params, group.metadata)
        for group, text in zip(groups, texts, strict=True)
    ]


@settings(max_examples=15, deadline=None)
@given(
    groups=st.lists(GROUPS, max_size=5, unique_by=lambda group: group.problem.spec.index), threshold=st.floats(0.0, 1.0)
)
@example(groups=[make_group(text=text) for text in HOSTILE], threshold=0.5)
def test_groups_read_from_a_dump_equal_the_written_groups(groups: list[Group], threshold: float) -> None:
    """A run serves each problem once, so no two groups written in the same millisecond are equal."""
    with tempfile.TemporaryDirectory() as folder:
        dumper = RolloutDumper(Path(folder), "run", dump_passed=True, dump_failed=True, score_threshold=threshold)
        dumper.start()
        for group in groups:
            dumper.offer(group)
        dumper.close()
        passed, failed = (read_back(Path(folder, kind.format(0))) for kind in (PASSED, FAILED))
    assert passed == [offered(group) for group in groups if max(group.scores) > threshold]
    assert failed == [offered(group) for group in groups if max(group.scores) == 0]


def test_group_whose_metadata_is_not_json_is_dropped_and_an_error_is_logged(
    make_dumper: MakeDumper, caplog: pytest.LogCaptureFixture
) -> None:
    dumper = make_dumper()
    for group in (passed(), make_group(metadata_json="{"), passed(), make_group(metadata_json="{")):
        dumper.offer(group)
    dumper.close()
    assert dumper.stats() == DumpStats(passed_groups=2, failed_groups=0, waiting=0, dropped=2)
    assert [record.args for record in caplog.records if record.levelno > logging.INFO] == [
        ("chain_sum",),
        ("chain_sum",),
        (2,),
    ]


# The start


def test_started_dump_writer_writes_groups_that_were_offered_earlier(make_dumper: MakeDumper, dumps: Path) -> None:
    before = _writer_threads()
    dumper = make_dumper(dumps / "with" / "parents", start=False)
    dumper.offer(passed(3))
    assert _writer_threads() == before
    assert not dumps.exists()
    dumper.start()
    dumper.close()
    assert indices(stream_groups(dumps / "with" / "parents")) == [3]


# The end


def test_closing_the_dump_writer_ends_the_writer_thread(make_dumper: MakeDumper, dumps: Path) -> None:
    before = len(_writer_threads())
    dumper = make_dumper()
    dumper.offer(passed())
    assert len(_writer_threads()) == before + 1
    for _ in range(2):
        dumper.close()
        assert len(_writer_threads()) == before
    assert dumper.stats() == DumpStats(passed_groups=1, failed_groups=0, waiting=0, dropped=0)
    assert names(dumps) == [PASSED.format(0)]


def test_closed_dump_writer_drops_offered_groups(make_dumper: MakeDumper, caplog: pytest.LogCaptureFixture) -> None:
    dumper = make_dumper(start=False)
    dumper.close()
    for _ in range(2):
        dumper.offer(passed())
    assert dumper.stats().dropped == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning_env.errors import ConfigError
from reasoning_env.records import DumpStats, Group
from reasoning_env.rollouts import RolloutDumper, read_groups

from .conftest import MakeDumper
from .groups import FAILED, PASSED, REPOSITORY, as_dumped, failed, indices, make_group, names, passed, wait_until


def _count(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def _writer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rollout-writer"]


# Which groups go where


def test_passed_groups_fill_files_of_100(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    for index in range(201):
        dumper.offer(passed(index))
    dumper.close()
    counts = {path.name: _count(path) for path in dumps.iterdir()}
    assert counts == {PASSED.format(0): 100, PASSED.format(1): 100, PASSED.format(2): 1}


def test_failed_groups_fill_files_of_50(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    for index in range(101):
        dumper.offer(failed(index))
    dumper.close()
    counts = {path.name: _count(path) for path in dumps.iterdir()}
    assert counts == {FAILED.format(0): 50, FAILED.format(1): 50, FAILED.format(2): 1}


def test_groups_keep_the_order_in_which_they_were_offered(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    for index in range(250):
        dumper.offer(passed(index))
    dumper.close()
    assert indices(read_groups(dumps)) == list(range(250))


@pytest.mark.parametrize(
    ("scores", "threshold", "streams"),
    [
        ((0.7, 0.0), 0.7, []),
        ((0.7000001, 0.0), 0.7, ["passed"]),
        ((0.2, 1.0), 0.7, ["passed"]),
        ((0.0, 0.0), 0.7, ["failed"]),
        ((0.0, -0.0), 0.0, ["failed"]),
        ((0.0, 1e-300), 0.7, []),
        ((0.0, 1e-300), 0.0, ["passed"]),
        ((1.0, 1.0), 1.0, []),
        ((0.0,), 0.7, ["failed"]),
        ((1.0,), 0.7, ["passed"]),
    ],
)
def test_scores_choose_the_stream(
    make_dumper: MakeDumper, scores: tuple[float, ...], threshold: float, streams: list[str]
) -> None:
    dumper = make_dumper(score_threshold=threshold)
    dumper.offer(make_group(scores))
    dumper.close()
    stats = dumper.stats()
    assert (stats.passed_groups, stats.failed_groups) == (streams.count("passed"), streams.count("failed"))


def test_each_stream_can_be_off(make_dumper: MakeDumper) -> None:
    only_passed = make_dumper(run_uuid="a", dump_failed=False)
    only_failed = make_dumper(run_uuid="b", dump_passed=False)
    for dumper in (only_passed, only_failed):
        dumper.offer(passed())
        dumper.offer(failed())
        dumper.close()
    assert only_passed.stats() == DumpStats(passed_groups=1, failed_groups=0, files_finished=1, waiting=0, dropped=0)
    assert only_failed.stats() == DumpStats(passed_groups=0, failed_groups=1, files_finished=1, waiting=0, dropped=0)


def test_both_streams_off_makes_no_folder_and_no_thread(make_dumper: MakeDumper, dumps: Path) -> None:
    before = _writer_threads()
    dumper = make_dumper(dump_passed=False, dump_failed=False)
    dumper.offer(passed())
    assert _writer_threads() == before
    dumper.close()
    assert not dumps.exists()
    assert dumper.stats() == DumpStats(0, 0, 0, 0, 0)


# What is in the files


TEXT = st.text(st.characters())  # surrogates included
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


@settings(max_examples=60, deadline=None)
@given(groups=st.lists(GROUPS, max_size=5), threshold=st.floats(0.0, 1.0))
def test_what_is_read_back_equals_what_was_offered(groups: list[Group], threshold: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dumper = RolloutDumper(Path(folder), "run", dump_passed=True, dump_failed=True, score_threshold=threshold)
        for group in groups:
            dumper.offer(group)
        dumper.close()
        paths = {kind: Path(folder, kind.format(0)) for kind in (PASSED, FAILED)}
        read = {kind: list(read_groups(path)) for kind, path in paths.items() if path.exists()}
    assert read.get(PASSED, []) == [as_dumped(group) for group in groups if max(group.scores) > threshold]
    assert read.get(FAILED, []) == [as_dumped(group) for group in groups if max(group.scores) == 0]


def test_huge_text_reads_back_unchanged(make_dumper: MakeDumper, dumps: Path) -> None:
    group = make_group((1.0,), text="\x00\ud800é" * 1_000_000)
    dumper = make_dumper()
    dumper.offer(group)
    dumper.close()
    assert list(read_groups(dumps)) == [as_dumped(group)]


def test_group_that_is_no_json_is_lost_alone(make_dumper: MakeDumper, caplog: pytest.LogCaptureFixture) -> None:
    dumper = make_dumper()
    dumper.offer(passed())
    dumper.offer(make_group(metadata_json="{"))
    dumper.offer(passed())
    dumper.close()
    assert dumper.stats() == DumpStats(passed_groups=2, failed_groups=0, files_finished=1, waiting=0, dropped=1)
    assert "a group of chain_sum cannot be written as JSON and is lost" in caplog.messages


# The end


def test_groups_are_on_disk_before_close(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    dumper.offer(passed(3))
    wait_until(lambda: dumper.stats().passed_groups == 1)
    assert names(dumps) == [PASSED.format(0) + ".part"]
    assert indices(read_groups(dumps / names(dumps)[0])) == [3]


def test_close_renames_partial_files_and_leaves_no_part(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    dumper.offer(passed())
    dumper.offer(failed())
    dumper.close()
    assert names(dumps) == [FAILED.format(0), PASSED.format(0)]


def test_close_without_groups_leaves_an_empty_folder(make_dumper: MakeDumper, dumps: Path) -> None:
    make_dumper().close()
    assert names(dumps) == []


def test_close_ends_the_thread(make_dumper: MakeDumper) -> None:
    before = len(_writer_threads())
    dumper = make_dumper()
    assert len(_writer_threads()) == before + 1
    dumper.close()
    assert len(_writer_threads()) == before


def test_close_can_be_called_again(make_dumper: MakeDumper, dumps: Path) -> None:
    dumper = make_dumper()
    dumper.offer(passed())
    dumper.close()
    stats = dumper.stats()
    dumper.close()
    assert dumper.stats() == stats
    assert names(dumps) == [PASSED.format(0)]


def test_close_can_be_awaited(make_dumper: MakeDumper, dumps: Path) -> None:
    async def run() -> None:
        dumper = make_dumper()
        dumper.offer(passed())
        await asyncio.to_thread(dumper.close)

    asyncio.run(run())
    assert names(dumps) == [PASSED.format(0)]


def test_group_after_close_is_counted_as_lost(make_dumper: MakeDumper, caplog: pytest.LogCaptureFixture) -> None:
    dumper = make_dumper()
    dumper.close()
    dumper.offer(passed())
    dumper.offer(passed())
    assert dumper.stats().dropped == 2
    assert caplog.messages == ["rollouts are being lost: the dumps are closed"]


def test_kill_leaves_every_written_group_in_whole_lines(dumps: Path) -> None:
    script = """
import os, pathlib, signal, sys
from tests.rollouts.groups import passed, wait_until
from reasoning_env.rollouts import RolloutDumper
dumper = RolloutDumper(pathlib.Path(sys.argv[1]), "run", dump_passed=True, dump_failed=True, score_threshold=0.7)
for index in range(7):
    dumper.offer(passed(index))
wait_until(lambda: dumper.stats().passed_groups == 7)
os.kill(os.getpid(), signal.SIGKILL)
"""
    child = subprocess.run([sys.executable, "-c", script, str(dumps)], cwd=REPOSITORY, timeout=30)
    assert child.returncode == -signal.SIGKILL
    assert indices(read_groups(dumps / (PASSED.format(0) + ".part"))) == list(range(7))


# The folder


def test_missing_parents_of_the_folder_are_created(make_dumper: MakeDumper, tmp_path: Path) -> None:
    make_dumper(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_folder_that_cannot_be_created_raises_config_error(make_dumper: MakeDumper, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be created: .*file/dumps"):
        make_dumper(tmp_path / "file" / "dumps")


def test_folder_that_is_not_writable_raises_config_error(make_dumper: MakeDumper, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write anywhere")
    try:
        with pytest.raises(ConfigError, match="not writable"):
            make_dumper(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_two_runs_share_a_folder(make_dumper: MakeDumper, dumps: Path) -> None:
    first, second = make_dumper(run_uuid="a"), make_dumper(run_uuid="b")
    for index in range(150):
        first.offer(passed(index))
        second.offer(passed(1000 + index))
    first.close()
    second.close()
    assert indices(read_groups(dumps)) == [*range(150), *range(1000, 1150)]


def test_writers_with_the_same_name_overwrite_nothing(make_dumper: MakeDumper, dumps: Path) -> None:
    dumpers = [make_dumper() for _ in range(4)]
    for index in range(250):
        for number, dumper in enumerate(dumpers):
            dumper.offer(passed(1000 * number + index))
    for dumper in dumpers:
        dumper.close()
    expected = [1000 * number + index for number in range(4) for index in range(250)]
    assert sorted(index or 0 for index in indices(read_groups(dumps))) == expected
    assert all(name.endswith(".jsonl") for name in names(dumps))

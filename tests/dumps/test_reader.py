from __future__ import annotations

import codecs
import gzip
import json
import logging
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.format import DumpedGroup, DumpedRollout, encode_group
from reasoning_env.dumps.reader import DumpFormatError, stream_groups
from reasoning_env.storage import reading

from .groups import indices, make_group, passed


def test_dump_files_are_read_in_name_order(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(encode_group(passed(2)))
    (tmp_path / "a.jsonl").write_bytes(encode_group(passed(1)))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(encode_group(passed(3))))
    (tmp_path / "d.txt").write_bytes(b"notes")
    assert indices(stream_groups(tmp_path)) == [1, 2, 3]


def test_reading_a_dump_path_that_does_not_exist_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        stream_groups(tmp_path / "nothing.jsonl")


def test_dump_line_that_has_only_the_required_keys_is_read(tmp_path: Path) -> None:
    rollout = {"conversation": [{"role": "user", "content": "é", "later": 1}], "score": 1, "later": None}
    line = {"item_id": "chain_sum", "rollouts": [rollout], "later": {"a": 1}}
    (tmp_path / "a.jsonl").write_text(json.dumps(line, ensure_ascii=False), encoding="utf-8")
    read = DumpedRollout(conversation=({"role": "user", "content": "é"},), score=1.0)
    assert list(stream_groups(tmp_path)) == [DumpedGroup(item_id="chain_sum", rollouts=(read,))]


def test_last_dump_line_without_a_newline_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(encode_group(passed(1)) + encode_group(passed(2))[:-1])
    assert indices(stream_groups(tmp_path)) == [1, 2]


def test_byte_order_mark_of_a_dump_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(codecs.BOM_UTF8 + encode_group(passed(1)) + encode_group(passed(2)))
    assert indices(stream_groups(tmp_path)) == [1, 2]


@pytest.mark.parametrize("between", [b"", b" ", b"\t"])
def test_several_json_objects_on_a_line_are_read(tmp_path: Path, between: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(encode_group(passed(1))[:-1] + between + encode_group(passed(2)))
    assert indices(stream_groups(tmp_path)) == [1, 2]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_dump_raises(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(encode_group(passed(1)).decode().encode(encoding))
    with pytest.raises(DumpFormatError, match=r"line 1: the text is UTF-16, but must be UTF-8 \(`iconv"):
        list(stream_groups(tmp_path))


@pytest.mark.parametrize(
    ("first_bytes", "kind"),
    [(b"PAR1", "Parquet"), (b"PK\x03\x04", "zip"), (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd")],
)
def test_error_about_a_binary_dump_file_names_its_format(tmp_path: Path, first_bytes: bytes, kind: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(first_bytes + b"\x00\xff\n\xfe")
    with pytest.raises(DumpFormatError, match=f"line 1: this is a {kind} "):
        list(stream_groups(tmp_path))


@pytest.mark.parametrize("indent", [None, 1])
def test_json_array_instead_of_json_lines_raises(tmp_path: Path, indent: int | None) -> None:
    groups = [json.loads(encode_group(passed(number))) for number in (1, 2)]
    (tmp_path / "a.jsonl").write_text(json.dumps(groups, indent=indent))
    with pytest.raises(DumpFormatError, match="line 1: a JSON array begins here, but each line must be an object"):
        list(stream_groups(tmp_path))


def test_log_says_how_many_repeated_dump_lines_were_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [b'{"key": "%d", ' % number + encode_group(passed(number))[1:] for number in (1, 2, 1, 1)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "b.jsonl").write_bytes(lines[0])  # a line of a different run
    assert indices(stream_groups(tmp_path)) == [1, 2, 1]
    assert [record.getMessage().partition("a.jsonl: ")[2] for record in caplog.records] == [
        "skipped 2 groups that an earlier line or file already has"
    ]


def test_groups_that_occur_in_a_dump_and_in_its_copy_are_read_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = encode_group(passed(1), more={"time": 1.5}) + encode_group(passed(2), more={"time": 1.75})
    (tmp_path / "a.jsonl").write_bytes(lines)
    (tmp_path / "copy.jsonl").write_bytes(lines.replace(b"\n", b"\r\n"))
    assert indices(stream_groups(tmp_path)) == [1, 2]
    assert [record.getMessage().partition("copy.jsonl: ")[2] for record in caplog.records] == [
        "skipped 2 groups that an earlier line or file already has"
    ]


def test_two_dump_lines_that_differ_only_in_time_are_both_read(tmp_path: Path) -> None:
    lines = [encode_group(passed(1), more={"time": time}) for time in (1.5, 2.5)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    assert indices(stream_groups(tmp_path)) == [1, 1]


def test_identical_dump_lines_without_a_timestamp_are_all_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(2 * encode_group(passed(1)))
    assert indices(stream_groups(tmp_path)) == [1, 1]


def test_blank_lines_of_a_dump_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n" + encode_group(passed(1)) + b" \r\n\n" + encode_group(passed(2)) + b"\n")
    assert indices(stream_groups(tmp_path)) == [1, 2]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_incomplete_last_dump_line_is_skipped_with_a_warning(
    tmp_path: Path, compress: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / ("a.jsonl" if compress is bytes else "a.jsonl.gz")
    path.write_bytes(compress(encode_group(passed(1)) + encode_group(passed(2))[:-2]))
    (tmp_path / "b.jsonl").write_bytes(encode_group(passed(3)))
    assert indices(stream_groups(tmp_path)) == [1, 3]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(path) in caplog.text


MALFORMED = [
    b"{",
    b"\xff\xfe",
    b"[]",
    b"[" * 100_000,
    b"1" * 10_000,
    b'{"item_id": "a", "rollouts": [{"conversation": [], "score": "1"}]}',
    b'{"item_id": "a", "rollouts": [{"conversation": [], "score": true}]}',
    b'{"item_id": "a", "rollouts": [{"conversation": [], "score": NaN}]}',
    b'{"item_id": "a", "rollouts": [{"conversation": [], "score": 1e999}]}',
    b'{"item_id": "a", "rollouts": [{"conversation": [], "score": 1' + b"0" * 400 + b"}]}",
    b'{"item_id": "a", "rollouts": [{"conversation": [{"role": "user"}], "score": 1}]}',
    b'{"item_id": "a", "rollouts": [{"conversation": ["hi"], "score": 1}]}',
    b'{"item_id": "a", "rollouts": [], "seed": "7"}',
    encode_group(passed())[:-20],
    b"\0" * 50 + encode_group(passed())[50:-1],
]


@pytest.mark.parametrize("line", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_dump_line_raises_in_strict_mode_and_is_skipped_otherwise(
    tmp_path: Path, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(encode_group(passed(1)) + line + b"\n" + encode_group(passed(2)))
    groups = stream_groups(path)
    assert next(groups).index == 1
    with pytest.raises(DumpFormatError, match=r"a\.jsonl.*\b2\b") as caught:
        next(groups)
    assert (caught.value.path, caught.value.line) == (path, 2)
    assert indices(stream_groups(tmp_path, strict=False)) == [1, 2]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"{path}: skipped 1 line; line 2: " in caplog.text


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:200] + b"x" * 50 + data[250:]])
def test_damaged_gzip_file_stops_the_reader_only_in_strict_mode(
    tmp_path: Path, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    whole = b"".join(encode_group(make_group(index=index, text=str(index**99))) for index in range(50))
    (tmp_path / "a.jsonl.gz").write_bytes(damage(gzip.compress(whole)))
    (tmp_path / "b.jsonl").write_bytes(encode_group(passed(99)))
    with pytest.raises(DumpFormatError, match=r"a\.jsonl\.gz"):
        list(stream_groups(tmp_path))
    assert indices(stream_groups(tmp_path, strict=False))[-1] == 99
    assert [record.args[0].path.name for record in caplog.records] == ["a.jsonl.gz"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_dump_line_over_the_length_limit_is_skipped(
    tmp_path: Path, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", 10_000)
    path = tmp_path / ("a.jsonl" if compress is bytes else "a.jsonl.gz")
    line = encode_group(passed(1))
    path.write_bytes(compress(line + b"x" * 25_000 + b"\n" + line))
    damage: list[DumpFormatError] = []
    assert indices(stream_groups(path, strict=False, on_damage=damage.append)) == [1, 1]
    assert [error.problem.partition(" more than")[0] for error in damage] == ["skipped 1 line; line 2: the line has"]


def test_fifo_in_a_dumps_folder_raises_in_strict_mode_and_is_skipped_otherwise(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(encode_group(passed(2)))
    with pytest.raises(DumpFormatError, match=r"a\.jsonl: cannot be read \(the path is a FIFO"):
        list(stream_groups(tmp_path))
    assert indices(stream_groups(tmp_path, strict=False)) == [2]


def test_fifo_as_dump_path_raises(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(OSError, match="the path is a FIFO, not a regular file"):
        stream_groups(tmp_path / "a.jsonl")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_dump_reader_does_not_load_the_whole_file_into_memory(tmp_path: Path, suffix: str) -> None:
    line = encode_group(make_group(text="x" * 5_000))
    lines = line * 300
    (tmp_path / f"a{suffix}").write_bytes(gzip.compress(lines) if suffix.endswith("gz") else lines)
    tracemalloc.start()
    assert sum(1 for _ in stream_groups(tmp_path)) == 300
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < len(lines) / 5

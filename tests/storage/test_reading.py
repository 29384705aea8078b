"""Read lines of JSON that may be malformed or incomplete."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning_env.storage.reading import Malformed, read_values


@pytest.mark.parametrize(
    ("line", "torn"),
    [
        (b'{"item_id"', True),
        (b"{}", False),  # some editors write no last newline
        (b"{}\n", False),
        (b"no group of ours\n", False),
        (b"\0" * 5_000, True),
        (b"\0" * 50 + b'"score": 1}\n', True),
        (b'{"a": ' + b"[" * 100_000, True),
    ],
)
def test_only_a_partly_written_line_counts_as_incomplete(tmp_path: Path, line: bytes, torn: bool) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line)
    [(_, value)] = read_values(path)
    assert (isinstance(value, Malformed) and value.torn) is torn

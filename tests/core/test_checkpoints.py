from __future__ import annotations

import errno
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.checkpoints import (
    CHECKPOINT_VERSION,
    LATEST,
    PART,
    CheckpointError,
    LoadedCheckpoint,
    encode_checkpoint,
    find_checkpoint,
    read_checkpoint,
    saved_steps,
    step_file,
    write_checkpoint,
)

STATE = {"seed": 7, "tasks": ["gcd", "lcm"], "mean": 0.1}


def write(folder: Path, step: int, name: str | None = None, state: dict[str, Any] | None = None) -> Path:
    name = name or step_file(step)
    write_checkpoint(folder, name, encode_checkpoint(step, STATE if state is None else state))
    return folder / name


def write_crafted(folder: Path, **record: Any) -> Path:
    """A file whose digest is right, whatever it holds."""
    body = json.dumps(record)[:-1]
    path = folder / LATEST
    path.write_text(f'{body}, "digest": "{hashlib.sha256(body.encode()).hexdigest()}"}}')
    return path


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.integers(0, 10**9))
def test_checkpoint_reads_back_unchanged(state: dict[str, Any], step: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), step, state=state)
        # Through JSON, which cannot tell two surrogates from the character that they stand for.
        assert read_checkpoint(path) == LoadedCheckpoint(path, step, json.loads(json.dumps(state)))


def test_state_that_contains_the_digest_s_key_reads_back_unchanged(tmp_path: Path) -> None:
    state = {"text": '", "digest": "0"}', "digest": "1"}
    assert read_checkpoint(write(tmp_path, 1, state=state)).state == state


def test_file_is_one_json_object_that_names_its_version(tmp_path: Path) -> None:
    record = json.loads(write(tmp_path, 5).read_text())
    assert set(record) == {"version", "step", "state", "digest"}
    assert (record["version"], record["step"], record["state"]) == (CHECKPOINT_VERSION, 5, STATE)


@pytest.mark.parametrize("state", [{"a": {1, 2}}, {"a": b"bytes"}])
def test_state_that_json_cannot_hold_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        list(encode_checkpoint(1, state))


def test_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_checkpoint(path)


def test_no_bit_that_flips_changes_what_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    whole = path.read_bytes()
    sound = read_checkpoint(path)
    refused = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert read_checkpoint(path) == sound
        except CheckpointError:
            refused += 1
    # Only the newline at the end may become another blank.
    assert refused >= 8 * (len(whole) - 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is damaged: it is empty"),
        (b"\0" * 100, "is damaged: it is no JSON"),
        (b"\xff\xfe\xfd", "is damaged: it is no JSON"),
        (b"[" * 100_000, "is damaged: it is no JSON"),
        (b"[1, 2]", "is damaged: it holds no JSON object"),
        (b'{"step": 5, "state": {}}', "is damaged: it names no version"),
        (b'{"version": true, "step": 5, "state": {}}', "is damaged: it names no version"),
        (b'{"version": 1, "stream": null}', "is of version 1, and only version 2 can be read here"),
        (b'{"version": 33, "what": "ever"}', "is of version 33, and only version 2 can be read here"),
        (b'{"version": 2, "step": 5, "state": {}}', "is damaged: its digest does not fit its content"),
        (b'{"version": 2, "step": 5, "state": {}, "digest": "00"}', "is damaged: its digest does not fit its content"),
    ],
)
def test_file_that_is_no_checkpoint_is_refused_with_the_reason(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / LATEST
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(path)
    assert str(caught.value) == f"{path} {said}"


@pytest.mark.parametrize(
    "record",
    [
        {"step": 5},
        {"state": {}},
        {"step": True, "state": {}},
        {"step": -1, "state": {}},
        {"step": 5.0, "state": {}},
        {"step": 5, "state": []},
        {"step": 5, "state": None},
    ],
)
def test_wrong_types_are_refused_under_a_right_digest(tmp_path: Path, record: dict[str, Any]) -> None:
    path = write_crafted(tmp_path, version=CHECKPOINT_VERSION, **record)
    with pytest.raises(CheckpointError, match="it holds no step and state"):
        read_checkpoint(path)


def test_file_of_another_step_than_its_name_says_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 5).rename(tmp_path / step_file(6))
    with pytest.raises(CheckpointError, match="holds the checkpoint of step 5"):
        read_checkpoint(path)


def test_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / LATEST).mkdir()
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checkpoint(tmp_path / LATEST)


def test_missing_file_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / LATEST)


# ---------------------------------------------------------------------------- writing


def test_full_disk_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    (tmp_path / PART).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path, 5, state={"other": True})
    assert caught.value.errno == errno.ENOSPC
    assert read_checkpoint(path).state == STATE
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_behind_is_written_over(tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(b"x" * 10_000)
    path = write(tmp_path, 5)
    assert read_checkpoint(path).state == STATE
    assert list(tmp_path.iterdir()) == [path]


# ---------------------------------------------------------------------------- finding


@pytest.mark.parametrize(
    ("steps", "latest", "asked", "found"),
    [
        ([], None, 5, None),
        ([5], None, 5, "step-5.json"),
        ([5, 10, 20], None, 15, "step-10.json"),
        ([9, 10], None, 10, "step-10.json"),
        ([10], None, 5, None),
        ([0], None, 0, "step-0.json"),
        ([], 3, 5, LATEST),
        ([], 6, 5, None),
        ([5], 5, 5, LATEST),
        ([5], 6, 5, "step-5.json"),
        ([5], 6, 6, LATEST),
        ([5], 4, 5, "step-5.json"),
        ([5, 10], 7, 9, LATEST),
        ([5, 10], 7, 10, "step-10.json"),
    ],
)
def test_the_newest_checkpoint_not_after_the_step_is_found(
    tmp_path: Path, steps: list[int], latest: int | None, asked: int, found: str | None
) -> None:
    for step in steps:
        write(tmp_path, step)
    if latest is not None:
        write(tmp_path, latest, LATEST)
    search = find_checkpoint(tmp_path, asked, prefer_latest=True)
    assert (search.checkpoint and search.checkpoint.path.name) == found
    assert search.damaged == ()


@pytest.mark.parametrize(
    ("steps", "latest", "found"),
    [([5], 5, "step-5.json"), ([4], 5, LATEST), ([4, 3], 4, LATEST), ([5, 6], 6, "step-5.json"), ([], 4, LATEST)],
)
def test_the_trainers_step_comes_before_the_latest_state_of_it(
    tmp_path: Path, steps: list[int], latest: int, found: str
) -> None:
    for step in steps:
        write(tmp_path, step)
    write(tmp_path, latest, LATEST)
    search = find_checkpoint(tmp_path, 5, prefer_latest=False)
    assert search.checkpoint is not None and search.checkpoint.path.name == found


def test_damaged_checkpoint_of_the_trainers_step_is_named_once(tmp_path: Path) -> None:
    write(tmp_path, 4)
    (tmp_path / step_file(5)).write_bytes(b"{")
    search = find_checkpoint(tmp_path, 5, prefer_latest=False)
    assert search.checkpoint is not None and search.checkpoint.step == 4
    assert len(search.damaged) == 1


def test_damaged_checkpoints_are_passed_over_and_named(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write(tmp_path, step)
    for name in (LATEST, step_file(3), step_file(2)):
        (tmp_path / name).write_bytes(b"{")
    search = find_checkpoint(tmp_path, 3, prefer_latest=True)
    assert search.checkpoint is not None and search.checkpoint.step == 1
    assert [str(error).split(" is ")[0] for error in search.damaged] == [
        str(tmp_path / name) for name in (LATEST, step_file(3), step_file(2))
    ]


def test_damaged_checkpoint_after_the_step_is_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path, 5)
    (tmp_path / step_file(6)).write_bytes(b"{")
    assert find_checkpoint(tmp_path, 5, prefer_latest=True).damaged == ()


def test_folder_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert find_checkpoint(tmp_path / "none", 5, prefer_latest=True).checkpoint is None


def test_only_files_named_for_a_step_count_as_steps(tmp_path: Path) -> None:
    names = ["step-3.json", "step-10.json", "step-04.json", "step-5.json.part", "step--1.json", "xstep-6.json", LATEST]
    for name in names:
        (tmp_path / name).touch()
    assert saved_steps(tmp_path) == [10, 3]

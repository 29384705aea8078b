"""Malformed checkpoint files are skipped with a log line, and a valid file is used."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.problems.estimator import SignalEstimator
from reasoning_env.problems.state import read_state
from reasoning_env.storage.checkpoints import LATEST, VERSION, CheckpointStore, find_checkpoint, write_checkpoint
from tests.broken_files import NO_FILES, broken_documents, no_hang

REFERENCE = "gcd:train:7:0.25:0.1.25:5f1c0d9e8a7b6c5d:{}"
STATE: dict[str, Any] = {
    "instance": 0,
    "stream": {
        "next_index": 9,
        "positions": [[3, 0, REFERENCE]],
        "failures_in_a_row": {"gcd": 1},
        "quarantined": ["lcm"],
        "ceilings": {"gcd": 0.5},
    },
    "sampler": {"gcd": [[0.25, 1.0, 0.5, 1.0, 1]]},
    "made_with": {"seed": 1},
    "registration": 0,
    "data": {},
}
RECORD = {"version": VERSION, "step": 5, "state": STATE}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a valid checkpoint of step 1."""
    folder = tmp_path / "0"  # the number of the instance
    folder.mkdir()
    write_checkpoint(folder / "step-1.json", 1, STATE)
    return folder


def test_malformed_checkpoints_are_skipped(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in (LATEST, "step-5.json"):
        for content in broken_documents(RECORD):
            caplog.clear()
            (folder / name).write_bytes(content)
            found = find_checkpoint(folder, 5, 0, read_state)
            assert found is not None, content[:500]
            if found.step == 1:
                assert name in caplog.text, content[:500]
                assert len(caplog.messages) == 1
            else:
                sampler = dict(read_state(found.state)["sampler"])
                SignalEstimator(adjustable=["gcd"], group_size=8, target=0.5, state=sampler).estimate("gcd")
        (folder / name).unlink()


@pytest.mark.parametrize("name", [LATEST, "step-5.json"])
@pytest.mark.parametrize("kind", NO_FILES)
def test_fifo_or_folder_in_place_of_a_checkpoint_is_skipped(
    folder: Path, name: str, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    NO_FILES[kind](folder / name)
    with no_hang():
        found = find_checkpoint(folder, 5, 0, read_state)
    assert found is not None and found.step == 1
    assert len(caplog.messages) == (0 if kind == "link to nothing" else 1)


@pytest.mark.parametrize("kind", NO_FILES)
def test_opening_checkpoints_does_not_hang_if_the_lock_file_is_a_fifo_or_folder(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "env_checkpoints" / "0"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    NO_FILES[kind](folder / "lock")
    store = CheckpointStore({}, accept_changes=False)
    with no_hang():
        store.open(str(tmp_path), "name", 0, step=1, registration=0)
        store.close()


def test_malformed_state_raises_only_config_error() -> None:
    for content in broken_documents(STATE):
        try:
            state = json.loads(content)
        except (ValueError, RecursionError):
            continue
        with suppress(ConfigError):
            read_state(state)

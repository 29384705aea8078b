"""Broken and hostile files from which a run could go on: a sound file beside them is used, and a line tells of them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.folder import RESULTS, open_folder
from reasoning_env.evaluations.run import EvaluatedProblem
from reasoning_env.problems.estimator import SignalEstimator
from reasoning_env.problems.state import read_state
from reasoning_env.storage.checkpoints import LATEST, VERSION, CheckpointStore, find_checkpoint, write_checkpoint
from tests.broken_files import NO_FILES, broken_documents, no_hang
from tests.records import make_group, make_rollout

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
MADE_WITH: dict[str, Any] = {
    "model": "m",
    "server": {},
    "settings": {"a": 1},
    "versions": {},
    "step": None,
    "preset": None,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a sound checkpoint of step 1."""
    folder = tmp_path / "0"  # the number of the instance
    folder.mkdir()
    write_checkpoint(folder / "step-1.json", 1, STATE)
    return folder


def test_broken_checkpoints_are_passed_over(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
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
def test_other_files_are_passed_over(
    folder: Path, name: str, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    NO_FILES[kind](folder / name)
    with no_hang():
        found = find_checkpoint(folder, 5, 0, read_state)
    assert found is not None and found.step == 1
    assert len(caplog.messages) == (0 if kind == "link to nothing" else 1)


@pytest.mark.parametrize("kind", NO_FILES)
def test_lock_is_no_file(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "env_checkpoints" / "0"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    NO_FILES[kind](folder / "lock")
    store = CheckpointStore({}, accept_changes=False)
    with no_hang():
        store.open(str(tmp_path), "name", 0, step=1, registration=0)
        store.close()


def test_broken_state_is_refused() -> None:
    for content in broken_documents(STATE):
        try:
            state = json.loads(content)
        except (ValueError, RecursionError):
            continue
        with suppress(ConfigError):
            read_state(state)


def line(index: int) -> bytes:
    return EvaluatedProblem(make_group([make_rollout(1.0)], "gcd", index=index)).line()


def begin_evaluation(root: Path) -> Path:
    """Leave an unfinished evaluation with one problem, and return its folder."""
    folder = open_folder(root, MADE_WITH, problems=3, remarks=[], resume=True)  # type: ignore[arg-type]
    folder.append("gcd", 0, line(0))
    folder.close()
    return folder.path


def test_evaluation_with_broken_results(tmp_path: Path) -> None:
    path = begin_evaluation(tmp_path)
    results = json.loads((path / RESULTS).read_text())
    for number, content in enumerate(broken_documents(results)):
        (path / RESULTS).write_bytes(content)
        again = open_folder(tmp_path, MADE_WITH, problems=3, remarks=[], resume=True)  # type: ignore[arg-type]
        assert again.path == path or not again.samples, (number, content[:500])
        again.close()


@pytest.mark.parametrize("kind", NO_FILES)
def test_evaluation_without_results(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = begin_evaluation(tmp_path)
    monkeypatch.chdir(path)
    (path / RESULTS).unlink()
    NO_FILES[kind](path / RESULTS)
    with no_hang():
        open_folder(tmp_path, MADE_WITH, problems=3, remarks=[], resume=True).close()  # type: ignore[arg-type]

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.format import DumpedGroup, model_of
from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.folder import RESULTS, SAMPLES, EvaluationFolder, open_folder
from reasoning_env.evaluations.run import EvaluatedProblem
from reasoning_env.storage.files import OutputError
from tests.broken_files import NO_FILES, broken_documents, no_hang
from tests.records import make_group, make_rollout

MADE_WITH: dict[str, Any] = {
    "model": "org/model:1",
    "server": {},
    "settings": {"tasks": ("gcd",)},
    "versions": {},
    **dict.fromkeys(("step", "preset")),
}
UNFINISHED: dict[str, Any] = {"seconds": 7.0, "overall": None, "categories": {}, "tasks": {}}
Begin = Callable[..., EvaluationFolder]


def line(index: int) -> bytes:
    return EvaluatedProblem(make_group([make_rollout(1.0)], "gcd", index=index)).line()


def append(folder: EvaluationFolder, index: int) -> DumpedGroup:
    return folder.append("gcd", index, line(index))


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begins an evaluation in a folder, and releases all begun evaluations at the end."""
    with ExitStack() as stack:

        def begin(root: Path, *, resume: bool = True, **made_with: Any) -> EvaluationFolder:
            folder = open_folder(root, {**MADE_WITH, **made_with}, problems=3, remarks=[], resume=resume)
            stack.callback(folder.close)
            return folder

        yield begin


def results(folder: EvaluationFolder) -> dict[str, Any]:
    found = json.loads((folder.path / RESULTS).read_text())
    assert isinstance(found, dict)
    return found


def test_evaluation_folder_is_named_for_the_model(begin: Begin, tmp_path: Path) -> None:
    folder = begin(tmp_path / "new" / "evals")
    assert folder.path.parent == tmp_path / "new" / "evals"
    assert folder.path.name.startswith("org_model_1-")
    assert results(folder).items() >= {"finished": False, "model": "org/model:1", "overall": None}.items()
    assert model_of(folder.path / SAMPLES) == "org/model:1"


def test_unfinished_evaluation_folder_is_resumed(begin: Begin, tmp_path: Path) -> None:
    folder = begin(tmp_path)
    sample = append(folder, 0)
    assert (sample.item_id, sample.index, sample.rollouts[0].score) == ("gcd", 0, 1.0)
    folder.write_results(UNFINISHED, finished=False)
    folder.close()
    again = begin(tmp_path)
    assert (again.path, again.spent_s, list(again.samples)) == (folder.path, 7.0, [("gcd", 0)])


@pytest.mark.parametrize("finished", [False, True])
def test_evaluation_folder_without_results_file_is_resumed(begin: Begin, tmp_path: Path, finished: bool) -> None:
    folder = begin(tmp_path)
    append(folder, 0)
    folder.write_results(UNFINISHED, finished=finished)
    folder.close()
    (folder.path / RESULTS).unlink()
    again = begin(tmp_path)
    assert (again.path, list(again.samples)) == (folder.path, [("gcd", 0)])
    again.write_results({}, finished=True)
    assert results(again)["finished"]


def test_evaluation_folder_with_other_settings_is_not_resumed(begin: Begin, tmp_path: Path) -> None:
    path = leave_unfinished(begin, tmp_path)
    (path / RESULTS).unlink()
    assert begin(tmp_path, settings={}).path != path


def test_malformed_results_file_does_not_prevent_an_evaluation(begin: Begin, tmp_path: Path) -> None:
    path = leave_unfinished(begin, tmp_path)
    document = json.loads((path / RESULTS).read_text())
    for number, content in enumerate(broken_documents(document)):
        (path / RESULTS).write_bytes(content)
        again = begin(tmp_path)
        assert again.path == path or not again.samples, (number, content[:500])
        again.close()


@pytest.mark.parametrize("kind", NO_FILES)
def test_fifo_or_folder_in_place_of_the_results_file_does_not_block_the_evaluation(
    begin: Begin, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = leave_unfinished(begin, tmp_path)
    monkeypatch.chdir(path)
    (path / RESULTS).unlink()
    NO_FILES[kind](path / RESULTS)
    with no_hang():
        begin(tmp_path)


def leave_unfinished(begin: Begin, root: Path) -> Path:
    """Write an unfinished evaluation with one problem, and return its folder."""
    folder = begin(root)
    append(folder, 0)
    folder.close()
    return folder.path


def test_resumed_evaluation_keeps_its_start_time(begin: Begin, tmp_path: Path) -> None:
    folder = begin(tmp_path)
    append(folder, 0)
    started = "2001-02-03T04:05:06+0000"
    folder.write_results({**UNFINISHED, "started": started}, finished=False)
    folder.close()
    again = begin(tmp_path)
    again.write_results({}, finished=True)
    assert results(again)["started"] == started


@pytest.mark.parametrize("why", ["finished", "other settings", "not wanted", "in use"])
def test_evaluation_folders_that_cannot_be_resumed_stay_unchanged(begin: Begin, tmp_path: Path, why: str) -> None:
    folder = begin(tmp_path)
    append(folder, 0)
    if why == "finished":
        folder.write_results({}, finished=True)
    if why != "in use":
        folder.close()
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    other = begin(tmp_path, resume=why != "not wanted", **({"settings": {}} if why == "other settings" else {}))
    assert other.path != folder.path
    assert other.samples == {}
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_log_contains_settings_that_prevent_resuming_an_evaluation(
    begin: Begin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For example, a new release may change the default system prompt."""
    caplog.set_level("INFO")
    folder = begin(tmp_path, settings={"system_prompt": "Be brief.", "eval_seed": 1})
    append(folder, 0)
    folder.close()
    begin(tmp_path, settings={"system_prompt": "Think first.", "eval_seed": 1})
    expected = (
        f"{folder.path} is an unfinished evaluation with different settings (system_prompt); "
        "this evaluation starts in a new folder"
    )
    assert expected in caplog.messages


def test_error_about_an_unwritable_evaluation_folder_names_the_setting(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="data_dir_to_save_evals"):
        begin(tmp_path / "file" / "evals")


def test_error_about_a_full_disk_says_how_many_problems_are_saved(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin(tmp_path)
    append(folder, 1)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = r"results\.json cannot be written \(No space left on device\); .* has the samples of 1 of 3 problems;"
    with pytest.raises(OutputError, match=said):
        folder.write_results(UNFINISHED, finished=False)

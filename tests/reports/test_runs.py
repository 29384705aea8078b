"""Find runs in the files and folders that the user names."""

from __future__ import annotations

from pathlib import Path

from reasoning_env.dumps.format import FAILED, PASSED
from reasoning_env.storage.files import header_path
from tests.reports.lines import RESULTS, group, report, rollout, write, write_evaluation


def test_each_folder_of_dumps_and_each_evaluation_counts_as_a_run(tmp_path: Path) -> None:
    dumps = [write(kind.path(tmp_path / "d", "u", 0), group(rollout())) for kind in (PASSED, FAILED)]
    for name in ("a", "b"):
        write_evaluation(tmp_path / "evals" / name, group(rollout()))
    runs = report(*dumps, tmp_path / "evals")["runs"]
    assert [(run["name"], run["groups"], run["evaluation"]) for run in runs] == [
        ("d", 2, False),
        ("a", 1, True),
        ("b", 1, True),
    ]


def test_each_file_of_rollout_groups_counts_as_a_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        header_path(write(tmp_path / f"{name}.jsonl", group(rollout()))).write_text("{}")
    (tmp_path / "a-best.jsonl").write_text('{"messages": []}\n')
    data = report(tmp_path, tmp_path / "a.jsonl", tmp_path)
    assert [(run["name"], run["groups"]) for run in data["runs"]] == [("a.jsonl", 1), ("b.jsonl", 1)]
    assert not data["notes"]


def evaluation_at(root: Path, name: str, step: int | None, started: int, **results: object) -> Path:
    facts = {**RESULTS, "step": step, "started": f"2026-01-01T00:{started:02d}:00+0000", **results}
    return write_evaluation(root / name, group(rollout()), results=facts)


def series_of(*folders: Path) -> list[tuple[str, list[int]]]:
    return [(each["name"], each["steps"]) for each in report(*folders)["series"]]


def test_evaluations_of_one_model_at_several_steps_form_a_training_series(tmp_path: Path) -> None:
    folders = [evaluation_at(tmp_path, name, step, step) for name, step in (("c", 10), ("a", 30), ("b", 20))]
    data = report(*folders, evaluation_at(tmp_path, "d", None, 40), evaluation_at(tmp_path, "e", 40, 50, model="other"))
    assert data["series"] == [{"name": "m", "runs": [0, 2, 1], "steps": [10, 20, 30]}]
    assert [run["name"] for run in data["runs"]] == ["m, step 10", "m, step 30", "m, step 20", "d", "e"]
    # Compared: neighbours, the first run with the last, and the last (here run 1) with all other runs.
    assert [(pair["a"], pair["b"]) for pair in data["comparisons"]] == [
        (0, 1),
        (0, 2),
        (1, 2),
        (1, 3),
        (1, 4),
        (3, 4),
    ]


def test_new_series_starts_if_an_evaluation_has_a_lower_step_than_the_one_before(tmp_path: Path) -> None:
    steps = enumerate([10, 20, 10, 20, 30])
    folders = [evaluation_at(tmp_path, f"{number}", step, number) for number, step in steps]
    assert series_of(*folders) == [("m (1)", [10, 20]), ("m (2)", [10, 20, 30])]


def test_training_series_are_named_after_their_folders(tmp_path: Path) -> None:
    for run in ("x", "y"):
        for step in (10, 20):
            evaluation_at(tmp_path / run / "evals", f"{step}", step, step)
    assert series_of(tmp_path / "x" / "evals", tmp_path / "y" / "evals") == [
        ("x/evals", [10, 20]),
        ("y/evals", [10, 20]),
    ]


def test_later_evaluation_at_the_same_step_replaces_the_earlier_one(tmp_path: Path) -> None:
    steps = enumerate([10, 20, 30, 20, 40])
    folders = [evaluation_at(tmp_path, f"{number}", step, number) for number, step in steps]
    data = report(*folders)
    assert data["series"][0]["runs"] == [0, 3, 2, 4]
    assert [run["name"] for run in data["runs"]][1] == "1"


def test_report_counts_a_copied_dump_once(tmp_path: Path) -> None:
    lines = [group(rollout(), index=number, time=1.5) for number in range(3)]
    dump, copy = (write(tmp_path / folder / "a.jsonl", *lines) for folder in ("run", "copy"))
    write(dump, *lines, lines[0])
    data = report(dump, dump.parent, copy)
    assert [(run["name"], run["groups"]) for run in data["runs"]] == [("run/a.jsonl", 3)]
    reason = "that an earlier line or file already has"
    assert data["notes"] == [
        f"{dump}: skipped 1 group {reason}",
        f"{copy}: skipped 3 groups {reason}",
    ]


def test_report_names_the_folders_of_runs_that_have_equal_names(tmp_path: Path) -> None:
    paths = [write(tmp_path / folder / "dumps" / "a.jsonl", group(rollout())) for folder in ("x", "y")]
    assert [run["name"] for run in report(*(path.parent for path in paths))["runs"]] == ["x/dumps", "y/dumps"]

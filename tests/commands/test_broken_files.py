"""Malformed files never cause a traceback or a hang in the commands that read files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from reasoning_env.commands.main import main
from tests.broken_files import EVIL, NO_FILES, broken_documents, no_hang
from tests.reports.lines import RESULTS, group, report, rollout, row, write, write_evaluation

from .test_rescore import RIGHT, line

GROUP = group(
    rollout(tokens=5, library_score=0.5, seconds=1.0, thinking="hm", answer="1", finish_reason="stop"),
    index=0,
    split="train",
    params={"a": 1},
    metadata={"b": [1]},
    level=0.5,
    failed=0,
    item=0,
    dataset_size=1,
    thinking_formats=["think"],
)
FULL_ROW = row(
    not_made=0,
    tasks=1,
    category="games",
    differs=None,
    mean_score=0.5,
    mean_score_interval=[0.0, 1.0],
    library_score=0.5,
    pass_at={"1": 0.5},
    reasons={"right": 0.5},
    tokens=1.0,
)
EVALUATION = {**RESULTS, "tasks": {"gcd": FULL_ROW}, "comparable": row()}
"""An evaluation of one task, whose row has all keys. One row is enough, because all rows have the same type."""


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    errors: list[str]


Run = Callable[..., Ended]


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command. Check that its output has no control characters, and that an error is one line."""
    monkeypatch.chdir(folder)

    def run(*words: str | Path) -> Ended:
        with no_hang():
            status = main([str(word) for word in words], {}, environment_file=folder / "environment.py")
        printed = capsys.readouterr()
        for text in (*printed.out.split("\n"), *printed.err.split("\n")):
            assert text.isprintable(), f"{words}: {text!r}"
        errors = printed.err.splitlines()
        assert status == 0 or len(errors) == 1, errors
        return Ended(status, printed.out, errors)

    return run


def around(bad: bytes, good: Sequence[dict[str, object]]) -> bytes:
    """Return the lines of two groups with a malformed line between them."""
    first, second = (json.dumps(group).encode() for group in good)
    return b"\n".join([first, bad.replace(b"\n", b" "), second, b""])


def test_report_command_skips_malformed_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    other = {**GROUP, "item_id": "lcm"}
    for bad in broken_documents(GROUP):
        path.write_bytes(around(bad, [other, other]))
        with no_hang():
            data = report(path)
        rows = [row for run in data["runs"] for row in run["by_task"]]
        counts = Counter({data["tasks"][row["task"]][0]: row["groups"] for row in rows})
        assert counts["lcm"] >= 2, bad[:500]
        told = len(data["notes"]) == 1
        assert told or counts.total() == 3 or not bad or b'"rollouts": []' in bad, (bad[:500], data["notes"])
        assert all(note.isprintable() for note in data["notes"])


def test_report_command_skips_a_malformed_results_file(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "a", GROUP)
    for bad in broken_documents(EVALUATION):
        (folder / "results.json").write_bytes(bad)
        with no_hang():
            data = report(folder)
        assert data["runs"][0]["groups"] == 1
        shown = [*data["notes"], *(text for fact in data["runs"][0]["facts"] for text in fact)]
        assert all(text.isprintable() for text in shown), (bad[:500], shown)


def test_error_of_the_compare_command_names_the_malformed_results_file(run: Run, tmp_path: Path) -> None:
    first, second = (write_evaluation(tmp_path / name, GROUP, results=EVALUATION) for name in ("a", "b"))
    for bad in broken_documents(EVALUATION):
        (second / "results.json").write_bytes(bad)
        ended = run("compare", first, second)
        assert ended.status == 0 or (ended.status == 2 and str(second / "results.json") in ended.errors[0]), bad[:500]


@pytest.mark.parametrize("kind", ["FIFO", "link to nothing", "folder", "empty file", "damaged gzip"])
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_report_command_names_unreadable_files(run: Run, tmp_path: Path, kind: str, suffix: str) -> None:
    write(tmp_path / "dumps" / "good.jsonl", GROUP)
    (tmp_path / "dumps" / "more").mkdir()
    bad = tmp_path / "dumps" / f"bad{suffix}"
    NO_FILES[kind](bad)
    ended = run("report", "dumps")
    assert (ended.status, ended.out) == (0, "Wrote report.html with 1 rollout in 1 group. Open it in a browser.\n")
    nothing_is_wrong = kind in ("empty file", "folder")
    assert [str(bad.relative_to(tmp_path)) in told for told in ended.errors] == ([] if nothing_is_wrong else [True])


@pytest.mark.parametrize("kind", ["FIFO", "folder", "binary file"])
@pytest.mark.parametrize("command", ["report {}", "rescore {}", "compare good {}"])
@pytest.mark.parametrize("place", ["folder/samples.jsonl", "folder/results.json", "file.jsonl", "only/file.jsonl"])
def test_commands_raise_on_paths_that_contain_no_readable_groups(
    run: Run, tmp_path: Path, kind: str, command: str, place: str
) -> None:
    write_evaluation(tmp_path / "good", GROUP)
    write_evaluation(tmp_path / "folder", GROUP)
    path = tmp_path / place
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    NO_FILES[kind](path)
    argument = "file.jsonl" if place == "file.jsonl" else place.partition("/")[0]
    ended = run(*command.format(argument).split())
    # Without results.json, the lines of an evaluation still count as a run.
    reads_lines = place == "folder/results.json" and command in ("report {}", "rescore {}")
    assert ended.status == (0 if reads_lines else 2), ended


def test_report_command_escapes_control_characters_in_file_names(run: Run, tmp_path: Path) -> None:
    named = tmp_path / f"dumps{EVIL}" / f"{EVIL}.jsonl"
    write(named, {**GROUP, "item_id": EVIL, "split": EVIL})
    with named.open("a") as file:
        file.write("broken\n")
    data = report(named.parent)
    [(task, _)] = data["tasks"]
    [shown] = data["runs"]
    assert all(text.isprintable() for text in (task, shown["name"], shown["path"], *data["notes"]))
    assert run("report", named.parent).errors[0].count(r"\x1b]0;owned\x07\u202eevil") == 2
    evaluations = [write_evaluation(tmp_path / f"{name}{EVIL}", GROUP, results=EVALUATION) for name in "ab"]
    settings = {EVIL: {EVIL: 2}, "versions": {EVIL: 1}}
    (evaluations[1] / "results.json").write_text(json.dumps({**EVALUATION, "model": EVIL, "settings": settings}))
    for form in ([], ["--json"]):
        assert run("compare", *evaluations, *form).status == 0


def test_rescore_command_skips_malformed_lines(run: Run, tmp_path: Path) -> None:
    sound = line("exact", 5, [RIGHT])
    empty = {**sound, "rollouts": [{**sound["rollouts"][0], "conversation": []}]}
    deep = json.dumps({**sound, "params": None}).replace("null", "[" * 900 + "]" * 900)
    evil = {**sound, "reference": f"{EVIL}:train:5:-:1:{'0' * 16}:{{}}", "item_id": EVIL}
    path = tmp_path / "lines.jsonl"
    path.write_text(
        "\n".join([*map(json.dumps, (sound, empty, evil, sound, {**sound, "seed": 10**400})), deep, "{}", ""])
    )
    ended = run("rescore", path)
    assert ended.status == 0
    assert ended.out.endswith("0 of 2 scores changed\n")
    assert re.findall(r"Skipped (\d) rows?: .*lines.jsonl, row (\d)", ended.out) == [("3", "2"), ("1", "3"), ("1", "7")]

"""The command `audit`, with a library of four tasks."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reasoning_audit import tasks
from reasoning_audit.command import audit_command
from reasoning_audit.findings import Defect, Finding, Severity
from reasoning_audit.watch import BARE
from reasoning_env.errors import ConfigError, WorkerError
from reasoning_env.storage import files
from tests.small_library import write_small_library

from .audits import EMPTY, GOOD, report_of

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command with few problems, in a new working directory."""
    folder = write_small_library(tmp_path)
    working = folder / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return lambda *argv: audit_command(["--items", "3", "--levels", "defaults,1", *argv], folder)


@dataclass(frozen=True)
class Ended:
    """A finished audit of all four tasks."""

    status: int
    output: str
    report: Any

    @property
    def table(self) -> dict[tuple[str, ...], list[str]]:
        """Return the rows of the printed table by task and level."""
        rows = [line.split() for line in self.output.split("\n\n")[1].splitlines()]
        return {tuple(row[:2]): row for row in rows}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = write_small_library(tmp_path_factory.mktemp("library"))
    argv = ["--items", "3", "--levels", "defaults,1", "--output", str(folder / "audit.json")]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = audit_command(argv, folder)
    return Ended(status, printed.getvalue(), json.loads((folder / "audit.json").read_text()))


def test_audit_command_exits_with_status_1_if_a_verifier_accepts_wrong_answers(whole: Ended) -> None:
    results = {task: whole.table[task, "defaults"][-1] for task in ("exact", "generous", "open_ended")}
    assert results == {"exact": "passes", "generous": "FAILS", "open_ended": "passes"}
    assert whole.status == 1


def test_audit_table_shows_levels(whole: Ended) -> None:
    assert whole.table["exact", "1"][2:7] == ["3", "1.0", "-", "1.00", "0.00"]
    assert ("generous", "1") not in whole.table


def test_audit_table_shows_a_task_that_cannot_generate_problems(whole: Ended) -> None:
    assert whole.table["broken", "1"][2] == "0"
    assert "ValueError: no such puzzle" in whole.output


def test_audit_report_names_failed_tasks(whole: Ended) -> None:
    assert whole.report["failed"] == ["generous"]
    assert {one["task"] for one in whole.report["audits"]} == {"broken", "exact", "generous", "open_ended"}


def test_audit_findings_are_printed_and_saved(whole: Ended) -> None:
    found = {finding["defect"]: finding for finding in whole.report["findings"] if finding["task"] == "generous"}
    assert found.keys() >= {"garbage_paid", "constant_paid", "copy_paid"}
    garbage = found["garbage_paid"]
    assert (garbage["severity"], garbage["score"]) == ("high", 1.0)
    assert f"garbage_paid in generous: {garbage['detail']}" in whole.output
    assert garbage["command"] in whole.output


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the audit by a report of a passed task and one finding of low severity, for tests of the output."""
    low = Finding(Defect.NO_PROBLEM, Severity.LOW, "jugs", None, "no problem can be made")
    report = report_of(GOOD, EMPTY, findings=[low])
    monkeypatch.setattr(tasks, "audit_tasks", lambda options, folder: report)


def test_audit_with_json_option_prints_and_saves_the_report(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--tasks", "exact, broken", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads(Path("audit.json").read_text())
    assert {one["task"] for one in report["audits"]} == {"exact", "broken"}


def test_audit_raises_if_no_problem_can_be_generated(run: Run) -> None:
    with pytest.raises(WorkerError, match=r"ValueError: no such puzzle"):
        run("--tasks", "broken")


@pytest.mark.usefixtures("audited")
def test_audit_creates_the_folder_of_its_output_file(run: Run) -> None:
    run("--output", "new/numbers.json")
    assert Path("new/numbers.json").is_file()


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Replaces `Session` by a mock that raises, for tests that must not start processes."""
    unstarted = Mock(side_effect=WorkerError("not started"))
    monkeypatch.setattr(tasks, "Session", unstarted)
    return unstarted


@pytest.mark.parametrize(
    ("argv", "rewards", "wrapper"),
    [((), "strict", None), (("--rewards", "plain"), "plain", BARE), (("--rewards", "library"), "library", BARE)],
)
def test_audit_command_uses_the_rewards_setting(
    run: Run, unstarted: Mock, argv: Sequence[str], rewards: str, wrapper: str | None
) -> None:
    with pytest.raises(WorkerError, match="not started"):
        run(*argv)
    assert unstarted.call_args.args[0].rewards == rewards
    assert unstarted.call_args.kwargs["pool"]._settings.source_wrapper == wrapper


@pytest.mark.parametrize(
    "argv",
    [
        *(["--items", items] for items in ("0", "x", "10001")),
        *(["--levels", levels] for levels in ("2", "low", "0,,1", "-0.1", "nan")),
        ["--seed", "-1"],
        ["chain_sum"],
    ],
)
def test_invalid_audit_option_is_named_in_the_error(run: Run, argv: list[str]) -> None:
    with pytest.raises(ConfigError, match=argv[0]):
        run(*argv)


@pytest.mark.usefixtures("unstarted")
def test_unwritable_output_raises_before_the_audit_starts(run: Run) -> None:
    Path("taken").write_text("")
    with pytest.raises(ConfigError, match="--output"):
        run("--output", "taken/audit.json")


@pytest.mark.usefixtures("audited")
@pytest.mark.parametrize(("limit", "status"), [("never", 0), ("medium", 0), ("low", 1)])
def test_fail_on_option_sets_the_severity_that_fails_an_audit(run: Run, limit: str, status: int) -> None:
    assert run("--fail-on", limit) == status


@pytest.mark.parametrize("name", ["mine.jsonl", "my_rewards.py", "folder"])
def test_audit_overwrites_only_output_files_that_an_audit_wrote(run: Run, name: str) -> None:
    Path("folder").mkdir()
    Path("mine.jsonl").write_text('{"question": 1}\n')
    Path("my_rewards.py").write_text("def score(completion): ...\n")
    with pytest.raises(ConfigError, match=rf"^--output: {name} exists, and is not the result of an audit"):
        run("--tasks", "exact", "--output", name)
    assert Path("mine.jsonl").read_text() == '{"question": 1}\n'


@pytest.mark.usefixtures("audited")
def test_audit_prints_its_table_even_if_the_disk_is_full(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "replace_file", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(ConfigError, match=r"^--output: audit\.json cannot be written: No space left on device"):
        run()
    assert "audit passed" in capsys.readouterr().out


@pytest.mark.usefixtures("audited")
def test_audit_result_file_with_an_older_version_number_is_overwritten(run: Run) -> None:
    Path("audit.json").write_text('{"version": 0, "audits": []}')
    assert run() == 0

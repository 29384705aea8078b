from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from reasoning_env.commands import audit as audit_module
from reasoning_env.commands.audit import audit_command
from reasoning_env.errors import ConfigError, WorkerError
from reasoning_env.records import Reason, Verdict
from reasoning_env.reports.audit import Result, make_report, outcome_line, result_of
from reasoning_env.reports.html.heat_map import heat_map_page
from reasoning_env.reports.verifier_probes import Probe, ProbeTally, TaskAudit
from tests.records import make_library
from tests.small_library import write_small_library

LIBRARY = make_library({"gcd": "arithmetic"}, version="1.2", path="/library")


def _tally(*scores: float) -> ProbeTally:
    tally = ProbeTally()
    for number, score in enumerate(scores):
        tally.add(Verdict(score, Reason.SCORED, "x" * 500, 0.0123), seed=100 + number)
    return tally


def _audit(task: str, zero: float = 0.0, level: float | None = None) -> TaskAudit:
    return TaskAudit(task, level, 4, {Probe.ORACLE: _tally(*[1.0] * 4), "0": _tally(*[zero] * 4)})


GOOD, BAD = _audit("gcd"), _audit("maze", 0.75, level=0.5)
EMPTY = TaskAudit("jugs", None, 0, {}, failures=("jugs, seed 1: took over 20 s", "jugs, seed 2: took over 20 s"))
RESULTS = {"gcd": Result.PASSES, "maze at 0.5": Result.FAILS, "jugs": Result.NOT_PROBED}


@pytest.mark.parametrize(
    ("audit", "result"),
    [
        *[(GOOD, Result.PASSES), (BAD, Result.FAILS), (EMPTY, Result.NOT_PROBED)],
        (_audit("tsumego", 0.75), Result.GIVES_AWAY),
        (TaskAudit("tsumego", None, 4, {Probe.ORACLE: _tally(*[0.5] * 4)}), Result.FAILS),
    ],
)
def test_result_of_a_task(audit: TaskAudit, result: Result) -> None:
    assert result_of(audit) is result


def test_conclusion_names_failed_tasks_alone_or_counts_what_was_probed() -> None:
    line = outcome_line([GOOD, BAD, EMPTY], RESULTS)
    assert [task for task in ("maze at 0.5", "gcd", "jugs") if task in line] == ["maze at 0.5"]
    assert "1 of 2 tasks" in outcome_line([GOOD, EMPTY], {"gcd": Result.PASSES, "jugs": Result.NOT_PROBED})


def test_report_holds_every_number_of_every_kind() -> None:
    report = json.loads(json.dumps(make_report([GOOD, BAD, EMPTY], RESULTS, LIBRARY), allow_nan=False))
    assert report["library"] == {"version": "1.2", "path": "/library"}
    assert report["failed"] == ["maze at 0.5"]
    assert [one["result"] for one in report["audits"]] == ["passes", "FAILS", "not probed"]
    maze = report["audits"][1]
    assert (maze["task"], maze["level"], maze["items"], maze["flawed"]) == ("maze", 0.5, 4, {})
    assert (len(maze["faults"]), maze["failures"], set(maze["escaped"].values())) == (1, [], {0})
    probed = maze["kinds"]["0"]
    assert maze["slowest_ms"] == probed.pop("slowest_ms") == pytest.approx(12.3)
    assert probed == {
        "role": "shortcut",
        "items": 4,
        "mean": 0.75,
        "reasons": {"scored": 4},
        "best": {"seed": 100, "score": 0.75, "answer": "x" * 200},
    }
    assert report["audits"][2]["failures"] == list(EMPTY.failures)


# ------------------------------------------------------------------ the command, over a library of four tasks

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command, with few items, in a working directory of its own."""
    folder = write_small_library(tmp_path)
    working = folder / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return lambda *argv: audit_command(["--items", "3", "--levels", "defaults,1", *argv], folder)


def test_command_fails_for_a_task_that_pays_for_everything(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 1
    output = capsys.readouterr().out
    rows = [line.split() for line in output.split("\n\n")[1].splitlines()]
    cells = {tuple(row[:2]): row for row in rows}
    assert cells["exact", "1"][2:7] == ["3", "1.0", "-", "1.00", "0.00"]
    results = {task: cells[task, "defaults"][-1] for task in ("exact", "generous", "open_ended")}
    assert results == {"exact": "passes", "generous": "FAILS", "open_ended": "passes"}
    assert ("generous", "1") not in cells
    assert cells["broken", "1"][2] == "0"
    assert "ValueError: no such puzzle" in output
    report = json.loads(Path("audit.json").read_text())
    assert report["failed"] == ["generous"]
    assert {one["task"] for one in report["audits"]} == {"broken", "exact", "generous", "open_ended"}


def test_command_passes_without_the_task_that_fails_and_prints_json_alone(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--tasks", "exact, broken", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads(Path("audit.json").read_text())
    assert {one["task"] for one in report["audits"]} == {"exact", "broken"}


def test_nothing_to_probe_is_an_error_with_the_cause(run: Run) -> None:
    with pytest.raises(WorkerError, match=r"ValueError: no such puzzle"):
        run("--tasks", "broken")


@pytest.mark.parametrize(
    ("output", "file"),
    [("new/numbers.json", "new/numbers.json"), ("old", "old/audit.json"), ("newer/", "newer/audit.json")],
)
def test_output_names_a_file_or_a_folder(run: Run, output: str, file: str) -> None:
    Path("old").mkdir()
    assert run("--tasks", "exact", "--output", output) == 0
    assert [path for path in Path().rglob("*") if path.is_file()] == [Path(file)]


# ------------------------------------------------------------------ options


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Called, to raise, in place of what starts processes."""
    unstarted = Mock(side_effect=WorkerError("not started"))
    monkeypatch.setattr(audit_module, "Session", unstarted)
    return unstarted


@pytest.mark.parametrize(("argv", "strict"), [((), True), (("--plain",), False)])
def test_scores_are_those_of_training_unless_told_otherwise(
    run: Run, unstarted: Mock, argv: Sequence[str], strict: bool
) -> None:
    with pytest.raises(WorkerError, match="not started"):
        run(*argv)
    assert unstarted.call_args.args[0].strict_rewards is strict


@pytest.mark.parametrize(
    "argv",
    [
        *(["--items", items] for items in ("0", "x", "10001")),
        *(["--levels", levels] for levels in ("2", "low", "0,,1", "-0.1", "nan")),
        ["--seed", "-1"],
        ["chain_sum"],
    ],
)
def test_bad_option_is_one_line_that_names_it(run: Run, argv: list[str]) -> None:
    with pytest.raises(ConfigError, match=argv[0]):
        run(*argv)


@pytest.mark.usefixtures("unstarted")
def test_output_that_cannot_be_is_refused_before_any_work(run: Run) -> None:
    Path("taken").write_text("")
    with pytest.raises(ConfigError, match="--output"):
        run("--output", "taken/audit.json")


# ------------------------------------------------------------------ the page


def test_page_marks_tasks_over_their_bound_and_puts_them_first() -> None:
    report = {"scores": "the scores of training", "seed": 42, **make_report([GOOD, BAD, EMPTY], RESULTS, LIBRARY)}
    page = heat_map_page(report)
    assert page.index("<th>maze</th>") < page.index("<th>gcd</th>")
    title = "maze at 0.5: 0, 4 problems; &#x27;0&#x27; earns 0.75, over 0.35"
    assert f'<td class="used10 over" title="{title}">0.75<small>0.35</small></td>' in page
    assert "1 fail: maze at 0.5" in page
    assert '<td class="none why">0, at level 0.5</td>' in page


def test_page_escapes_what_a_library_names() -> None:
    evil = TaskAudit("<b>", None, 0, {}, failures=('"><script>',))
    report = {"scores": "x", "seed": 1, **make_report([evil], {"<b>": Result.NOT_PROBED}, LIBRARY)}
    page = heat_map_page(report)
    assert "<script>" not in page
    assert "<th><b>" not in page


def test_command_writes_the_page(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--tasks", "exact", "--html", "map.html") == 0
    assert "<th>exact</th>" in Path("map.html").read_text()
    assert "map.html; open it in a browser" in capsys.readouterr().out


def test_page_of_a_saved_audit_is_that_of_the_audit_itself(run: Run) -> None:
    run("--tasks", "exact", "--html", "first.html")
    assert run("--from", "audit.json", "--html", "again.html") == 0
    assert Path("again.html").read_text() == Path("first.html").read_text()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"audits": 1}', '{"audits": [{"task": 1, "level": "<b>"}]}'])
def test_page_of_a_file_that_is_no_audit_is_refused(run: Run, text: str) -> None:
    Path("other.json").write_text(text)
    with pytest.raises(ConfigError, match=r"--from: other\.json"):
        run("--from", "other.json", "--html", "page.html")
    assert not Path("page.html").exists()


@pytest.mark.parametrize("argv", [["--from", "audit.json"], ["--from", "no.json", "--html", "page.html"]])
def test_a_saved_audit_needs_a_file_to_read_and_one_to_write(run: Run, argv: list[str]) -> None:
    with pytest.raises(ConfigError, match="--from"):
        run(*argv)

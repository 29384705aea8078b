from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError, WorkerError
from reasoning_env.records import LibraryInfo, Reason, TaskInfo, Verdict
from reasoning_env.reports import audit as audit_module
from reasoning_env.reports.audit import Result, audit_command, conclude, format_table, make_report, verifier
from reasoning_env.reports.probes import MOST_FREQUENT, ORACLE, PERTURBED, ROLES
from reasoning_env.reports.probing import Tally, TaskAudit
from reasoning_env.workers.pool import PoolSettings

LIBRARY = LibraryInfo("1.2", "/library", (TaskInfo("gcd", "arithmetic"),), (), "sandboxed", frozenset())


def _tally(*scores: float, reason: Reason = Reason.SCORED) -> Tally:
    tally = Tally()
    for number, score in enumerate(scores):
        tally.add(Verdict(score, reason, "x" * 500, 0.0123), seed=100 + number)
    return tally


def _audit(task: str = "gcd", zero: float = 0.0, *, items: int = 4, **kinds: Tally) -> TaskAudit:
    tallies = {ORACLE: _tally(*[1.0] * items), "0": _tally(*[zero] * items), **kinds}
    return TaskAudit(task, items, tallies)


GOOD, BAD = _audit("gcd"), _audit("maze", 0.75)
EMPTY = TaskAudit("jugs", 0, {}, ("jugs, seed 1: took over 20 s", "jugs, seed 2: took over 20 s"))


# ------------------------------------------------------------------ results


@pytest.mark.parametrize(
    ("audit", "listed", "result"),
    [
        (GOOD, (), Result.PASSES),
        (BAD, (), Result.FAILS),
        (BAD, ("gcd",), Result.FAILS),
        (BAD, ("maze",), Result.LISTED),
        (GOOD, ("gcd",), Result.LISTED_PASSES),
        (EMPTY, (), Result.NOT_PROBED),
        (EMPTY, ("jugs",), Result.NOT_PROBED),
    ],
)
def test_result_of_a_task(audit: TaskAudit, listed: Sequence[str], result: Result) -> None:
    assert verifier(audit, listed) is result


def test_conclusion_names_the_failed_tasks_with_kinds_and_numbers() -> None:
    two_kinds = TaskAudit("sudoku", 3, {"nan": _tally(1.0, 1.0, 1.0), "inf": _tally(1.0, 1.0, 0.0)})
    assert conclude([GOOD, BAD, EMPTY, two_kinds], ()) == (
        "audit failed: maze pays 0.75 for '0', and well on 4 of 4 items; "
        "sudoku pays 1.00 for 'nan', and well on 3 of 3 items (and for 1 more)"
    )


def test_conclusion_of_success_does_not_count_what_fails_or_was_not_probed() -> None:
    assert conclude([GOOD, BAD, EMPTY], ["maze"]).startswith("audit passed: 1 of 3 tasks ")


# ------------------------------------------------------------------ table


def _cells(table: str, task: str) -> list[str]:
    """The cells of a task's line, which two blanks part."""
    line = next(line for line in table.splitlines() if line.startswith(f"{task} "))
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_table_has_the_numbers_of_each_task() -> None:
    escaped = _tally(0.0, 0.0, reason=Reason.TIMEOUT)
    audit = _audit("maze", 0.75, **{PERTURBED: _tally(0.25, 0.0), "nan": escaped})
    table = format_table([audit, GOOD, EMPTY], ())
    assert _cells(table, "maze") == ["maze", "4", "1.00", "0.12", "0", "0.75", "100%", "12.3", "timeout 2", "FAILS"]
    assert _cells(table, "gcd") == ["gcd", "4", "1.00", "-", "-", "-", "-", "12.3", "-", "passes"]
    assert _cells(table, "jugs") == ["jugs", "0", "-", "-", "-", "-", "-", "0.0", "-", "not probed"]


def test_columns_are_aligned() -> None:
    lines = format_table([GOOD, BAD], ()).splitlines()[:3]
    assert len({line.index(word) for line, word in zip(lines, ("RESULT", "passes", "FAILS"), strict=True)}) == 1
    assert len({line.index(word) + len(word) for line, word in zip(lines, ("ITEMS", "4", "4"), strict=True)}) == 1


def test_failures_are_told_with_the_first_reason() -> None:
    assert "jugs: 2 problems failed, the first: jugs, seed 1: took over 20 s" in format_table([EMPTY], ())


def test_good_guess_is_told_and_does_not_fail() -> None:
    guess = _audit("gcd", **{MOST_FREQUENT: _tally(1.0, 1.0, 1.0, 0.0)})
    even = _audit("lcm", **{MOST_FREQUENT: _tally(1.0, 1.0, 0.0, 0.0)})
    assert verifier(guess, ()) is Result.PASSES
    assert "most items of: gcd (75%)\n" in format_table([guess, even], ()) + "\n"


def test_listed_task_that_passes_is_told() -> None:
    assert "can be taken off the list: gcd\n" in format_table([GOOD, BAD], ["gcd", "maze"]) + "\n"
    assert "taken off" not in format_table([BAD], ["gcd", "maze"])


# ------------------------------------------------------------------ numbers


def test_report_holds_every_number_of_every_kind() -> None:
    report = json.loads(json.dumps(make_report([GOOD, BAD, EMPTY], ["gcd"], LIBRARY), allow_nan=False))
    assert report["library"] == {"version": "1.2", "path": "/library"}
    assert report["failed"] == ["maze"]
    assert {task: entry["result"] for task, entry in report["tasks"].items()} == {
        "gcd": "listed, passes",
        "maze": "FAILS",
        "jugs": "not probed",
    }
    maze = report["tasks"]["maze"]
    assert (maze["items"], maze["offences"], maze["failures"]) == (4, ["0"], [])
    assert maze["slowest_ms"] == pytest.approx(12.3)
    assert maze["kinds"]["0"] == {
        "role": ROLES["0"].value,
        "items": 4,
        "mean": 0.75,
        "share_paid": 1.0,
        "slowest_ms": pytest.approx(12.3),
        "reasons": {"scored": 4},
        "best": {"seed": 100, "score": 0.75, "answer": "x" * 200},
    }
    assert report["tasks"]["jugs"]["failures"] == list(EMPTY.failures)


# ------------------------------------------------------------------ the command, over a library of three tasks

PACKAGE = """
class Dataset:
    def __init__(self, config):
        self.config = config

    def __getitem__(self, index):
        if self.config["name"] == "broken":
            raise ValueError("no such puzzle")
        return {"question": "What?", "answer": str(self.config["seed"]), "metadata": {}}

    def score_answer(self, answer, entry):
        return 1.0 if self.config["name"] == "generous" else float(answer == entry["answer"])


def create_dataset(name, **config):
    return Dataset({"name": name, **config})


__version__ = "9.9"
"""
FACTORY = """
from reasoning_gym import Dataset

DATASETS = {name: (Dataset, dict) for name in ("broken", "composite", "exact", "generous")}
"""

Run = Callable[..., int]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a checkout of a library of a few tasks."""
    package = tmp_path / "reasoning-gym" / "reasoning_gym"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    (package / "factory.py").write_text(FACTORY)
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command, with few items, in a working directory of its own."""
    working = folder / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return lambda *argv: audit_command(["--items", "3", *argv], folder)


def test_command_fails_and_ends_with_the_reason(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("reasoning-gym 9.9 from ")
    tasks = {line.split()[0]: line.split()[-1] for line in lines[3:6]}
    assert tasks == {"broken": "probed", "exact": "passes", "generous": "FAILS"}
    assert "broken: 3 problems failed, the first: broken, seed " in "\n".join(lines)
    assert lines[-1].startswith("audit failed: generous pays 1.00 for '0', and well on 3 of 3 items (and for ")
    report = json.loads(Path("audit.json").read_text())
    assert report["failed"] == ["generous"]
    assert report["tasks"]["exact"]["kinds"][ORACLE]["mean"] == 1.0


def test_command_passes_without_the_task_that_fails(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--tasks", "exact, broken") == 0
    output = capsys.readouterr().out
    assert "generous" not in output
    assert output.splitlines()[-1].startswith("audit passed: 1 of 2 tasks ")


def test_listed_task_does_not_fail_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = {"generous": "pays for everything", "exact": "did once"}
    monkeypatch.setattr(audit_module, "gameable_tasks", lambda *, strict_rewards: listed)
    assert run() == 0
    output = capsys.readouterr().out
    assert "can be taken off the list: exact\n" in output
    assert _cells(output, "generous")[-1] == "listed"


def test_nothing_to_probe_is_an_error_with_the_cause(run: Run) -> None:
    with pytest.raises(WorkerError, match=r"no problem of 1 tasks .* ValueError: no such puzzle"):
        run("--tasks", "broken")


def test_unknown_task_is_refused_with_the_nearest(run: Run) -> None:
    with pytest.raises(ConfigError, match="there is no task 'exat'; did you mean exact"):
        run("--tasks", "exat")


# ------------------------------------------------------------------ options


class Reached(Exception):
    """Raised in place of starting processes."""


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[PoolSettings]:
    """The settings with which the command would have started its workers."""
    seen: list[PoolSettings] = []

    def refuse(settings: PoolSettings) -> Any:
        seen.append(settings)
        raise Reached

    monkeypatch.setattr(audit_module, "WorkerPool", refuse)
    return seen


@pytest.mark.parametrize(("argv", "strict"), [((), True), (("--plain",), False)])
def test_scores_are_those_of_training_unless_told_otherwise(
    run: Run, settings: list[PoolSettings], argv: Sequence[str], strict: bool
) -> None:
    with pytest.raises(Reached):
        run(*argv)
    assert settings[0].strict_rewards is strict


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--items", "0"], "--items"),
        (["--items", "x"], "--items"),
        (["--items", "10001"], "--items"),
        (["--seed", "-1"], "--seed"),
        (["chain_sum"], "chain_sum"),
    ],
)
def test_bad_option_is_a_usage_error(run: Run, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run(*argv)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("output", "file"),
    [("new/numbers.json", "new/numbers.json"), ("old", "old/audit.json"), ("newer/", "newer/audit.json")],
)
def test_output_names_a_file_or_a_folder(run: Run, output: str, file: str) -> None:
    Path("old").mkdir()
    assert run("--tasks", "exact", "--output", output) == 0
    assert json.loads(Path(file).read_text())["tasks"].keys() == {"exact"}
    assert [path for path in Path().rglob("*") if path.is_file()] == [Path(file)]


def test_output_that_cannot_be_is_refused_before_any_work(run: Run, settings: list[PoolSettings]) -> None:
    Path("taken").write_text("")
    with pytest.raises(ConfigError, match="--output: the folder taken cannot be made"):
        run("--output", "taken/audit.json")
    assert settings == []

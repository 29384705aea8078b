"""Audit a score function with `audit --score`, with rows as problems."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reasoning_audit import rows
from reasoning_audit.command import audit_command
from reasoning_audit.rows import FORMS, MAX_ROWS, CompletionForm, RowWorkers, choose_form, row_problems
from reasoning_env.errors import ConfigError, GenerationError
from reasoning_env.records import Problem, Reason, Verdict
from reasoning_env.runtime.terminal import progress_bar
from tests.fake_workers import FakeWorkers
from tests.records import make_spec

BOX = CompletionForm("\\boxed{", "}")


def _problems(*rows: Mapping[str, Any]) -> list[Problem]:
    return row_problems(rows, Path("rows.jsonl"), "mine:score", "answer")


def _nothing() -> None:
    """A progress callback that shows nothing."""


@pytest.mark.parametrize(
    ("row", "question"),
    [
        ({"question": "Why?", "prompt": "no"}, "Why?"),
        ({"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How?"}]}, "How?"),
        ({"prompt": []}, ""),
    ],
)
def test_audit_reads_the_question_from_a_row(row: dict[str, Any], question: str) -> None:
    assert _problems({**row, "answer": 7})[0].question == question


def test_audit_makes_a_problem_from_each_row() -> None:
    problem = _problems({"answer": 1}, {"answer": 2.5})[1]
    assert (problem.task, problem.answer, problem.reference) == ("mine:score", "2.5", "rows.jsonl:2")
    assert problem.entry == b'{"answer": 2.5}'


def test_audit_reads_a_limited_number_of_rows() -> None:
    assert len(_problems(*[{"answer": 1}] * (MAX_ROWS + 5))) == MAX_ROWS


@pytest.mark.asyncio
@pytest.mark.parametrize("form", FORMS)
async def test_answer_format_of_the_rows_is_detected(form: CompletionForm) -> None:
    def verify(problem: Problem, completion: str) -> Verdict:
        return Verdict(float(completion == form.completion(problem.answer or "")), Reason.SCORED, completion)

    assert await choose_form(FakeWorkers(verify=verify), _problems({"answer": "1"}, {"answer": "2"}), _nothing) == form


@pytest.mark.asyncio
async def test_audit_submits_answers_in_the_answer_format_of_the_rows() -> None:
    problems = _problems({"answer": "1"})
    pool = FakeWorkers()
    [verdict] = await RowWorkers(pool, problems, BOX, _nothing).score(problems[0], ["5"])
    assert (pool.asked[0][1], verdict.answer) == (["\\boxed{5}"], "5")


@pytest.mark.asyncio
async def test_requesting_a_problem_after_the_last_row_raises() -> None:
    workers = RowWorkers(FakeWorkers(), _problems({"answer": "1"}), BOX, _nothing)
    assert (await workers.generate(make_spec(index=0), 1.0)).answer == "1"
    with pytest.raises(GenerationError, match="no more rows"):
        await workers.generate(make_spec(index=1), 1.0)


# ------------------------------------------------------------------ the command

FUNCTIONS = """
import os
import re


def boxed(completion, answer, **row):
    found = re.findall(r"\\\\boxed{(.*)}", completion, re.DOTALL)
    return {"score": float(bool(found) and found[-1] == answer), "boxes": len(found)}


def holds(completion, answer, **row):
    return float(answer in completion)


def doubles(completion, answer, **row):
    return 2.0 * (answer in completion)


def reads(completion, answer, **row):
    with open("secret.txt") as file:
        return float(completion == file.read() + os.environ["PREFIX"] + answer)


def wants_level(completion, level, **row):
    return 0.0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with score functions and rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rewards.py").write_text(FUNCTIONS)
    _write([{"question": f"What is 7 times {number}?", "answer": str(7 * number)} for number in range(100, 110)])
    return tmp_path


def _write(rows: Sequence[Any]) -> None:
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _run(function: str, *argv: str) -> int:
    options = ["--score", f"my_rewards.py:{function}", "--rows", "rows.jsonl"]
    return audit_command([*options, *argv], Path())


def _findings() -> dict[str, Any]:
    return {finding["defect"]: finding for finding in json.loads(Path("audit.json").read_text())["findings"]}


@pytest.mark.usefixtures("folder")
def test_score_function_without_defects_passes_the_audit(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("boxed", "--fail-on", "low") == 0
    printed = capsys.readouterr().out
    assert "each answer as '\\\\boxed{ANSWER}'" in printed
    assert "no findings" in printed


@pytest.mark.usefixtures("folder")
def test_audit_of_rows_logs_progress(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "progress_bar", lambda title, total, **_: progress_bar(title, total, interval_s=0.01))
    with caplog.at_level("INFO"):
        _run("boxed")
    assert re.search(r"scored rows: [1-9]", caplog.text)


@pytest.mark.usefixtures("folder")
def test_audit_finds_a_score_function_that_accepts_substrings() -> None:
    assert _run("holds") == 1
    assert "constant_paid" in _findings()


@pytest.mark.parametrize("may_read", [True, False])
def test_score_function_may_read_files_during_an_audit_only_with_permission(
    folder: Path, monkeypatch: pytest.MonkeyPatch, may_read: bool
) -> None:
    (folder / "my_rewards.py").write_text(FUNCTIONS.replace("secret.txt", str(folder / "data" / "secret.txt")))
    (folder / "data").mkdir()
    (folder / "data" / "secret.txt").write_text("")
    monkeypatch.setenv("PREFIX", "")
    argv = ["--env-var", "PREFIX", "--read", "data"] if may_read else []
    assert _run("reads", *argv) == (0 if may_read else 1)
    found = _findings()
    assert set(found) == (set() if may_read else {"gold_not_paid", "verifier_fails"})


def test_printed_command_reproduces_a_finding_about_rows(folder: Path) -> None:
    assert _run("doubles") == 1
    found = _findings()
    assert "verifier_fails" not in found
    finding = found["score_out_of_range"]
    assert finding["reference"] == "rows.jsonl:1"
    again = subprocess.run(["bash", "-c", finding["command"]], capture_output=True, text=True, cwd=folder, check=True)
    assert float(again.stdout) == finding["score"] == 2.0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("rows", "argv", "message"),
    [
        ([], [], "--rows: .* has no rows"),
        ([{"question": "?", "answer": "1"}, {"question": "?"}], [], "--gold: row 2 .* no right answer"),
        ([{"answer": " "}], [], "--gold: row 1 .* has ' ' in the column 'answer'; expected a string or a number"),
        ([{"answer": None}], [], "--gold: row 1 .* has None"),
        ([{"answer": True}], [], "--gold: row 1 .* has True"),
        ([{"answer": float("inf")}], [], "--gold: row 1 .* has inf"),
        ([{"answer": ["1", "2"]}], [], r"--gold: row 1 .* has \['1', '2'\]"),
        ([{"answer": "1"}], ["--gold", "label"], "no right answer in the column 'label'; its columns are answer"),
        ([5], [], "--rows: row 1 .* must be a JSON object"),
        ([{"answer": "1"}], ["--rewards", "plain"], "--score cannot be combined with --rewards"),
        ([{"answer": "1"}], ["--tasks", "gcd", "--levels", "0"], "--score cannot be combined with --tasks, --levels"),
        ([{"answer": "1"}], ["--read", "no/such/file"], "read: there is no such file"),
    ],
)
def test_malformed_rows_raise(rows: list[Any], argv: list[str], message: str) -> None:
    _write(rows)
    with pytest.raises(ConfigError, match=message):
        _run("boxed", *argv)


@pytest.mark.usefixtures("folder")
def test_audit_reports_that_rows_have_no_questions(capsys: pytest.CaptureFixture[str]) -> None:
    _write([{"answer": str(number)} for number in range(8)])
    _run("boxed")
    assert "no row has a question" in capsys.readouterr().err
    assert "contradicts_question" not in _findings()


@pytest.mark.usefixtures("folder")
def test_missing_rows_file_raises() -> None:
    Path("rows.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"--rows: rows\.jsonl cannot be read: No such file"):
        _run("boxed")


@pytest.mark.usefixtures("folder")
def test_error_names_the_row_that_lacks_an_argument_of_the_score_function() -> None:
    with pytest.raises(ConfigError, match=r"--score: .*rows\.jsonl:1: missing a required argument: 'level'"):
        _run("wants_level")


def test_audit_deadline_option_requires_the_score_option() -> None:
    with pytest.raises(ConfigError, match="--deadline-s and --memory-mb need --score"):
        audit_command(["--deadline-s", "1"], Path())


@pytest.mark.parametrize("argv", [["--rows", "rows.jsonl"], ["--score", "a:b"], ["--gold", "answer"]])
def test_options_named_rows_and_score_raise_unless_given_together(argv: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs --rows FILE; --rows and --gold need --score"):
        audit_command(argv, tmp_path)

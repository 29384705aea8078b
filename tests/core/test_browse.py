from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning_env.commands.tasks import NO_ORACLE, tasks_command
from reasoning_env.errors import ConfigError

PACKAGE = """
from types import SimpleNamespace


class Dataset:
    def __init__(self, name, config):
        self.name = name
        self.config = config

    def __getitem__(self, index):
        if self.name == "gcd":
            raise ValueError("no such puzzle")
        answer = None if self.name == "maze" else str(self.config.seed)
        return {"question": f"First line of {self.config.seed}.\\n" + "More of it. " * 30, "answer": answer}


class Puzzle(Dataset):
    pass


Dataset.__module__ = "reasoning_gym.family.module"
Puzzle.__module__ = "reasoning_gym.games.module"


def create_dataset(name, **config):
    return Dataset(name, SimpleNamespace(**config))
"""
FACTORY = """
from types import SimpleNamespace

from reasoning_gym import Dataset, Puzzle

DATASETS = {name: (Puzzle if name == "maze" else Dataset, SimpleNamespace) for name in ("chain_sum", "gcd", "maze")}
CURRICULA = {
    name: lambda: SimpleNamespace(attributes={"terms": SimpleNamespace(field_name="terms", levels=[2, 4, 6])})
    for name in ("chain_sum", "gcd")
}
"""

BAD_NUMBERS = [
    ["--samples", "0"],
    ["--samples", "x"],
    ["--seed", "-1"],
    ["--seed", str(2**31)],
    ["--items", "0"],
    ["--items", "100001"],
]

Show = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a checkout of a library of three tasks, one of which fails."""
    package = tmp_path / "reasoning-gym" / "reasoning_gym"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    (package / "factory.py").write_text(FACTORY)
    return tmp_path


@pytest.fixture
def show(folder: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    """Runs the command and returns what it prints."""

    def show(*argv: str) -> str:
        assert tasks_command(argv, folder) == 0
        return capsys.readouterr().out

    return show


def test_table_has_a_line_for_every_task(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = show().splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [
        ["TASK", "CATEGORY"],
        ["chain_sum", "family"],
        ["gcd", "family"],
        ["maze", "games"],
    ]
    assert "First line of 42. More of it." in lines[1]
    assert lines[1].endswith("…")
    assert max(map(len, lines[:4])) <= 60
    assert "cannot be generated: gcd, seed 42: Val" in lines[2]
    assert lines[-1] == "3 tasks; `tasks NAME` shows whole samples with their answers"


def test_named_task_is_shown_whole_with_its_answers(show: Show) -> None:
    output = show("chain_sum", "--samples", "2", "--seed", "5")
    assert output.count("More of it. " * 30) == 2
    assert [line for line in output.splitlines() if line.startswith("===")] == [
        "=== chain_sum (family), seed 5",
        "=== chain_sum (family), seed 1005",
    ]
    assert "--- answer\n5\n" in output
    assert "--- answer\n1005\n" in output


def test_task_without_an_oracle_says_so(show: Show) -> None:
    assert NO_ORACLE in show("maze", "--samples", "1")


def test_task_that_fails_is_shown_with_its_cause(show: Show) -> None:
    assert "cannot be generated: gcd, seed 42: ValueError: no such puzzle" in show("gcd", "--samples", "1")


@pytest.mark.parametrize(
    ("patterns", "shown"),
    [
        (["games/*"], ["maze"]),
        (["category:family"], ["chain_sum", "gcd"]),
        (["*a*"], ["chain_sum", "maze"]),
        (["category:games", "gcd"], ["gcd", "maze"]),
        (["all"], ["chain_sum", "gcd", "maze"]),
    ],
)
def test_patterns_select_tasks(show: Show, patterns: list[str], shown: list[str]) -> None:
    heads = [line for line in show(*patterns, "--samples", "1").splitlines() if line.startswith("===")]
    assert [head.split()[1] for head in heads] == shown


@pytest.mark.parametrize("option", [[], ["--difficulty"], ["--contamination"]])
def test_a_pattern_that_matches_nothing_is_refused(folder: Path, option: list[str]) -> None:
    with pytest.raises(ConfigError, match="there is no task that matches 'category:game'; did you mean category:games"):
        tasks_command(["category:game", *option], folder)


def test_difficulty_of_tasks_whose_levels_work(show: Show) -> None:
    lines = show("--difficulty", "chain_sum", "maze").splitlines()
    assert lines[1].split()[:4] == ["chain_sum", "5", "-", "-"]
    assert lines[1].endswith("terms 2 -> 6")
    assert "  maze: the library has no curriculum for it" in lines
    assert lines[-1] == "1 tasks with levels, 1 without; every level works"


def test_difficulty_fails_where_a_level_does_not_work(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tasks_command(["--difficulty"], folder) == 1
    output = capsys.readouterr().out
    assert "  gcd at 0.0625: gcd, seed " in output
    assert "ValueError: no such puzzle" in output
    assert output.splitlines()[-1] == "2 tasks with levels, 1 without; levels fail in: gcd"


def test_overlap_of_tasks_with_many_questions_is_none(show: Show) -> None:
    lines = show("--contamination", "games/*", "--items", "7").splitlines()
    assert lines[1].split() == ["maze", "5", "7", "7", "0", "0"]
    assert lines[-1] == "0 of 1 tasks draw questions of the evaluation set"


def test_unknown_name_is_refused_with_the_nearest(folder: Path) -> None:
    with pytest.raises(ConfigError, match="there is no task 'chain_sun'; did you mean chain_sum"):
        tasks_command(["chain_sun"], folder)


@pytest.mark.parametrize("argv", BAD_NUMBERS)
def test_number_out_of_range_is_a_usage_error(
    folder: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        tasks_command(argv, folder)
    assert end.value.code == 2
    assert argv[0] in capsys.readouterr().err


def test_one_thing_is_measured_at_a_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tasks_command(["--difficulty", "--contamination"], folder)
    assert "not allowed with" in capsys.readouterr().err


def test_warnings_of_the_library_are_logged(folder: Path, show: Show, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "reasoning-gym" / "reasoning_gym" / "factory.py").write_text("DATASETS = None")
    show("maze")
    assert caplog.messages[0].startswith("the library's registry cannot be read (")

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning_env.commands.problems import NO_ORACLE
from reasoning_env.commands.tasks import QUESTION_CHARACTERS, tasks_command
from reasoning_env.errors import ConfigError
from reasoning_env.settings import SYSTEM_PROMPT

BAD_ARGUMENTS = [
    *([option, value] for option in ("--samples", "--items") for value in ("0", "x")),
    *(["--seed", seed] for seed in ("-1", str(2**32))),
    *(["--params", params] for params in ("{}x", "5")),
    *(["--items", "100001"], ["--level", "2"], ["--prompt"], ["--difficulty", "--contamination"]),
]

Show = Callable[..., str]


@pytest.fixture
def show(folder: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    """Runs the command and returns what it prints."""

    def show(*argv: str, status: int = 0) -> str:
        assert tasks_command(argv, folder) == status
        return capsys.readouterr().out

    return show


def _rows(output: str) -> dict[str, list[str]]:
    """The cells of a table's rows, by the first of them."""
    table = output.partition("\n\n")[0]
    return {cells[0]: cells[1:] for cells in map(str.split, table.splitlines()[1:])}


def test_listing_has_every_task_and_counts_the_categories(show: Show) -> None:
    lines = show().splitlines()
    categories = {"broken": "family", "composite": "family", "exact": "family", "generous": "games"}
    assert dict(line.split()[:2] for line in lines[1:6]) == {**categories, "open_ended": "games"}
    assert "cannot be generated: broken, seed 42: ValueError: no such puzzle" in lines[1]
    question = lines[3].split(maxsplit=2)[2]
    assert question.startswith("First line of 42. More of it.")
    assert len(question) == QUESTION_CHARACTERS
    listing = json.loads(show("--json"))
    assert listing["categories"] == {"family": 3, "games": 2}
    assert [task["task"] for task in listing["tasks"]][2:] == ["exact", "generous", "open_ended"]


def test_named_tasks_are_shown_whole_with_their_answers(show: Show) -> None:
    output = show("exact", "broken", "games/*", "--samples", "2", "--seed", "5")
    assert output.count("More of it. " * 30) == 6
    assert NO_ORACLE in output
    assert "cannot be generated: broken, seed 5: ValueError: no such puzzle" in output
    for seed, answer in ((5, 15), (1005, 3015)):
        assert f"=== exact (family), seed {seed}\n" in output
        assert f"--- answer\n{answer}\n" in output


def test_prompt_of_a_problem_is_what_a_model_gets(show: Show) -> None:
    argv = ("exact", "--prompt", "--level", "0.5", "--params", "{colour: red}")
    assert SYSTEM_PROMPT in show(*argv, "--seed", str(2**32 - 1))
    (sample,) = json.loads(show(*argv, "--json"))["samples"]
    assert [message["role"] for message in sample["prompt"]] == ["system", "user"]
    assert (sample["seed"], sample["level"], sample["params"]) == (42, 0.5, {"terms": 4, "colour": "red"})


def test_parameters_that_the_library_refuses_are_one_error(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--params: exact: "):
        tasks_command(["exact", "--params", "{size: 3}"], folder)


@pytest.mark.parametrize("measure", ["--difficulty", "--contamination"])
def test_measurements_are_there_for_programs_too(show: Show, measure: str) -> None:
    document = json.loads(show(measure, "exact", "--items", "5", "--json"))
    (row,) = document["tasks"]
    assert (row["task"], row.get("failed", row.get("drawn"))) == ("exact", 0)


def test_difficulty_of_tasks_whose_levels_work(show: Show) -> None:
    output = show("--difficulty", "exact", "generous")
    assert _rows(output)["exact"][:3] == ["5", "0", "0"]
    assert "terms 2 -> 6" in output
    assert "no levels of their own: generous\n" in output


def test_difficulty_fails_where_a_level_does_not_work(show: Show) -> None:
    output = show("--difficulty", "broken", "exact", status=1)
    assert _rows(output)["broken"][2] == "17"
    assert "ValueError: no such puzzle" in output
    assert output.splitlines()[-1].endswith("levels fail in: broken")


def test_contamination_is_there_as_drawn_and_gone_as_served(show: Show) -> None:
    output = show("--contamination", "games/*", "broken", "--items", "60")
    few, many = _rows(output)["generous"], _rows(output)["open_ended"]
    assert 0.0 < float(few[3].rstrip("%")) < 50.0
    assert few[4] == "0.00%"
    assert many == ["5", "60", "60", "0.00%", "0.00%"]
    assert _rows(output)["broken"] == ["0", "0", "0", "-", "-"]
    assert "1 tasks have fewer than 60 items" in output
    assert output.splitlines()[-1].startswith("1 of 3 tasks ")


@pytest.mark.parametrize("option", [[], ["--difficulty"], ["--contamination"]])
def test_unknown_name_is_refused_with_the_nearest(folder: Path, option: list[str]) -> None:
    with pytest.raises(ConfigError, match=" exact"):
        tasks_command(["exat", *option], folder)


@pytest.mark.parametrize("argv", BAD_ARGUMENTS)
def test_bad_arguments_are_a_usage_error(folder: Path, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        tasks_command(argv, folder)
    assert end.value.code == 2
    assert argv[0] in capsys.readouterr().err

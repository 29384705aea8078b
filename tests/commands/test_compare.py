from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.commands.compare import compare_command, p_value
from reasoning_env.errors import ConfigError
from tests.reports.lines import RESULTS, group, reference_of, report, rollout, row, write_evaluation

Write = Callable[..., Path]
Compare = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes an evaluation folder.

    For each task, it takes the scores of the problems, or a list of scores per problem.
    """

    def write(name: str, tasks: Mapping[str, Sequence[Any]], **results: Any) -> Path:
        (tmp_path / name).mkdir()
        groups = [
            group(*map(rollout, problem if isinstance(problem, list) else [problem]), task=task, index=index)
            for task, problems in tasks.items()
            for index, problem in enumerate(problems)
        ]
        rows = {task: row() for task in tasks}
        document = {**RESULTS, "settings": {}, "tasks": rows, "published": {}, **results}
        return write_evaluation(tmp_path / name, *groups, results=document)

    return write


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    def compare(*argv: object) -> list[dict[str, Any]]:
        assert compare_command([*map(str, argv), "--json"], Path()) == 0
        return list(json.loads(capsys.readouterr().out)["comparisons"])

    return compare


def test_compared_tasks_are_sorted_by_score_change(write: Write, compare: Compare) -> None:
    first = write("a", {"same": [1.0, 0.0], "worse": [1.0] * 8, "mixed": [0.0, 1.0, 0.5]}, fingerprint="f")
    second = write("b", {"same": [1.0, 0.0], "worse": [0.0] * 8, "mixed": [[0.0, 1.0], 1.0, 0.25]}, fingerprint="f")
    (one,) = compare(first, second)
    assert [task["task"] for task in one["tasks"]] == ["worse", "mixed", "same"]
    worse, mixed, same = one["tasks"]
    assert (worse["change"], worse["better"], worse["worse"], worse["p"]) == (-1.0, 0, 8, 2 / 2**8)
    assert (mixed["first"], mixed["second"]) == (0.5, pytest.approx(1.75 / 3))
    assert (mixed["better"], mixed["worse"], mixed["p"]) == (1, 1, 1.0)
    assert (mixed["low"], mixed["high"]) == (-1.0, 1.0), "three problems tell no change"
    assert same["low"] < 0.0 < same["high"]
    overall = one["overall"]
    assert overall["problems"] == 13
    assert overall["change"] == pytest.approx((-1.0 + 0.25 / 3 + 0.0) / 3)
    assert (overall["better"], overall["worse"]) == (1, 9)


def test_every_task_counts_equally_in_the_overall_change(write: Write, compare: Compare) -> None:
    first = write("a", {"many": [0.5, 1.0] * 20, "few": [0.25, 0.5]})
    second = write("b", {"many": [1.0, 0.5] * 20, "few": [0.75, 1.0]})
    (one,) = compare(first, second)
    overall = one["overall"]
    assert overall["low"] < overall["change"] == 0.25 < overall["high"]


def test_each_evaluation_is_compared_with_the_first(write: Write, compare: Compare) -> None:
    folders = [write(name, {"task": [score]}) for name, score in (("a", 0.0), ("b", 0.5), ("c", 1.0))]
    assert [one["overall"]["change"] for one in compare(*folders)] == [0.5, 1.0]


def test_compare_command_compares_all_evaluations_in_a_given_folder(write: Write, compare: Compare) -> None:
    folders = [write(name, {"task": [score]}) for name, score in (("a", 0.0), ("b", 0.5), ("c", 1.0))]
    assert [one["overall"]["change"] for one in compare(folders[0].parent)] == [0.5, 1.0]


def test_comparing_a_single_evaluation_raises(write: Write) -> None:
    with pytest.raises(ConfigError, match="pass at least two evaluation folders, or a folder that contains"):
        compare_command([str(write("a", {"task": [1.0]}))], Path())


def test_problems_missing_from_one_evaluation_are_not_compared(write: Write, compare: Compare) -> None:
    first, second = write("a", {"task": [1.0, 1.0, []]}), write("b", {"task": [0.0, 0.5, 1.0]})
    (one,) = compare(first, second)
    assert (one["overall"]["problems"], one["unpaired"], one["overall"]["change"]) == (2, 1, -0.75)


def test_compare_command_skips_a_damaged_line_of_a_samples_file(
    write: Write, compare: Compare, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = write("a", {"task": [1.0]}), write("b", {"task": [0.0]})
    with (second / "samples.jsonl").open("a") as samples:
        samples.write("nonsense\n")
    (one,) = compare(first, second)
    assert one["overall"]["change"] == -1.0
    assert f"{second}/samples.jsonl: skipped 1 line; line 2: not JSON" in caplog.text


def change_problem(folder: Path, number: int) -> None:
    """Replace the question of one problem in an evaluation."""
    lines = (folder / "samples.jsonl").read_text().splitlines()
    line = json.loads(lines[number])
    line["reference"] = reference_of(line["item_id"], line["index"], question="Another?")
    lines[number] = json.dumps(line)
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n")


def test_compare_command_lists_problems_whose_questions_differ(
    write: Write, compare: Compare, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write("a", {"codeio": [1.0, 1.0, 0.0]}, fingerprint="f")
    second = write("b", {"codeio": [0.0, 1.0, 0.0]}, fingerprint="g")
    change_problem(second, 1)
    (one,) = compare(first, second)
    assert (one["different"], one["overall"]["problems"], one["overall"]["change"]) == (["codeio 1"], 2, -0.5)
    compare_command([str(first), str(second)], Path())
    assert "because these problems are not the same in both: codeio 1\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"eval_seed": 5, "model": "y"},
            "common: eval_seed: 4 and 5; model: 'x' and 'y'; problems: 1 in the first evaluation, 1 in the second;",
        ),
        ({"model": "y"}, "eval_seed: 4 and None"),
        ({"eval_seed": 4, "model": "y"}, "model: 'x' and 'y'"),
        ({"eval_seed": 4, "tasks": ["gcd"] * 100}, "tasks: None and "),
    ],
)
def test_error_names_differing_settings_if_evaluations_share_no_problem(
    write: Write, settings: dict[str, Any], words: str
) -> None:
    first = write("a", {"task": [1.0]}, settings={"eval_seed": 4, "model": "x"})
    second = write("b", {"other": [1.0]}, settings=settings)
    with pytest.raises(ConfigError, match=words) as refusal:
        compare_command([str(first), str(second)], Path())
    assert len(refusal.value.problem) < 400
    assert str(refusal.value).endswith("evaluate both models with the same tasks, seed and release of reasoning-gym")


def test_compare_command_shortens_long_values_of_settings_that_differ(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"task{number}" for number in range(100)]
    first = write("a", {"task": [1.0]}, settings={"tasks": names, "task_params": {"gcd": 1}}, preset="rg-easy")
    second = write("b", {"task": [1.0]}, settings={"tasks": names[4:], "task_params": {"gcd": 2}}, preset="rg-hard")
    compare_command([str(first), str(second)], Path())
    assert capsys.readouterr().out.splitlines()[2:5] == [
        "preset: 'rg-easy' and 'rg-hard'",
        "task_params: 1 differ (gcd)",
        "tasks: 100 values in the first evaluation, 96 in the second, 96 in both",
    ]


@pytest.mark.parametrize(("p", "shown"), [(0.0004, "< 0.001"), (0.0, "< 0.001"), (0.001, "0.001"), (0.5, "0.500")])
def test_printed_p_value_is_never_zero(p: float, shown: str) -> None:
    assert p_value(p) == shown


def test_comparison_table_names_the_two_folders_and_the_settings_that_differ(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write("a", {"gcd": [1.0], "lcm": [0.0]}, settings={"seed": 1, "model": "x"})
    compare_command(
        [str(first), str(write("b", {"gcd": [0.0], "lcm": [0.0]}, settings={"seed": 1, "model": "y"}))], Path()
    )
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0][-2:], lines[1][-2:], lines[2]] == ["/a", "/b", "model: 'x' and 'y'"]
    assert [line.split()[0] for line in lines[5:8]] == ["mean", "gcd", "lcm"]
    assert "-1.000" in lines[6].split()


def test_report_page_shows_the_same_numbers_as_the_compare_command(write: Write, compare: Compare) -> None:
    folders = [write("a", {"gcd": [0.5, 1.0, 0.0], "lcm": [0.2]}), write("b", {"gcd": [0.9, 0.5, 1.0], "lcm": [0.3]})]
    (told,) = compare(*folders)
    data = report(*folders)
    (shown,) = data["comparisons"]
    names = [name for name, _ in data["tasks"]]
    assert shown["overall"] == told["overall"]
    assert [{**row, "task": names[row["task"]]} for row in shown["tasks"]] == told["tasks"]


def test_comparison_page_names_the_settings_and_the_questions_that_differ(write: Write, tmp_path: Path) -> None:
    first = write("a", {"gcd": [1.0, 0.0]}, settings={"eval_temperature": 0.6})
    second = write_evaluation(
        tmp_path / "b",
        *(
            group(rollout(1.0), task="gcd", index=index, reference=reference_of("gcd", index, question=question))
            for index, question in ((0, "How many?"), (1, "Another?"))
        ),
        results={**RESULTS, "settings": {"eval_temperature": 0.8}},
    )
    (shown,) = report(first, second)["comparisons"]
    assert shown["settings"] == ["eval_temperature: 0.6 and 0.8"]
    assert shown["different"] == ["gcd 1"]


def without_references(folder: Path) -> Path:
    """Remove the references from the lines of an evaluation."""
    file = folder / "samples.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        del line["reference"]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_comparing_evaluations_that_lack_problem_references_raises(write: Write) -> None:
    first, second = write("a", {"gcd": [1.0]}), without_references(write("b", {"gcd": [1.0]}))
    with pytest.raises(
        ConfigError,
        match=rf"{second}/samples.jsonl contains no problem with a scored completion and the field `reference`",
    ):
        compare_command([str(first), str(second)], Path())


def test_evaluations_of_two_reasoning_gym_releases_are_compared(write: Write, compare: Compare, tmp_path: Path) -> None:
    first = write("a", {"gcd": [1.0]})
    line = group(rollout(0.0), index=0, reference=reference_of("gcd", 0, release="0.2.0"))
    second = write_evaluation(tmp_path / "b", line)
    (one,) = compare(first, second)
    assert (one["overall"]["problems"], one["overall"]["change"]) == (1, -1.0)

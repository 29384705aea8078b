"""The report's data: figures over all rollouts, a sample of them, and what is said of what cannot be read."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.commands import report as report_module
from reasoning_env.commands.report import report_command
from reasoning_env.dumps.format import FAILED, PASSED, header_path
from reasoning_env.dumps.reader import stream_groups
from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.summary import summarise, tally_by_task
from reasoning_env.problems.references import without_release
from reasoning_env.reports.comparison import compare, read_scores
from reasoning_env.reports.html.page import collect, encode, make_page, write_page
from reasoning_env.reports.runs import find_runs

from .lines import RESULTS, group, reference_of, rollout, write, write_evaluation

WRONG = rollout(0.0)


def report(*paths: Path, characters: int = 10**6) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(encode(collect(find_runs(paths), "env", characters / 1_000_000)))
    return data


def run_of(folder: Path, *groups: dict[str, Any]) -> dict[str, Any]:
    return report(write(folder / "a.jsonl", *groups))["runs"][0]


# ---------------------------------------------------------------------------- figures


def test_figures_are_over_all_rollouts(tmp_path: Path) -> None:
    run = run_of(tmp_path, group(rollout(1.0), WRONG), group(WRONG, WRONG), group(rollout(0.5), task="maze"))
    assert (run["groups"], run["rollouts"], run["signal"]) == (3, 5, 0.5)
    low, high = run["score"][1:]
    assert run["score"][0] == pytest.approx(1 / 3)
    assert 0 <= low < 1 / 3 < high <= 1
    assert [(row["task"], row["accuracy"][0]) for row in run["by_task"]] == [(0, 0.25), (1, 0.0)]
    assert (sum(run["scores"]), run["scores"][0], run["scores"][10], run["scores"][20]) == (5, 3, 1, 1)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({"score": 0.0, "verifier_score": 1.0}, "right"),
        ({"score": 0.99, "correct": True}, "right"),
        ({"score": 0.0, "reason": "<b>of a later version"}, "other"),
        ({"score": 1.0, "reason": None, "verifier_score": None}, "right"),
    ],
)
def test_each_rollout_has_one_outcome(tmp_path: Path, facts: dict[str, Any], outcome: str) -> None:
    data = report(write(tmp_path / "a.jsonl", group(rollout(**facts))))
    assert data["outcomes"][data["groups"][0]["rollouts"][0]["outcome"]] == outcome
    assert data["runs"][0]["outcomes"] == [int(name == outcome) for name in data["outcomes"]]


def test_cell_for_each_level(tmp_path: Path) -> None:
    levels = [0.0, 0.09, 0.95, 1.0, None]
    run = run_of(tmp_path, *(group(rollout(), level=level) for level in levels))
    assert [(cell["bin"], cell["groups"]) for cell in run["cells"]] == [(-1, 1), (0, 2), (9, 2)]


def test_time_has_few_stretches(tmp_path: Path) -> None:
    lines = [group(rollout(), WRONG, index=index, level=0.5) for index in [*range(300), 10**12]]
    time = run_of(tmp_path, *lines)["time"]
    assert len(time["positions"]) <= 100
    assert sum(stretch["groups"] for stretch in time["all"]) == 301
    assert set(time["levels"][0]["values"]) == {0.5}


def test_lengths_in_tokens_where_known(tmp_path: Path) -> None:
    masks = [[-100, -100, 5, 6, 7, 8]]
    assert run_of(tmp_path, group(rollout()))["lengths"]["unit"] == "characters"
    known = run_of(tmp_path, {**group(rollout()), "masks": masks})
    assert (known["lengths"]["unit"], known["tokens"], known["lengths"]["bins"]) == ("tokens", 4, [[4, 1, 0, 0]])


def test_figures_of_an_evaluation(tmp_path: Path) -> None:
    changed = rollout(0.0, library_score=1.0)
    folder = write_evaluation(tmp_path / "e", group(changed, rollout(library_score=1.0), index=3, failed=2))
    [run] = report(folder)["runs"]
    assert run["by_task"][0]["plain"] == [1.0, 0.5, 1, 2]
    assert (run["failed"], run["problems"]) == (2, [[0, 3, 7, None, 0.5, without_release(reference_of("gcd", 3))]])
    [model] = run["published"]["models"]
    assert (model["name"], model["score"], model["tasks"]) == ("a model", 0.25, {"gcd": 0.125})
    assert run["published"]["own"] == {"as published": 0.75, "strict": 0.5}
    assert run["facts"] == [["model", "m"], ["eval_temperature", "0.6"], ["not as published", "fewer problems"]]


def test_headline_of_comparable_tasks(tmp_path: Path) -> None:
    results = {
        **RESULTS,
        "tasks": {"gcd": {"completions": 2, "differs": None}, "maze": {"completions": 2, "differs": "scoring"}},
        "comparable": {"mean_score": 0.4, "library_score": 0.6},
    }
    folder = write_evaluation(tmp_path / "e", group(rollout()), group(rollout(), task="maze"), results=results)
    [run] = report(folder)["runs"]
    assert run["published"]["comparable"] == {"tasks": ["gcd"], "own": {"as published": 0.6, "strict": 0.4}}


def test_page_agrees_with_results(tmp_path: Path) -> None:
    scores = {"gcd": (1.0, 0.0, 0.5), "maze": (0.0, 0.0, 1.0), "lcm": (0.99, 0.25, 0.0)}
    lines = [
        group(rollout(score), rollout(0.0), task=task, index=index)
        for task, of_task in scores.items()
        for index, score in enumerate(of_task)
    ]
    folder = write_evaluation(tmp_path / "e", *lines)
    [run] = report(folder)["runs"]
    categories = {"gcd": "arithmetic", "maze": "games", "lcm": "arithmetic"}
    results = summarise(tally_by_task(stream_groups(folder / "samples.jsonl")), categories, {})

    def means(row: dict[str, Any]) -> list[list[float]]:
        return [[row[name], *row[f"{name}_interval"]] for name in ("mean_score", "accuracy")]

    assert [[row["score"], row["accuracy"]] for row in run["by_task"]] == [*map(means, results["tasks"].values())]
    assert [[row["score"], row["accuracy"]] for row in run["categories"]] == [
        *map(means, results["categories"].values())
    ]
    assert [run["of_tasks"]["score"], run["of_tasks"]["accuracy"]] == means(results["overall"])
    assert {str(k): mean for k, mean, *_ in run["pass_at_k"]} == results["overall"]["pass_at"]


def test_page_agrees_with_compare(tmp_path: Path) -> None:
    first, second = (
        write_evaluation(
            tmp_path / name, *(group(rollout(float(index % step == 0)), index=index) for index in range(9))
        )
        for name, step in (("a", 2), ("b", 3))
    )
    [compared] = report(first, second)["comparisons"]
    assert compared["overall"] == asdict(compare(read_scores(first), read_scores(second)).overall)


# ---------------------------------------------------------------------------- the sample


def test_sample_keeps_rare_outcomes(tmp_path: Path) -> None:
    def line(number: int) -> dict[str, Any]:
        rare = {"reason": "crash", "score": 0.0} if number == 250 else {}
        return group(rollout(text="x" * 1000, **rare), task="gcd" if number % 2 else "maze", index=number)

    path = write(tmp_path / "a.jsonl", *map(line, range(501)), group(rollout(), task="lcm"))
    data = report(path, characters=20_000)
    assert {held["task"] for held in data["groups"]} == {"gcd", "maze", "lcm"}
    assert 250 in {held["index"] for held in data["groups"]}
    assert 5_000 < len(json.dumps(data["groups"])) < 20_000
    assert data["groups"] == report(path, characters=20_000)["groups"]


def test_long_texts_have_a_gap(tmp_path: Path) -> None:
    text, shown = "a" * 30_000 + "b" * 30_000, "a" * 20_000 + "b" * 20_000
    data = report(write(tmp_path / "a.jsonl", group(rollout(text=text, thinking=text))))
    [held] = data["groups"][0]["rollouts"]
    assert (held["text"], held["cut"]) == (shown, [20_000, 20_000])
    assert (held["thinking"], held["characters"]) == ([shown, [20_000, 20_000]], 120_000)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ["tasks", "gcd", "--prompt", "--seed", "7"]),
        ({"level": 0.25}, ["tasks", "gcd", "--prompt", "--seed", "7", "--level", "0.25"]),
        ({"level": 0.25, "params": {"a": [1]}}, ["tasks", "gcd", "--prompt", "--seed", "7", "--params", '{"a": [1]}']),
        ({"task": "$(id); x"}, ["tasks", "$(id); x", "--prompt", "--seed", "7"]),
    ],
)
def test_command_shows_the_problem(tmp_path: Path, facts: dict[str, Any], words: list[str]) -> None:
    data = report(write(tmp_path / "a.jsonl", group(rollout(), **facts)))
    assert shlex.split(data["groups"][0]["command"]) == ["env", *words]


# ---------------------------------------------------------------------------- what paths lead to


def test_each_folder_is_a_run(tmp_path: Path) -> None:
    dumps = [write(kind.path(tmp_path / "d", "u", 0), group(rollout())) for kind in (PASSED, FAILED)]
    for name in ("a", "b"):
        write_evaluation(tmp_path / "evals" / name, group(rollout()))
    runs = report(*dumps, tmp_path / "evals")["runs"]
    assert [(run["name"], run["groups"], run["evaluation"]) for run in runs] == [
        ("d", 2, False),
        ("a", 1, True),
        ("b", 1, True),
    ]


def test_each_process_file_is_a_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        header_path(write(tmp_path / f"{name}.jsonl", group(rollout()))).write_text("{}")
    (tmp_path / "a-best.jsonl").write_text('{"messages": []}\n')
    data = report(tmp_path, tmp_path / "a.jsonl", tmp_path)
    assert [(run["name"], run["groups"]) for run in data["runs"]] == [("a.jsonl", 1), ("b.jsonl", 1)]
    assert not data["notes"]


def test_damaged_files_are_named_once(tmp_path: Path) -> None:
    good = json.dumps(group(rollout())) + "\n"
    (tmp_path / "a.jsonl").write_text(good + "{\n[]\n" + good + good[:-9])
    (tmp_path / "b.jsonl").write_text('{"task": "gcd", "completion": "of an earlier version"}\n' * 100)
    data = report(tmp_path, write_evaluation(tmp_path / "e", group(rollout()), results=[]))
    assert [run["groups"] for run in data["runs"]] == [2, 1]
    first, second, third = data["notes"]
    assert re.search(r"a\.jsonl: lines left out: 3; line 2: ", first)
    assert re.search(r"b\.jsonl: .*line 1: item_id: ", second)
    assert "results.json" in third


def test_output_is_no_source(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", group(rollout()))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"a\.jsonl"):
        report_command([str(path), "-o", str(tmp_path / "." / "a.jsonl")], default_folder=tmp_path, program="env")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["missing", "empty", "notes.txt", "foreign.jsonl"])
def test_path_without_groups(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("dear diary\n")
    (tmp_path / "foreign.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=name):
        report_command([str(tmp_path / name), "-o", str(tmp_path / "r.html")], default_folder=tmp_path, program="env")
    assert not list(tmp_path.glob("*.html"))


def test_unwritable_output(tmp_path: Path) -> None:
    (tmp_path / "r.html").mkdir()
    (tmp_path / "r.html" / "x").touch()
    for path in (tmp_path / "none" / "r.html", tmp_path / "r.html"):
        with pytest.raises(ConfigError, match=re.escape(str(path))):
            write_page(path, "page")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["r.html", "x"]


# ---------------------------------------------------------------------------- the page


def test_page_allows_only_its_own_script() -> None:
    data = json.dumps({"text": "</script><script>alert(1)</script>"}).encode()
    page = make_page(data)
    held = re.search(r'id="data">([^<]*)<', page)
    assert held is not None
    assert gzip.decompress(base64.b64decode(held[1])) == data
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    for tag in ("script", "style"):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert page.count("<script") == 2


# ---------------------------------------------------------------------------- a page that follows a run


def follow_until(monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> None:
    """Let `--follow` look once more after each step, and then end as by Ctrl-C."""
    steps = iter(between)

    def pause(_: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(report_module.time, "sleep", pause)


def test_follow_writes_the_page_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page, sizes = write(tmp_path / "a.jsonl", group(WRONG)), tmp_path / "page.html", []

    def add_a_group() -> None:
        sizes.append(page.stat().st_mtime_ns)
        write(file, group(WRONG), group(WRONG))

    follow_until(monkeypatch, add_a_group, lambda: sizes.append(page.stat().st_mtime_ns))
    assert report_command([str(file), "-o", str(page), "--follow"], default_folder=tmp_path, program="env") == 0
    assert sizes[1] > sizes[0]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" groups")[0] for line in lines] == [f"{page}: 1", f"{page}: 2"]


def test_follow_waits_for_the_first_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "a.jsonl", tmp_path / "page.html"
    follow_until(monkeypatch, int, lambda: write(file, group(WRONG)))
    assert report_command([str(file), "-o", str(page), "--follow", "1"], default_folder=tmp_path, program="env") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("waiting: ")
    assert lines[1].startswith(f"{page}: 1 groups")
    assert len(lines) == 2


def test_only_follow_loads_again(tmp_path: Path) -> None:
    assert "reload_s" not in report(write(tmp_path / "a.jsonl", group(WRONG)))


def test_follow_output_is_no_source(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", group(WRONG))
    with pytest.raises(ConfigError, match="is one of the files to report on"):
        report_command([str(file), "-o", str(file), "--follow"], default_folder=tmp_path, program="env")
    assert "gcd" in file.read_text()


def test_missing_references_are_noted(tmp_path: Path) -> None:
    folders = [
        write_evaluation(tmp_path / "a", group(rollout(), reference=None)),
        write_evaluation(tmp_path / "b", group(rollout())),
    ]
    data = report(*folders)
    assert data["comparisons"] == []
    assert [note for note in data["notes"] if "no references" in note and str(folders[0]) in note] == data["notes"]

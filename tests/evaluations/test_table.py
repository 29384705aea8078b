from __future__ import annotations

from typing import Any

import pytest

from reasoning_env.evaluations.published import compare_published, load_published, mark_differences
from reasoning_env.evaluations.summary import combine, summarise, tally_by_task
from reasoning_env.evaluations.table import print_results, remarks

from .support import make_sample

CATEGORIES = {"chain_sum": "arithmetic", "gcd": "arithmetic", "shortest_path": "graphs"}


def results(*, preset: bool = False, **fields: Any) -> dict[str, Any]:
    samples = [
        make_sample("gcd", 1.0, 0.0, library_score=0.5),
        make_sample("chain_sum", 1.0, 1.0, library_score=1.0),
        make_sample("shortest_path", 0.0, 0.0, library_score=0.0),
        make_sample("shortest_path", index=1, failed=2),
    ]
    found = summarise(tally_by_task(samples), CATEGORIES, {"gcd": 2})
    if preset:
        rg_easy = load_published("rg-easy")
        mark_differences(rg_easy, found["tasks"])
        found["comparable"] = combine([row for task, row in found["tasks"].items() if task in rg_easy.comparable])
        found["published"] = compare_published(rg_easy, found["tasks"])
    limits = {"max_completion_tokens": None, "max_token_length": 2048}
    about = {
        "model": "m",
        "settings": limits,
        "preset": "rg-easy" if preset else None,
        "fingerprint": "f" * 32,
        "remarks": [],
    }
    return {**about, **found, **fields}


def printed(capsys: pytest.CaptureFixture[str], **fields: Any) -> list[list[str]]:
    print_results(results(**fields))
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def remarks_of(**overall: Any) -> list[str]:
    found = results()
    found["overall"] |= {"failed": 0, **overall}
    return remarks(found)


def test_results_table_mentions_missing_answers_only_if_they_are_frequent() -> None:
    assert remarks_of(reasons={"truncated": 0.09, "no_answer": 0.49}, failed=0) == []


def test_note_on_truncated_completions_names_the_limit_and_its_option() -> None:
    [remark] = remarks_of(reasons={"truncated": 0.1})
    assert remark.startswith("10% of completions were cut off without an answer: raise the token limit")
    assert remark.endswith("2,048 tokens for prompt and completion together (--max-tokens)")


def test_note_on_missing_answers_lists_likely_causes() -> None:
    [remark] = remarks_of(reasons={"no_answer": 0.5})
    assert remark.startswith("50% of completions have no answer tags: the model does not follow the format")
    assert "chat template" in remark


def test_notes_are_printed_below_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_results(results())
    assert "\n25% of completions failed, because the server never returned them" in capsys.readouterr().out


def test_tasks_of_the_results_table_are_sorted_by_score(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys)
    first = lines.index(next(line for line in lines if line[:1] == ["TASK"]))
    names = [line[0] for line in lines[first + 1 : first + 7]]
    assert names == ["shortest_path", "gcd", "chain_sum", "category:arithmetic", "category:graphs", "ALL"]
    assert lines[first + 2][:3] == ["gcd", "1", "0.500"]
    assert lines[first + 6][:4] == ["ALL", "TASKS", "3", "0.500"]
    assert lines[first + 1][-4:-2] == ["2", "failed,"]
    assert lines[first + 2][-5:-2] == ["2", "not", "made,"]


def test_models_with_published_scores_are_sorted_by_score(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, preset=True, remarks=["the moon is full"])
    (first,) = [number for number, line in enumerate(lines) if line[:2] == ["TASK", "YOURS"]]
    (gcd,) = [line for line in lines[first:] if line[:1] == ["gcd"]]
    assert (gcd[1], len(gcd)) == ("0.500", 12)
    models = [float(line[-1]) for line in lines[first:] if len(line) == 3 and "/" in line[1]]
    assert models == sorted(models, reverse=True)
    assert len(models) == 10
    headlines = [line for line in lines[first:] if line[1:2] == ["TASKS"]]
    assert [line[0] for line in headlines] == ["COMPARABLE", "ALL"]
    assert [line[2] for line in headlines] == ["0.750", "0.500"]
    assert ["is", "full."] in [line[-2:] for line in lines]


def test_results_table_marks_tasks_that_changed_since_scores_were_published(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, preset=True)
    assert [line[:2] for line in lines if line[:1] == ["shortest_path"]] == [["shortest_path", "~"]] * 2
    assert not [line for line in lines if line[:1] == ["gcd"] and line[1] in "~+"]


def test_table_on_a_terminal_shows_only_the_20_worst_tasks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reasoning_env.evaluations.table.width", lambda: 100)
    samples = [make_sample(f"task{number:02}", number / 100) for number in range(30)]
    lines = printed(capsys, **summarise(tally_by_task(samples), {}, {}))
    assert [line[0] for line in lines if line and line[0].startswith("task")] == [f"task{n:02}" for n in range(20)]
    assert ["The", "worst", "20", "of", "30"] in [line[:5] for line in lines]


def test_published_means_are_computed_over_the_evaluated_tasks_only() -> None:
    rg_easy = load_published("rg-easy")
    found = compare_published(rg_easy, results()["tasks"])["openai/o3-mini"]
    scores = rg_easy.published["openai/o3-mini"]
    assert found["overall"] == pytest.approx(sum(scores[task] for task in CATEGORIES) / 3)
    assert found["comparable"] == pytest.approx((scores["gcd"] + scores["chain_sum"]) / 2)
    assert found["categories"]["graphs"] == found["tasks"]["shortest_path"] == scores["shortest_path"]


def test_evaluation_without_scores_prints_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, **summarise(tally_by_task([make_sample("gcd", failed=1)]), CATEGORIES, {})) == []


@pytest.mark.parametrize("columns", [60, 200])
def test_legend_of_the_results_table_explains_only_the_shown_columns(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reasoning_env.evaluations.table.width", lambda: columns)
    print_results(results())  # type: ignore[arg-type]
    assert capsys.readouterr().out.count("TOKENS") == (2 if columns == 200 else 0)


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_lines_of_the_results_table_fit_a_narrow_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reasoning_env.evaluations.table.width", lambda: columns)
    print_results(results(preset=True))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("shortest_path", "ALL"))]
    assert len(lines) == 4
    assert max(map(len, lines)) <= columns

"""Collect the data of the report page, and write the page."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.errors import ConfigError
from reasoning_env.reports.html.page import make_page, write_page
from reasoning_env.settings import SYSTEM_PROMPT
from tests.reports.lines import RESULTS, group, reference_of, report, rollout, row, write, write_evaluation


def test_comparison_with_published_scores_includes_only_comparable_tasks(tmp_path: Path) -> None:
    results = {
        **RESULTS,
        "tasks": {"gcd": row(differs=None), "maze": row(differs="scoring")},
        "comparable": row(mean_score=0.4, library_score=0.6),
    }
    folder = write_evaluation(tmp_path / "e", group(rollout()), group(rollout(), task="maze"), results=results)
    [run] = report(folder)["runs"]
    assert run["published"]["comparable"] == {"tasks": ["gcd"], "own": {"as published": 0.6, "strict": 0.4}}


def test_task_from_outside_the_library_has_its_source_as_category(tmp_path: Path) -> None:
    groups = [
        group(rollout()),
        group(rollout(), task="rlve/Sorting", reference=reference_of("rlve/Sorting", 0, release="rlve@0.0.1")),
        group(rollout(), task="mine", reference=reference_of("mine", 0, release="my_tasks@1.2")),
        group(rollout(), task="unknown"),
    ]
    assert dict(report(write_evaluation(tmp_path / "e", *groups))["tasks"]) == {
        "gcd": "arithmetic",
        "rlve/Sorting": "rlve",
        "mine": "my_tasks",
        "unknown": "other",
    }


def test_report_does_not_compare_problems_without_problem_references(tmp_path: Path) -> None:
    folders = [
        write_evaluation(tmp_path / "a", group(rollout(), reference=None)),
        write_evaluation(tmp_path / "b", group(rollout())),
    ]
    assert report(*folders)["comparisons"] == []


def test_report_has_a_note_on_repeated_questions(tmp_path: Path) -> None:
    lines = []
    for index in range(200):
        one = rollout()
        one["conversation"][0]["content"] = f"question {index % 50}"
        new = rollout()
        new["conversation"][0]["content"] = f"question {index}"
        lines += [group(one, task="coin_flip", index=2 * index), group(new, index=2 * index + 1)]
    data = report(write(tmp_path / "groups.jsonl", *lines))
    [note] = data["notes"]
    assert "75% of the questions of coin_flip are repeats" in note


def test_report_explains_frequent_outcomes(tmp_path: Path) -> None:
    """In one run, all completions have several answers. In the other run, no completion has."""
    for name, reason in (("a", "several_answers"), ("b", "scored")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.jsonl", group(rollout(0.0, reason=reason, answer=None)))
    data = report(tmp_path / "a", tmp_path / "b")
    [note] = data["notes"]
    assert "100% of completions have several answers: perhaps the model's thinking" in note


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ["tasks", "gcd", "--prompt", "--seed", "7"]),
        ({"level": 0.25}, ["tasks", "gcd", "--prompt", "--seed", "7", "--level", "0.25"]),
        ({"level": 0.25, "params": {"a": [1]}}, ["tasks", "gcd", "--prompt", "--seed", "7", "--params", '{"a": [1]}']),
        ({"task": "$(id); x"}, ["tasks", "$(id); x", "--prompt", "--seed", "7"]),
    ],
)
def test_report_shows_a_command_with_the_seed_if_the_problem_reference_is_missing(
    tmp_path: Path, facts: dict[str, Any], words: list[str]
) -> None:
    facts = {"reference": None, **facts}  # as in lines of older versions
    data = report(write(tmp_path / "a.jsonl", group(rollout(), **facts)))
    assert shlex.split(data["groups"][0]["command"]) == ["env", *words, "--system_prompt", ""]


@pytest.mark.parametrize(("system", "words"), [(SYSTEM_PROMPT, []), ("It's a", ["--system_prompt", "It's a"])])
def test_report_shows_a_command_with_the_problem_reference(tmp_path: Path, system: str, words: list[str]) -> None:
    asked = rollout()
    asked["conversation"].insert(0, {"role": "system", "content": system})
    line = group(asked)
    data = report(write(tmp_path / "a.jsonl", line))
    command = shlex.split(data["groups"][0]["command"])
    assert command == ["env", "tasks", line["reference"], "--prompt", *words]


def test_security_policy_of_the_page_allows_only_the_script_of_the_page() -> None:
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


def test_unwritable_report_path_raises(tmp_path: Path) -> None:
    (tmp_path / "r.html").mkdir()
    (tmp_path / "r.html" / "x").touch()
    for path in (tmp_path / "none" / "r.html", tmp_path / "r.html"):
        with pytest.raises(ConfigError, match=re.escape(str(path))):
            write_page(path, "page")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["r.html", "x"]

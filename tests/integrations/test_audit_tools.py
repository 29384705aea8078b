"""Run verifier audits of other projects against the judge. falsepass and rl-envdoctor send completions that are known
to be wrong, empty, copied, hedged or right, and report the scores. They need no model and no network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("falsepass", reason="needs the extra `audit-tools`: make integrations-audit-tools")
envdoctor = pytest.importorskip("envdoctor", reason="needs the extra `audit-tools`: make integrations-audit-tools")

import reasoning_env
from reasoning_env import Bridge, Problem

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(reasoning_env.__file__).parent.parent
TASKS = (
    "basic_arithmetic",
    "chain_sum",
    "coin_flip",
    "complex_arithmetic",
    "countdown",
    "game_of_life",
    "gcd",
    "graph_color",
    "isomorphic_strings",
    "leg_counting",
    "letter_counting",
    "maze",
    "number_sorting",
    "prime_factorization",
    "rotate_matrix",
    "spell_backward",
    "sudoku",
    "syllogism",
    "word_sorting",
    "zebra_puzzles",
)
PROBLEMS = 40
SEED = 1


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with Bridge(tasks=list(TASKS), seed=SEED) as bridge:
        yield bridge


@pytest.fixture(scope="module")
def problems(bridge: Bridge) -> list[Problem]:
    drawn = (bridge.next() for _ in range(2 * PROBLEMS))
    return [problem for problem in drawn if problem.answer is not None][:PROBLEMS]


# ------------------------------------------------------------------ rl-envdoctor


def test_envdoctor_tool_finds_only_defects_of_low_severity_in_the_environment(
    bridge: Bridge, problems: list[Problem]
) -> None:
    cases = [envdoctor.Case(one.reference, bridge.messages(one), str(one.answer)) for one in problems]

    def reward(completion: str, case: Any) -> float:
        [verdict] = bridge.judge(case.id, [completion])
        assert verdict is not None
        return verdict.score

    scanned = envdoctor.scan(envdoctor.FunctionTarget(reward, cases), n_cases=PROBLEMS)
    report = envdoctor.run_checks(scanned)
    right = [trial.score.reward for trial in report.trials if trial.policy == "oracle_answer_tag"]
    assert set(right) == {1.0}  # otherwise the scan would report nothing
    assert not any(trial.score.error for trial in report.trials)
    assert {finding.severity for finding in report.findings} <= {"low", "info"}


# ------------------------------------------------------------------ falsepass

REWARD = """
from reasoning_env import Bridge

bridge = Bridge(start=False)


def judged(completions, reference, **columns):
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    verdicts = [bridge.judge(name, [text])[0] for name, text in zip(reference, texts)]
    return [verdict.score for verdict in verdicts]
"""
ENVIRONMENT = """
[env]
id = "local/judge"
framework = "reward"
task = "{folder}/reward.py"
package = ""
version = ""
declared = ""
extra = []
dataset = "{folder}/rows.jsonl"
answer_column = "answer"
"""


@pytest.fixture(scope="module")
def probes(bridge: Bridge, problems: list[Problem], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the results of falsepass for a reward function that uses the judge: one record per completion."""
    folder = tmp_path_factory.mktemp("falsepass")
    (folder / "reward.py").write_text(REWARD)
    (folder / "env.toml").write_text(ENVIRONMENT.format(folder=folder))
    rows = [{"prompt": bridge.messages(one), "answer": one.answer, "reference": one.reference} for one in problems]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "falsepass.runner", str(folder), "-n", "25", "--few", "5"]
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, Any]] = json.loads((folder / "probe-results.json").read_text())["results"]
    return found


def test_completions_of_the_falsepass_tool_are_scored_without_errors(probes: list[dict[str, Any]]) -> None:
    assert len(probes) > 500
    assert [probe["variant"] for probe in probes if probe["errors"]] == []


def test_no_completion_that_should_score_zero_gets_full_score(probes: list[dict[str, Any]]) -> None:
    """Nearly right answers to tasks with partial credit may get a partial score."""
    bad = [probe for probe in probes if probe["expected"] == "zero" and probe["score"] is not None]
    assert [(probe["variant"], probe["completion"]) for probe in bad if probe["score"] >= 0.99] == []


def test_right_completions_with_one_pair_of_tags_get_full_score(probes: list[dict[str, Any]]) -> None:
    """Completions with two pairs of answer tags are excluded, because the answer rule requires one pair."""
    refused = defaultdict(set)
    for probe in probes:
        if probe["expected"] == "full" and probe["score"] < 1.0:
            refused[probe["name"]].add(probe["score"])
    assert refused == {"format_mentions": {0.0}}

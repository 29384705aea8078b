"""Write files of problems: content, parts, repeated calls and resuming."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import pytest_asyncio

from reasoning_env import ConfigError, Problem, Session
from reasoning_env.commands.main import main
from reasoning_env.commands.problems import problems_command
from reasoning_env.data.output import card_path, unfinished_path
from reasoning_env.data.problems import ProblemRows, RowPlan, split_row_count, tasks_of_part, write_problems
from reasoning_env.data.tables import read_rows
from reasoning_env.problems.references import Reference, hash_without_whitespace
from reasoning_env.records import ProblemSpec
from reasoning_env.storage.reading import Malformed
from tests.e2e.processes import REPOSITORY
from tests.lent_pool import lent_pool

on_module_loop = pytest.mark.asyncio(loop_scope="module")

TASKS = ("gcd", "tower_of_hanoi")
"""A task with many different questions, and a task with about a hundred."""
Write = Callable[..., Awaitable[dict[str, Any]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers() -> AsyncIterator[Any]:
    async with lent_pool() as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def write(workers: Any) -> Write:
    """Writes a file of problems and returns its card."""

    async def write(out: Path, count: int, *, tasks: tuple[str, ...] = TASKS, **wanted: Any) -> dict[str, Any]:
        session = Session(pool=workers, tasks=tasks, num_eval_samples_per_task=5)
        return dict(await write_problems(session, RowPlan(count, **wanted), out))

    return write


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [dict(row) for row in read_rows(path, "--out") if not isinstance(row, Malformed)]


def questions(rows: list[dict[str, Any]]) -> set[str]:
    return {hash_without_whitespace(row["question"]) for row in rows}


@on_module_loop
async def test_problems_command_writes_no_question_twice(write: Write, tmp_path: Path) -> None:
    card = await write(tmp_path / "a.jsonl", 80)
    rows = rows_of(tmp_path / "a.jsonl")
    assert len(questions(rows)) == len(rows) == card["rows"] == 80
    assert card["tasks"]["tower_of_hanoi"]["duplicates"] > 0


@on_module_loop
async def test_problems_command_writes_no_question_of_the_evaluation_set(
    write: Write, workers: Any, tmp_path: Path
) -> None:
    await write(tmp_path / "a.jsonl", 40, tasks=("tower_of_hanoi",))
    async with Session(pool=workers, tasks=["tower_of_hanoi"], num_eval_samples_per_task=5) as session:
        held_out = {hash_without_whitespace(problem.question) for problem in await session.evaluation_set.problems()}
    assert not held_out & questions(rows_of(tmp_path / "a.jsonl"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@on_module_loop
async def test_datasets_library_loads_the_rows_of_the_problems_command(write: Write, tmp_path: Path) -> None:
    from datasets import load_dataset

    for kind in ("parquet", "jsonl"):
        path = tmp_path / f"a.{kind}"
        await write(path, 12, tasks=("gcd", "maze"), levels=(0.0, 0.5))
        loaded = load_dataset(
            "json" if kind == "jsonl" else kind, data_files=str(path), split="train", cache_dir=str(tmp_path / kind)
        )
        assert list(loaded) == rows_of(path)


@on_module_loop
async def test_row_of_the_problems_command_has_the_documented_columns(write: Write, tmp_path: Path) -> None:
    await write(tmp_path / "a.jsonl", 2)
    row = rows_of(tmp_path / "a.jsonl")[0]
    assert row["reference"].startswith("gcd:train:")
    assert row["messages"][-1] == {"role": "user", "content": row["question"]}
    assert json.loads(row["metadata"])["source_dataset"] == "gcd"
    assert (row["index"], row["task"], row["level"]) == (0, "gcd", -1.0)


@on_module_loop
async def test_problem_rows_of_all_tasks_have_the_same_column_types(write: Write, tmp_path: Path) -> None:
    """`boxnet` is included because its problems have no single right answer, so `answer` is null."""
    await write(tmp_path / "a.jsonl", 1, tasks=("boxnet",))
    await write(tmp_path / "b.jsonl", 1, tasks=("gcd",), levels=(1,))
    [without], [with_answer] = rows_of(tmp_path / "a.jsonl"), rows_of(tmp_path / "b.jsonl")
    assert {name: type(value) for name, value in without.items()} == {
        name: type(value) for name, value in with_answer.items()
    }


@on_module_loop
async def test_problems_command_writes_identical_files_for_the_same_arguments(write: Write, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        await write(tmp_path / name, 60)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


@on_module_loop
async def test_rows_of_all_shards_together_equal_the_rows_of_the_unsharded_file(write: Write, tmp_path: Path) -> None:
    parts = 3
    await write(tmp_path / "whole.jsonl", 70)
    of_parts = []
    for part in range(1, parts + 1):
        await write(tmp_path / f"{part}.jsonl", 70, part=part, parts=parts)
        of_parts += rows_of(tmp_path / f"{part}.jsonl")
    assert sorted(of_parts, key=lambda row: row["index"]) == rows_of(tmp_path / "whole.jsonl")


@on_module_loop
async def test_problems_command_alternates_between_the_given_levels(write: Write, tmp_path: Path) -> None:
    await write(tmp_path / "a.jsonl", 6, tasks=("gcd",), levels=(0.25, 0.5))
    assert [row["level"] for row in rows_of(tmp_path / "a.jsonl")] == [0.25, 0.5] * 3


@on_module_loop
async def test_problems_command_writes_fewer_rows_than_requested_if_questions_run_out(
    write: Write, tmp_path: Path
) -> None:
    card = await write(tmp_path / "a.jsonl", 100, tasks=("tower_of_hanoi",))
    facts = card["tasks"]["tower_of_hanoi"]
    assert card["rows"] == facts["rows"] < 100
    [ended] = facts["ended"]
    assert ended.startswith("at reasoning-gym's defaults, 100 generated problems in a row could not be used")


@on_module_loop
async def test_parquet_file_has_the_same_rows_as_the_jsonl_file(write: Write, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.parquet"):
        await write(tmp_path / name, 10)
    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist() == rows_of(tmp_path / "a.jsonl")


@on_module_loop
async def test_problem_rows_can_be_iterated_in_python(workers: Any) -> None:
    async with Session(pool=workers, tasks=TASKS) as session:
        tasks = [row.problem.task async for row in ProblemRows(session, RowPlan(6))]
    assert tasks == ["gcd"] * 3 + ["tower_of_hanoi"] * 3


@on_module_loop
async def test_problems_are_generated_concurrently(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most twice the number of generators run at once, and never more than rows are missing."""
    generate, under_way, most = workers.generate, 0, 0

    async def pluralize(spec: ProblemSpec, deadline_s: float) -> Problem:
        nonlocal under_way, most
        under_way, most = under_way + 1, max(most, under_way + 1)
        try:
            return await generate(spec, deadline_s)
        finally:
            under_way -= 1

    async with Session(pool=workers, tasks=["gcd"], num_generators=6, num_eval_samples_per_task=1) as session:
        await session.evaluation_set.problems()
        monkeypatch.setattr(workers, "generate", pluralize)
        assert len([row async for row in ProblemRows(session, RowPlan(30))]) == 30
        assert most == 12
        most = 0
        assert len([row async for row in ProblemRows(session, RowPlan(2))]) == 2
        assert most == 2


# ---------------------------------------------------------------------------- after an earlier call


@on_module_loop
async def test_complete_file_of_problems_is_not_written_again(write: Write, tmp_path: Path) -> None:
    first = await write(tmp_path / "a.jsonl", 4)
    written = (tmp_path / "a.jsonl").stat().st_mtime_ns
    assert await write(tmp_path / "a.jsonl", 4) == first
    assert (tmp_path / "a.jsonl").stat().st_mtime_ns == written


@on_module_loop
async def test_problems_command_does_not_overwrite_a_file_that_lacks_a_metadata_card(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text("mine")
    with pytest.raises(ConfigError, match=r"may be from another command: .* is missing"):
        await write(tmp_path / "a.jsonl", 4)
    assert (tmp_path / "a.jsonl").read_text() == "mine"


LASTING_ROWS = 50
"""Number of saved rows after which the command is killed."""
KILL = f"""
import os, signal, sys
from pathlib import Path
from reasoning_env.commands.main import main
from reasoning_env.storage.files import KeyedFile

append = KeyedFile.append

def append_or_die(file, key, *pieces):
    append(file, key, *pieces)
    if len(file.keys) == {LASTING_ROWS}:
        os.kill(os.getpid(), signal.SIGKILL)

KeyedFile.append = append_or_die
main(sys.argv[1:], {{}}, environment_file=Path("reasoning_gym_environment.py"))
"""


def kill_in_the_middle(words: Sequence[str], out: Path) -> None:
    """Start a command and kill it after it has saved some of its rows."""
    call = subprocess.run([sys.executable, "-c", KILL, *words], cwd=REPOSITORY, check=False)
    assert call.returncode == -signal.SIGKILL
    assert unfinished_path(out).read_bytes().count(b"\n") == LASTING_ROWS


def finish(words: Sequence[str]) -> None:
    assert main(list(words), {}, environment_file=REPOSITORY / "reasoning_gym_environment.py") == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", ["1/1", "2/3"])
def test_restarted_problems_command_completes_an_interrupted_file(tmp_path: Path, part: str) -> None:
    out, whole = tmp_path / "killed.jsonl", tmp_path / "whole.jsonl"
    words = ["problems", "--tasks", "gcd,tower_of_hanoi", "--count", "300", "--shard", part, "--out"]
    kill_in_the_middle([*words, str(out)], out)
    finish([*words, str(out)])
    finish([*words, str(whole)])
    assert out.read_bytes() == whole.read_bytes()
    assert not unfinished_path(out).exists()
    cards = [json.loads(card_path(path).read_text()) for path in (out, whole)]
    assert cards[0]["tasks"] == cards[1]["tasks"]


# ---------------------------------------------------------------------------- the command line


def test_problems_command_writes_rows_for_verl(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {complexity_mode: random, exclude_tasks: lcm, seed: 3, group_size: 4, eval_repeats: 2}")
    options = ["--format", "verl", "--count", "8", "--config", str(config), "--tasks", "gcd,lcm"]
    assert problems_command([*options, "--out", str(tmp_path / "a.parquet")], tmp_path) == 0
    rows = rows_of(tmp_path / "a.parquet")
    references = [Reference.parse(row["reward_model"]["ground_truth"]) for row in rows]
    assert len({reference.level for reference in references}) > 3
    assert [row["extra_info"] for row in rows] == [{"index": number, "task": "gcd"} for number in range(8)]
    assert (rows[0]["data_source"], rows[0]["ability"], rows[0]["prompt"][-1]["role"]) == (
        "reasoning_gym",
        "gcd",
        "user",
    )
    assert "`problems` ignores these settings: env.group_size, env.eval_repeats" in caplog.messages


@pytest.mark.parametrize("what", ["--count=1", "--evaluation"])
def test_problems_command_reports_adaptive_sampling_as_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {task_sampling: adaptive, num_eval_samples_per_task: 1}")
    options = [what, "--tasks", "gcd", "--config", str(config), "--out", str(tmp_path / "a.jsonl")]
    assert problems_command(options, tmp_path) == 0
    command = "problems --evaluation" if what == "--evaluation" else "problems"
    assert f"`{command}` ignores these settings: env.task_sampling" in caplog.messages


@pytest.mark.parametrize("file", ["a.jsonl", "a.parquet"])
def test_problems_command_writes_rows_for_trl(tmp_path: Path, file: str) -> None:
    options = ["--format", "trl", "--count", "3", "--tasks", "gcd", "--out", str(tmp_path / file)]
    assert problems_command(options, tmp_path) == 0
    rows = rows_of(tmp_path / file)
    assert [set(row) for row in rows] == [{"prompt", "reference"}] * 3
    assert rows[0]["prompt"][-1]["role"] == "user"
    assert Reference.parse(rows[0]["reference"]).task == "gcd"


def test_problems_command_writes_problems_of_the_evaluation_set(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("env: {num_eval_samples_per_task: 3}")
    options = ["--evaluation", "--tasks", "gcd", "--config", str(tmp_path / "run.yaml")]
    assert problems_command([*options, "--out", str(tmp_path / "a.jsonl")], tmp_path) == 0
    assert [row["reference"].split(":")[1] for row in rows_of(tmp_path / "a.jsonl")] == ["eval"] * 3


def test_options_of_the_problems_command_override_the_config_file(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("env: {complexity_mode: random, seed: 3, tasks: games, task_params: {gcd: {max_numbers: 9}}}")
    options = ["--tasks", "gcd,lcm", "--exclude", "lcm", "--params", "{gcd: {max_numbers: 5}}", "--levels", "0.5"]
    options += ["--count", "1", "--config", str(config), "--out", str(tmp_path / "a.jsonl")]
    assert problems_command(options, tmp_path) == 0
    made_with = json.loads(card_path(tmp_path / "a.jsonl").read_text())["made_with"]
    assert (made_with["seed"], made_with["levels"], made_with["tasks"]) == (3, [0.5], ["gcd"])


# ---------------------------------------------------------------------------- shares and parts


def test_task_weights_decide_how_many_rows_each_task_gets() -> None:
    assert split_row_count(10, {"a": 1.0, "b": 1.0, "c": 1.0}) == {"a": 4, "b": 3, "c": 3}
    assert split_row_count(7, {"a": 3.0, "b": 0.5}) == {"a": 6, "b": 1}


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 16])
def test_shards_divide_the_problems_of_each_task_without_overlap(parts: int) -> None:
    owned: dict[str, list[tuple[int, int]]] = {}
    for part in range(1, parts + 1):
        for task, share in tasks_of_part(["a", "b", "c"], part, parts).items():
            owned.setdefault(task, []).append(share)
    assert {task: sorted(parts) for task, parts in owned.items()} == {
        task: [(remainder, len(parts)) for remainder in range(len(parts))] for task, parts in owned.items()
    }
    assert owned.keys() == {"a", "b", "c"}

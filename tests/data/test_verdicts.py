"""Score rows with completions: other columns stay, and rows that cannot be judged are reported."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pyarrow
import pyarrow.parquet
import pytest
import pytest_asyncio

from reasoning_env import ConfigError, Problem, Session
from reasoning_env.data import verdicts
from reasoning_env.data.output import card_path, unfinished_path
from reasoning_env.data.tables import read_rows, write_rows
from reasoning_env.data.training import PassRates, Selection
from reasoning_env.data.verdict_files import NO_GROUP, judge_rows, row_files
from reasoning_env.dumps.format import Keep
from reasoning_env.errors import ScoringError
from reasoning_env.storage.files import KeyedFile
from reasoning_env.storage.reading import Malformed
from tests.e2e.processes import REPOSITORY
from tests.lent_pool import lent_pool
from tests.reports.lines import group, rollout

on_module_loop = pytest.mark.asyncio(loop_scope="module")

Rescore = Callable[..., Awaitable[dict[str, Any]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers() -> AsyncIterator[Any]:
    async with lent_pool() as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def problem(workers: Any) -> Problem:
    async with Session(pool=workers, tasks=["gcd"]) as session:
        return await session.make("gcd", 7)


@pytest_asyncio.fixture(loop_scope="module")
async def rescore(workers: Any) -> Rescore:
    async def rescore(path: Path, out: Path, **how: Any) -> dict[str, Any]:
        return dict(await judge_rows(Session(pool=workers, tasks=["gcd"]), [path], out, **how))

    return rescore


def write(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [dict(row) for row in read_rows(path, "--out") if not isinstance(row, Malformed)]


def right(problem: Problem) -> str:
    return f"<answer>{problem.answer}</answer>"


@on_module_loop
async def test_row_with_a_completion_gets_a_score(rescore: Rescore, problem: Problem, tmp_path: Path) -> None:
    row = {"reference": problem.reference, "mine": {"a": [1]}, "completion": right(problem)}
    path = write(tmp_path / "a.jsonl", row, {**row, "completion": "none"})
    await rescore(path, tmp_path / "b.jsonl")
    assert read(tmp_path / "b.jsonl") == [
        {**row, "score": 1.0, "reason": "scored", "pass_rate": 1.0},
        {**row, "completion": "none", "score": 0.0, "reason": "no_answer", "pass_rate": 0.0},
    ]


@on_module_loop
async def test_row_with_several_completions_gets_a_list_of_scores(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    conversation = [{"role": "user", "content": "?"}, {"role": "assistant", "content": right(problem)}]
    row = {"reference": problem.reference, "completions": [conversation, right(problem), "none", ""]}
    await rescore(write(tmp_path / "a.jsonl", row), tmp_path / "b.jsonl")
    [judged] = read(tmp_path / "b.jsonl")
    assert (judged["scores"], judged["pass_rate"]) == ([1.0, 1.0, 0.0, 0.0], 0.5)
    assert judged["reasons"] == ["scored", "scored", "no_answer", "no_text"]


@on_module_loop
async def test_each_group_of_a_rollout_dump_is_rescored_into_one_row(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    line = group(
        rollout(text=right(problem), score=1.0), rollout(text="none"), task="gcd", seed=7, reference=problem.reference
    )
    await rescore(write(tmp_path / "a.jsonl", line), tmp_path / "b.jsonl")
    [row] = read(tmp_path / "b.jsonl")
    assert (row["task"], row["scores"], row["completions"]) == ("gcd", [1.0, 0.0], [right(problem), "none"])


@on_module_loop
async def test_rows_skipped_while_rescoring_are_reported(rescore: Rescore, problem: Problem, tmp_path: Path) -> None:
    unknown = problem.reference.replace("gcd:", "gdc:", 1)
    altered = problem.reference.replace(":7:", ":8:", 1)
    rows = [
        {"reference": problem.reference, "completion": "none"},
        {"reference": "nonsense", "completion": "none"},
        {"reference": unknown, "completion": "none"},
        {"reference": altered, "completion": "none"},
        {"completion": "none"},
        {"reference": problem.reference, "completion": 7},
        {"reference": problem.reference, "completion": "none", "completions": ["none"]},
        {"reference": problem.reference, "completions": None},
    ]
    card = await rescore(write(tmp_path / "a.jsonl", *rows), tmp_path / "b.jsonl")
    assert len(read(tmp_path / "b.jsonl")) == card["rows"] == 1
    assert [facts["first_row"] for facts in card["left_out"].values()] == [2, 3, 4, 5, 6, 7, 8]


@on_module_loop
async def test_rows_skipped_for_the_same_reason_are_counted_together(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    rows = [{"reference": f"task{number}:train:1:-:x:0123456789abcdef:{{}}", "completion": ""} for number in range(3)]
    path = write(tmp_path / "a.jsonl", *rows, {"reference": problem.reference, "completion": "none"})
    card = await rescore(path, tmp_path / "b.jsonl")
    assert card["left_out"] == {
        "this installation lacks the task of the row's reference": {
            "rows": 3,
            "first_file": str(path),
            "first_row": 1,
            "first": "task0",
        },
    }


@on_module_loop
async def test_row_from_another_release_is_scored_if_its_problem_is_unchanged(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    other = problem.reference.replace(":0.1.25:", ":0.1.24:", 1)
    rows = write(tmp_path / "a.jsonl", {"reference": other, "completion": right(problem)})
    await rescore(rows, tmp_path / "b.jsonl")
    assert [row["score"] for row in read(tmp_path / "b.jsonl")] == [1.0]


@on_module_loop
async def test_rows_can_be_rescored_from_python(
    workers: Any, problem: Problem, caplog: pytest.LogCaptureFixture
) -> None:
    good = [{"reference": problem.reference, "n": n, "completion": right(problem) if n % 2 else ""} for n in range(6)]
    rows = [*good[:3], {"reference": "nonsense", "completion": ""}, *good[3:]]
    async with Session(pool=workers, tasks=["gcd"], num_generators=1, num_verifiers=1) as session:
        judged = [(row["n"], row["score"]) async for row in verdicts.verdicts(session, rows)]
    assert judged == [(n, float(n % 2)) for n in range(6)]
    assert "skipped row 4: the reference cannot be read" in caplog.text


def test_python_example_of_the_data_page_prints_the_scores(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "data.md").read_text()
    shown = next(block.split("```")[0] for block in page.split("```python\n") if "verdicts(session" in block)
    exec(compile(shown, "docs/data.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["0.25", "0.5", "0.25", "0.5"]
    assert all(line.endswith("[1.0, 0.0] 0.5") for line in lines)


@on_module_loop
async def test_row_gets_no_score_if_an_infrastructure_error_prevents_judging(
    workers: Any, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "RETRY_PAUSES_S", (0.0,))
    session = Session(pool=workers, tasks=["gcd"])
    session.judge = AsyncMock(side_effect=ScoringError("a fault"))  # type: ignore[method-assign]
    path = write(tmp_path / "a.jsonl", {"reference": problem.reference, "completion": "none"})
    card = await judge_rows(session, [path], tmp_path / "b.jsonl")
    [row] = read(tmp_path / "b.jsonl")
    assert (row["score"], row["pass_rate"], card["without_score"]) == (None, None, 1)
    assert session.judge.await_count == 2


@on_module_loop
async def test_rescoring_writes_only_rows_in_the_pass_rate_range(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    def row(name: str, *completions: str) -> dict[str, Any]:
        return {"name": name, "reference": problem.reference, "completions": completions}

    yes, no = right(problem), "none"
    path = write(tmp_path / "a.jsonl", row("all", yes, yes), row("some", yes, no), row("never", no, no))
    card = await rescore(path, tmp_path / "b.jsonl", selection=Selection(pass_rates=PassRates(0.2, 0.8)))
    assert [row["name"] for row in read(tmp_path / "b.jsonl")] == ["some"]
    assert (card["rows"], card["outside"]) == (1, 2)


@on_module_loop
async def test_rescoring_writes_pairs_of_a_right_and_a_wrong_completion(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    line = group(rollout(text="none"), rollout(text=right(problem)), task="gcd", seed=7, reference=problem.reference)
    card = await rescore(write(tmp_path / "a.jsonl", line), tmp_path / "b.parquet", selection=Selection(Keep.PAIRS))
    [pair] = read(tmp_path / "b.parquet")
    assert [pair[name][0]["content"] for name in ("chosen", "rejected")] == [right(problem), "none"]
    assert (card["rows"], card["judged"]) == (1, 1)


@on_module_loop
async def test_rescoring_selects_training_rows_by_the_new_scores(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    line = group(rollout(text=right(problem), score=0.0), task="gcd", seed=7, reference=problem.reference)
    await rescore(write(tmp_path / "a.jsonl", line), tmp_path / "b.jsonl", selection=Selection(Keep.CORRECT))
    assert [(row["score"], row["seed"]) for row in read(tmp_path / "b.jsonl")] == [(1.0, 7)]


@on_module_loop
async def test_completions_that_do_not_become_training_rows_are_counted_by_reason(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    yes = right(problem)
    rollouts = [rollout(text=yes), rollout(text=yes), rollout(text="none", score=1.0), rollout(text=f"So {yes}")]
    line = group(*rollouts, task="gcd", seed=7, reference=problem.reference)
    selection = Selection(Keep.CORRECT, max_per_problem=1)
    card = await rescore(write(tmp_path / "a.jsonl", line), tmp_path / "b.jsonl", selection=selection)
    assert card["not_kept"] == {
        "not correct": 1,
        "equal to another training row": 1,
        "more than --max-per-problem": 1,
    }
    assert (card["rows"], card["wrong_now"]) == (1, 1)


@on_module_loop
async def test_selecting_training_rows_raises_if_the_input_rows_are_not_groups_of_rollouts(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", {"reference": problem.reference, "completion": right(problem)})
    with pytest.raises(ConfigError, match=NO_GROUP):
        await rescore(path, tmp_path / "b.jsonl", selection=Selection(Keep.ALL))


@on_module_loop
async def test_rescoring_keeps_the_column_types_of_a_parquet_file(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    table = pyarrow.table(
        {"reference": [problem.reference], "completion": ["none"], "small": pyarrow.array([3], "int8")}
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    await rescore(tmp_path / "a.parquet", tmp_path / "b.parquet")
    schema = pyarrow.parquet.read_schema(tmp_path / "b.parquet")
    assert (str(schema.field("small").type), str(schema.field("score").type)) == ("int8", "double")


@on_module_loop
async def test_output_column_types_do_not_depend_on_scores_in_the_input(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    table = pyarrow.table(
        {"reference": [problem.reference], "scores": [[0]], "completions": [[right(problem), "none"]]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    await rescore(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert [(row["scores"], row["pass_rate"]) for row in read(tmp_path / "b.parquet")] == [([1.0, 0.0], 0.5)]


@on_module_loop
async def test_column_with_values_of_several_types_raises_before_judging(
    workers: Any, problem: Problem, tmp_path: Path
) -> None:
    session = Session(pool=workers, tasks=["gcd"])
    session.judge = AsyncMock()  # type: ignore[method-assign]
    row = {"reference": problem.reference, "completion": "none"}
    path = write(tmp_path / "a.jsonl", {**row, "mine": 1}, {**row, "mine": {"a": 1}})
    with pytest.raises(ConfigError, match=r"values of several types \(mine: "):
        await judge_rows(session, [path], tmp_path / "b.parquet")
    assert session.judge.await_count == 0


@on_module_loop
async def test_rows_judged_before_an_interruption_are_not_judged_again(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    row = {"reference": problem.reference, "completion": "none"}
    path = write(tmp_path / "a.jsonl", row, row)
    await rescore(path, tmp_path / "b.jsonl")
    made_with = json.loads(card_path(tmp_path / "b.jsonl").read_text())["made_with"]
    (tmp_path / "b.jsonl").unlink()
    judged = KeyedFile(unfinished_path(tmp_path / "b.jsonl"), made_with, setting="--out")
    judged.append_row("1", {"scores": [0.75], "reasons": ["scored"], "pass_rate": 0.0})
    judged.close()
    await rescore(path, tmp_path / "b.jsonl")
    assert [row["score"] for row in read(tmp_path / "b.jsonl")] == [0.75, 0.0]


@on_module_loop
async def test_rescoring_a_folder_reads_every_file_in_it_that_holds_rows(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    row = {"reference": problem.reference, "completion": "none"}
    line = json.dumps(row) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    write_rows(tmp_path / "b.parquet", [row], dict.fromkeys(row, "text"))
    write(tmp_path / "c.jsonl")
    write(tmp_path / "d.jsonl", {"reference": "nonsense", "completion": "none"})
    card = await rescore(tmp_path, tmp_path / "all.jsonl")
    assert card["rows"] == len(read(tmp_path / "all.jsonl")) == 2
    [facts] = card["left_out"].values()
    assert (facts["first_file"], facts["first_row"]) == (str(tmp_path / "d.jsonl"), 1)
    assert await rescore(tmp_path, tmp_path / "all.jsonl") == card


def test_rescoring_reads_a_jsonl_file_instead_of_its_parquet_copy(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.header", "a-correct.jsonl", "a.parquet", "b.parquet"):
        (tmp_path / name).touch()
    names = [file.name for file in row_files([tmp_path / "b.parquet", tmp_path], tmp_path / "out.jsonl")]
    assert names == ["b.parquet", "a.jsonl"]


def test_rescoring_a_folder_of_evaluations_reads_their_samples_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in ("samples.jsonl", "samples.jsonl.header", "results.json"):
            (tmp_path / name / file).touch()
    (tmp_path / "kept.jsonl").touch()  # a second call with equal arguments finds the finished output
    files = row_files([tmp_path], tmp_path / "kept.jsonl")
    assert files == [tmp_path / "a" / "samples.jsonl", tmp_path / "b" / "samples.jsonl"]


@on_module_loop
async def test_rescoring_uses_the_thinking_formats_named_in_the_row(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    text = f"[THINK]<answer>1</answer>[/THINK]{right(problem)}"
    lines = [
        {**group(rollout(text=text), task="gcd", seed=7, reference=problem.reference), "thinking_formats": formats}
        for formats in (["think", "magistral"], None)
    ]
    await rescore(write(tmp_path / "a.jsonl", *lines), tmp_path / "b.parquet")
    await rescore(tmp_path / "b.parquet", tmp_path / "c.jsonl")
    for name in ("b.parquet", "c.jsonl"):
        assert [row["scores"] for row in read(tmp_path / name)] == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"reference": "nonsense", "completion": "x"}], r"; the reference cannot be read \(.*\)"),
        ([], ""),
    ],
)
@on_module_loop
async def test_rescoring_a_file_without_usable_rows_raises(
    rescore: Rescore, tmp_path: Path, rows: Sequence[Mapping[str, Any]], said: str
) -> None:
    path = write(tmp_path / "a.jsonl", *rows)
    with pytest.raises(ConfigError, match=rf"^PATH: {path} contains no rows that can be judged{said}$"):
        await rescore(path, tmp_path / "b.jsonl")
    assert list(tmp_path.iterdir()) == [path]


def as_verl(reference: str, text: str) -> dict[str, Any]:
    return {"input": "Q?", "output": text, "gts": reference, "score": 0.0, "step": 1}


def as_nemo_gym(reference: str, text: str) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []}]
    output = [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "<answer>0</answer>"}]},
        {"type": "message", "role": "assistant", "content": parts, "status": "completed"},
    ]
    return {"responses_create_params": {}, "response": {"output": output}, "reward": 0.0, "reference": reference}


def as_inspect(reference: str, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"id": reference, "epoch": 1, "output": {"choices": [{"message": message}]}}


def as_batch(reference: str, text: str) -> dict[str, Any]:
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
    return {"custom_id": reference, "response": {"status_code": 200, "body": body}, "error": None}


@on_module_loop
@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (as_verl, {"reference": "gts", "completion": "output"}),
        (as_nemo_gym, {"completion": "response.output"}),
        (as_inspect, {"reference": "id", "completion": "output.choices.0.message"}),
        (as_batch, {"reference": "custom_id", "completion": "response.body.choices.0.message"}),
    ],
)
async def test_lines_written_by_other_tools_are_read_with_the_columns_option(
    rescore: Rescore, problem: Problem, tmp_path: Path, line: Any, columns: Mapping[str, str]
) -> None:
    path = write(tmp_path / "a.jsonl", *(line(problem.reference, text) for text in (right(problem), "none")))
    await rescore(path, tmp_path / "b.jsonl", columns=columns)
    rows = read(tmp_path / "b.jsonl")
    assert [(row["reference"], row["score"]) for row in rows] == [(problem.reference, 1.0), (problem.reference, 0.0)]


@on_module_loop
async def test_columns_option_applies_to_a_parquet_file(rescore: Rescore, problem: Problem, tmp_path: Path) -> None:
    table = pyarrow.table({"gts": [problem.reference], "output": [right(problem)]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    columns = {"reference": "gts", "completion": "output"}
    await rescore(tmp_path / "a.parquet", tmp_path / "b.parquet", columns=columns)
    assert [(row["gts"], row["score"]) for row in read(tmp_path / "b.parquet")] == [(problem.reference, 1.0)]


@on_module_loop
async def test_error_about_a_missing_problem_reference_lists_the_row_columns(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    row = as_verl(problem.reference, "none")
    with pytest.raises(
        ConfigError, match=r"no reference \(its columns are input, output, gts, score, step; choose columns"
    ):
        await rescore(write(tmp_path / "a.jsonl", row, row), tmp_path / "b.jsonl")


@on_module_loop
async def test_malformed_jsonl_line_is_reported_with_its_line_number(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", {"reference": problem.reference, "completion": "none"})
    path.write_text(path.read_text() + "nonsense\n")
    card = await rescore(path, tmp_path / "b.jsonl")
    [(told, facts)] = card["left_out"].items()
    assert told == "the line cannot be read"
    assert facts["first"].startswith("not JSON")
    assert (card["rows"], facts["first_row"]) == (1, 2)


@on_module_loop
async def test_infinite_numbers_and_nan_of_a_row_are_written_as_null(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    row = {"reference": problem.reference, "completion": "none", "loss": math.nan, "more": {"list": [-math.inf, 1]}}
    await rescore(write(tmp_path / "a.jsonl", row), tmp_path / "b.jsonl")
    [judged] = read(tmp_path / "b.jsonl")
    assert (judged["loss"], judged["more"]) == (None, {"list": [None, 1]})


@on_module_loop
async def test_rescoring_skips_a_line_that_repeats_an_earlier_group(
    rescore: Rescore, problem: Problem, tmp_path: Path
) -> None:
    dumped = group(rollout(text="none"), task="gcd", seed=7, reference=problem.reference)
    for number, line in enumerate(({"key": "0", **dumped}, {"time": 1.5, **dumped})):
        card = await rescore(write(tmp_path / f"a{number}.jsonl", line, line), tmp_path / f"b{number}.jsonl")
        assert (card["rows"], list(card["left_out"])) == (1, ["the group is already in an earlier line or file"])


@on_module_loop
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.jsonl", "cannot be read: No such file"),
        ("folder", "contains no files that end in"),
        ("a.csv", "must end in"),
    ],
)
async def test_rescoring_a_path_that_contains_no_rows_raises(
    rescore: Rescore, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.csv").touch()
    with pytest.raises(ConfigError, match=f"PATH: .*{said}"):
        await rescore(tmp_path / name, tmp_path / "b.jsonl")

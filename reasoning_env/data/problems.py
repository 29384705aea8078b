"""Files of problems: reproducible, with unique questions, and without questions of the evaluation set.

The rows of a task cycle through the requested levels. Each level of a task has its own sequence of draws (attempts to
generate a problem), whose seeds depend only on the run's seed, the task, the level and the number of the draw. A draw
gives no row if its question is too long, or already in the file or the evaluation set. After too many rejected or
failed draws, a level ends early (see `problems/giving_up.py`).

Several machines can each make a part (shard) of a file. All parts together have the rows of the whole file. Parts share
a task only if there are more parts than tasks. Parts that share a task each generate all draws of the task, and a hash
decides which of these parts keeps a question.
"""

from __future__ import annotations

import asyncio
import json
import platform
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..errors import ConfigError, GenerationError
from ..problems.giving_up import MAX_FAILURES
from ..problems.plan import made_with
from ..problems.references import hash_without_whitespace
from ..problems.stream import DrawAttempts, draw_problem, generate_with_retries
from ..records import Problem, ProblemRequest, ProblemSpec, Rejection, Split
from ..runtime.concurrency import cancel_all, map_concurrently
from ..runtime.terminal import progress_bar
from ..seeds import file_seed, hash_fraction, hash_int
from ..session import Session
from ..storage.files import KeyedFile
from .output import finished_card, rows_by_position, unfinished_rows, write_output
from .tables import replace_missing

Level = float | Literal["random"] | None
"""A level of difficulty: fixed, random for each draw (uniform in [0, 1)), or None for reasoning-gym's defaults."""


class ProblemForm(StrEnum):
    """Which columns the rows have."""

    ROWS = "rows"
    """Columns for any program: each property of the problem has its own column."""
    VERL = "verl"
    """The columns that verl and SkyRL read; `reward_model` has `Problem.reference`."""
    TRL = "trl"
    """The columns that TRL's trainers and `TrlEnvironment.reward` read."""


@dataclass(frozen=True)
class RowPlan:
    """Which rows to generate: part number `part` (from 1) of a file that has `count` rows in `parts` parts.

    The rows of a task cycle through `levels`. For a task without levels, reasoning-gym's defaults are used.
    """

    count: int
    levels: tuple[Level, ...] = (None,)
    seed: int = 42
    part: int = 1
    parts: int = 1


@dataclass
class LevelProgress:
    """Progress of a task at a level: how many draws were made, how many gave rows, and how many did not, by cause.

    `ended` is the reason why the level can give no further row; "" while it can.
    """

    level: Level
    draws: int = 0
    rows: int = 0
    duplicates: int = 0
    held_out: int = 0
    too_long: int = 0
    failures: int = 0
    without_row: int = 0
    """Number of rejected draws since the last row of this level, repeated questions included."""
    repeats: int = 0
    """Number of draws, since the last row of this level, whose question was in the file or evaluation set already."""
    ended: str = ""


@dataclass
class TaskProgress:
    """Progress of a task: rows requested for all parts (`wanted`), and rows in this run's part (`kept`)."""

    task: str
    wanted: int
    levels: list[LevelProgress] = field(default_factory=list)
    kept: int = 0

    @property
    def rows(self) -> int:
        return sum(level.rows for level in self.levels)

    def state(self) -> dict[str, object]:
        """Return the progress as JSON values."""
        return asdict(self)

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> TaskProgress:
        """Restore the progress from the return value of `state()`. Raises ValueError for an invalid state."""
        try:
            levels = [LevelProgress(**level) for level in state["levels"]]
            return cls(state["task"], state["wanted"], levels, state["kept"])
        except (KeyError, TypeError) as error:
            raise ValueError("the saved progress of a task has unknown or missing fields") from error


def split_row_count(count: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Return the number of rows of each task, in proportion to its weight; the numbers add up to `count`."""
    total = sum(weights.values())
    exact = {task: count * weight / total for task, weight in weights.items()}
    whole = {task: int(rows) for task, rows in exact.items()}
    by_remainder = sorted(weights, key=lambda task: whole[task] - exact[task])
    for task in by_remainder[: count - sum(whole.values())]:
        whole[task] += 1
    return whole


def tasks_of_part(tasks: Sequence[str], part: int, parts: int) -> dict[str, tuple[int, int]]:
    """Return the tasks of part `part` (from 1), each with a pair (r, d).

    The part has the questions whose hash modulo d is r.
    """
    if parts <= len(tasks):
        return dict.fromkeys(tasks[part - 1 :: parts], (0, 1))
    number = (part - 1) % len(tasks)
    sharing = len(range(number, parts, len(tasks)))
    return {tasks[number]: ((part - 1) // len(tasks), sharing)}


@dataclass(frozen=True)
class ProblemRow:
    """A problem and its position among the rows of all parts of the file.

    `question` is the hash of the question. `is_of_part` is True if the row belongs to the part that this run writes.
    `progress` counts this row and the earlier rows of the task.
    """

    position: int
    problem: Problem
    question: str
    is_of_part: bool
    progress: TaskProgress


@dataclass
class EarlierRows:
    """What an interrupted run stored: the progress of each task, and the hashes of the task's questions."""

    progress: dict[str, TaskProgress] = field(default_factory=dict)
    questions: dict[str, set[str]] = field(default_factory=dict)


class ProblemRows:
    """Generates the rows of one part (shard) of a file, task by task.

    Args:
        session: A started session; its settings select tasks, weights and parameters.
        wanted: Which part of the rows to generate.
        earlier: The rows of an interrupted run with the same settings; None to start from the beginning.
    """

    def __init__(self, session: Session[object], wanted: RowPlan, earlier: EarlierRows | None = None) -> None:
        self._session = session
        self._wanted = wanted
        earlier = earlier or EarlierRows()
        self._questions = earlier.questions
        tasks = [task for task, weight in session.plan.weights.items() if weight > 0.0]
        self._places = {task: place for place, task in enumerate(tasks)}
        self._owned = tasks_of_part(tasks, wanted.part, wanted.parts)
        # With twice as many jobs as workers, a job is ready when a worker is done, even if some problems are slow.
        self._at_once = 2 * session.settings.generators
        rows = split_row_count(wanted.count, {task: session.plan.weights[task] for task in tasks})
        adjustable = session.plan.adjustable
        self.progress = {
            task: earlier.progress.get(task)
            or TaskProgress(
                task,
                rows[task],
                [LevelProgress(level) for level in (wanted.levels if task in adjustable else (None,))],
            )
            for task in self._owned
        }

    async def of_task(self, task: str) -> AsyncIterator[ProblemRow]:
        """Generate and yield the missing rows of a task, including rows whose `is_of_part` is False."""
        progress = self.progress[task]
        questions = self._questions.setdefault(task, set())
        remainder, sharing = self._owned[task]
        sequences = [_LevelDraws(self._session, task, level, self._wanted.seed) for level in progress.levels]
        try:
            while progress.rows < progress.wanted:
                open_sequences = [draws for draws in sequences if not draws.progress.ended]
                if not open_sequences:
                    return
                draws = min(open_sequences, key=lambda draws: draws.progress.rows)
                problem = await draws.next_new(questions, min(self._at_once, progress.wanted - progress.rows))
                if problem is None:
                    continue
                question = hash_without_whitespace(problem.question)
                is_of_part = hash_int(question) % sharing == remainder
                if is_of_part:
                    progress.kept += 1
                # Tasks alternate in the file whatever their weights, so the position does not depend on other tasks.
                position = (progress.rows - 1) * len(self._places) + self._places[task]
                yield ProblemRow(position, problem, question, is_of_part, progress)
        finally:
            await cancel_all(draw for draws in sequences for draw in draws.ahead)
            del self._questions[task]  # questions are compared within a task

    async def __aiter__(self) -> AsyncIterator[ProblemRow]:
        """Yield the rows of the wanted part, task by task."""
        for task in self.progress:
            async for row in self.of_task(task):
                if row.is_of_part:
                    yield row

    async def make(self, keep: Callable[[ProblemRow], None]) -> None:
        """Generate the rows of several tasks at a time. Call `keep` with each row, even if `is_of_part` is False."""

        async def keep_all(task: str) -> None:
            async for row in self.of_task(task):
                keep(row)

        await map_concurrently(keep_all, self.progress, at_once=self._at_once)


class _LevelDraws:
    """The attempts to generate problems of a task at one level. Several attempts run at the same time."""

    def __init__(self, session: Session[object], task: str, progress: LevelProgress, seed: int) -> None:
        self.progress = progress
        self.ahead: deque[asyncio.Task[Problem | Rejection]] = deque()
        self._session = session
        self._task = task
        self._seed = seed
        self._next_draw = progress.draws

    async def next_new(self, questions: set[str], ahead: int) -> Problem | None:
        """Return the next problem whose question is not in `questions`, and add the question.

        Returns None if the level can give no further problem. Generates up to `ahead` problems concurrently.
        """
        progress = self.progress
        tries = DrawAttempts(max_failures=MAX_FAILURES, rejected=progress.without_row, repeats=progress.repeats)
        try:
            problem = await draw_problem(lambda _: self._attempt(questions, ahead), tries)
        except GenerationError as error:
            progress.ended = str(error)
            return None
        finally:
            progress.without_row = tries.rejected
            progress.repeats = tries.repeats
        progress.rows += 1
        return problem

    async def _attempt(self, questions: set[str], ahead: int) -> Problem | Rejection:
        """Make the next draw and count the result. Raises GenerationError if the draw fails."""
        progress = self.progress
        try:
            drawn = await self._draw(ahead)
        except GenerationError:
            progress.draws += 1
            progress.failures += 1
            raise
        progress.draws += 1
        if drawn is Rejection.TOO_LONG:
            progress.too_long += 1
            return drawn
        if isinstance(drawn, Rejection):
            progress.held_out += 1
            return Rejection.REPEATED
        question = hash_without_whitespace(drawn.question)
        if question in questions:
            progress.duplicates += 1
            return Rejection.REPEATED
        questions.add(question)
        return drawn

    async def _draw(self, ahead: int) -> Problem | Rejection:
        """Return the problem of the next draw, or why it is rejected. Raises GenerationError if the draw fails."""
        while len(self.ahead) < ahead:
            self.ahead.append(asyncio.create_task(self._generate(self._next_draw)))
            self._next_draw += 1
        return await self.ahead.popleft()

    async def _generate(self, number: int) -> Problem | Rejection:
        session, wanted = self._session, self.progress.level
        seed = file_seed(self._seed, self._task, wanted, number)
        level = hash_fraction("file level", self._seed, self._task, number) if wanted == "random" else wanted
        request = ProblemRequest(self._task, seed, session.plan.all_params.get(self._task, {}), level)
        spec = ProblemSpec(request, Split.TRAIN, number)
        problem = await generate_with_retries(session.pool, spec, session.settings.generation_deadline_s)
        rejection = await session.reject(problem)
        return problem if rejection is None else rejection


async def problems(
    session: Session[object], wanted: RowPlan, *, form: ProblemForm = ProblemForm.ROWS
) -> AsyncIterator[dict[str, object]]:
    """Yield the rows that the command `problems` writes, task by task; the command sorts them by `index`.

    The session must be started. Only one task's question hashes are in memory at a time.
    """
    async for row in ProblemRows(session, wanted):
        yield describe_problem(session, row.position, row.problem, form)


def describe_problem(session: Session[object], position: int, problem: Problem, form: ProblemForm) -> dict[str, object]:
    """Return a problem as a row with the columns in `PROBLEM_COLUMNS[form]`."""
    messages = [dict(message) for message in session.messages(problem)]
    if form is ProblemForm.VERL:
        return {
            "data_source": DATA_SOURCE,
            "prompt": messages,
            "ability": problem.task,
            "reward_model": {"style": "rule", "ground_truth": problem.reference},
            "extra_info": {"index": position, "task": problem.task},
        }
    if form is ProblemForm.TRL:
        return {"prompt": messages, "reference": problem.reference}
    row = {
        "index": position,
        "reference": problem.reference,
        "task": problem.task,
        "level": None if problem.level is None else float(problem.level),
        "messages": messages,
        "question": problem.question,
        "answer": problem.answer,
        "metadata": json.dumps(json.loads(problem.metadata_json)),
    }
    return replace_missing(row, PROBLEM_COLUMNS[form])


DATA_SOURCE = "reasoning_gym"
"""Value of verl's column `data_source`."""
PROBLEM_COLUMNS: Mapping[ProblemForm, Mapping[str, str]] = {
    ProblemForm.ROWS: {
        "index": "count",
        "reference": "text",
        "task": "text",
        "level": "number",
        "messages": "messages",
        "question": "text",
        "answer": "text",
        "metadata": "text",
    },
    ProblemForm.VERL: {
        "data_source": "text",
        "prompt": "messages",
        "ability": "text",
        "reward_model": "rule",
        "extra_info": "place",
    },
    ProblemForm.TRL: {"prompt": "messages", "reference": "text"},
}
"""The columns of each form, with their types in Parquet (see `tables.TYPES`)."""


@dataclass(frozen=True)
class FileOptions:
    """How to write a file.

    - `evaluation`: write the evaluation set.
    - `needs_levels`: raise an error for tasks without levels.
    - `command` and `version`: the command line and this package's version, for the file's card (see `output.py`).
    """

    form: ProblemForm = ProblemForm.ROWS
    evaluation: bool = False
    needs_levels: bool = False
    command: str = ""
    version: str = ""


async def write_problems(
    session: Session[Problem],
    wanted: RowPlan,
    out: Path,
    how: FileOptions = FileOptions(),
) -> Mapping[str, Any]:
    """Write or resume a file of problems, and return the card. Starts and closes `session`.

    The card has the number of `rows`, the progress of `tasks`, the settings (`made_with`) and versions (`releases`).

    Raises ConfigError if the file was made with other settings, or if a task lacks required levels.
    """
    async with session:
        if how.needs_levels and (without := sorted(set(session.plan.weights) - session.plan.adjustable)):
            raise ConfigError(
                f"these tasks have no levels: {', '.join(without)}",
                setting="--levels",
                remedy=f"exclude them with --exclude {','.join(without)}",
            )
        decided_by = _made_with(session, wanted, how)
        finished = finished_card(out, decided_by)
        if finished is not None:
            return finished
        earlier = EarlierRows()
        with unfinished_rows(out, decided_by, partial(_read_row, earlier)) as rows:
            if how.evaluation:
                progress = await _append_evaluation_rows(session, wanted, rows, how.form)
            else:
                progress = await _append_missing_rows(session, wanted, rows, earlier, how.form)
            card = _card(session, rows, progress, decided_by, how)

            columns = (row["row"] for row in rows_by_position(rows) if row["row"] is not None)
            write_output(out, card, columns, PROBLEM_COLUMNS[how.form], under_way=rows)
        return card


def _read_row(earlier: EarlierRows, row: Mapping[str, Any]) -> None:
    """Add a stored row's question, and its task's progress, to `earlier`. Raises ValueError for an invalid row."""
    if not isinstance(row.get("row"), dict | None):
        raise ValueError("`row` must map column names to values")
    if "progress" in row:
        progress = TaskProgress.read(row["progress"])
        earlier.progress[progress.task] = progress
        earlier.questions.setdefault(progress.task, set()).add(str(row["question"]))


async def _append_evaluation_rows(
    session: Session[Problem], wanted: RowPlan, rows: KeyedFile, form: ProblemForm
) -> Mapping[str, TaskProgress]:
    """Append the wanted part of the evaluation set to `rows`. Return {}: evaluation rows have no progress."""
    problems = await session.evaluation_set.problems()
    for position in range(wanted.part - 1, len(problems), wanted.parts):
        columns = describe_problem(session, position, problems[position], form)
        rows.append_row(str(position), {"row": columns})
    return {}


async def _append_missing_rows(
    session: Session[Problem],
    wanted: RowPlan,
    rows: KeyedFile,
    earlier: EarlierRows,
    form: ProblemForm,
) -> Mapping[str, TaskProgress]:
    """Append the missing rows of the wanted part to `rows`, and return the progress by task."""
    problems = ProblemRows(session, wanted, earlier)
    total = None if wanted.parts > 1 else wanted.count
    with progress_bar("problems", total, done=len(rows.keys)) as advance:

        def keep(row: ProblemRow) -> None:
            columns = None
            if row.is_of_part:
                columns = describe_problem(session, row.position, row.problem, form)
                advance()
            # A row of another part is stored too, without columns, because resuming needs its question and progress.
            facts = {"question": row.question, "progress": row.progress.state(), "row": columns}
            rows.append_row(str(row.position), facts)

        await problems.make(keep)
    return problems.progress


def _made_with(session: Session[Problem], wanted: RowPlan, how: FileOptions) -> dict[str, object]:
    """Return all values that determine the rows. A file can be resumed only with the same values."""
    # The file's levels and seed replace those of the settings.
    of_file = {
        "count": None if how.evaluation else wanted.count,
        "format": how.form.value,
        "levels": list(wanted.levels),
        "seed": wanted.seed,
        "shard": [wanted.part, wanted.parts],
        "system_prompt": session.system_prompt(),
    }
    return made_with(session.settings, session.plan, "problems", **{**of_file, **session.library.versions})


def _card(
    session: Session[Problem],
    rows: KeyedFile,
    progress_of_tasks: Mapping[str, TaskProgress],
    decided_by: Mapping[str, object],
    how: FileOptions,
) -> dict[str, object]:
    tasks = {}
    for task, progress in progress_of_tasks.items():
        tasks[task] = {
            "rows": progress.kept,
            "wanted": progress.wanted,
            "draws": sum(one.draws for one in progress.levels),
            "duplicates": sum(one.duplicates for one in progress.levels),
            "held_out": sum(one.held_out for one in progress.levels),
            "too_long": sum(one.too_long for one in progress.levels),
            "failures": sum(one.failures for one in progress.levels),
            "rows_by_level": {_level_name(one.level): one.rows for one in progress.levels},
            "ended": [f"{_level_name(one.level)}, {one.ended}" for one in progress.levels if one.ended],
        }
    return {
        "rows": sum(progress.kept for progress in progress_of_tasks.values()) if progress_of_tasks else len(rows.keys),
        "command": how.command,
        "tasks": tasks,
        "releases": {
            **session.library.versions,
            "reasoning_gym_environment": how.version,
            "python": platform.python_version(),
        },
        "made_with": decided_by,
    }


def _level_name(level: Level) -> str:
    if level is None:
        return "at reasoning-gym's defaults"
    return "at random levels" if level == "random" else f"at level {level:g}"

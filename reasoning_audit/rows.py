"""`audit --score`: audit a user's score function on a file of rows with right answers.

The function reads whole completions. The audit tries FORMS (ways to write an answer in a completion), and uses the form
in which right answers score highest.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reasoning_env import PoolSettings, ReasoningSettings, WorkerPool
from reasoning_env.data.tables import JSON_LINES, read_rows
from reasoning_env.errors import ConfigError, GenerationError, WorkerError
from reasoning_env.program.parser import program
from reasoning_env.program.running import run_to_end
from reasoning_env.program.shared_options import score_function, score_words
from reasoning_env.records import LibraryInfo, Problem, ProblemRequest, ProblemSpec, Split, Verdict
from reasoning_env.runtime.terminal import progress_bar
from reasoning_env.runtime.text import printable
from reasoning_env.sources.score_function import check_row
from reasoning_env.storage.reading import Malformed
from reasoning_env.storage.values import describe

from .contract import ContractCheck, watched_pools
from .findings import Finding, Reporter, findings_of, merge
from .options import GOLD
from .report import Report, make_report
from .reproduction import FunctionCommands, Reproduction
from .scores import AuditTarget, TaskAudit, Workers, audit_task

# If the highest allowed mean score is 0.35, 200 rows reveal a constant answer with a true mean score of 0.40 in 92 % of
# cases.
MAX_ROWS = 200
"""Maximum number of rows that the audit uses."""
QUESTION_COLUMNS = ("question", "prompt", "problem", "query", "input", "messages")
"""Names of columns that may contain the question, in order of preference."""


@dataclass(frozen=True)
class CompletionForm:
    """A form of completions: the text before and after the answer."""

    before: str = ""
    after: str = ""

    def completion(self, answer: str) -> str:
        return f"{self.before}{answer}{self.after}"

    def __str__(self) -> str:
        return self.completion("ANSWER")


FORMS = (
    CompletionForm(),
    CompletionForm("<answer>", "</answer>"),
    CompletionForm("\\boxed{", "}"),
    CompletionForm("#### "),
    CompletionForm("The answer is ", "."),
    CompletionForm("Answer: "),
    CompletionForm("<think>So it is.</think>\n<answer>", "</answer>"),
    CompletionForm("<think>So it is.</think>\n\\boxed{", "}"),
)
"""The forms of completions that the audit tries. If several forms score highest, the audit uses the first of them."""


def audit_rows(options: argparse.Namespace) -> Report:
    """Audit a score function. Raises ConfigError for an unusable function or row, WorkerError if no row is audited."""
    gold = options.gold or GOLD
    try:
        problems = row_problems(read_rows(options.rows, "--rows"), options.rows, options.score, gold)
    except OSError as error:
        fault = f"{options.rows} cannot be read: {describe(error)}"
        raise ConfigError(fault, setting="--rows", remedy="pass a readable file") from error
    if not any(problem.question for problem in problems):
        print(
            f"no row has a question (in a column named {', '.join(QUESTION_COLUMNS)}); the audit skips the checks "
            "that need a question",
            file=sys.stderr,
        )
    limits = {"scoring_deadline_s": options.scoring_deadline_s, "worker_memory_mb": options.worker_memory_mb}
    given = {name: value for name, value in limits.items() if value is not None}
    settings = PoolSettings.of_function(score_function(options), ReasoningSettings(**given))
    audit, findings, form = run_to_end(lambda: _audit(settings, problems, options))
    if not audit.items:
        cause = audit.failures[0] if audit.failures else "no row contains an expected answer"
        fault = f"no row of {options.rows} could be audited; the first error: {cause}"
        raise WorkerError(fault, remedy="correct the score function or the rows")
    nothing = LibraryInfo(version="", path=options.score, tasks=(), warnings=(), adjustable=frozenset())
    scores = f"the scores of {options.score} on {len(problems)} rows; the audit wrote each answer as {str(form)!r}"
    return make_report([audit], merge(findings), nothing, scores=scores, seed=options.seed)


async def _audit(
    settings: PoolSettings, problems: list[Problem], options: argparse.Namespace
) -> tuple[TaskAudit, list[Finding], CompletionForm]:
    pool = WorkerPool(settings)
    signature = (await pool.start()).score_signature
    try:
        for problem in problems:
            check_row(json.loads(problem.entry), signature, setting="--score", name=problem.reference)
        # The progress bar has no total, because the number of scored rows depends on earlier scores.
        with progress_bar("scored rows", None) as advance:
            form = await choose_form(pool, problems, advance)
            target = AuditTarget(options.score, seed=options.seed, between=f"{form.after}\n{form.before}".strip("\n"))
            reporter = Reporter(target.task, target.level, _commands(options, form))
            audit = await audit_task(RowWorkers(pool, problems, form, advance), target, len(problems), rounds=())

            def as_rows(watched: WorkerPool) -> RowWorkers:
                return RowWorkers(watched, problems, form, advance)

            async with watched_pools(settings, other_hash_seed=True, as_workers=as_rows) as pools:
                check = ContractCheck(pools, replace(reporter, is_watched=True))
                checked = await check.run(problems, audit.errors, attacks=True)
        return audit, [*findings_of(audit, reporter), *checked], form
    finally:
        await pool.close()


def _commands(options: argparse.Namespace, form: CompletionForm) -> Reproduction:
    """Return commands that call the score function; if the file is not JSON Lines, commands that repeat the audit."""
    words = ["audit", "--score", options.score, "--rows", str(options.rows)]
    words += ["--gold", options.gold] if options.gold else []
    again = f"{program()} {shlex.join([*words, *score_words(options)])}"
    if options.rows.suffix != JSON_LINES:
        return Reproduction(again)
    around = {"before": form.before, "after": form.after}
    return FunctionCommands(again, function=options.score, file=str(options.rows), **around)


class RowWorkers:
    """Replaces the worker pool in an audit of rows. `score` puts answers into completions, and calls `advance` once."""

    def __init__(
        self, pool: Workers, problems: Sequence[Problem], form: CompletionForm, advance: Callable[[], None]
    ) -> None:
        self._pool = pool
        self._problems = problems
        self._form = form
        self._advance = advance

    async def generate(self, spec: ProblemSpec, deadline_s: float, *, cpu_s: float | None = None) -> Problem:
        """Return row number `spec.index` as a problem. Raises GenerationError if there is no such row."""
        if spec.index >= len(self._problems):
            raise GenerationError("there are no more rows")
        return self._problems[spec.index]

    async def score(self, problem: Problem, answers: Sequence[str]) -> list[Verdict]:
        """Return a verdict for each answer. The `answer` of a verdict is the answer itself, not the completion."""
        verdicts = await self._pool.score(problem, [self._form.completion(answer) for answer in answers])
        self._advance()
        return [replace(verdict, answer=answer) for verdict, answer in zip(verdicts, answers, strict=True)]


def row_problems(rows: Iterable[Mapping[str, object] | Malformed], file: Path, name: str, gold: str) -> list[Problem]:
    """Return the first MAX_ROWS rows as problems of the task `name`. Raises ConfigError for an invalid row or no rows.

    `gold` names the column of right answers, which must be strings or numbers.
    """
    problems: list[Problem] = []
    for number, row in enumerate(rows):
        place = f"row {number + 1} of {printable(str(file))}"
        if not isinstance(row, Mapping):
            remedy = "fix or remove the row"
            raise ConfigError(f"{place} cannot be used: {row.problem}", setting="--rows", remedy=remedy)
        if len(problems) == MAX_ROWS:
            break
        spec = ProblemSpec(ProblemRequest(name, number), Split.EVAL, number)
        answer = _right_answer_of_row(row, gold, place)
        entry = json.dumps(dict(row), default=str).encode()
        problems.append(Problem(spec, _question(row), answer, "{}", entry, reference=f"{file}:{number + 1}"))
    if not problems:
        raise ConfigError(f"{printable(str(file))} has no rows", setting="--rows", remedy="pass a file that has rows")
    return problems


def _right_answer_of_row(row: Mapping[str, object], gold: str, place: str) -> str:
    if gold not in row:
        columns = ", ".join(map(printable, row)) or "none at all"
        raise ConfigError(
            f"{place} has no right answer in the column {gold!r}; its columns are {columns}",
            setting="--gold",
            remedy="name the column of right answers",
        )
    answer = row[gold]
    is_number = isinstance(answer, int | float) and not isinstance(answer, bool) and math.isfinite(answer)
    if not is_number and not (isinstance(answer, str) and answer.strip()):
        raise ConfigError(
            f"{place} has {answer!r:.60} in the column {gold!r}; expected a string or a number",
            setting="--gold",
            remedy="fix or remove the row",
        )
    return str(answer)


def _question(row: Mapping[str, object]) -> str:
    """Return the question of a row: a string, or the last message of a conversation; "" if the row has none."""
    for column in QUESTION_COLUMNS:
        value = row.get(column)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and isinstance(value[-1], Mapping):
            return str(value[-1].get("content", ""))
    return ""


async def choose_form(pool: Workers, problems: Sequence[Problem], advance: Callable[[], None]) -> CompletionForm:
    """Return the form of completions in which right answers score highest. Calls `advance` after each scored row."""
    earned = dict.fromkeys(FORMS, 0.0)
    for problem in problems:
        assert problem.answer is not None
        for form, verdict in zip(
            FORMS, await pool.score(problem, [form.completion(problem.answer) for form in FORMS]), strict=True
        ):
            earned[form] += verdict.score
        advance()
    return max(FORMS, key=earned.__getitem__)

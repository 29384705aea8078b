"""Write docs/defects.md: what audits found in reasoning-gym, and what happens here.

    python -m tools.defects                                 # from docs/defects.json, when tables changed
    python -m tools.defects plain.json corrected.json       # from saved audits: writes docs/defects.json too

The page is made from two sources: the findings of saved audits (the library as it is, the corrected library), and the
tables of the code that correct answers and scores, refuse problems, clarify questions and leave tasks out.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from reasoning_audit.findings import Defect, Finding
from reasoning_audit.report import Report
from reasoning_env.errors import ConfigError, GenerationError
from reasoning_env.problems.references import Reference
from reasoning_env.program.running import run_to_end
from reasoning_env.records import Problem, ProblemRequest, ProblemSpec, Split
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import TASKS
from reasoning_env.tasks.declaration import Cause

from .running import run_tool

FINDINGS = Path(__file__).parents[1] / "docs" / "defects.json"
SHOWN = 60
"""Characters of an answer on the page; the command `audit` shows more of it."""
REPORTED: Mapping[str, Sequence[int]] = {
    "family_relationships": (535,),
    "propositional_logic": (528,),
    "syllogism": (536, 539),
}
"""Issues and pull requests of reasoning-gym, open in the release that is audited, by task."""


WRONG_ANSWER = "wrong_answer"
REFUSED = "refused"
CLARIFIED = "clarified"
"""Kinds of defects that the tables of the code know."""


@dataclass(frozen=True)
class DefectExample:
    """A problem with a defect: the library's answer to the problem of a seed, and what is served in its place.

    `served` is None for a problem that is refused or clarified.
    """

    task: str
    kind: str
    seed: int
    library_answer: str | None
    served: str | None


@dataclass
class Runs:
    """The findings of two audits, as `docs/defects.json` keeps them."""

    library: str
    plain: list[Finding] = field(default_factory=list)
    corrected: list[Finding] = field(default_factory=list)
    examples: list[DefectExample] = field(default_factory=list)
    """Problems that show what the tables of the code know."""


@dataclass(frozen=True)
class Treatment:
    """What happens to a defect here, and the test that holds it."""

    words: str
    test: str


GUARDED = Treatment(
    "corrected: a guard reads the answer, with bounds", "tests/answers/test_guards.py::test_no_text_is_run"
)
CORRECTED = Treatment(
    "corrected: the whole answer must be a value of the task's type", "tests/answers/test_types.py::test_other_text"
)
CORRECTION_TEST = "tests/answers/test_corrections.py::test_nonsense_earns_the_floor"
DRAWN_AGAIN = Treatment(
    "refused: problems that this solves are drawn again", "tests/tasks/test_flaws.py::test_flawed_entries"
)
EXACT_HELD = Treatment("corrected: full marks only for the right value", "tests/answers/test_types.py::test_other_text")
RIGHT_ANSWER_HELD = Treatment("corrected", "tests/tasks/test_right_answers.py::test_right_answer")
HELD: Mapping[Defect, Treatment] = {
    Defect.GOLD_NOT_PAID: Treatment(
        "corrected: every right answer earns 1", "tests/workers/test_every_task.py::test_oracle_answers_are_right"
    ),
    Defect.GARBAGE_PAID: CORRECTED,
    Defect.EMPTY_PAID: Treatment(
        "corrected: an empty answer is no answer", "tests/test_rewards.py::test_reason_without_answer"
    ),
    Defect.CONSTANT_PAID: CORRECTED,
    Defect.COPY_PAID: DRAWN_AGAIN,
    Defect.LAYOUT_PAID: Treatment(
        "corrected: partial credit starts at the best guess",
        "tests/answers/test_partial_credit.py::test_credit_above_guess",
    ),
    Defect.WRONG_PAID: EXACT_HELD,
    Defect.HEDGE_PAID: Treatment(
        "corrected: text beside the right value earns at most the score of a form",
        "tests/answers/test_recorded_scores.py::test_no_score_breaks_the_contract",
    ),
    Defect.WRONG_ABOVE_RIGHT: EXACT_HELD,
    Defect.SCORE_OUT_OF_RANGE: Treatment(
        "corrected: scores are cut to [0, 1]", "tests/answers/test_scoring.py::test_score_range"
    ),
    Defect.CALLS_DIFFER: Treatment(
        "corrected: each call gets a fresh entry", "tests/workers/test_hostile.py::test_no_attack_offends"
    ),
    Defect.PROCESSES_DIFFER: Treatment(
        "corrected: all workers have one hash seed", "tests/workers/test_fork_server.py::test_hash_seed_of_a_worker"
    ),
    Defect.TEXT_EXECUTED: GUARDED,
    Defect.TOO_SLOW: GUARDED,
    Defect.TOO_MUCH_MEMORY: GUARDED,
    Defect.VERIFIER_FAILS: Treatment(
        "an error earns 0, with a reason", "tests/workers/test_pool_scoring.py::test_failing_verifier"
    ),
    Defect.CONTRADICTS_QUESTION: RIGHT_ANSWER_HELD,
    Defect.GIVES_ANSWER_AWAY: DRAWN_AGAIN,
    Defect.NO_PROBLEM: Treatment(
        "refused: another problem is drawn", "tests/workers/test_pool_generation.py::test_task_that_raises"
    ),
}
"""What happens to a defect that the audit of the corrected library does not find any more."""
OPEN = "open"
LEFT_OUT_HERE = "left out of training"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("audits", nargs="*", type=Path, metavar="FILE", help="files of `audit --output`")
    options = parser.parse_args(argv)
    runs = read_runs(FINDINGS)
    if options.audits:
        runs = runs_of([TypeAdapter(Report).validate_json(path.read_bytes()) for path in options.audits])
        session = Session(ReasoningSettings())
        runs.examples = run_to_end(lambda: find_examples(session))
        text = json.dumps(asdict(runs), indent=1, ensure_ascii=False)
        FINDINGS.write_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))
    FINDINGS.with_suffix(".md").write_text(defects_page(runs))


def read_runs(path: Path) -> Runs:
    """Return the findings that the page was made from."""
    return TypeAdapter(Runs).validate_python(json.loads(path.read_text()))


def runs_of(reports: Sequence[Report]) -> Runs:
    """Return the findings of saved audits, sorted into runs, without examples; a run may have several files.

    Raises ConfigError if a run is missing.
    """
    library = ""
    by_run: dict[str, list[Finding]] = {}
    for report in reports:
        name = "corrected" if "training" in report.scores else "plain"
        library = report.library.version
        by_run.setdefault(name, []).extend(report.findings)
    missing = {"plain", "corrected"} - by_run.keys()
    if missing:
        remedy = "name the files of `audit` with --rewards library, and without"
        raise ConfigError(f"no audit of the run {', '.join(sorted(missing))} is among the files", remedy=remedy)
    return Runs(library, by_run["plain"], by_run["corrected"])


def defects_page(runs: Runs) -> str:
    """Return the page as Markdown."""
    found: dict[str, list[Finding]] = {}
    for row in runs.plain:
        found.setdefault(row.task, []).append(row)
    still = {(row.task, row.defect): row for row in runs.corrected}
    examples = {(example.task, example.kind): example for example in runs.examples}
    rows = [_task_row(task, found.get(task, []), still, examples) for task in TASKS]
    rows = [row for row in rows if row]
    count = len({row.task for row in runs.plain})
    return f"""# Defects that were found

What is wrong in reasoning-gym {runs.library}, with evidence, and what happens in this environment. The page is made by
`tools/defects.py` from saved audits (`docs/defects.json`) and from the tables of the code, and a test compares it with
both. The names of defects are those of [the audit](../reasoning_audit/README.md#findings). An answer is shown as JSON,
cut to {SHOWN} characters. A seed and parameters make the problem:
`reasoning_gym.create_dataset(task, seed=SEED, size=1, **PARAMETERS)[0]`.

The audits were these, at the library's defaults, with a deadline of one second for an answer (`scoring_deadline_s: 1`
in a file of `--config`):

- `audit --rewards library --levels defaults --items 3 --output plain.json`
- `audit --levels defaults --output corrected.json`
- `python -m tools.defects plain.json corrected.json`

When the tables of the code change, `python -m tools.defects` makes the page again from the same findings.

## reasoning-gym

{len(rows)} of {len(TASKS) - 1} tasks have a row, where `composite`, which is made of the others, is not counted.
The audit of the library as it is has {len(runs.plain)} findings in {count} tasks, and the tables of the code
know wrong answers, problems that are refused, and questions that are clarified. A row names the first seed
that shows such a defect, if one of the first 1,200 does. "Reported" numbers are issues and pull requests of
reasoning-gym. "Open" is what the audit of the corrected library finds too.

| task | what | reported | here | held by |
| --- | --- | --- | --- | --- |
{chr(10).join(rows)}
"""


def _task_row(
    task: str,
    found: Sequence[Finding],
    still: Mapping[tuple[str, Defect], Finding],
    examples: Mapping[tuple[str, str], DefectExample],
) -> str:
    """Return the row of a task; "" for a task without a defect."""
    declared = TASKS[task]
    what: list[str] = []
    here: list[str] = []
    tests: list[str] = []

    def add(defect: str, treatment: str, test: str) -> None:
        what.append(defect)
        here.append(treatment)
        tests.append(f"`{test}`")

    for row in found:
        held = HELD[row.defect]
        words, test = held.words, held.test
        if (task, row.defect) in still:
            words = LEFT_OUT_HERE if declared.answer_leak else OPEN
        elif held is CORRECTED and declared.answer.correction is not None:
            words, test = f"corrected: {_first_line(declared.answer.correction)}", CORRECTION_TEST
        add(_evidence(row), words, test)

    def shown(kind: str) -> str:
        return _example(examples[task, kind]) if (task, kind) in examples else ""

    if declared.right_answer is not None:
        add(
            f"wrong answers{shown(WRONG_ANSWER)}",
            f"corrected: {_first_line(declared.right_answer)}",
            RIGHT_ANSWER_HELD.test,
        )
    wrong = [rule.reason for rule in declared.rejected if rule.cause is Cause.WRONG]
    if wrong:
        add(f"problems without a right answer: {'; '.join(wrong)}{shown(REFUSED)}", "refused", DRAWN_AGAIN.test)
    if declared.clarification is not None:
        left_open = declared.clarification.ambiguity
        held_by = "tests/tasks/test_clarifications.py::test_clarified_question"
        add(f"the question leaves open {left_open}{shown(CLARIFIED)}", "corrected: it is clarified", held_by)
    if declared.answer_leak:
        add(
            f"the answer is given away: {declared.answer_leak}",
            LEFT_OUT_HERE,
            "tests/problems/test_plan.py::test_gameable_tasks_are_left_out",
        )
    if not what:
        return ""
    reported = ", ".join(f"#{number}" for number in REPORTED.get(task, ()))
    columns = [f"`{task}`"], what, [reported], here, [*dict.fromkeys(tests)]
    return f"| {' | '.join('<br>'.join(map(_cell, texts)) for texts in columns)} |"


def _evidence(row: Finding) -> str:
    """Return the defect, the answer that shows it, its score, and the problem."""
    detail = _escaped(row.detail)
    words = f"`{row.defect.value}`: {detail}"
    if row.score is not None:
        words = f"`{row.defect.value}`: {_answer(row.answer)} earns {row.score:.3g} ({detail})"
    if row.reference:
        reference = Reference.parse(row.reference)
        params = json.dumps(dict(reference.params)) if reference.params else ""
        words += f"; seed {reference.seed}" + (f", {_code(params)}" if params else "")
    return words


def _example(example: DefectExample) -> str:
    """Return the problem that shows a defect of the tables, with the library's answer."""
    words = f"; seed {example.seed}: the library's answer is {_answer(example.library_answer)}"
    return words if example.served is None else f"{words}, right is {_answer(example.served)}"


def _answer(answer: str | None) -> str:
    """Return an answer as JSON, cut to its first characters."""
    shown = json.dumps(answer, ensure_ascii=False)
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}..."
    return _code(shown)


def _code(text: str) -> str:
    return f"<code>{_escaped(text)}</code>"


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is: `9**9**9` holds no emphasis."""
    return re.sub(r"[*_`~\\\[\]]", lambda mark: f"&#{ord(mark[0])};", html.escape(text, quote=False))


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("\n", " ")


def _first_line(function: object) -> str:
    return (function.__doc__ or "").strip().splitlines()[0].rstrip(".")


# ------------------------------------------------------------------ problems that show what the tables know

TRIED_SEEDS = 1200
"""Seeds that are tried for a task. The rarest defect, an accent in `caesar_cipher`, shows at seed 1,113; 4,000 seeds
show no defect more."""


async def find_examples(session: Session[Problem]) -> list[DefectExample]:
    """Return an example for each task and kind of defect in the tables, as far as the first seeds show one."""
    async with session:
        found = await asyncio.gather(*(_examples_of(session, task) for task in sorted(session.plan.tasks)))
    return [example for examples in found for example in examples]


async def _examples_of(session: Session[Problem], task: str) -> Sequence[DefectExample]:
    wanted = _kinds(task)
    found: dict[str, DefectExample] = {}
    for seed in range(TRIED_SEEDS):
        if found.keys() == wanted:
            break
        try:
            problem = await session.make(task, seed)
            served = await _served(session, task, seed) if REFUSED in wanted - found.keys() else problem
        except GenerationError:
            continue
        metadata = json.loads(problem.metadata_json)
        shown: dict[str, tuple[str | None, str | None]] = {}
        if "library_answer" in metadata:
            shown[WRONG_ANSWER] = str(metadata["library_answer"]), problem.answer
        if metadata.get("clarified"):
            shown[CLARIFIED] = problem.answer, None
        if served.flawed.keys() == {Cause.WRONG}:
            shown[REFUSED] = problem.answer, None
        for kind in wanted & shown.keys() - found.keys():
            library_answer, right = shown[kind]
            found[kind] = DefectExample(task=task, kind=kind, seed=seed, library_answer=library_answer, served=right)
    return [found[kind] for kind in sorted(found)]


def _kinds(task: str) -> set[str]:
    """Return the kinds of defects that the tables know of a task."""
    kinds = set()
    declared = TASKS[task]
    if declared.right_answer is not None:
        kinds.add(WRONG_ANSWER)
    if any(rule.cause is Cause.WRONG for rule in declared.rejected):
        kinds.add(REFUSED)
    if declared.clarification is not None:
        kinds.add(CLARIFIED)
    return kinds


async def _served(session: Session[Problem], task: str, seed: int) -> Problem:
    """Return the problem that training serves for a seed, with what was rejected before."""
    request = ProblemRequest(task, seed, session.plan.all_params.get(task, {}))
    return await session.pool.generate(
        ProblemSpec(request, Split.TRAIN, 0), session.settings.eval_generation_deadline_s
    )


if __name__ == "__main__":
    run_tool(main)

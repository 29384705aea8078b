"""Write docs/defects.md: the defects that audits found in reasoning-gym, and the fix of each defect.

    python -m tools.defects                                 # from docs/defects.json, after a change of declarations
    python -m tools.defects library.json strict.json        # from saved audits; writes docs/defects.json too

The page has two sources: the findings of two saved audits (of the unchanged library, and of the strict rewards), and
the declarations of the tasks, which correct answers and scores, reject problems, clarify questions and leave tasks out.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from reasoning_env.tasks.declaration import Cause, Task

from .running import run_tool

FINDINGS = Path(__file__).parents[1] / "docs" / "defects.json"
SHOWN = 24
"""Characters of an answer on the page; docs/defects.json has more."""
REPORTED: Mapping[str, Sequence[int]] = {
    "family_relationships": (535,),
    "propositional_logic": (528,),
    "syllogism": (536, 539),
}
"""Issues and pull requests of reasoning-gym by task, open at the release of the audits."""
WRONG_ANSWER = "wrong_answer"
REFUSED = "refused"
CLARIFIED = "clarified"
"""Kinds of defects that only the declarations of tasks know."""


@dataclass(frozen=True)
class DefectExample:
    """A problem with a defect: the library's answer to the problem of a seed, and the right answer.

    `served` is the right answer; None for a problem that is rejected or clarified.
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
    """Problems that show the defects known from the declarations."""


@dataclass(frozen=True)
class Fix:
    """What this environment does about a defect, and the regression test of it.

    `name` is the word in the rows of the page, `meaning` the sentence in its table of fixes.
    """

    name: str
    meaning: str
    test: str


GUARDED = Fix(
    "guarded",
    "A guard parses the answer within limits. No text of a model is evaluated.",
    "tests/answers/test_guards.py::test_verifiers_with_parsing_limits_never_execute_code_in_answers",
)
TYPED = Fix(
    "typed",
    "The whole answer must be a value of the task's type.",
    "tests/answers/test_types.py::test_no_answer_type_reads_a_wrong_answer_as_right",
)
CORRECTED = Fix(
    "corrected",
    "A corrected rule scores the answer.",
    "tests/answers/test_corrections.py::test_score_of_nonsense_is_limited_with_strict_rewards",
)
REJECTED = Fix(
    "rejected",
    "The environment generates another problem instead.",
    "tests/tasks/test_flaws.py::test_flawed_problems_are_rejected_and_sound_problems_are_not",
)
EXACT = Fix(
    "exact",
    "Only the right value earns full marks.",
    "tests/answers/test_types.py::test_no_answer_type_reads_a_wrong_answer_as_right",
)
RIGHT_ANSWER = Fix(
    "right answer",
    "The right answer replaces the library's answer.",
    "tests/tasks/test_right_answers.py::test_wrong_library_answer_is_corrected",
)
CLARIFICATION = Fix(
    "clarified",
    "An added sentence makes the question clear.",
    "tests/tasks/test_clarifications.py::test_clarified_question_has_the_documented_wording",
)
LEFT_OUT = Fix(
    "left out",
    "Training leaves the task out unless you name it.",
    "tests/problems/test_plan.py::test_default_training_leaves_gameable_tasks_out",
)
FLOOR = Fix(
    "floor",
    "Partial credit starts above the score of the best guess.",
    "tests/answers/test_partial_credit.py::test_partial_credit_grows_only_above_the_score_of_guessing",
)
PARAMETERS = Fix(
    "parameters",
    "The environment uses other default parameters than the library.",
    "tests/workers/test_library.py::test_request_for_an_exact_seed_ignores_the_default_training_params",
)
FIXES: Mapping[Defect, Fix] = {
    Defect.GOLD_NOT_PAID: Fix(
        "paid",
        "Every right answer earns 1.",
        "tests/workers/test_every_task.py::test_reference_answers_get_full_score",
    ),
    Defect.GARBAGE_PAID: TYPED,
    Defect.EMPTY_PAID: Fix(
        "empty",
        "An empty answer counts as no answer.",
        "tests/test_rewards.py::test_extraction_says_why_a_text_has_no_answer",
    ),
    Defect.CONSTANT_PAID: TYPED,
    Defect.COPY_PAID: FLOOR,
    Defect.LAYOUT_PAID: FLOOR,
    Defect.WRONG_PAID: EXACT,
    Defect.HEDGE_PAID: Fix(
        "one value",
        "Text beside the right value earns at most the score of a well-formed answer.",
        "tests/answers/test_recorded_scores.py::test_recorded_scores_are_high_for_right_answers_and_low_for_wrong_answers",
    ),
    Defect.WRONG_ABOVE_RIGHT: EXACT,
    Defect.SCORE_OUT_OF_RANGE: Fix(
        "limited",
        "Scores are limited to [0, 1].",
        "tests/answers/test_scoring.py::test_verifier_scores_are_clipped_to_the_range_from_0_to_1",
    ),
    Defect.CALLS_DIFFER: Fix(
        "fresh entry",
        "Each call gets a fresh copy of the problem.",
        "tests/workers/test_hostile.py::test_hostile_answers_score_zero_and_have_no_side_effect",
    ),
    Defect.PROCESSES_DIFFER: Fix(
        "hash seed",
        "All workers use the same hash seed.",
        "tests/workers/test_fork_server.py::test_workers_have_a_fixed_pythonhashseed",
    ),
    Defect.TEXT_EXECUTED: GUARDED,
    Defect.TOO_SLOW: GUARDED,
    Defect.TOO_MUCH_MEMORY: GUARDED,
    Defect.VERIFIER_FAILS: Fix(
        "scored 0",
        "An answer that raises an error earns 0, with a reason.",
        "tests/workers/test_pool_scoring.py::test_answer_scores_zero_if_the_verifier_raises",
    ),
    Defect.CONTRADICTS_QUESTION: RIGHT_ANSWER,
    Defect.GIVES_ANSWER_AWAY: REJECTED,
    Defect.NO_PROBLEM: Fix(
        "next seed",
        "Another problem replaces a seed without a problem.",
        "tests/workers/test_pool_generation.py::test_error_of_a_generator_is_raised",
    ),
}
"""The fix of each defect that an audit can find, unless the declaration of the task has a fix of its own."""
OPEN = "open"


SHORTCUTS = (Defect.CONSTANT_PAID, Defect.COPY_PAID, Defect.LAYOUT_PAID, Defect.GARBAGE_PAID, Defect.EMPTY_PAID)
"""Findings that share a row: an answer without reasoning earns too much."""
EVALUATED = (Defect.TEXT_EXECUTED, Defect.TOO_SLOW, Defect.TOO_MUCH_MEMORY)
"""Findings that share a row: the verifier works on text of a model without limits."""


@dataclass(frozen=True)
class Row:
    """A row of the page: a defect of a task, the answer and the seed that show it, and what happens here.

    `fixes` is empty for a defect that is open.
    """

    defect: str
    answer: str
    seed: int | None
    here: str
    fixes: Sequence[Fix]


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
    for finding in runs.plain:
        found.setdefault(finding.task, []).append(finding)
    remaining = {(finding.task, finding.defect) for finding in runs.corrected}
    examples = {(example.task, example.kind): example for example in runs.examples}
    rows = {
        task: [*_found_rows(task, found.get(task, []), remaining), *_declared_rows(task, examples)] for task in TASKS
    }
    rows = {task: of_task for task, of_task in rows.items() if of_task}
    fixes = {fix.name: fix for of_task in rows.values() for row in of_task for fix in row.fixes}
    lines = [_line(task, row) for task, of_task in rows.items() for row in of_task]
    explained = [f"| {fix.name} | {fix.meaning} | `{fix.test}` |" for _, fix in sorted(fixes.items())]
    reported = "; ".join(
        f"`{task}` {', '.join(f'#{number}' for number in numbers)}" for task, numbers in REPORTED.items()
    )
    return f"""# Defects of reasoning-gym

This page lists the {len(lines)} known defects of reasoning-gym {runs.library}, in {len(rows)} of its {len(TASKS) - 1}
tasks (not counting `composite`), and the fix that strict rewards apply to each defect.

- **Defect**: a name such as `copy_paid` is a finding of [the audit](../reasoning_audit/README.md#findings). Some
  findings show the mean score that one answer earns on many problems. For each finding, `docs/defects.json` has a
  command that reproduces it.
- **Seed**: `reasoning_gym.create_dataset(task, seed=SEED, size=1)[0]` makes the problem.
- **Answer**: the first {SHOWN} characters of an answer that shows the defect. The answer after "not" is right.
- **Fix**: a word that the [table of fixes](#fixes) explains.

We reported some of these defects to reasoning-gym, where the issues are open: {reported}.

| task | defect | seed: answer | fix |
| --- | --- | --- | --- |
{chr(10).join(lines)}

## Fixes

| fix | meaning | regression test |
| --- | --- | --- |
{chr(10).join(explained)}
| open | Strict rewards have this defect too. | |

## Write this page again

If you changed only a task's declaration, run only `python -m tools.defects`. Otherwise, run these commands, where
`FILE` contains `env: {{scoring_deadline_s: 1}}`:

- `audit --rewards library --levels defaults --items 3 --config FILE --output library.json`
- `audit --levels defaults --config FILE --output strict.json`
- `python -m tools.defects library.json strict.json`
"""


def _found_rows(task: str, findings: Sequence[Finding], remaining: Collection[tuple[str, Defect]]) -> Iterator[Row]:
    """Yield the rows of what the audit of the library found in a task. A row shows the answer of its first finding."""
    declared = TASKS[task]
    rows: dict[object, list[Finding]] = {}
    for finding in findings:
        if finding.defect is Defect.GIVES_ANSWER_AWAY and declared.answer_leak:
            continue  # the declaration says how
        kind = next((kind for kind in (SHORTCUTS, EVALUATED) if finding.defect in kind), finding.defect)
        rows.setdefault(kind, []).append(finding)
    for same in rows.values():
        fixes: list[Fix] = []
        here: list[str] = []
        for finding in same:
            fix = _fix(declared, finding.defect)
            if (task, finding.defect) in remaining:
                if not declared.answer_leak:
                    here.append(OPEN)
                    continue
                fix = LEFT_OUT
            fixes.append(fix)
            rule = declared.answer.correction
            here.append(f"{fix.name}: {_first_line(rule)}" if fix is CORRECTED else fix.name)
        first = same[0]
        names = ", ".join(f"`{finding.defect.value}`" for finding in same)
        # The audit gives the bound and the number of problems in parentheses.
        detail = _escaped(first.detail.partition(" (")[0].removesuffix(" on average"))
        answer = "" if first.score is None else _answer(first.answer)
        seed = Reference.parse(first.reference).seed if first.reference else None
        yield Row(f"{names}: {detail}", answer, seed, "; ".join(dict.fromkeys(here)), fixes)


def _fix(declared: Task, defect: Defect) -> Fix:
    """Return what fixes a defect of a task."""
    if defect in SHORTCUTS and declared.answer.correction is not None:
        return CORRECTED
    if defect in (Defect.COPY_PAID, Defect.GIVES_ANSWER_AWAY):
        if any(rule.cause is not Cause.WRONG for rule in declared.rejected):
            return REJECTED
        if declared.served_params:
            return PARAMETERS
    return FIXES[defect]


def _declared_rows(task: str, examples: Mapping[tuple[str, str], DefectExample]) -> Iterator[Row]:
    """Yield a row for each defect that the declaration of a task knows, with the first seed that shows the defect."""
    declared = TASKS[task]

    def row(defect: str, kind: str, here: str, fix: Fix) -> Row:
        example = examples.get((task, kind))
        answer = "" if example is None or kind == CLARIFIED else _answer(example.library_answer)
        if example is not None and example.served is not None:
            answer = f"{answer}, not {_answer(example.served)}"
        return Row(defect, answer, None if example is None else example.seed, here, [fix])

    if declared.right_answer is not None:
        rule = _first_line(declared.right_answer)
        yield row("wrong answers", WRONG_ANSWER, f"{RIGHT_ANSWER.name}: {rule}", RIGHT_ANSWER)
    wrong = [rule.reason for rule in declared.rejected if rule.cause is Cause.WRONG]
    if wrong:
        yield row("; ".join(wrong), REFUSED, REJECTED.name, REJECTED)
    if declared.clarification is not None:
        ambiguity = declared.clarification.ambiguity.replace("the question does not say", "unclear:")
        yield row(ambiguity, CLARIFIED, CLARIFICATION.name, CLARIFICATION)
    if declared.answer_leak:
        yield Row(f"`{Defect.GIVES_ANSWER_AWAY.value}`: {declared.answer_leak}", "", None, LEFT_OUT.name, [LEFT_OUT])


def _line(task: str, row: Row) -> str:
    """Return a row as a line of the table."""
    seed = [] if row.seed is None else [str(row.seed)]
    shown = ": ".join([*seed, *filter(None, [row.answer])])
    return f"| {' | '.join(map(_cell, (f'`{task}`', row.defect, shown, row.here)))} |"


def _answer(answer: str | None) -> str:
    """Return an answer as JSON, cut to its first characters."""
    shown = json.dumps(answer, ensure_ascii=False)
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}..."
    return _code(shown)


def _code(text: str) -> str:
    return f"<code>{_escaped(text)}</code>"


def _escaped(text: str) -> str:
    """Escape the marks of Markdown, so that the page shows `9**9**9` unchanged."""
    return re.sub(r"[*_`~\\\[\]]", lambda mark: f"&#{ord(mark[0])};", html.escape(text, quote=False))


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("\n", " ")


def _first_line(function: object) -> str:
    """Return the rule that the first line of a docstring states, without the library's rule after a semicolon."""
    return (function.__doc__ or "").strip().splitlines()[0].rstrip(".").partition(";")[0]


# ------------------------------------------------------------------ examples of declared defects

TRIED_SEEDS = 1200
"""Seeds to try for a task. The rarest defect, an accent in `caesar_cipher`, shows at seed 1,113."""


async def find_examples(session: Session[Problem]) -> list[DefectExample]:
    """Return an example for each task and kind of declared defect that the first seeds show."""
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
    """Return the kinds of defects that the declaration of a task knows."""
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
    """Return the problem that training serves for a seed, with the problems that were rejected before."""
    request = ProblemRequest(task, seed, session.plan.all_params.get(task, {}))
    return await session.pool.generate(
        ProblemSpec(request, Split.TRAIN, 0), session.settings.eval_generation_deadline_s
    )


if __name__ == "__main__":
    run_tool(main)

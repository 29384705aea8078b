"""The output of the `tasks` command: a table of the tasks, or samples of the named tasks."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, GenerationError
from ..problems.references import Reference
from ..problems.selection import select_tasks
from ..program.parser import NUMBER_OF_SEEDS
from ..program.running import map_with_progress, run_to_end
from ..program.shared_options import (
    check_params,
    problem_as_json,
    problem_settings,
    show_answer,
    show_messages,
    warn_without_levels,
)
from ..prompts.chat_format import ChatFormat
from ..prompts.messages import Messages
from ..records import Problem, TaskInfo
from ..runtime.terminal import Table, print_json
from ..runtime.text import printable
from ..session import Session
from ..storage.folders import find_checkout
from ..tasks import COMPOSITE, MANY_QUESTIONS, QUESTION_LEVELS, SHOWN_LEVELS, TASKS, find_task

QUESTION_CHARACTERS = 72
"""Maximum characters of a question in the table, so that a row has at most 112 characters."""
VALUE_CHARACTERS = 40
Parameters = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""For each task and parameter: the `default`, and the values at some levels (see `WorkerPool.describe`)."""


@dataclass(frozen=True)
class Sample:
    """A problem of a task, or the error if the task could not generate a problem."""

    task: TaskInfo
    outcome: Problem | GenerationError

    @property
    def question(self) -> str:
        outcome = self.outcome
        return outcome.question if isinstance(outcome, Problem) else f"cannot be generated: {outcome}"


def show_tasks(options: argparse.Namespace, folder: Path) -> int:
    """Print a table of all tasks or, if the user names tasks, samples of these tasks in full. Returns 0.

    Raises ConfigError if a name matches no task.
    """
    named = [*options.names, *(Reference.parse(text).task for text in options.references)]
    settings = problem_settings("tasks", options, named)
    if options.system_prompt is not None:
        settings = settings.model_copy(update={"system_prompt": options.system_prompt})
    chat = _chat_format(options, settings.thinking)
    session = Session(settings, checkout=find_checkout(folder), thinking=None if chat is None else chat.thinking)
    samples, parameters = run_to_end(lambda: _collect(session, options))
    if not named:
        _print_listing(session, samples, as_json=options.json)
    elif options.json:
        print_json(
            {
                "parameters": parameters,
                "different_questions": _different_questions(parameters),
                "samples": [_describe(session, sample, chat) for sample in samples],
            }
        )
    else:
        if not options.prompt:
            _print_parameters(parameters)
            _print_different_questions(parameters)
        print("\n".join(_show(session, sample, as_prompt=options.prompt, chat=chat) for sample in samples))
    return 0


def _chat_format(options: argparse.Namespace, thinking: str) -> ChatFormat | None:
    """Return the chat format of the tokenizer that --tokenizer_name names; None if the option is not given.

    Raises ConfigError if the tokenizer cannot be loaded or its template cannot be used.
    """
    name = options.tokenizer_name
    if name is None:
        return None
    try:
        from transformers import AutoTokenizer  # imported here because the import takes seconds
    except ImportError as error:
        raise ConfigError(
            "needs the package `transformers`", setting="--tokenizer_name", remedy="run `pip install transformers`"
        ) from error
    if not Path(name).exists():
        # Without a network this takes 90 s to fail, and the hub's client logs two warnings for each attempt.
        slow = "(without a network connection, this takes a minute or more to fail)"
        print(f"loading the tokenizer {printable(name)} {slow}", file=sys.stderr)
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # tokenizers raise many kinds of errors for unreadable files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"cannot load {name!r} ({reason})",
            setting="--tokenizer_name",
            remedy="name a folder, or a tokenizer on the Hugging Face hub",
        ) from error
    template_options = options.chat_template_kwargs
    return ChatFormat(
        tokenizer, name, template=options.chat_template, template_options=template_options, thinking=thinking
    )


async def _collect(session: Session[Problem], options: argparse.Namespace) -> tuple[list[Sample], Parameters]:
    async with session:
        tasks = {task.name: task for task in session.library.tasks}
        names: Sequence[str] = ()
        if options.names:
            names = select_tasks(session.library.tasks, options.names)
        elif not options.references:
            names = session.plan.tasks
        await check_params(session, names, options.params, options.level)
        warn_without_levels(session, names, options.level)

        async def sample(numbered: tuple[str, int, float | None]) -> Sample:
            task, number, level = numbered
            # Spread the seeds, because in some tasks consecutive seeds produce similar problems.
            seed = (options.problem_seed + 1000 * number) % NUMBER_OF_SEEDS
            try:
                problem = await session.make(task, seed, params=options.params, level=level)
            except GenerationError as error:
                return Sample(tasks[task], error)
            return Sample(tasks[task], problem)

        numbered = [
            (task, number, level)
            for task in names
            for level in options.levels
            if level is None or level == options.level or task in session.library.adjustable
            for number in range(options.samples)
        ]
        parameters: Parameters = await session.pool.describe(names) if options.names else {}
        if session.settings.rewards != "library":
            parameters = {task: _with_served_defaults(task, facts) for task, facts in parameters.items()}
        at_once = 2 * session.settings.generators
        samples = await map_with_progress("samples", numbered, sample, at_once=at_once)
        remade = [await session.remake(reference) for reference in options.references]
        return [*samples, *(Sample(tasks[problem.task], problem) for problem in remade)], parameters


def _with_served_defaults(task: str, parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Add `served_default` to each parameter for which training and evaluation replace the library's default."""
    served = find_task(task).served_params
    return {
        name: {**facts, "served_default": served[name]} if name in served else facts
        for name, facts in parameters.items()
    }


def _show_default(facts: Mapping[str, Any]) -> str:
    """Return this program's default for a parameter and, if different, reasoning-gym's."""
    own = json.dumps(facts["default"])
    return f"{json.dumps(facts['served_default'])} (reasoning-gym: {own})" if "served_default" in facts else own


def _print_parameters(parameters: Parameters) -> None:
    """Print a table of each task's parameters, with their values at some levels."""
    for task, by_name in parameters.items():
        rows = []
        for name, facts in by_name.items():
            at_levels = facts.get("levels", {})
            values = [_show_default(facts), *(_value_at(at_levels, level) for level in SHOWN_LEVELS)]
            rows.append((name, *(printable(value, VALUE_CHARACTERS) for value in values)))
        if rows:
            print(f"=== {task}: parameters (set them with `task_params`), with their values at three levels")
            headings = ("PARAMETER", "DEFAULT", *(f"LEVEL {level:g}" for level in SHOWN_LEVELS))
            Table(dict.fromkeys(headings, ""), rows).print()
            print()


def _different_questions(tasks: Iterable[str]) -> dict[str, dict[str, int | None]]:
    """Return how many different questions each task has, at its defaults and at each measured level.

    None means MANY_QUESTIONS or more. The result has only reasoning-gym's tasks, except `composite`.
    """
    names = ("defaults", *(f"level {level:g}" for level in QUESTION_LEVELS))
    measured = [task for task in tasks if task in TASKS and task != COMPOSITE]
    return {task: dict(zip(names, TASKS[task].question_counts, strict=False)) for task in measured}


def _print_different_questions(tasks: Iterable[str]) -> None:
    for task, counts in _different_questions(tasks).items():
        few = [f"about {count} at {name}" for name, count in counts.items() if count is not None]
        many = [name for name, count in counts.items() if count is None]
        elsewhere = [f"{MANY_QUESTIONS} or more at {', '.join(many)}"] if many else []
        print(f"=== {task}: how many different questions the task can generate\n{'; '.join(few + elsewhere)}\n")


def _value_at(at_levels: Mapping[str, object], level: float) -> str:
    return json.dumps(at_levels[str(level)]) if at_levels else ""


def _print_listing(session: Session[Problem], samples: Sequence[Sample], *, as_json: bool) -> None:
    counts = Counter(sample.task.category for sample in samples)
    categories = dict(sorted(counts.items()))
    rows = [(sample.task.name, sample.task.category, _first_words(sample)) for sample in samples]
    table = Table({"TASK": "", "CATEGORY": "", "SAMPLE QUESTION": ""}, rows)
    if as_json:
        print_json({"categories": categories, "tasks": [_describe(session, sample, None) for sample in samples]})
        return
    table.print()
    listed = ", ".join(f"{name} {count}" for name, count in categories.items())
    print(f"\n{len(samples)} tasks in {len(counts)} categories: {listed}")
    reasons = {sample.task.name: _reason_left_out(sample.task) for sample in samples}
    for name, reason in reasons.items():
        if reason:
            print(f"Training excludes {name} unless you name it ({reason})")
    print("`tasks NAME` shows complete samples. `tasks NAME --prompt` shows the whole prompt that the model receives.")


def _first_words(sample: Sample) -> str:
    limit = QUESTION_CHARACTERS if isinstance(sample.outcome, Problem) else None
    return printable(" ".join(sample.question.split()), limit)


def _describe(session: Session[Problem], sample: Sample, chat: ChatFormat | None) -> dict[str, object]:
    if isinstance(sample.outcome, GenerationError):
        return {"task": sample.task.name, **_category_facts(sample.task), "error": str(sample.outcome)}
    prompt = session.messages(sample.outcome)
    described = problem_as_json(sample.outcome)
    tokens = {} if chat is None else {"prompt_tokens": len(chat.prompt(prompt).tokens)}
    return {**_category_facts(sample.task), **described, **tokens, "prompt": [dict(message) for message in prompt]}


def _reason_left_out(task: TaskInfo) -> str:
    """Return why training excludes a task by default; "" for other tasks."""
    return find_task(task.name).answer_leak or task.left_out


def _category_facts(task: TaskInfo) -> dict[str, str]:
    """Return the category of a task and, if training excludes the task by default, the reason."""
    reason = _reason_left_out(task)
    return {"category": task.category} | ({"left_out_of_training": reason} if reason else {})


def _show(session: Session[Problem], sample: Sample, *, as_prompt: bool, chat: ChatFormat | None) -> str:
    head = f"=== {sample.task.name} ({sample.task.category})"
    reason = _reason_left_out(sample.task)
    if reason:
        head = f"Training excludes {sample.task.name} unless you name it ({reason})\n{head}"
    if isinstance(sample.outcome, GenerationError):
        return f"{head}\n{sample.question}\n"
    prompt = session.messages(sample.outcome)
    if chat is not None:
        shown = _describe_exact_prompt(prompt, chat)
    elif as_prompt:
        shown = show_messages(prompt)
    else:
        shown = sample.question
    level = "" if sample.outcome.level is None else f", level {sample.outcome.level:g}"
    return f"{head}, seed {sample.outcome.spec.seed}{level}\n{shown}\n\n--- answer\n{show_answer(sample.outcome)}\n"


def _describe_exact_prompt(messages: Messages, chat: ChatFormat) -> str:
    """Return a string with the exact prompt, its length, the model's thinking formats, and the end-of-turn token."""
    prompt = chat.prompt(messages)
    formats = [
        f"{thinking_format.opening} ... {thinking_format.closing} ({thinking_format.name})"
        for thinking_format in chat.thinking.formats
    ]
    return (
        f"{prompt.text}\n\n--- prompt\nlength         {len(prompt.tokens)} tokens\n"
        f"thinking tags  {', '.join(formats) or 'none'}\nend of turn    {chat.end_of_turn or 'none'}"
    )

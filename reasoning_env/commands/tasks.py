"""The `tasks` command: list the library's tasks, or show sample problems."""

from __future__ import annotations

import argparse
import itertools
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
from ..program.parser import NUMBER_OF_SEEDS, Command, CommandParser, at_least_one, mapping, names
from ..program.running import map_with_progress, run_to_end
from ..program.shared_options import (
    add_config_option,
    add_problem_options,
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
from ..runtime.text import visible
from ..session import Session
from ..storage.folders import find_checkout
from ..tasks import COMPOSITE, MANY_QUESTIONS, QUESTION_LEVELS, SHOWN_LEVELS, TASKS, find_task

QUESTION_CHARACTERS = 72
"""Beside the longest name of a task and of a category, a row has 112 characters then."""
VALUE_CHARACTERS = 40
Parameters = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Parameters by task and name, as `WorkerPool.describe` returns them."""


@dataclass(frozen=True)
class Sample:
    """A problem of a task, or the error of its generation."""

    task: TaskInfo
    outcome: Problem | GenerationError

    @property
    def question(self) -> str:
        outcome = self.outcome
        return outcome.question if isinstance(outcome, Problem) else f"cannot be generated: {outcome}"


def _show_tasks(options: argparse.Namespace, folder: Path) -> int:
    """Print a table of all tasks, or whole samples of the named tasks; returns 0.

    Raises ConfigError for a name that matches no task.
    """
    _complete(options)
    named = [*options.names, *(Reference.parse(text).task for text in options.references)]
    settings = problem_settings(options, named)
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


def _add_options(parser: CommandParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        type=_names_or_reference,
        metavar="NAME",
        help="show samples of these tasks: names, globs (`*_sorting`) or categories (`games`), separated by commas; "
        "case does not matter. Or show the problem of a reference. Default: a table of all tasks",
    )
    parser.add_argument("--prompt", action="store_true", help="show the whole prompt that a model gets")
    parser.add_argument("--system_prompt", metavar="TEXT", help="with --prompt: use this system prompt")
    parser.add_argument(
        "--tokenizer_name",
        metavar="MODEL",
        help="with --prompt: show the exact text that is sent to this model (a folder, or a name on the hub), and its "
        "length in tokens",
    )
    parser.add_argument("--chat_template", metavar="PATH", help="chat template: a Jinja file, or `plain` for none")
    parser.add_argument(
        "--chat_template_kwargs",
        type=mapping,
        default={},
        metavar="MAPPING",
        help="variables of the chat template, such as '{enable_thinking: false}'",
    )
    parser.add_argument(
        "--samples",
        type=at_least_one,
        metavar="N",
        help="number of samples of each task at one level (default: one sample at "
        "the library's defaults and at each of the levels 0, 0.5 and 1)",
    )
    add_problem_options(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_config_option(parser)


def _names_or_reference(text: str) -> list[str]:
    """Read names joined by commas, or one reference, which may contain commas."""
    return [text] if _is_reference(text) else names(text)


def _is_reference(text: str) -> bool:
    """Return True for the reference of a problem: no task's name has a colon."""
    return ":" in text


def _complete(options: argparse.Namespace) -> None:
    """Fill in what follows from other options. Raises ConfigError for options that do not go together."""
    given = list(itertools.chain.from_iterable(options.names))
    options.references = [text for text in given if _is_reference(text)]
    options.names = [text for text in given if not _is_reference(text)]
    options.levels = [options.level]
    if options.samples is None:
        options.samples = 1
        if options.names and not options.prompt and options.level is None:
            options.levels = [None, *SHOWN_LEVELS]
    if not given and (options.prompt or options.params):
        raise ConfigError("name the tasks that --prompt and --params are for")
    if options.system_prompt is not None and not options.prompt:
        raise ConfigError("--system_prompt goes with --prompt")
    if options.tokenizer_name is not None and not options.prompt:
        raise ConfigError("--tokenizer_name goes with --prompt")
    if options.tokenizer_name is None and (options.chat_template or options.chat_template_kwargs):
        raise ConfigError("--chat_template and --chat_template_kwargs go with --tokenizer_name")


def _chat_format(options: argparse.Namespace, thinking: str) -> ChatFormat | None:
    """Return the chat format of the named tokenizer; None without a name.

    Raises ConfigError for an unreadable tokenizer and an unusable template.
    """
    name = options.tokenizer_name
    if name is None:
        return None
    try:
        from transformers import AutoTokenizer  # takes seconds to import, and only tokens need it
    except ImportError as error:
        raise ConfigError(
            "needs transformers", setting="--tokenizer_name", remedy="pip install transformers"
        ) from error
    if not Path(name).exists():
        # Without a network this takes a minute and a half to fail, with two warnings of the hub's client for each try.
        slow = "without a network, a name on the hub takes a minute or more to fail"
        print(f"loading the tokenizer {visible(name)}; {slow}", file=sys.stderr)
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    except Exception as error:  # tokenizers raise many kinds of errors for unreadable files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"{name!r} cannot be read ({reason})",
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
            # Neighbouring seeds give related problems in some tasks.
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
        parameters = await session.pool.describe(names) if options.names else {}
        at_once = 2 * session.settings.generators
        samples = await map_with_progress("samples", numbered, sample, at_once=at_once)
        remade = [await session.remake(reference) for reference in options.references]
        return [*samples, *(Sample(tasks[problem.task], problem) for problem in remade)], parameters


def _print_parameters(parameters: Parameters) -> None:
    """Print a table of the parameters of each task, with the values at the levels that move them."""
    for task, by_name in parameters.items():
        rows = []
        for name, facts in by_name.items():
            at_levels = facts.get("levels", {})
            values = [json.dumps(facts["default"]), *(_value_at(at_levels, level) for level in SHOWN_LEVELS)]
            rows.append((name, *(visible(value, VALUE_CHARACTERS) for value in values)))
        if rows:
            print(f"=== {task}: parameters (`task_params`), and the values at levels")
            headings = ("PARAMETER", "DEFAULT", *(f"LEVEL {level:g}" for level in SHOWN_LEVELS))
            Table(dict.fromkeys(headings, ""), rows).print()
            print()


def _different_questions(tasks: Iterable[str]) -> dict[str, dict[str, int | None]]:
    """Return how many different questions tasks have at their defaults and levels; None for MANY_QUESTIONS or more.

    Levels that were not measured are left out, and so are tasks that are not the library's.
    """
    names = ("defaults", *(f"level {level:g}" for level in QUESTION_LEVELS))
    measured = [task for task in tasks if task in TASKS and task != COMPOSITE]
    return {task: dict(zip(names, TASKS[task].question_counts, strict=False)) for task in measured}


def _print_different_questions(tasks: Iterable[str]) -> None:
    for task, counts in _different_questions(tasks).items():
        few = [f"about {count} at {name}" for name, count in counts.items() if count is not None]
        many = [name for name, count in counts.items() if count is None]
        elsewhere = [f"{MANY_QUESTIONS} or more at {', '.join(many)}"] if many else []
        print(f"=== {task}: different questions\n{'; '.join(few + elsewhere)}\n")


def _value_at(at_levels: Mapping[str, object], level: float) -> str:
    return json.dumps(at_levels[str(level)]) if at_levels else ""


def _print_listing(session: Session[Problem], samples: Sequence[Sample], *, as_json: bool) -> None:
    counts = Counter(sample.task.category for sample in samples)
    categories = dict(sorted(counts.items()))
    rows = [(sample.task.name, sample.task.category, _first_words(sample)) for sample in samples]
    table = Table({"TASK": "", "CATEGORY": "", "A SAMPLE QUESTION": ""}, rows)
    if as_json:
        print_json({"categories": categories, "tasks": [_describe(session, sample, None) for sample in samples]})
        return
    table.print()
    listed = ", ".join(f"{name} {count}" for name, count in categories.items())
    print(f"\n{len(samples)} tasks in {len(counts)} categories: {listed}")
    reasons = {sample.task.name: _left_out(sample.task) for sample in samples}
    for name, reason in reasons.items():
        if reason:
            print(f"left out of training unless named: {name} ({reason})")
    print("`tasks NAME` shows whole samples with their answers, `tasks NAME --prompt` what a model gets to read")


def _first_words(sample: Sample) -> str:
    limit = QUESTION_CHARACTERS if isinstance(sample.outcome, Problem) else None
    return visible(" ".join(sample.question.split()), limit)


def _describe(session: Session[Problem], sample: Sample, chat: ChatFormat | None) -> dict[str, object]:
    if isinstance(sample.outcome, GenerationError):
        return {"task": sample.task.name, **_facts_of(sample.task), "error": str(sample.outcome)}
    prompt = session.messages(sample.outcome)
    described = problem_as_json(sample.outcome)
    tokens = {} if chat is None else {"prompt_tokens": len(chat.prompt(prompt).tokens)}
    return {**_facts_of(sample.task), **described, **tokens, "prompt": [dict(message) for message in prompt]}


def _left_out(task: TaskInfo) -> str:
    """Return why training leaves a task out unless it is named; "" for other tasks."""
    return find_task(task.name).answer_leak or task.left_out


def _facts_of(task: TaskInfo) -> dict[str, str]:
    """Return the category of a task and, for a task that training leaves out unless it is named, the reason."""
    reason = _left_out(task)
    return {"category": task.category} | ({"left_out_of_training": reason} if reason else {})


def _show(session: Session[Problem], sample: Sample, *, as_prompt: bool, chat: ChatFormat | None) -> str:
    head = f"=== {sample.task.name} ({sample.task.category})"
    reason = _left_out(sample.task)
    if reason:
        head = f"left out of training unless named: {reason}\n{head}"
    if isinstance(sample.outcome, GenerationError):
        return f"{head}\n{sample.question}\n"
    prompt = session.messages(sample.outcome)
    if chat is not None:
        shown = _as_sent(prompt, chat)
    elif as_prompt:
        shown = show_messages(prompt)
    else:
        shown = sample.question
    level = "" if sample.outcome.level is None else f", level {sample.outcome.level:g}"
    return f"{head}, seed {sample.outcome.spec.seed}{level}\n{shown}\n\n--- answer\n{show_answer(sample.outcome)}\n"


def _as_sent(messages: Messages, chat: ChatFormat) -> str:
    """Return the exact text of the prompt, the model's formats of thinking, and the end of a turn."""
    prompt = chat.prompt(messages)
    formats = [
        f"{thinking_format.opening} ... {thinking_format.closing} ({thinking_format.name})"
        for thinking_format in chat.thinking.formats
    ]
    return (
        f"{prompt.text}\n\n--- sent\n{len(prompt.tokens)} tokens\n"
        f"thinking     {', '.join(formats) or 'none'}\nend of turn  {chat.end_of_turn or 'none'}"
    )


tasks_command = Command(
    "tasks",
    "List reasoning-gym's tasks, or show samples of the named tasks.",
    _add_options,
    _show_tasks,
    names={"tasks": ""},
)

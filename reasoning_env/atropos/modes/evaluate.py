"""Evaluate a model on the fixed set, into a folder and as metrics; say before what will be sent."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ... import __version__
from ...evaluations.folder import open_folder
from ...evaluations.plan import FIRST_SEED, MAX_COMPLETION_TOKENS, EvaluationPlan
from ...evaluations.run import Evaluation, Evaluator, metrics
from ...records import Sampling, Split
from ...results import EvaluationResult
from ...session import Session
from ...settings import SYSTEM_PROMPT, fingerprint
from ..config import RunMode
from ..inference.failures import address
from ..inference.server_checks import context_length
from ..inference.servers import CHAT, ReplyKind
from ..run import Run

logger = logging.getLogger(__name__)

NO_LIMIT = 2**24
"""More tokens than any server takes: where a preset's budget is the only limit."""


async def evaluate_alone(env: Any, run: Run) -> EvaluationResult:
    """Do what the command `evaluate` does: nothing else."""
    run.mode = RunMode.EVALUATE
    await env.setup()
    await env.setup_wandb()
    await env.evaluate()
    assert run.results is not None and run.evaluation_folder is not None
    return EvaluationResult(run.results, run.evaluation_folder)


async def evaluate(run: Run, sampling: Sampling, step: int) -> dict[str, float]:
    """Evaluate the model on the fixed set and return the metrics; `step` is the trainer's.

    Whatever ends the evaluation, the problems that are done are kept, and the command `evaluate` shows their results.
    Raises ServerError when no problem could be evaluated, ConfigError when the folder cannot be made, and
    ReasoningEnvError when it cannot be written.
    """
    plan, remarks = run.session.eval_plan, list(run.session.eval_plan.remarks)
    if plan.preset is not None or run.config.eval_max_completion_tokens is not None:
        contexts = await asyncio.gather(*map(context_length, run.servers))
        sampling, shorter = limit_sampling(run.config, plan, sampling, contexts)
        remarks += shorter
    alone, root = run.mode is RunMode.EVALUATE, Path(run.config.data_dir_to_save_evals or "evals")
    made_with, problems = _describe(run, plan, sampling, step), len(plan.tasks) * plan.samples_per_task
    folder = await asyncio.to_thread(open_folder, root, made_with, problems=problems, remarks=remarks, resume=alone)
    categories = {task.name: task.category for task in run.session.library.tasks}
    if alone and run.config.complexity_level is not None and run.config.eval_level is None:
        logger.warning("complexity_level is the difficulty of training problems; that of these is eval_level")
    logger.info("%s at %s: %s", made_with["model"], *(made_with["server"]["base_url"], describe(run.session, sampling)))
    run.evaluation_folder = folder.path
    evaluation = Evaluation(_evaluator(run, plan, sampling), folder, plan.preset, categories)
    run.evaluation_progress, run.evaluation_end = evaluation.progress, evaluation.describe
    try:
        await evaluation.run(run.session.evaluation_set)
    finally:
        # After Ctrl-C too.
        run.results = await evaluation.conclude()
        if not alone:
            logger.info("%s", evaluation.describe())
    return metrics(run.results)


async def preview(config: Any, checkout: Path | None) -> str:
    """Return what an evaluation would send, in a line; asks no server, whose context may be shorter."""
    session = Session(config, checkout=checkout)
    try:
        await session.start()
        sampling = Sampling(config.eval_temperature, config.eval_top_p, config.max_token_length, Split.EVAL.value)
        sampling, _ = limit_sampling(config, session.eval_plan, sampling, [])
        return describe(session, sampling)
    finally:
        await session.close()


def describe(session: Session[Any], sampling: Sampling) -> str:
    """Return in a line what an evaluation asks for, and the most that it can cost."""
    plan = session.eval_plan
    problems = len(plan.tasks) * plan.samples_per_task
    completions, most = problems * plan.repeats, sampling.max_completion_tokens or sampling.token_limit
    protocol = f" ({plan.preset.name})" if plan.preset else ""
    prompt = "this environment's" if session.settings.system_prompt == SYSTEM_PROMPT else "your system_prompt"
    if plan.system_prompt is not None:
        prompt = "the library's own"
    elif not session.settings.system_prompt:
        prompt = "the question alone"
    return (
        f"{problems:,} problems of {len(plan.tasks)} tasks{protocol}, {completions:,} completions, at most "
        f"{_in_millions(completions * most)} tokens of completions; prompt: {prompt}; temperature "
        f"{sampling.temperature:g}, top_p {sampling.top_p:g}; at most {most:,} tokens a completion"
        f"{'' if sampling.max_completion_tokens else ', prompt included'}"
    )


def _in_millions(number: int) -> str:
    return f"{number / 1e6:,.1f} million" if number >= 1_000_000 else f"{number:,}"


def _evaluator(run: Run, plan: EvaluationPlan, sampling: Sampling) -> Evaluator:
    return Evaluator(
        scorer=run.session.pool,
        completer=run.inference,
        make_prompt=run.line.prompt,
        sampling=sampling,
        settings=run.config,
        thinking=run.session.thinking,
        repeats=plan.repeats,
        library_scores=plan.preset is not None,
        workers=run.config.max_eval_workers,
        timeouts=run.line.timeouts(),
        note_dropped=run.line.drop,
    )


def limit_sampling(
    config: Any, plan: EvaluationPlan, sampling: Sampling, contexts: Iterable[int | None]
) -> tuple[Sampling, list[str]]:
    """Return the sampling with the budget of completions that the user or the preset sets, and remarks on it.

    Such a budget counts up to what the servers' `contexts`, and a `max_token_length` that was set, allow.
    """
    if plan.preset is None and config.eval_max_completion_tokens is None:
        return sampling, []
    limits = list(contexts)
    if config.max_token_length != type(config).model_fields["max_token_length"].default:
        limits.append(config.max_token_length)
    limit = min(filter(None, limits), default=NO_LIMIT)
    remarks = []
    # But for some large puzzles, prompts of presets take at most 1024 tokens.
    if plan.preset is not None and limit < MAX_COMPLETION_TOKENS + 1024:
        remarks.append(
            f"prompt and completion have {limit} tokens here, and the published completions {MAX_COMPLETION_TOKENS}: "
            "scores of tasks with truncated completions, and all means over such tasks, are not comparable"
        )
        logger.warning("%s", remarks[0])
    most = config.eval_max_completion_tokens or MAX_COMPLETION_TOKENS
    if plan.preset is not None and most != MAX_COMPLETION_TOKENS:
        remarks.append(f"a completion has {most} tokens; the published ones {MAX_COMPLETION_TOKENS}")
    return replace(sampling, token_limit=limit, max_completion_tokens=most), remarks


def _describe(run: Run, plan: EvaluationPlan, sampling: Sampling, step: int) -> dict[str, Any]:
    """Return what identifies the evaluation. results.json has it from the start, and an equal evaluation resumes it."""
    config, server = run.config, run.server_config
    # Values that the settings leave open, as they were decided.
    settings = {
        "tasks": plan.tasks,
        "task_params": {task: dict(params) for task, params in plan.params.items()},
        "num_eval_samples_per_task": plan.samples_per_task,
        "eval_repeats": plan.repeats,
        "eval_seed": config.eval_seed if plan.preset is None else FIRST_SEED,
        "eval_temperature": sampling.temperature,
        "eval_top_p": sampling.top_p,
        "max_token_length": sampling.token_limit if sampling.token_limit < NO_LIMIT else None,
        "max_completion_tokens": sampling.max_completion_tokens,
        "system_prompt": run.session.system_prompt(Split.EVAL),
        "thinking_formats": list(run.session.thinking.names),
    }
    server_type = CHAT if run.inference.reply_kind is ReplyKind.CHAT else getattr(server, "server_type", "unknown")
    return {
        "model": str(server.model_name),
        "server": {"type": server_type, "base_url": _without_password(address(run.servers[0]))},
        "step": step if run.mode is RunMode.SERVE else None,
        "preset": plan.preset.name if plan.preset else None,
        "settings": {**fingerprint(config, "evaluation"), **settings},
        "versions": {
            "reasoning_gym": run.session.library.version,
            "environment": __version__,
            "python": platform.python_version(),
        },
    }


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

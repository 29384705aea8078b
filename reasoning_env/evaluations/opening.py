"""Open an evaluation of a model: its sampling, its folder, and the line that says what the model is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..records import DropReason, Problem, Prompt, Sampling, Timeouts
from .folder import DEFAULT_FOLDER, open_folder
from .protocol import (
    EvaluatingSession,
    EvaluationSettings,
    describe,
    has_completion_limit,
    identify,
    limit_sampling,
    own_limit,
)
from .run import Completer, Evaluation, Evaluator


@dataclass(frozen=True)
class EvaluatedModel:
    """A model at a server.

    - `completer`: the client that requests completions, within `timeouts`.
    - `make_prompt`: makes the prompt of a problem.
    - `context_lengths`: returns how many tokens each server takes for prompt and completion; None where a server does
      not say.
    - `note_dropped`: called for each problem that cannot be evaluated.
    """

    name: str
    server_type: str
    base_url: str
    completer: Completer
    make_prompt: Callable[[Problem], Prompt]
    context_lengths: Callable[[], Awaitable[Sequence[int | None]]]
    timeouts: Timeouts
    note_dropped: Callable[[Problem, DropReason, Exception], None]


async def open_evaluation(
    session: EvaluatingSession,
    model: EvaluatedModel,
    settings: EvaluationSettings,
    sampling: Sampling,
    *,
    step: int | None,
    resume: bool,
    version: str,
) -> Evaluation:
    """Return the evaluation of a model on the session's set, with its folder.

    Args:
        sampling: Sampling before a preset or a setting limits the tokens of a completion.
        step: Step of the trainer; None without a trainer.
        resume: Resume an equal evaluation that was interrupted.
        version: Version of this package, for the results.

    Raises ConfigError where the folder cannot be made.
    """
    plan = session.eval_plan
    remarks = list(plan.remarks)
    if has_completion_limit(session.settings, plan):
        limits = [*await model.context_lengths(), own_limit(settings)]
        sampling, shorter = limit_sampling(session.settings, plan, sampling, limits)
        remarks += shorter
    made_with = identify(
        session,
        sampling,
        model=model.name,
        server_type=model.server_type,
        base_url=model.base_url,
        step=step,
        version=version,
    )
    folder = await asyncio.to_thread(
        open_folder,
        Path(settings.data_dir_to_save_evals or DEFAULT_FOLDER),
        made_with,
        problems=len(plan.tasks) * plan.samples_per_task,
        remarks=remarks,
        resume=resume,
    )
    evaluator = Evaluator(
        judge=session.judge,
        plain_scorer=None if plan.preset is None else session.pool,
        completer=model.completer,
        make_prompt=model.make_prompt,
        sampling=sampling,
        settings=session.settings,
        thinking=session.thinking,
        repeats=plan.repeats,
        workers=settings.max_eval_workers,
        timeouts=model.timeouts,
        note_dropped=model.note_dropped,
    )
    return Evaluation(
        evaluator,
        session.evaluation_set,
        folder,
        plan.preset,
        categories={task.name: task.category for task in session.library.tasks},
        announcement=f"{model.name} at {made_with['server']['base_url']}: {describe(session, sampling)}",
    )

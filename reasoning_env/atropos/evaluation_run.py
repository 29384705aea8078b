"""Evaluate a model on the fixed set, and have Atropos' `evaluate_log` write the results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ServerError
from ..evaluation import EvalResult, Evaluator, sample_record, summarise
from ..records import Sampling
from ..terminal import progress_bar
from .run import Run

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """What one evaluation gave, and how its completions were sampled; `started` is a time of the clock."""

    results: Sequence[EvalResult]
    metrics: Mapping[str, float]
    sampling: Sampling
    started: float

    async def save(self, run: Run, evaluate_log: Callable[..., Coroutine[Any, Any, None]]) -> None:
        """Have `evaluate_log` write the metrics and all samples."""
        write = evaluate_log(
            metrics=dict(self.metrics),
            start_time=self.started,
            end_time=time.time(),
            generation_parameters={"temperature": self.sampling.temperature, "top_p": self.sampling.top_p},
            samples=[sample_record(result, run.backend.source.messages(result.problem)) for result in self.results],
        )
        # A coroutine that only writes files: it runs in a thread, on a loop of its own.
        await asyncio.to_thread(asyncio.run, write)


async def evaluate(run: Run, sampling: Sampling) -> Evaluation:
    """Evaluate the model on the fixed set; raises ServerError when not one problem could be evaluated."""
    backend, started = run.backend, time.time()
    evaluator = Evaluator(
        scorer=backend.pool,
        completer=run.inference,
        make_prompt=backend.source.prompt,
        sampling=sampling,
        settings=run.config,
        workers=run.config.max_eval_workers,
        timeouts=run.timeouts(),
        note_dropped=backend.collector.drop,
    )
    problems = await backend.source.evaluation_set.problems()
    with progress_bar("evaluation", len(problems)) as advance:
        results = await evaluator.run(problems, advance)
    metrics = summarise(results)
    if "eval/mean_score" not in metrics:
        raise ServerError("not one evaluation problem could be evaluated; the log above says why")
    scores = (metrics["eval/mean_score"], metrics["eval/share_correct"], metrics["eval/failed"])
    logger.info("evaluation of %d problems: mean score %.3f, share correct %.3f, %d failed", len(results), *scores)
    return Evaluation(results, metrics, sampling, started)

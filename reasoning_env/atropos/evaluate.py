"""Evaluate a model on the fixed set, and save what Atropos' `evaluate_log` writes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from ..errors import ServerError
from ..evaluation import EvalResult, Evaluator, sample_record, summarise
from ..records import Sampling, Timeouts
from ..terminal import progress_bar
from .backend import Backend
from .inference import InferenceClient

logger = logging.getLogger(__name__)


class Evaluation:
    """One evaluation: `run` it, then `save` it where it is wanted."""

    def __init__(
        self, config: Any, backend: Backend, inference: InferenceClient, sampling: Sampling, timeouts: Timeouts
    ) -> None:
        self._source = backend.source
        self._sampling = sampling
        self._started = time.time()
        self._results: Sequence[EvalResult] = ()
        self._metrics: Mapping[str, float] = {}
        self._evaluator = Evaluator(
            scorer=backend.pool,
            completer=inference,
            make_prompt=backend.source.prompt,
            sampling=sampling,
            settings=config,
            workers=config.max_eval_workers,
            timeouts=timeouts,
            note_dropped=backend.collector.drop,
        )

    async def run(self) -> Mapping[str, float]:
        """Return the metrics; raises ServerError when not one problem could be evaluated."""
        problems = await self._source.evaluation_set.problems()
        with progress_bar("evaluation", len(problems)) as advance:
            self._results = await self._evaluator.run(problems, advance)
        metrics = self._metrics = summarise(self._results)
        if "eval/mean_score" not in metrics:
            raise ServerError("not one evaluation problem could be evaluated; the log above says why")
        logger.info(
            "evaluation of %d problems: mean score %.3f, share correct %.3f, %d failed",
            len(self._results),
            metrics["eval/mean_score"],
            metrics["eval/share_correct"],
            metrics["eval/failed"],
        )
        return metrics

    async def save(self, evaluate_log: Callable[..., Coroutine[Any, Any, None]]) -> None:
        """Have `evaluate_log` write the metrics and all samples."""
        write = evaluate_log(
            metrics=dict(self._metrics),
            start_time=self._started,
            end_time=time.time(),
            generation_parameters={"temperature": self._sampling.temperature, "top_p": self._sampling.top_p},
            samples=[sample_record(result, self._source.messages(result.problem)) for result in self._results],
        )
        # A coroutine that only writes files: it runs in a thread, on a loop of its own.
        await asyncio.to_thread(asyncio.run, write)

"""One evaluation, from first problem to results: its folder keeps what is done, whatever ends it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..dumps.reader import DumpedGroup
from ..errors import ServerError
from ..terminal import progress_bar
from .evaluator import EvalResult, Evaluator
from .folder import EvalFolder
from .presets import Preset, compare_published
from .problem_set import EvaluationSet, fingerprint
from .summary import combine, summarise, tally_by_task

Results = dict[str, Any]


class Evaluation:
    """Runs `evaluator` over what is missing in `folder`; `categories` are the library's, by task."""

    def __init__(
        self, evaluator: Evaluator, folder: EvalFolder, preset: Preset | None, categories: Mapping[str, str]
    ) -> None:
        self._evaluator = evaluator
        self._folder = folder
        self._preset = preset
        self._categories = categories
        self._started = time.monotonic()
        self._finished = False
        self._failed: list[EvalResult] = []
        self._total, self._count = 0.0, 0
        self._wanted = 0
        self._not_made: Counter[str] = Counter()

    async def run(self, problems: EvaluationSet) -> None:
        """Evaluate the problems that are not done; raises what the evaluator does, and ReasoningEnvError.

        A problem without a completion is written when all have been tried, so that a later start tries it again.
        """
        done, self._wanted = dict(self._folder.samples), len(problems.tasks) * problems.samples_per_task
        for sample in done.values():
            self._add(sample)
        with progress_bar("evaluation", self._wanted, done=len(done)) as advance:

            async def take(result: EvalResult) -> None:
                if result.dropped is None:
                    self._add(await asyncio.to_thread(lambda: self._folder.append(result.line())))
                else:
                    self._failed.append(result)
                advance(self._note())

            await self._evaluator.run(problems.stream(done=done), take)
        if not self._count:
            raise ServerError("not one evaluation problem could be evaluated; the log above says why")
        for result in self._failed:
            await asyncio.to_thread(self._folder.append, result.line())
        # Problems that could not be made are not of the set.
        self._finished, self._wanted = True, len(self._folder.samples)
        self._not_made = Counter(dict.fromkeys(problems.tasks, problems.samples_per_task))
        self._not_made.subtract(task for task, _ in self._folder.samples)

    async def conclude(self) -> Results:
        """Write results.json, let go of the folder, and return what the file says."""
        try:
            return await asyncio.to_thread(self._write_results)
        finally:
            await asyncio.to_thread(self._folder.close)

    def progress(self) -> str:
        """Return a line on how far it has come."""
        tried = len(self._folder.samples) + len(self._failed)
        return f"progress: {tried} of {self._wanted} problems, {self._note()}"

    def describe(self) -> str:
        """Return a line on what there is, and where."""
        folder, problems = self._folder.path, self._wanted
        done = sum(bool(sample.rollouts) for sample in self._folder.samples.values())
        if self._finished:
            failed = f"; {problems - done} of {problems} problems have no completion" if done < problems else ""
            missing = f"; {self._not_made.total()} more could not be made" if self._not_made.total() else ""
            return f"The results are in {folder}{failed}{missing}."
        if not self._folder.samples:
            return "No problem was evaluated, and no folder is kept."
        return f"{done} of {problems} problems are done and kept in {folder}; the same command goes on with the rest."

    def _write_results(self) -> Results:
        samples = self._folder.samples
        found = summarise(tally_by_task(samples.values()), self._categories, self._not_made)
        if self._finished:
            found["problems"] = len(samples)
            found["fingerprint"] = fingerprint({place: sample.problem or "" for place, sample in samples.items()})
        found["seconds"] = round(self._folder.spent_s + time.monotonic() - self._started, 1)
        if self._preset is not None:
            identical = {task: row for task, row in found["tasks"].items() if task in self._preset.identical}
            found["identical"] = combine(identical.values())
            found["published"] = compare_published(self._preset, found["tasks"])
        return self._folder.write_results(found, finished=self._finished)

    def _add(self, sample: DumpedGroup) -> None:
        self._total += sum(sample.scores)
        self._count += len(sample.rollouts)

    def _note(self) -> str:
        failed = f", {len(self._failed)} failed" if self._failed else ""
        return f"mean score {self._total / max(1, self._count):.3f}{failed}"


def metrics(results: Results) -> dict[str, float]:
    """Return what a metrics backend gets of results.json."""
    overall, tasks = results["overall"], results["tasks"]
    found: dict[str, float | None] = {
        "eval/mean_score": overall.get("mean_score"),
        "eval/share_correct": overall.get("accuracy"),
        "eval/library_score": overall.get("library_score"),
        "eval/mean_completion_tokens": overall.get("tokens"),
        "eval/problems": results["problems"],
        "eval/failed": results["problems"] - overall["problems"],
        "eval/not_made": overall["not_made"],
    }
    found |= {f"eval/pass_at/{k}": share for k, share in overall.get("pass_at", {}).items()}
    found |= {f"eval_reasons/{word}": share for word, share in overall.get("reasons", {}).items()}
    found |= {
        f"eval_categories/{name}/mean_score": row.get("mean_score") for name, row in results["categories"].items()
    }
    for task, row in tasks.items():
        found |= {
            f"eval_tasks/{task}/mean_score": row.get("mean_score"),
            f"eval_tasks/{task}/share_correct": row.get("accuracy"),
        }
    return {name: value for name, value in found.items() if value is not None}

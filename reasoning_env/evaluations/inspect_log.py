"""Write an evaluation folder, by Inspect AI's API, as a log for `inspect view` and its data frames.

Needs the extra `inspect`. A log has one sample for each completion: the problem is the sample, its completions are the
epochs. Scores are those of the folder; nothing is scored again.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..dumps.reader import DumpedGroup, DumpedRollout, read_groups
from ..errors import ConfigError
from .folder import SAMPLES, read_results

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalResults, EvalSample

SCORER = "verifier"
"""The name of this environment's scores in a log, beside `library`, the library's own."""


def write_inspect_log(folder: Path) -> Path:
    """Write the log of an evaluation into its folder, and return its path; an earlier one is replaced.

    Everything is in memory while it is written, and that takes a second for thousands of completions: keep it off an
    event loop. Raises ConfigError where Inspect is not installed, and where the folder holds no evaluation.
    """
    if importlib.util.find_spec("inspect_ai") is None:
        raise ConfigError("an Inspect log needs inspect_ai, which is not installed: pip install 'inspect_ai>=0.3.285'")
    from inspect_ai.log import write_eval_log

    try:
        log = _make_log(read_results(folder), list(read_groups(folder / SAMPLES, strict=False)))
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise ConfigError(f"{folder} is no folder of an evaluation: {error}") from error
    path = folder / "inspect.eval"
    write_eval_log(log, str(path))
    return path


def _make_log(results: Mapping[str, Any], groups: list[DumpedGroup]) -> EvalLog:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, EvalStats

    ids = [_sample_id(group) for group in groups if group.rollouts]
    facts = {name: results.get(name) for name in ("fingerprint", "preset", "settings", "server", "step", "seconds")}
    started = datetime.fromisoformat(results["started"])
    spec = EvalSpec(
        created=started.isoformat(),
        task=f"reasoning_gym {results['preset']}" if results.get("preset") else "reasoning_gym",
        model=str(results.get("model") or "unknown"),
        dataset=EvalDataset(name="reasoning_gym", samples=len(ids), sample_ids=ids, shuffled=False),
        config=EvalConfig(epochs=max((len(group.rollouts) for group in groups), default=1)),
        packages={name: str(version) for name, version in (results.get("versions") or {}).items() if version},
        metadata=facts,
    )
    return EvalLog(
        status="success" if results.get("finished", True) else "started",
        eval=spec,
        stats=EvalStats(
            started_at=started.isoformat(),
            completed_at=(started + timedelta(seconds=results["seconds"])).isoformat(),
        ),
        results=_make_results(results, groups),
        samples=[sample for group in groups for sample in _make_samples(group, spec.model)],
    )


def _make_results(results: Mapping[str, Any], groups: list[DumpedGroup]) -> EvalResults:
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    overall = results.get("overall") or {}
    figures = {name: overall.get(name) for name in ("mean_score", "accuracy")}
    metrics = {name: EvalMetric(name=name, value=value) for name, value in figures.items() if value is not None}
    completions = sum(len(group.rollouts) for group in groups)
    return EvalResults(
        total_samples=completions,
        completed_samples=completions,
        scores=[EvalScore(name=SCORER, scorer=SCORER, metrics=metrics)],
    )


def _make_samples(group: DumpedGroup, model: str) -> Iterator[EvalSample]:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ModelOutput, ModelUsage
    from inspect_ai.scorer import Score

    facts = {"task": group.item_id, "seed": group.seed, "level": group.level, "params": dict(group.params)}
    for epoch, rollout in enumerate(group.rollouts, 1):
        messages = _messages(rollout)
        stop = "max_tokens" if rollout.finish_reason == "length" else "stop"
        output = ModelOutput.from_content(model, messages[-1].text, stop_reason=stop)
        if rollout.tokens is not None:
            output.usage = ModelUsage(output_tokens=rollout.tokens, total_tokens=rollout.tokens)
        scores = {SCORER: Score(value=rollout.score, answer=_sound(rollout.answer or ""), explanation=rollout.reason)}
        if rollout.library_score is not None:
            scores["library"] = Score(value=rollout.library_score)
        yield EvalSample(
            id=_sample_id(group),
            epoch=epoch,
            input=messages[-2].text,
            target=_sound(group.expected_answer or ""),
            messages=messages,
            output=output,
            model_usage={model: output.usage} if output.usage else {},
            scores=scores,
            metadata=facts,
            total_time=rollout.seconds,
        )


def _messages(rollout: DumpedRollout) -> list[Any]:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    classes = {"system": ChatMessageSystem, "assistant": ChatMessageAssistant}
    return [
        classes.get(message["role"], ChatMessageUser)(content=_sound(message["content"]))
        for message in rollout.conversation
    ]


def _sample_id(group: DumpedGroup) -> str:
    return f"{group.item_id}-{group.index}"


def _sound(text: str) -> str:
    """Return a text of a model without lone surrogates, which a log cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()

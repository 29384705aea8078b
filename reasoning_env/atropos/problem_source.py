"""Hand out problems with their prompts, in stream order; problems with too long prompts are skipped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..evaluations.plan import EvalPlan
from ..metrics import MetricsRecorder
from ..problems import ProblemStream
from ..prompting import ChatFormat, build_messages
from ..records import DropReason, Group, Problem, Prompt, Sampling, Split, StreamStats, TaskReport
from ..tasks.plan import TaskPlan, make_sampler
from ..tasks.sampling import UniformSampler
from ..workers.pool import WorkerPool
from .inference.chat import PlainChat

logger = logging.getLogger(__name__)

PROMPTS_TOO_LONG_LIMIT = 1000
"""After this many problems in a row whose prompts do not fit, the token limit is wrong, not the problems."""
LONG_QUESTION = 1500
"""Characters from which a thread tokenizes a question; below, a thread costs more than it saves."""


@dataclass(frozen=True)
class RolloutItem:
    """What BaseEnv carries from `get_next_item` to `collect_trajectories`."""

    problem: Problem
    prompt: Prompt = field(repr=False)


class ProblemSource:
    """Joins the plan of tasks, the stream of problems and the prompts; used on the event loop.

    Nothing is drawn before `start`. `settled` is awaited before each problem is handed out.
    """

    def __init__(
        self,
        config: Any,
        plan: TaskPlan,
        pool: WorkerPool,
        chat: ChatFormat | PlainChat,
        metrics: MetricsRecorder,
        *,
        eval_plan: EvalPlan,
        settled: Callable[[], Awaitable[None]],
    ) -> None:
        self.eval_plan = eval_plan
        self.evaluation_set = eval_plan.make_set(pool, config, plan.available)
        self.instance = 0
        self._config = config
        self._plan = plan
        self._pool = pool
        self._chat = chat
        self._metrics = metrics
        self._settled = settled
        self._sampler: UniformSampler | None = None
        self._stream: ProblemStream | None = None
        self._skipped_tasks: set[str] = set()

    def start(self, instance: int = 0, state: Mapping[str, Any] | None = None) -> None:
        """Begin to draw as `instance`, from an earlier run's `state()` if given; later calls change nothing."""
        if self._stream is not None:
            return
        config, saved = self._config, state or {}
        self.instance = instance
        self._sampler = make_sampler(
            self._plan, config, instance=instance, group_size=config.group_size, state=saved.get("sampler")
        )
        self._stream = ProblemStream(
            self._pool,
            self._sampler,
            depth=config.prefetch_problems,
            deadline_s=config.generation_deadline_s,
            quarantine_after=config.quarantine_after_failures,
            avoid=self.evaluation_set.asks,
            state=saved.get("stream"),
        )
        self._stream.start()

    async def next(self, sampling: Sampling) -> RolloutItem:
        """Return the next problem whose prompt leaves room for a completion; others are skipped and counted.

        Raises ConfigError when very many prompts in a row do not fit; GenerationError, WorkerError as the stream does.
        """
        assert self._stream is not None, "start() comes first"
        least = self._config.min_completion_tokens
        for _ in range(PROMPTS_TOO_LONG_LIMIT):
            await self._settled()
            problem = await self._stream.next()
            prompt = await self.prompt(problem)
            if sampling.completion_budget(prompt) >= least:
                logger.debug("next: %s", problem.spec)
                return RolloutItem(problem, prompt)
            self._skip(problem, sampling)
        raise ConfigError(
            f"no prompt of {PROMPTS_TOO_LONG_LIMIT} in a row fits into max_token_length={sampling.token_limit} "
            f"with min_completion_tokens={least}; raise the one or lower the other"
        )

    def messages(self, problem: Problem) -> tuple[Mapping[str, str], ...]:
        """Return the conversation that asks a problem's question."""
        return build_messages(self.system_prompt(problem.spec.split), problem.question)

    def system_prompt(self, split: Split) -> str:
        """Return the system message that problems of a split have; empty for none."""
        if split is Split.EVAL and self.eval_plan.system_prompt is not None:
            return self.eval_plan.system_prompt
        return "\n\n".join(filter(None, [self._config.custom_thinking_prompt, self._config.system_prompt]))

    async def prompt(self, problem: Problem) -> Prompt:
        """Build a problem's prompt."""
        messages = self.messages(problem)
        if len(problem.question) > LONG_QUESTION:
            return await asyncio.to_thread(self._chat.prompt, messages)
        return self._chat.prompt(messages)

    def done(self, problem: Problem) -> None:
        """End a problem: its group is scored, or it was given up."""
        if self._stream is not None:
            self._stream.done(problem)

    def observe(self, group: Group) -> None:
        """Let the sampler learn from a scored group."""
        if self._stream is not None and self._sampler is not None:
            self._sampler.observe(group, self._stream.under_way(group.problem.task))

    @property
    def stats(self) -> StreamStats | None:
        return None if self._stream is None else self._stream.stats

    @property
    def in_flight(self) -> int:
        """How many problems were handed out and are not done."""
        return 0 if self._stream is None else self._stream.in_flight

    def report(self) -> Mapping[str, TaskReport]:
        return {} if self._sampler is None else self._sampler.report()

    def state(self) -> dict[str, Any]:
        """Return what decides the next problem, as JSON; `start` takes it."""
        assert self._stream is not None and self._sampler is not None, "start() comes first"
        return {"instance": self.instance, "stream": self._stream.state(), "sampler": self._sampler.state()}

    async def close(self) -> None:
        """Stop generating; what was drawn stays part of `state()`."""
        if self._stream is not None:
            await self._stream.close()
        await self.evaluation_set.close()

    def _skip(self, problem: Problem, sampling: Sampling) -> None:
        self._metrics.record_dropped(DropReason.PROMPT_TOO_LONG)
        self.done(problem)
        if problem.task not in self._skipped_tasks:
            self._skipped_tasks.add(problem.task)
            logger.warning(
                "problems of %s are skipped when their prompts leave too few of %d tokens; raise max_token_length to "
                "train on them",
                *(problem.task, sampling.token_limit),
            )

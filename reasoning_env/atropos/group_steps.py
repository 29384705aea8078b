"""The steps of a group: next problem, completions, verdicts, packing, metrics, and the end of the problem's flight."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from atroposlib.envs.base import ScoredDataGroup

from ..dumps.writer import RolloutDumper
from ..errors import RefusedError, ServerError
from ..inference.chat import PlainChat
from ..inference.failures import MAX_REQUEST_FAILURES, describe_failure
from ..prompts.chat_format import ChatFormat
from ..records import DropReason, Group, Problem, Prompt, Rollout, Sampling, Split, Timeouts
from ..rewards import reward
from ..runtime.turns import in_turn
from ..session import Session
from ..workers.pool import WorkerPool
from .config import ReasoningGymEnvConfig
from .environment import RolloutItem
from .inference.client import InferenceClient
from .modes.mode import Mode
from .wire import LONG_FIELDS

logger = logging.getLogger(__name__)


class GroupSteps:
    """The steps of a group, which `ReasoningGymEnv.collect_trajectories` takes in order, and the session behind them.

    Args:
        config: All settings of the environment.
        inference: Gives completions.
        chat: Makes prompts.
        dumper: Takes scored groups; None to dump nothing.
        mode: What runs the environment.
        trainer_limit: Returns the trainer's limit of tokens; 0 or less is no limit.
        testing: Repeat a failed request at once, up to MAX_REQUEST_FAILURES times.
        pool: Worker processes to use; by default the session starts its own.
        checkout: A folder with a reasoning-gym to use in place of the installed package.
    """

    testing_reply_s = 0.3
    """Seconds for a reply in a test, unless `worker_timeout` was set."""

    def __init__(
        self,
        config: ReasoningGymEnvConfig,
        inference: InferenceClient,
        chat: ChatFormat | PlainChat,
        dumper: RolloutDumper | None,
        *,
        mode: Mode,
        trainer_limit: Callable[[], int],
        testing: bool = False,
        pool: WorkerPool | None = None,
        checkout: Path | None = None,
    ) -> None:
        self.mode = mode
        self._config = config
        self._inference = inference
        self.chat = chat
        self._dumper = dumper
        self._trainer_limit = trainer_limit
        self._testing = testing
        self.session = Session(
            config,
            prepare=self.prepare,
            pool=pool,
            checkout=checkout,
            group_size=config.group_size,
            preamble=config.custom_thinking_prompt or "",
            thinking=chat.thinking,
        )
        self._failures_in_a_row = 0
        self._last_failure = ""
        self._fatal: RefusedError | None = None

    async def next(self) -> RolloutItem:
        """Return the next problem with its prompt; it is in flight until its group is delivered or dropped.

        Raises:
            ServerError: As many groups in a row failed as the mode allows.
            ClosedError: The session was closed.
            RefusedError: The inference server refuses all requests.
        """
        if self._fatal is not None:
            raise self._fatal
        max_failures = self.mode.max_failures(self._config)
        if max_failures is not None and self._failures_in_a_row >= max_failures:
            raise ServerError(f"{self._failures_in_a_row} groups in a row failed; the last: {self._last_failure}")
        return await self.session.next()

    async def complete(self, item: RolloutItem) -> Sequence[Rollout]:
        """Return `group_size` rollouts; raises ServerError, TimeoutError and what clients raise."""
        return await self._inference.complete(item.prompt, self._config.group_size, self.sampling(), self.timeouts())

    async def judge(self, group: Group) -> Group:
        """Return the group with verdicts, and rewards after the length penalty.

        Raises ScoringError when an infrastructure error persists, and WorkerError when no worker can be started.
        """
        verdicts = await self.session.judge(group.problem, [rollout.text for rollout in group.rollouts])
        judged = replace(group, thinking_formats=self.session.thinking.names)
        return reward(judged, verdicts, max_tokens=self._config.max_token_length)

    async def pack(self, group: Group, *, as_lists: bool) -> ScoredDataGroup:
        """Return the group in the trainer's format: lists if `as_lists` or the mode wants lists, else arrays."""
        truncated, messages = self._config.mask_too_long_completions, self._config.include_messages
        packed = pack(group, mask_truncated=truncated, include_messages=messages)
        if as_lists or self.mode.packs_lists:
            for name in LONG_FIELDS:
                if packed[name] is not None:
                    packed[name] = [await in_turn(partial(list, sequence)) for sequence in packed[name]]
        return packed

    def observe(self, group: Group) -> None:
        """Count a scored group, let the sampler learn from the group, and dump it; the problem stays in flight."""
        self._failures_in_a_row = 0
        verdicts = [rollout.verdict for rollout in group.rollouts if rollout.verdict is not None]
        self.session.observe(group.problem, verdicts, rollouts=group.rollouts, done=False)
        if self._dumper is not None:
            self._dumper.offer(group)
        self.mode.keep(group)

    def drop(self, problem: Problem, reason: DropReason, error: Exception) -> None:
        """Drop a group after an error: count, log, and end the flight. An infrastructure error is never scored 0."""
        self._failures_in_a_row += 1
        self._last_failure = describe_failure(error)
        if isinstance(error, RefusedError):
            self._fatal = error
        self.session.drop(problem, reason)
        # An error that ends the run is logged once, at the end.
        level = logging.WARNING if self._fatal is None else logging.DEBUG
        logger.log(level, "a group of %s is dropped, %s: %s", problem.task, reason, self._last_failure)

    def end_unless_sent(self, problem: Problem, packed: ScoredDataGroup | None) -> None:
        """Mark a collected group's problem as done, unless the mode sends the group. None as a group is never sent."""
        if not self.mode.is_in_flight(packed):
            self.end(problem)

    def end(self, problem: Problem, deliveries: Collection[asyncio.Future[None]] = ()) -> None:
        """Mark a problem as done, so no longer in flight, once all `deliveries` of its groups are done.

        Every problem is marked here; a second call is harmless. Cancelled deliveries leave the problem in flight.
        """
        if not deliveries:
            self.session.done(problem)
            return
        arrived = asyncio.gather(*deliveries)
        arrived.add_done_callback(lambda done: None if done.cancelled() else self.session.done(problem))

    @property
    def token_limit(self) -> int:
        """Tokens of prompt and completion together: `max_token_length`, and at most the trainer's limit.

        BaseEnv drops a group if a member reaches the trainer's limit.
        """
        most: int = self._config.max_token_length
        limit = self._trainer_limit()
        return min(most, limit) if limit > 0 else most

    def sampling(self) -> Sampling:
        """Return the sampling parameters of training."""
        config = self._config
        return Sampling(config.temperature, config.top_p, self.token_limit, Split.TRAIN.value)

    def prompt(self, problem: Problem) -> Prompt:
        """Build a problem's prompt."""
        return self.chat.prompt(self.session.messages(problem))

    def prepare(self, problem: Problem) -> RolloutItem | None:
        """Return the problem with its prompt; None if the prompt leaves too few tokens for a completion.

        A completion needs `min_completion_tokens`, and no fewer tokens than the expected answer.
        """
        prompt = self.prompt(problem)
        expected = 0 if problem.answer is None else self.chat.count_tokens(f"<answer>{problem.answer}</answer>")
        least = max(self._config.min_completion_tokens, expected)
        if self.sampling().completion_budget(prompt) < least:
            return None
        return RolloutItem(problem, prompt)

    def timeouts(self) -> Timeouts:
        """Return the time limits of requests for completions."""
        reply_s = self._config.worker_timeout
        if self._testing and reply_s == type(self._config).model_fields["worker_timeout"].default:
            reply_s = self.testing_reply_s
        return Timeouts(
            reply_s=reply_s if reply_s > 0 else None,
            outage_s=self.mode.outage_s(self._config),
            tries=MAX_REQUEST_FAILURES if self._testing else None,
        )


def pack(group: Group, *, mask_truncated: bool, include_messages: bool) -> ScoredDataGroup:
    """Return a group as parallel lists, each with one entry per rollout.

    Args:
        group: A scored group.
        mask_truncated: Rollouts that ran out of tokens carry the override `set_advantage_to_zero`.
        include_messages: Add the conversations.
    """
    rollouts = group.rollouts
    packed: Any = {
        "tokens": [rollout.tokens for rollout in rollouts],
        "masks": [rollout.masks for rollout in rollouts],
        "scores": [rollout.score for rollout in rollouts],
        "advantages": None,
        "ref_logprobs": None,
        "messages": None,
        "generation_params": None,
        "inference_logprobs": None,
        "group_overrides": {},
        "overrides": [
            {"set_advantage_to_zero": True} if rollout.truncated and mask_truncated else {} for rollout in rollouts
        ],
        "images": None,
        "distill_token_ids": None,
        "distill_logprobs": None,
    }
    if all(rollout.logprobs is not None for rollout in rollouts):
        packed["inference_logprobs"] = [rollout.logprobs for rollout in rollouts]
    if include_messages:
        packed["messages"] = [
            [*map(dict, group.messages), {"role": "assistant", "content": rollout.text}] for rollout in rollouts
        ]
    return packed

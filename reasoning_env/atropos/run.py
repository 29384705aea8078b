"""`Run` has an environment's objects, and the steps from drawing a problem to packing its group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from atroposlib.envs.base import ScoredDataGroup
from atroposlib.envs.server_handling.server_baseline import ServerBaseline

from ..errors import RefusedError, ServerError
from ..inference.failures import MAX_REQUEST_FAILURES, Timeouts, describe_failure
from ..inference.served_model import ServedModel
from ..inference.server import RequestOptions
from ..prompts.chat_templates import PLAIN
from ..records import DropReason, Ending, Group, Problem, Prompt, Rollout, Sampling, Split
from ..rewards import reward
from ..runtime.retries import FailureStreak
from ..runtime.turns import map_in_turns, run_on_decoder
from ..session import Session
from ..storage.folders import find_checkout
from ..workers.pool import WorkerPool
from .config import ReasoningGymEnvConfig, named_format
from .delivery import DeliveryQueue
from .environment import RolloutItem
from .evaluations import ModelEvaluations
from .lifetime import Lifetime, make_chat, make_dumper, make_run_api_session
from .modes.mode import Mode
from .report import RunReport
from .run_api import TrainerWatch
from .servers import Completers
from .wire import LONG_FIELDS

logger = logging.getLogger(__name__)


class Run:
    """The objects of one environment, such as its session. `lifetime` starts and ends these objects.

    `ReasoningGymEnv` takes the steps of a group in this order: `next`, `complete`, `judge`, `pack`, `observe`, `end`.
    After an error, the step `drop` replaces the remaining steps.

    Args:
        config: All settings of the environment.
        manager: Returns BaseEnv's server manager.
        tokenizer: BaseEnv's tokenizer; None if all servers are chat servers.
        folder: Folder of the environment's module; the library is imported from a checkout in this folder, if any.
        mode: Behaviour that depends on the command (see `modes/mode.py`).
        trainer_limit: Returns the trainer's token limit; 0 or less means no limit.
        step: Returns the trainer's step, or None while there is no trainer.
        collect_state: Returns BaseEnv's part of a checkpoint.
        server_config: Settings of the first inference server.
        testing: Skip the check of the inference server at startup. Retry a failed request immediately, and give up
            after MAX_REQUEST_FAILURES failures.
        pool: Worker processes to use; by default the session starts its own.
    """

    def __init__(
        self,
        config: ReasoningGymEnvConfig,
        manager: Callable[[], Any],
        tokenizer: Any,
        folder: Path,
        *,
        mode: Mode,
        trainer_limit: Callable[[], int],
        step: Callable[[], int | None],
        collect_state: Callable[[], Mapping[str, object]],
        server_config: ServerBaseline | None = None,
        testing: bool = False,
        pool: WorkerPool | None = None,
    ) -> None:
        self.config = config
        self.mode = mode
        """The mode `Imported`, until a command sets another mode."""
        self._testing = testing
        self._trainer_limit = trainer_limit
        self.uuid = str(uuid.uuid4())
        self.chat = make_chat(config, tokenizer)
        named = named_format(server_config)
        self._completers = Completers(manager, None if named is None else named.kind)
        self.inference: ServedModel = ServedModel(
            self._completers,
            self.chat,
            RequestOptions(
                stop_after_answer=config.chat_template == PLAIN,
                template_options=config.chat_template_kwargs,
                reasoning_effort=config.reasoning_effort,
                keep_special_tokens=self.chat.hides_thinking,
            ),
            self.timeouts,
            model=str(getattr(server_config, "model_name", None)),
        )
        self.step: Callable[[], int | None] = step
        self.dumper = make_dumper(config, self.uuid, folder, step)
        self.session = Session(
            config,
            prepare=self.prepare,
            on_thread=run_on_decoder,
            pool=pool,
            checkout=find_checkout(folder),
            group_size=config.group_size,
            preamble=config.custom_thinking_prompt or "",
            thinking=self.chat.thinking,
        )
        self.run_api = make_run_api_session(config)
        self.trainer = TrainerWatch()
        self.queue = DeliveryQueue(
            self.run_api,
            on_drop=lambda: self.session.metrics.record_dropped(DropReason.UNDELIVERED),
        )
        self.evaluations = ModelEvaluations(self, self.inference)
        self.report = RunReport(self)
        self.time_step: Callable[[str], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        """Measures how long it takes to get a group's `completions` or `verdicts`, for Prometheus."""
        self.lifetime = Lifetime(self, collect_state, testing=testing)
        self._failures = FailureStreak()
        self._fatal: RefusedError | None = None

    @property
    def servers(self) -> Sequence[Any]:
        """Atropos' inference servers, or the fake servers that tests use instead."""
        return self._completers.servers

    @property
    def clients(self) -> Sequence[Any]:
        """The objects in `servers` that are Atropos' `APIServer`s; empty if a test uses only fake servers."""
        return self._completers.clients

    # ---- a group

    async def next(self) -> RolloutItem:
        """Return the next problem with its prompt. The problem is in flight until its group is delivered or dropped.

        Raises:
            ServerError: The mode's limit of failed groups in a row is reached.
            ClosedError: The session was closed.
            RefusedError: The inference server refuses all requests.
        """
        if self._fatal is not None:
            raise self._fatal
        max_failures = self.mode.max_failures(self.config)
        if max_failures is not None and self._failures.count >= max_failures:
            raise ServerError(f"{self._failures.count} groups in a row failed; the last error: {self._failures.last}")
        return await self.session.next()

    async def complete(self, item: RolloutItem) -> Sequence[Rollout]:
        """Return `group_size` unscored rollouts; raises ServerError, TimeoutError or an error of Atropos' clients."""
        with self.time_step("completions"):
            return await self.inference.complete(item.prompt, self.config.group_size, self.sampling())

    async def judge(self, group: Group) -> Group:
        """Return the group with its verdicts, and with rewards after the length penalty.

        Raises ScoringError if an infrastructure error persists, and WorkerError if no worker can be started.
        """
        with self.time_step("verdicts"):
            verdicts = await self.session.judge(group.problem, [rollout.text for rollout in group.rollouts])
        judged = replace(group, thinking_formats=self.session.thinking.names)
        return reward(judged, verdicts, max_tokens=self.config.max_token_length)

    async def pack(self, group: Group, *, as_lists: bool) -> ScoredDataGroup:
        """Return the group in the trainer's format: lists if `as_lists` or `Mode.packs_lists` is true, else arrays."""
        truncated, messages = self.config.mask_too_long_completions, self.config.include_messages
        packed = pack(group, mask_truncated=truncated, include_messages=messages)
        if as_lists or self.mode.packs_lists:
            names = [name for name in LONG_FIELDS if packed[name] is not None]
            prompt_tokens = len(group.rollouts[0].tokens) - (group.rollouts[0].completion_tokens or 0)
            prompts = [packed[name][0][:prompt_tokens] for name in names]
            as_list = partial(_as_list, [(one.tobytes(), one.tolist()) for one in prompts if isinstance(one, array)])
            lists = iter(await map_in_turns(as_list, [sequence for name in names for sequence in packed[name]]))
            for name in names:
                packed[name] = [next(lists) for _ in packed[name]]
        return packed

    def observe(self, group: Group) -> None:
        """Count a scored group, update the sampler, and pass the group to the dumper. The problem stays in flight."""
        self._failures.end()
        verdicts = [rollout.verdict for rollout in group.rollouts if rollout.verdict is not None]
        self.session.observe(group.problem, verdicts, rollouts=group.rollouts, done=False)
        if self.dumper is not None:
            self.dumper.offer(group)
        self.mode.keep(group)

    def drop(self, problem: Problem, reason: DropReason, error: Exception) -> None:
        """Count and log a group dropped after an error. The problem is no longer in flight."""
        self._failures.add(describe_failure(error))
        if isinstance(error, RefusedError):
            self._fatal = error
        self.session.drop(problem, reason)
        # An error that ends the run is logged once, when the run ends.
        level = logging.WARNING if self._fatal is None else logging.DEBUG
        logger.log(level, "dropped a group of the task %s (%s): %s", problem.task, reason, self._failures.last)

    def end_unless_sent(self, problem: Problem, packed: ScoredDataGroup | None) -> None:
        """Mark the problem as done, unless a trainer gets its group. `packed` is None for a dropped group."""
        if packed is None or not self.mode.has_trainer:
            self.end(problem)

    def end(self, problem: Problem, deliveries: Collection[asyncio.Future[None]] = ()) -> None:
        """Mark a problem as done once all `deliveries` of its groups are done. A second call has no effect.

        If a delivery is cancelled, the problem stays in flight.
        """
        if not deliveries:
            self.session.done(problem)
            return
        arrived = asyncio.gather(*deliveries)
        arrived.add_done_callback(lambda done: None if done.cancelled() else self.session.done(problem))

    @property
    def token_limit(self) -> int:
        """Maximum tokens of prompt and completion together: `max_token_length` or the trainer's limit, if smaller.

        BaseEnv drops a group if one of its rollouts reaches the trainer's limit.
        """
        most: int = self.config.max_token_length
        limit = self._trainer_limit()
        return min(most, limit) if limit > 0 else most

    def sampling(self) -> Sampling:
        """Return the sampling parameters of training."""
        config = self.config
        return Sampling(config.temperature, config.top_p, self.token_limit, Split.TRAIN.value)

    def prompt(self, problem: Problem) -> Prompt:
        """Build a problem's prompt."""
        return self.chat.prompt(self.session.messages(problem))

    def prepare(self, problem: Problem) -> RolloutItem | None:
        """Return the problem with its prompt; None if the prompt leaves too few tokens for a completion.

        A completion needs at least `least_budget` tokens, and at least as many tokens as the right answer has.
        """
        prompt = self.prompt(problem)
        sampling = self.sampling()
        budget = sampling.completion_budget(prompt)
        expected = "" if problem.answer is None else f"<answer>{problem.answer}</answer>"
        if budget < sampling.least_budget:
            return None
        # A string has at most as many tokens as bytes, so short answers are not tokenized.
        if len(expected.encode("utf-8", "replace")) >= budget and self.chat.count_tokens(expected) > budget:
            return None
        return RolloutItem(problem, prompt)

    def timeouts(self) -> Timeouts:
        """Return the time limits of requests for completions."""
        reply_s = self.config.worker_timeout
        if self._testing and reply_s == type(self.config).model_fields["worker_timeout"].default:
            reply_s = 0.3  # tests do not wait as long as users do
        return Timeouts(
            reply_s=reply_s if reply_s > 0 else None,
            outage_s=self.mode.outage_s(self.config),
            tries=MAX_REQUEST_FAILURES if self._testing else None,
            away_s=self.mode.away_s,
        )


def _as_list(prompts: Sequence[tuple[bytes, list[float]]], sequence: Sequence[float]) -> list[float]:
    """Return a sequence as a list.

    If an array begins with one of the `prompts`, copy the prompt's list, and convert only the rest. `prompts` has each
    prompt as bytes and as a list.
    """
    if isinstance(sequence, array):
        for in_bytes, numbers in prompts:
            if sequence.tobytes().startswith(in_bytes):
                return [*numbers, *sequence[len(numbers) :].tolist()]
    return list(sequence)


def pack(group: Group, *, mask_truncated: bool, include_messages: bool) -> ScoredDataGroup:
    """Return a group in the trainer's format: parallel lists, each with one entry per rollout.

    Args:
        group: A scored group.
        mask_truncated: Set the override `set_advantage_to_zero` for rollouts that reached a token limit.
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
            {"set_advantage_to_zero": True} if rollout.ending is Ending.CUT and mask_truncated else {}
            for rollout in rollouts
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

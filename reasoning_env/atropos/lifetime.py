"""The start and the end of a run, and the state that a later run resumes from."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..dumps.writer import RolloutDumper
from ..inference.formats.choices import PlainChat
from ..inference.formats.reply_format import ReplyKind
from ..metrics.progress import progress_line
from ..problems.plan import made_with
from ..problems.state import read_state
from ..prompts.chat_format import ChatFormat
from ..runtime.concurrency import cancel_all
from ..storage.checkpoints import Checkpoint, CheckpointStore
from ..storage.folders import check_writable, default_dumps_folder
from .config import ReasoningGymEnvConfig, tune_garbage_collector
from .run_api import RunApiSession

if TYPE_CHECKING:
    from .run import Run

logger = logging.getLogger(__name__)


class Lifetime:
    """Starts a run, saves its state, and ends the run.

    Args:
        collect_state: Returns BaseEnv's part of a checkpoint.
        testing: Skip the check of the inference server at startup.
    """

    save_interval_s = 10.0
    """Seconds between two saves of the latest state. A killed run resumes from the last save."""
    least_drain_s = 3.0
    """Minimum seconds for the delivery of waiting groups at shutdown, even after the shutdown's deadline."""

    def __init__(self, run: Run, collect_state: Callable[[], Mapping[str, object]], *, testing: bool) -> None:
        self.checkpoints: CheckpointStore | None = None
        self._run = run
        self._collect_state = collect_state
        self._testing = testing
        self._background: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the workers and, except in tests, check that an inference server answers.

        Raises ConfigError, ServerError or WorkerError, each with a remedy. After an error no process is left.
        """
        run = self._run
        await self.start_workers()
        try:
            await self.start_dumps()
            if not self._testing:
                await run.inference.check(run.mode.startup_timeout_s(run.config))
                await run.inference.check_tokenizer()
                self._log_reply_kind()
        except BaseException:
            await run.session.close()
            raise
        run.evaluations.choose_workers()
        self.checkpoints = CheckpointStore(
            made_with(run.config, run.session.plan, "problems"),
            accept_changes=run.config.resume_with_changes,
            check_state=read_state,
        )
        self._background += map(asyncio.create_task, [run.report.log_progress(), run.inference.watch()])
        tune_garbage_collector()

    def _log_reply_kind(self) -> None:
        """Log what the servers' replies contain; warn if a trainer gets no log-probabilities."""
        run = self._run
        summary = run.inference.describe_replies()
        if run.mode.has_trainer and run.inference.reply_kind is ReplyKind.TEXT:
            logger.warning(
                "%s. To get exact tokens, serve the model with `vllm serve`, Atropos' vLLM server or SGLang, and set "
                "openai.server_type to auto",
                summary,
            )
        else:
            logger.info("%s", summary)
        if run.config.reasoning_effort is not None and run.inference.reply_kind is not ReplyKind.CHAT:
            logger.warning("env.reasoning_effort is ignored: only chat servers accept a reasoning effort")
        streams = {getattr(client.config, "stream", "auto") for client in run.clients}
        if streams != {"auto"} and run.inference.reply_kind is ReplyKind.TOKENS:
            logger.warning("openai.stream is ignored: replies with token ids are never streamed")

    async def start_workers(self) -> None:
        """Start the workers if they do not run yet; raises ConfigError or WorkerError."""
        if not self._run.session.has_started:
            await self._run.session.start()

    async def start_dumps(self) -> None:
        """Start the thread that writes dumps. Raises ConfigError if the dumps' folder is not writable."""
        if self._run.dumper is not None:
            await asyncio.to_thread(check_writable, self._run.dumper.folder, "data_dumps_dir")
            await asyncio.to_thread(self._run.dumper.start)

    def begin_delivery(self, env_id: int) -> None:
        """Start to draw problems, deliver groups and save the state. Call this after the registration at run-api."""
        assert self.checkpoints is not None, "call start() first"
        # The number chooses the problems, so each environment needs its own. Checkpoint folders are named after
        # `instance`, so with checkpoints `instance` is the number, and a resumed run continues with its problems.
        self._run.session.begin(env_id if self.checkpoints.folder is None else self._run.config.instance)
        self._run.queue.start()
        if self.checkpoints.folder is not None:
            self._background.append(asyncio.create_task(self._save_regularly()))

    async def stop_background(self) -> None:
        """Stop the background tasks. Log the final progress if at least one group was scored or dropped."""
        if self._background:
            await cancel_all(self._background)
            self._background.clear()
            progress = self._run.report.progress()
            if progress["groups"] or progress["failed"]:
                logger.info("%s", progress_line(progress))

    async def stop_sending(self, deadline: float) -> None:
        """Deliver waiting groups until `deadline` (a monotonic time), but for at least `least_drain_s`; then stop."""
        await self._run.queue.drain(max(deadline - time.monotonic(), self.least_drain_s))
        await self._run.queue.close()
        waiting = self._run.queue.stats.waiting
        if waiting and self.checkpoints is not None and self.checkpoints.folder is not None:
            logger.info("%d scored groups were not delivered; the next run repeats their problems", waiting)
        elif waiting:
            logger.warning(
                "%d scored groups were not delivered and are lost; set checkpoint_dir to let the next run repeat their "
                "problems",
                waiting,
            )

    def resume(self, resumed: Checkpoint) -> None:
        """Resume from a checkpoint. Call this before a problem is drawn."""
        assert self.checkpoints is not None, "call start() first"
        self._run.session.begin(self._run.config.instance, resumed.state)

    def save(self, step: int, *, latest: bool = False) -> None:
        """Save the state as the state of `step` and as the latest state; with `latest`, only as the latest state."""
        if self.checkpoints is not None and self.checkpoints.folder is not None:
            self.checkpoints.save(step, {**self._run.session.state(), **self._collect_state()}, latest=latest)

    async def save_last(self, step: int) -> None:
        """Save the state at the end of the run, and unlock the checkpoint folder."""
        if self.checkpoints is None:
            return
        if self._run.session.in_flight and self.checkpoints.folder is not None:
            logger.info("unfinished problems saved for the start of the next run: %d", self._run.session.in_flight)
        self.save(step, latest=True)
        await asyncio.to_thread(self.checkpoints.close)

    async def _save_regularly(self) -> None:
        """Save the latest state every `save_interval_s`, unless nothing has changed or the last save still runs."""
        saved: object = None
        while True:
            await asyncio.sleep(self.save_interval_s)
            # While inference or run-api is unreachable, these values do not change, and the state is not saved again.
            step = self._run.step()
            now = (step, self._run.report.progress_line(), self._run.queue.stats)
            if step is not None and now != saved and self.checkpoints is not None and not self.checkpoints.busy:
                try:
                    self.save(step, latest=True)
                    saved = now
                except Exception:  # a subclass may add values that cannot be saved
                    logger.exception("saving the state failed; the run continues, and the next save tries again")


def make_chat(config: ReasoningGymEnvConfig, tokenizer: Any) -> ChatFormat | PlainChat:
    """Return the chat format that the settings select; raises ConfigError if its chat template cannot be used."""
    if tokenizer is None:
        return PlainChat(config.thinking)
    return ChatFormat(
        tokenizer,
        config.tokenizer_name,
        template=config.chat_template,
        template_options=config.chat_template_kwargs,
        thinking=config.thinking,
    )


def make_dumper(
    config: ReasoningGymEnvConfig, run_uuid: str, folder: Path, step: Callable[[], int | None]
) -> RolloutDumper | None:
    if not config.dump_rollouts and not config.dump_failed_rollouts:
        return None
    return RolloutDumper(
        Path(config.data_dumps_dir) if config.data_dumps_dir else default_dumps_folder(folder),
        run_uuid,
        dump_passed=config.dump_rollouts,
        dump_failed=config.dump_failed_rollouts,
        score_threshold=config.rollout_save_score_threshold,
        step=step,
    )


def make_run_api_session(config: ReasoningGymEnvConfig) -> RunApiSession:
    """Return a session that is not yet registered at run-api."""
    return RunApiSession(
        config.rollout_server_url,
        {
            "max_token_length": config.max_token_length,
            "desired_name": config.wandb_name,
            "weight": config.inference_weight,
            "min_batch_allocation": config.min_batch_allocation,
            "group_size": config.group_size,
        },
    )

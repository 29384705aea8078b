"""An evaluation over chat completions, which needs no Atropos: settings, a preview, and the run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .. import __version__
from ..evaluations.folder import DEFAULT_FOLDER, Results
from ..evaluations.opening import EvaluatedModel, open_evaluation
from ..evaluations.protocol import EvaluationSettings, describe, limit_sampling, own_limit
from ..inference.addresses import PATIENCE_S, wait_for_address
from ..inference.chat import PlainChat
from ..inference.failures import describe_failure
from ..inference.hosted import HostedModel, HostedServer, only_model
from ..records import DropReason, Problem, Sampling, Split, Timeouts
from ..results import EvaluationResult
from ..session import Session
from ..settings import ReasoningSettings, TemplateOptions
from ..storage.folders import check_writable

logger = logging.getLogger(__name__)


DEFAULT_URL = "http://localhost:9001/v1"


class HostedSettings(ReasoningSettings):
    """Settings of the core, and Atropos' settings that also apply to evaluations over chat completions."""

    max_token_length: int = Field(default=2048, ge=16, description="Tokens of prompt and completion at most.")
    max_eval_workers: int = Field(default=16, ge=1, description="Problems under way at a time.")
    data_dir_to_save_evals: str | None = Field(default=None, description="Folder of evaluations. None: `evals/`.")
    worker_timeout: float = Field(default=600.0, description="Seconds for a completion; -1 for no limit.")
    startup_timeout_s: float | None = Field(
        default=None, gt=0.0, le=86_400.0, description="Seconds to wait for a server that is gone. None: 30."
    )
    chat_template_kwargs: TemplateOptions = Field(
        default_factory=dict, description="Options of the chat template: `{enable_thinking: false}`."
    )


class ServerSettings(BaseModel):
    """The server with the model. Types other than chat need Atropos."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    base_url: str = Field(default=DEFAULT_URL, description="Address of the server.")
    model_name: str | None = Field(default=None, description="Name of the model at the server.")
    api_key: str = Field(default="", description="Key of the server; `$NAME` reads a variable.")
    server_type: Literal["auto", "chat"] = Field(default="auto", description="Chat completions in both cases.")
    timeout: int = Field(default=1200, ge=1, description="Seconds for one request.")


async def preview(session: Session[Any], settings: EvaluationSettings) -> str:
    """Return a line on what an evaluation would send; asks no server, although a server's context may be shorter.

    The session, of the same settings, is started and closed here.
    """
    async with session:
        sampling = _sampling(session.settings, settings.max_token_length)
        sampling, _ = limit_sampling(session.settings, session.eval_plan, sampling, [own_limit(settings)])
        return describe(session, sampling)


class HostedEvaluation:
    """One evaluation of a model. `results` and `last_line` are set at its end, an interruption included."""

    def __init__(self, settings: HostedSettings, server: ServerSettings, key: str, checkout: Path | None) -> None:
        self.results: Results | None = None
        self.last_line = ""
        self._settings = settings
        self._server = server
        self._key = key
        self._checkout = checkout

    async def evaluate(self, model: str | None) -> EvaluationResult:
        """Start the workers, check the server, evaluate the problems that are not done, and return the results."""
        settings = self._settings
        check_writable(Path(settings.data_dir_to_save_evals or DEFAULT_FOLDER), "data_dir_to_save_evals")
        patience_s = settings.startup_timeout_s or PATIENCE_S
        async with Session(settings, checkout=self._checkout) as session:
            url = self._server.base_url
            await wait_for_address([url], patience_s)
            server = HostedServer(url, model or await only_model(url, self._key), self._key, self._server.timeout)
            async with HostedModel(server, self._options()) as client:
                await client.check(patience_s)
                return await self._evaluate_with(session, client, patience_s)

    async def _evaluate_with(
        self, session: Session[Problem], client: HostedModel, patience_s: float
    ) -> EvaluationResult:
        settings = self._settings
        chat = PlainChat(settings.thinking)

        async def context_lengths() -> list[int | None]:
            return [await client.context_length()]

        def note_dropped(problem: Problem, reason: DropReason, error: Exception) -> None:
            session.metrics.record_dropped(reason)
            logger.warning("a problem of %s is dropped, %s: %s", problem.task, reason, describe_failure(error))

        model = EvaluatedModel(
            client.model,
            server_type="chat",
            base_url=client.server.base_url,
            completer=client,
            make_prompt=lambda problem: chat.prompt(session.messages(problem)),
            context_lengths=context_lengths,
            timeouts=Timeouts(settings.worker_timeout if settings.worker_timeout > 0 else None, patience_s),
            note_dropped=note_dropped,
        )
        sampling = _sampling(settings, settings.max_token_length)
        evaluation = await open_evaluation(
            session, model, settings, sampling, step=None, resume=True, version=__version__
        )
        logger.info("%s", evaluation.announcement)
        try:
            await evaluation.run()
        finally:  # after Ctrl-C too
            self.results = await evaluation.conclude()
            self.last_line = evaluation.describe()
        return EvaluationResult(self.results, evaluation.folder)

    def _options(self) -> dict[str, Any]:
        """Return what every request carries beside prompt and sampling."""
        kwargs = self._settings.chat_template_kwargs
        return {"extra_body": {"chat_template_kwargs": kwargs}} if kwargs else {}


def _sampling(settings: ReasoningSettings, token_limit: int) -> Sampling:
    return Sampling(settings.eval_temperature, settings.eval_top_p, token_limit, Split.EVAL.value)

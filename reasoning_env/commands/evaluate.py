"""The command and the function `evaluate`: score one model on one server, with chat or text completions.

Running the same command again resumes an interrupted evaluation.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from .. import __version__
from ..errors import ConfigError, ReasoningEnvError
from ..evaluations.folder import DEFAULT_FOLDER, Results
from ..evaluations.plan import check_seed, choose_sampling, describe_evaluation
from ..evaluations.results import EvaluationResult
from ..evaluations.run import Evaluation
from ..evaluations.table import MANY_FAILED, failed_share, not_as_requested, print_results, remarks
from ..inference.addresses import (
    AWAY_LIMIT_S,
    PATIENCE_S,
    PROBE_S,
    Absence,
    Headers,
    check_url,
    find_secrets,
    max_connections,
    path_remedy,
    public_url,
    read_headers,
    read_key,
    wait_for_server,
)
from ..inference.completer import ServerSpec
from ..inference.failures import FailureKind, explain_failure
from ..inference.formats.choices import CHAT, TEXT, PlainChat
from ..inference.formats.reply_format import ReplyFormat
from ..inference.refusals import Stream
from ..inference.served_model import ServedModel
from ..inference.server import RequestOptions, Server
from ..problems.presets import MAX_COMPLETION_TOKENS
from ..program.options import option_parser
from ..program.parser import errors_for_user, program
from ..program.running import run_on_thread, run_to_end, start_log
from ..program.training import NAMES_OF_TRAINING, OF_EVALUATE, OF_SERVER, ReasoningEffort
from ..prompts.chat_templates import PLAIN
from ..records import Problem, Timeouts
from ..runtime.concurrency import cancel_all
from ..runtime.terminal import print_json
from ..runtime.text import visible
from ..session import Session
from ..settings import Decides, ReasoningSettings, TemplateOptions
from ..settings.given import make_settings
from ..settings.removed import UNUSED
from ..storage.config_files import Sections, check_names, read_config_files, split_settings, write_config
from ..storage.folders import check_writable, find_checkout

logger = logging.getLogger(__name__)

DEFAULT_URL = "http://localhost:9001/v1"
OPENAI_URL = "https://api.openai.com/v1"
"""Default server if only OPENAI_API_KEY is set, as in OpenAI's own clients."""


Show = Callable[[EvaluationResult, str], None]
"""Shows the results of a complete or interrupted evaluation. The string is a line about its folder."""


def _check_limit(limit_s: float) -> float:
    if limit_s == -1 or limit_s > 0:
        return limit_s
    raise ValueError("must be positive, or -1 for no limit")


class HostedSettings(ReasoningSettings):
    """Settings of `ReasoningSettings`, and settings of `serve` that also apply to evaluations."""

    with_word_none = frozenset({"reasoning_effort"})

    max_token_length: Annotated[int, Field(ge=16)] = 2048
    """Maximum tokens of prompt and completion together. If it is not set, a chat completion may have 32,768 tokens,
    because thinking models need more than 2,048."""
    max_eval_workers: Annotated[int, Field(ge=1)] = 16
    """Problems in flight."""
    data_dir_to_save_evals: str | None = None
    """Folder for evaluations. None: `evals/`."""
    worker_timeout: Annotated[float, AfterValidator(_check_limit)] = 1200.0
    """Time limit of a completion, in seconds; -1 for no limit. At 30 tokens per second, 32,768 tokens take 1,100 s."""
    startup_timeout_s: Annotated[float | None, Field(gt=0.0, le=86_400.0)] = None
    """How long to wait at startup for a server that does not answer, in seconds. None: 30. After startup, `evaluate`
    waits at least ten minutes."""
    chat_template: Annotated[str | None, Decides("evaluation")] = None
    """`plain`: text completions without a chat template, for base models. None: chat completions, if the server has
    them."""
    chat_template_kwargs: Annotated[TemplateOptions, Decides("evaluation")] = Field(default_factory=dict)
    """Variables for the chat template, such as `{enable_thinking: false}`."""
    reasoning_effort: Annotated[ReasoningEffort | None, Decides("evaluation")] = None
    """Reasoning effort to request from the server. None: the server's default."""


class ServerSettings(BaseModel):
    """The inference server."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)

    base_url: str = DEFAULT_URL
    """Address of the server. If it is not set, but OPENAI_API_KEY is and no other key is given: api.openai.com."""
    model_name: str | None = None
    """Name of the model on the server."""
    api_key: str = ""
    """API key of the server. `$NAME` reads an environment variable."""
    headers: Headers = Field(default_factory=dict)
    """HTTP headers of every request; `$NAME` reads an environment variable. With headers, the key is sent only if
    `api_key` is set."""
    server_type: Literal["auto", "chat"] = "auto"
    """`chat`: chat completions only. `auto`: text completions if the server has no chat completions."""
    timeout: Annotated[int, Field(ge=1)] = 1200
    """Time limit of a request, in seconds."""
    stream: Stream = "auto"
    """Whether to request streamed replies. `auto`: only if the server refuses other requests."""


OF_TRAINING = frozenset(OF_SERVER).difference(ServerSettings.model_fields)
"""Settings of an inference server that only `serve` and `process` use."""


@dataclass(frozen=True)
class Request:
    """The settings for one evaluation, from files, options and defaults."""

    settings: HostedSettings
    server: ServerSettings
    unused: Sequence[str]
    """Names of given settings that only `serve` and `process` use."""

    def server_spec(self) -> ServerSpec:
        """Return the server with its key and headers; the model's name may be empty. Raises ConfigError."""
        server = self.server
        headers = read_headers(server.headers)
        key = read_key(server.api_key, for_chat=True, headers=headers)
        name = server.model_name or ""
        return ServerSpec(server.base_url, name, key, server.timeout, self._formats(), server.stream, headers)

    def _formats(self) -> Sequence[ReplyFormat]:
        """Return the request formats to try, in order of preference."""
        if self.server.server_type == CHAT.name:
            return [CHAT]
        return [TEXT] if self.settings.chat_template == PLAIN else [CHAT, TEXT]


def evaluate_command(argv: Sequence[str], folder: Path, defaults: Mapping[str, object] | None = None) -> int:
    """Evaluate a model and return 0.

    Args:
        argv: The arguments of the command.
        folder: Folder that may contain a checkout of the library.
        defaults: Default settings of an environment class, by name.

    Raises:
        ConfigError: The user made a mistake.
        ServerError: The server cannot be used.
        ReasoningEnvError: The score is below --fail-under, or more completions failed than --max-failed allows.
    """
    parser = option_parser(program(), "evaluate", NAMES_OF_TRAINING, [*OF_SERVER, *OF_EVALUATE])
    options = parser.read(argv)
    names = parser.setting_names(argv)
    with errors_for_user(names):
        request = _read_request(options, defaults or {})
        if "print-config" in options:
            print(write_config(request.settings, [request.server]), end="")
            return 0
        if "dry-run" in options:
            session = Session[Problem](request.settings, checkout=find_checkout(folder))
            name = request.server.model_name or "the only model"
            print(f"{visible(name)} at {visible(public_url(request.server.base_url))}")
            print(run_to_end(lambda: preview(session, request.settings)))
            return 0
    secrets = find_secrets([request.server])
    start_log(secrets, quiet="quiet" in options, verbose="verbose" in options, as_json="log-json" in options)
    show = _show_json if "json" in options else _show_table
    result = _run(request, names, run_to_end, find_checkout(folder), show)
    check_score(result.results, options.get("fail-under"), options.get("max-failed"))
    return 0


def evaluate(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    server_type: str | None = None,
    tasks: str | Sequence[str] | None = None,
    preset: str | None = None,
    limit: int | None = None,
    repeats: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    concurrency: int | None = None,
    folder: str | Path | None = None,
    **settings: object,
) -> EvaluationResult:
    """Score a model on a fixed set of problems, as the command `evaluate` does; works in a notebook too.

    Calling it again with the same arguments resumes an interrupted evaluation.

    Args:
        model: Name of the model on the server.
        base_url: Address of the server; by default the environment variable OPENAI_BASE_URL, or OpenAI's server if only
            OPENAI_API_KEY is set.
        api_key: API key of the server.
        headers: HTTP headers of every request, such as `{"api-key": "$AZURE_KEY"}`; `$NAME` reads an environment
            variable.
        server_type: `chat` for chat completions only; by default text completions if the server has no chat.
        tasks: Names, globs and categories of tasks.
        preset: Published protocol to follow.
        limit: Problems per task.
        repeats: Completions per problem.
        temperature: Sampling temperature.
        max_tokens: Maximum tokens per completion.
        seed: Seed of the problems.
        concurrency: Problems in flight; by default 16.
        folder: Folder in which to create the evaluation's own folder; by default `evals/`.
        settings: Further settings (`eval_level=0.5`; `chat_template="plain"` for a base model).

    Raises:
        ConfigError: A setting is invalid.
        ServerError: The server does not answer.
        WorkerError: The worker processes cannot be started.
    """
    arguments = {
        "base_url": ("openai.base_url", base_url),
        "model": ("openai.model_name", model),
        "api_key": ("openai.api_key", api_key),
        "headers": ("openai.headers", headers),
        "server_type": ("openai.server_type", server_type),
        "tasks": ("env.eval_tasks", tasks),
        "preset": ("env.eval_preset", preset),
        "limit": ("env.num_eval_samples_per_task", limit),
        "repeats": ("env.eval_repeats", repeats),
        "temperature": ("env.eval_temperature", temperature),
        "max_tokens": ("env.eval_max_completion_tokens", max_tokens),
        "seed": ("env.eval_seed", seed),
        "concurrency": ("env.max_eval_workers", concurrency),
        "folder": ("env.data_dir_to_save_evals", None if folder is None else str(folder)),
        **{name: (f"env.{name}", value) for name, value in settings.items()},
    }
    names = {setting: argument for argument, (setting, _) in arguments.items()}
    names |= {setting.removeprefix("env."): argument for setting, argument in names.items()}
    with errors_for_user(names):
        request = _read_request({setting: value for setting, value in arguments.values() if value is not None}, {})
    return _run(request, names, lambda work: run_on_thread(work()), None, _show_nothing)


def _run(
    request: Request,
    names: Mapping[str, str],
    run: Callable[[Callable[[], Coroutine[object, object, EvaluationResult]]], EvaluationResult],
    checkout: Path | None,
    show: Show,
) -> EvaluationResult:
    """Run the requested evaluation and return the results.

    Errors use `names`, the caller's names for settings. `run` runs a coroutine and returns its result.
    """
    with errors_for_user(names):
        spec = request.server_spec()
    if request.unused:
        logger.warning("`evaluate` ignores these settings: %s", visible(", ".join(request.unused)))
    with errors_for_user(names, find_secrets([request.server])):
        return run(lambda: _evaluate(request, spec, checkout, show))


def check_score(results: Results, least: float | None, most_failed: float | None) -> None:
    """Raise ReasoningEnvError if the mean score is below `least`, or if too many completions failed.

    `most_failed` is the largest allowed share of failed completions; None means MANY_FAILED if `least` is set.
    """
    overall = results["overall"]
    if overall is None:
        overall = {"problems": 0, "completions": 0, "failed": 0}
    score = overall.get("mean_score")
    if least is not None and (score is None or score < least):
        if score is None:
            raise ReasoningEnvError(
                "no completion was scored, so there is no mean score",
                setting="--fail-under",
                remedy="see the errors above",
            )
        raise ReasoningEnvError(f"the mean score {score:.3f} is below {least:g}", setting="--fail-under")
    if most_failed is None and least is not None:
        most_failed = MANY_FAILED
    share = failed_share(overall)
    if most_failed is not None and share > most_failed:
        total = overall["failed"] + overall["completions"]
        raise ReasoningEnvError(
            f"{overall['failed']} of {total} completions failed ({share:.0%}), and at most {most_failed:.0%} may fail",
            setting="--max-failed",
        )


# ------------------------------------------------------------------ settings


def _read_request(options: Mapping[str, Any], defaults: Mapping[str, object]) -> Request:
    """Return the settings from files and options. Raises ConfigError for invalid settings."""
    file = read_config_files(options.get("config", ()))
    check_names(file, NAMES_OF_TRAINING, [*OF_SERVER, *OF_EVALUATE])
    given = {name.removeprefix("env."): value for name, value in options.items() if name.startswith("env.")}
    of_training = (NAMES_OF_TRAINING | UNUSED.keys()) - HostedSettings.model_fields.keys()
    unused_options = [f"env.{name}" for name in given if name in of_training]
    given = {name: value for name, value in given.items() if name not in of_training}
    known = {name: value for name, value in defaults.items() if name in HostedSettings.model_fields}
    settings, unused = split_settings(HostedSettings, file.model_copy(update={"openai": []}), known, given)
    check_seed(settings, options)
    if settings.chat_template not in (None, PLAIN):
        raise ConfigError(
            f"must be `{PLAIN}` or none, because the server applies the chat template itself",
            setting="chat_template",
            got=settings.chat_template,
            remedy="start the server with this template, and pass --env.chat_template none",
        )
    if len(file.openai) > 1:
        raise ConfigError(
            f"`evaluate` works with one inference server, but the files list {len(file.openai)}",
            setting="--config",
            remedy="use a file with one server, or with the address of a load balancer in front of several",
        )
    server, unused_of_server = _read_server(file, options)
    has_limit = "max_token_length" in settings.model_fields_set or settings.eval_max_completion_tokens is not None
    if not has_limit and settings.chat_template != PLAIN:
        settings = settings.model_copy(update={"eval_max_completion_tokens": MAX_COMPLETION_TOKENS})
    unused = [*(name for name in unused if name != "openai"), *unused_of_server, *unused_options]
    if server.server_type == CHAT.name and settings.chat_template is not None:
        unused.append("env.chat_template")
    elif settings.chat_template == PLAIN and settings.reasoning_effort is not None:
        unused.append("env.reasoning_effort")
    return Request(settings, server, unused)


def _read_server(file: Sections, options: Mapping[str, object]) -> tuple[ServerSettings, list[str]]:
    """Return the server's settings, and the names of given settings that `evaluate` ignores. Raises ConfigError."""
    of_file = file.openai[0] if file.openai else {}
    known = {name: value for name, value in of_file.items() if name not in OF_TRAINING}
    if known.get("server_type") != CHAT.name:
        known.pop("server_type", None)  # the other types are for training, which needs token ids
    section = "openai."
    from_options = {name.removeprefix(section): value for name, value in options.items() if name.startswith(section)}
    unused = [f"openai.{name}" for name in {**of_file, **from_options} if name in OF_TRAINING]
    from_options = {name: value for name, value in from_options.items() if name not in OF_TRAINING}
    variable = os.environ.get("OPENAI_BASE_URL")
    from_variable = {"base_url": variable} if variable else {}
    server = make_settings(ServerSettings, {**from_variable, **known, **from_options}, "openai.")
    of_openai = os.environ.get("OPENAI_API_KEY") and server.api_key in ("", "$OPENAI_API_KEY")
    if of_openai and "base_url" not in server.model_fields_set:
        server = server.model_copy(update={"base_url": OPENAI_URL})
    if server.model_name == "":
        raise ConfigError("must not be empty", setting="openai.model_name", remedy="name the model")
    by_variable = variable is not None and "base_url" not in known and "base_url" not in from_options
    check_url("OPENAI_BASE_URL" if by_variable else "openai.base_url", server.base_url)
    if "server_type" in of_file and "server_type" not in known:
        unused.append("openai.server_type")
    return server, unused


# ------------------------------------------------------------------ an evaluation


async def preview(session: Session[Problem], settings: HostedSettings) -> str:
    """Return a line that describes the requests of an evaluation, without contacting a server.

    A server with a shorter context would allow fewer tokens. This function starts and closes the session, which must
    have the same settings.
    """
    async with session:
        return describe_evaluation(session, choose_sampling(session, settings))


async def _evaluate(request: Request, spec: ServerSpec, checkout: Path | None, show: Show) -> EvaluationResult:
    """Start the workers, check the server, evaluate the unfinished problems, and return the results."""
    settings = request.settings
    check_writable(Path(settings.data_dir_to_save_evals or DEFAULT_FOLDER), "data_dir_to_save_evals")
    if settings.complexity_level is not None and settings.eval_level is None:
        logger.warning("complexity_level applies to training only; set eval_level to evaluate at another level")
    patience_s = settings.startup_timeout_s or PATIENCE_S
    reply_s = settings.worker_timeout if settings.worker_timeout > 0 else None
    timeouts = Timeouts(reply_s, patience_s, away_s=AWAY_LIMIT_S)
    async with Session(settings, checkout=checkout) as session:
        name = spec.model or await only_model(spec, patience_s)
        completers = [Server(replace(spec, model=name))]
        options = RequestOptions(
            template_options=settings.chat_template_kwargs, reasoning_effort=settings.reasoning_effort
        )
        async with ServedModel(lambda: completers, PlainChat(), options, lambda: timeouts, model=name) as served:
            await served.check(patience_s)
            evaluation = await Evaluation.open(session, served, settings, version=__version__)
            logger.info("%s", evaluation.announcement)
            at_once = settings.max_eval_workers * session.eval_plan.repeats
            if (connections := max_connections()) < at_once:
                logger.warning(
                    "limiting concurrent requests to %d, because this process may open few files; for %d requests, "
                    "raise the limit with ulimit -n",
                    connections,
                    at_once,
                )
            watch = asyncio.create_task(served.watch())  # reports an outage in each interval
            try:
                await evaluation.run()
            finally:  # also after Ctrl-C
                await cancel_all([watch])
                result = await evaluation.conclude()
                show(result, evaluation.describe())
            return result


def _show_table(result: EvaluationResult, line: str) -> None:
    print_results(result.results)
    print(f"\n{line}", flush=True)


def _show_json(result: EvaluationResult, line: str) -> None:
    print_json(result.results)
    _show_nothing(result, line)


def _show_nothing(result: EvaluationResult, line: str) -> None:
    """Log the remarks that `_show_table` prints below the table. The caller receives the results as a return value."""
    for remark in not_as_requested(result.results):
        logger.warning("not as requested: %s", remark)
    for remark in remarks(result.results):
        logger.warning("%s", remark)


async def only_model(spec: ServerSpec, timeout_s: float) -> str:
    """Return the name of the only model that a server lists; waits for the server.

    Raises ServerError if no server answers within `timeout_s`, and ConfigError unless the server lists one model.
    """
    missing = "name the model: `evaluate MODEL`"
    names: list[str] = []

    async def list_names(_timeout_s: float) -> Sequence[Absence]:
        try:
            names.extend(str(model.id) for model in await server.models())
        except Exception as error:
            failure = explain_failure(error)
            if failure.kind is FailureKind.ABSENT and failure.status is None:
                return [Absence(f"{server.address}: {failure.description}")]
            if failure.status in (401, 403):
                raise ConfigError(
                    f"{server.address} refuses the API key ({failure.description})",
                    remedy="set the environment variable OPENAI_API_KEY, or {openai.api_key}",
                ) from error
            raise ConfigError(
                f"{missing}; {server.address} does not list its models ({failure.description})",
                remedy=path_remedy(failure, spec.url),
            ) from error
        return []

    server = Server(replace(spec, timeout_s=PROBE_S))
    try:
        await wait_for_server(list_names, timeout_s)
    finally:
        await server.close()
    if len(names) == 1:
        logger.info("evaluating %s, the only model on %s", names[0], server.address)
        return names[0]
    raise ConfigError(f"{missing}; models on {server.address}: {list_models(names)}")


MOST_SHOWN = 5
"""Maximum number of models in an error."""


def list_models(names: list[str]) -> str:
    """Return the first MOST_SHOWN names, separated by commas."""
    return (", ".join(names[:MOST_SHOWN]) + (", ..." if len(names) > MOST_SHOWN else "")) or "none"

"""The command and the function `evaluate`: score one model on one server, with chat or text completions.

Running the same command again resumes an interrupted evaluation.
"""

from __future__ import annotations

import asyncio
import logging
import os
import textwrap
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import ConfigError, ReasoningEnvError
from ..evaluations.folder import DEFAULT_FOLDER, Results
from ..evaluations.plan import check_seed, choose_sampling, describe_evaluation, without_effect
from ..evaluations.results import EvaluationResult
from ..evaluations.run import Evaluation
from ..evaluations.table import MANY_FAILED, failed_share, not_as_requested, print_results, remarks
from ..inference.addresses import (
    AWAY_LIMIT_S,
    PATIENCE_S,
    PROBE_S,
    find_secrets,
    max_connections,
    path_remedy,
    public_url,
    read_secrets,
    read_servers,
    wait_for_server,
)
from ..inference.completer import ServerSettings
from ..inference.failures import Failure, FailureKind, Timeouts, explain_failure
from ..inference.formats import AUTO
from ..inference.formats.choices import CHAT, TEXT, PlainChat
from ..inference.formats.reply_format import ReplyFormat
from ..inference.served_model import ServedModel
from ..inference.server import RequestOptions, Server
from ..problems.presets import MAX_COMPLETION_TOKENS
from ..program.config_files import merge_settings, read_given, warn_of_ignored, write_config
from ..program.options import full_parser, of_section
from ..program.parser import errors_for_user
from ..program.running import run_on_thread, run_to_end, start_log
from ..program.training import NAMES_OF_SERVER, NAMES_OF_TRAINING, EvaluateSettings
from ..prompts.chat_templates import PLAIN
from ..records import Problem
from ..runtime.concurrency import cancel_all
from ..runtime.terminal import print_json
from ..runtime.text import printable
from ..session import Session
from ..storage.folders import check_writable, find_checkout

logger = logging.getLogger(__name__)

OPENAI_URL = "https://api.openai.com/v1"
"""Default server if only OPENAI_API_KEY is set, as in OpenAI's own clients."""
WORKER_TIMEOUT_S = 1200.0
"""Default of `worker_timeout`: at 30 tokens per second, 32,768 tokens take 1,100 s."""


@dataclass(frozen=True)
class Request:
    """The settings for one evaluation, from files, options and defaults."""

    settings: EvaluateSettings
    server: ServerSettings
    ignored: Sequence[str] = ()
    """Names of given settings that `evaluate` does not use, such as `env.seed`."""

    @property
    def formats(self) -> Sequence[ReplyFormat]:
        """The reply formats to try, in order of preference."""
        if self.server.server_type == CHAT.name:
            return [CHAT]
        return [TEXT] if self.settings.chat_template == PLAIN else [CHAT, TEXT]


Show = Callable[[EvaluationResult, str], None]
"""Shows the results of a complete or interrupted evaluation. The string is a line about its folder."""


def show_nothing(result: EvaluationResult, line: str) -> None:
    """Log remarks about the results, and print nothing: the caller receives the results as a return value."""
    for remark in not_as_requested(result.results):
        logger.warning("the evaluation did not run as requested: %s", remark)
    for remark in remarks(result.results):
        logger.warning("%s", remark)


Work = Callable[[], Coroutine[object, object, EvaluationResult]]


def run_beside_loops(work: Work) -> EvaluationResult:
    """Run a coroutine on a new thread, because a notebook has a running event loop on this thread."""
    return run_on_thread(work())


def evaluate(
    model: str | None = None,
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
    request: Request | None = None,
    show: Show = show_nothing,
    run: Callable[[Work], EvaluationResult] = run_beside_loops,
    **settings: object,
) -> EvaluationResult:
    """Score a model on a fixed set of problems; works in a notebook too. The command `evaluate` calls this function.

    Calling it again with the same arguments resumes an interrupted evaluation.

    Args:
        model: Name of the model on the server; by default the only model of the server.
        base_url: Address of the server; by default the environment variable OPENAI_BASE_URL, or OpenAI's server if only
            OPENAI_API_KEY is set.
        api_key: API key of the server.
        headers: HTTP headers of every request, such as `{"api-key": "$AZURE_KEY"}`; `$NAME` reads an environment
            variable.
        server_type: By default, chat completions, or text completions if the server has no chat. `chat`: only chat
            completions.
        tasks: Names, globs and categories of tasks.
        preset: Published protocol to follow.
        limit: Problems per task.
        repeats: Completions per problem.
        temperature: Sampling temperature.
        max_tokens: Maximum tokens per completion.
        seed: Seed of the problems.
        concurrency: Problems in flight; by default 16.
        folder: Folder in which to create the evaluation's own folder; by default `evals/`.
        request: All settings as one object. Allows no other argument except `show` and `run`.
        show: Called at the end with two arguments: the results so far, and a line about the folder.
        run: Runs the evaluation's coroutine and returns its result.
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
        **{name: (_full_name(name), value) for name, value in settings.items()},
    }
    names = {setting: argument for argument, (setting, _) in arguments.items()}
    names |= {setting.removeprefix("env."): argument for setting, argument in names.items()}
    given = {setting: value for setting, value in arguments.values() if value is not None}
    if request is not None and given:
        fault = "cannot be combined with other arguments; set these in the `Request` object"
        raise ConfigError(fault, setting="request")
    with errors_for_user(names):
        if request is None:
            request = read_request(given)
            warn_of_ignored("evaluate", request.ignored)
        spec = request.server.model_copy(update=read_secrets(request.server, for_chat=True))
    with errors_for_user(names, find_secrets([spec])):
        return run(lambda: _evaluate(request, spec, show))


def _full_name(name: str) -> str:
    """Return the name of a setting with the prefix of its section, `env.` or `openai.`."""
    return f"openai.{name}" if name in ServerSettings.model_fields else f"env.{name}"


# ------------------------------------------------------------------ the command


def evaluate_command(argv: Sequence[str], folder: Path, defaults: Mapping[str, object] | None = None) -> int:
    """Evaluate a model and return 0.

    Args:
        argv: The arguments of the command.
        folder: Folder that may contain a checkout of the library.
        defaults: The environment class's defaults, by the setting's name.

    Raises:
        ConfigError: The user made a mistake.
        ServerError: The server cannot be used.
        ReasoningEnvError: The score is below --fail-under, or more completions failed than --max-failed allows.
    """
    parser = full_parser("evaluate", NAMES_OF_TRAINING, NAMES_OF_SERVER)
    options = parser.read(argv)
    names = parser.setting_names(argv)
    with errors_for_user(names):
        request = read_request(options, defaults or {})
        secrets = find_secrets([request.server])
        start_log(secrets, quiet="quiet" in options, verbose="verbose" in options, as_json="log-json" in options)
        warn_of_ignored("evaluate", request.ignored)
        if "print-config" in options:
            print(write_config(request.settings, [request.server]), end="")
            return 0
        request = replace(request, settings=_with_checkout(request.settings, folder))
        if "dry-run" in options:
            name = request.server.model_name or "the only model"
            print(f"{printable(name)} at {printable(public_url(request.server.base_url))}")
            print(run_to_end(lambda: preview(request.settings)))
            return 0
    with errors_for_user(names, secrets):
        show = _show_json if "json" in options else _show_table
        result = evaluate(request=request, show=show, run=run_to_end)
    check_score(result.results, options.get("fail-under"), options.get("max-failed"))
    return 0


def _with_checkout(settings: EvaluateSettings, folder: Path) -> EvaluateSettings:
    """Return the settings. An unset `checkout` becomes the library's checkout in `folder`, if any."""
    found = find_checkout(folder)
    if found is None or settings.checkout is not None:
        return settings
    return settings.model_copy(update={"checkout": str(found)})


async def preview(settings: EvaluateSettings) -> str:
    """Return a line that describes the requests of an evaluation, without contacting a server.

    The line has the maximum tokens of a completion. A server with a short context allows fewer.
    """
    async with Session[Problem](settings) as session:
        return describe_evaluation(session, choose_sampling(session, settings))


def _show_table(result: EvaluationResult, line: str) -> None:
    print_results(result.results)
    print(f"\n{line}", flush=True)


def _show_json(result: EvaluationResult, line: str) -> None:
    """Print the results, and log the remarks that `_show_table` prints below the table."""
    print_json(result.results)
    show_nothing(result, line)


def check_score(results: Results, least: float | None, most_failed: float | None) -> None:
    """Raise ReasoningEnvError if the mean score is below `least`, or if too many completions failed.

    `most_failed` is the largest allowed share of failed completions. If it is None, this share is MANY_FAILED with
    `least`, and 1 without `least`.
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
            f"{overall['failed']} of {total} completions failed ({share:.0%}), more than the allowed {most_failed:.0%}",
            setting="--max-failed",
        )


# ------------------------------------------------------------------ settings


def read_request(options: Mapping[str, Any], defaults: Mapping[str, object] | None = None) -> Request:
    """Return the settings from `options` (`env.NAME`, `openai.NAME`) and from the files that `config` names.

    `defaults` maps names of settings to the environment class's defaults. Raises ConfigError for invalid settings.
    """
    given = read_given("evaluate", options.get("config", ()), options)
    file, options = given.file, given.options
    if len(file.openai) > 1:
        raise ConfigError(
            f"`evaluate` works with one inference server, but the configuration files list {len(file.openai)} servers",
            setting="--config",
            remedy="list only one server, such as a load balancer in front of several servers",
        )
    known = {name: value for name, value in (defaults or {}).items() if name in EvaluateSettings.model_fields}
    settings = merge_settings(EvaluateSettings, file.env, known, of_section("env", options))
    check_seed(settings, options)
    if settings.chat_template not in (None, PLAIN):
        raise ConfigError(
            f"must be `{PLAIN}` or `none`, because the server applies the chat template itself",
            setting="chat_template",
            got=settings.chat_template,
            remedy="start the server with this template, and pass --env.chat_template none",
        )
    defaults_here: dict[str, object] = {}
    if "worker_timeout" not in settings.model_fields_set:
        defaults_here["worker_timeout"] = WORKER_TIMEOUT_S
    has_limit = "max_token_length" in settings.model_fields_set or settings.eval_max_completion_tokens is not None
    if not has_limit and settings.chat_template != PLAIN:
        defaults_here["eval_max_completion_tokens"] = MAX_COMPLETION_TOKENS
    settings = settings.model_copy(update=defaults_here)
    server = _read_server(file.openai, of_section("openai", options))
    unused = without_effect(settings)
    if server.server_type == CHAT.name:
        unused.add("env.chat_template")
    elif settings.chat_template == PLAIN:
        unused.add("env.reasoning_effort")
    if server.server_type not in USABLE:
        unused.add("openai.server_type")
        server = server.model_copy(update={"server_type": AUTO})
    return Request(settings, server, given.ignored_with(unused))


USABLE = (AUTO, CHAT.name)
"""The types of servers that `evaluate` uses. The others are for training, which needs token ids."""


def _read_server(of_files: Sequence[Mapping[str, object]], of_options: Mapping[str, object]) -> ServerSettings:
    """Return the server's settings. Raises ConfigError for an invalid setting."""
    typed = of_options.get("server_type", AUTO)
    if typed not in USABLE:
        raise ConfigError(f"must be one of {', '.join(map(repr, USABLE))}", setting="openai.server_type", got=typed)
    [server] = read_servers(ServerSettings, [{}], of_files, of_options) or [ServerSettings()]
    of_openai = os.environ.get("OPENAI_API_KEY") and server.api_key in (None, "", "$OPENAI_API_KEY")
    if of_openai and "base_url" not in server.model_fields_set:
        server = server.model_copy(update={"base_url": OPENAI_URL})
    return server


# ------------------------------------------------------------------ an evaluation


async def _evaluate(request: Request, spec: ServerSettings, show: Show) -> EvaluationResult:
    """Start the workers, check the server, evaluate the unfinished problems, and return the results.

    `spec`: the server's settings, with the API key and the headers to send.
    """
    settings = request.settings
    check_writable(Path(settings.data_dir_to_save_evals or DEFAULT_FOLDER), "data_dir_to_save_evals")
    patience_s = settings.startup_timeout_s or PATIENCE_S
    reply_s = settings.worker_timeout if settings.worker_timeout > 0 else None
    timeouts = Timeouts(reply_s, patience_s, away_s=AWAY_LIMIT_S)
    async with Session[Problem](settings) as session:
        if spec.model_name is not None:
            logger.info("evaluating the model %s on %s", printable(spec.model_name), public_url(spec.base_url))
        name = spec.model_name or await only_model(spec, patience_s)
        completers = [Server(spec.model_copy(update={"model_name": name}), formats=request.formats)]
        options = RequestOptions(
            template_options=settings.chat_template_kwargs, reasoning_effort=settings.reasoning_effort
        )
        async with ServedModel(lambda: completers, PlainChat(), options, lambda: timeouts, model=name) as served:
            await served.check(patience_s)
            evaluation = await Evaluation.open(session, served, settings, version=__version__)
            logger.info("%s", evaluation.announcement)
            at_once = evaluation.workers * session.eval_plan.repeats
            if (connections := max_connections()) < at_once:
                logger.warning(
                    "limiting concurrent requests to %d instead of %d, because this process can open only few files; "
                    "raise the limit on open files with ulimit -n",
                    connections,
                    at_once,
                )
            watch = asyncio.create_task(served.watch())  # logs outages at intervals
            try:
                await evaluation.run()
            finally:  # also after Ctrl-C
                await cancel_all([watch])
                result = await evaluation.conclude()
                show(result, evaluation.describe())
            return result


async def only_model(spec: ServerSettings, timeout_s: float) -> str:
    """Return the name of the only model that a server lists; waits for the server.

    Raises ServerError if no server answers within `timeout_s`, and ConfigError unless it lists exactly one model.
    """
    missing = "name the model: `evaluate MODEL`"
    names: list[str] = []

    async def list_names(_timeout_s: float) -> Sequence[Failure]:
        try:
            names.extend(str(model.id) for model in await server.models())
        except Exception as error:
            failure = explain_failure(error)
            if failure.kind is FailureKind.ABSENT and failure.status is None:
                return [replace(failure, description=f"{server.address}: {failure.description}")]
            remedy = failure.remedy if failure.status in (401, 403) else path_remedy(failure, spec.base_url)
            raise ConfigError(
                f"{server.address} does not list its models ({failure.description})", remedy=remedy or missing
            ) from error
        return []

    server = Server(spec.model_copy(update={"timeout": PROBE_S}))
    try:
        await wait_for_server(list_names, timeout_s)
    finally:
        await server.close()
    if len(names) == 1:
        logger.info("evaluating %s, the only model on %s", names[0], server.address)
        return names[0]
    listed = textwrap.shorten(", ".join(names), 200, placeholder=" ...") or "none"
    raise ConfigError(f"{missing}; models on {server.address}: {listed}")

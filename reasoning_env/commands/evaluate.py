"""The command `evaluate` without Atropos: chat completions of one server, local or hosted, through aiohttp alone.

Where Atropos is installed, `atropos/cli.py` has the command, for every type of server. Settings, options, results and
folders are the same, so that one resumes what the other began.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ReasoningEnvError
from ..evaluations.folder import Results
from ..evaluations.plan import check_seed
from ..evaluations.table import print_results
from ..inference.addresses import check_url
from ..inference.keys import read_key
from ..records import Problem
from ..results import EvaluationResult
from ..runtime.signals import Interrupted
from ..runtime.terminal import print_json
from ..runtime.text import visible
from ..session import Session
from ..settings import make_settings
from ..storage.config_files import Sections, read_config_files, split_settings, write_config
from ..storage.folders import find_checkout
from .hosted import HostedEvaluation, HostedSettings, ServerSettings, preview
from .log import redact, start_log, usable_as_secrets
from .options import OptionParser, UnknownOptionError, option_parser
from .running import run_on_thread, run_to_end

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """The settings of a command line, and how each setting was written there."""

    settings: HostedSettings
    server: ServerSettings
    names: Mapping[str, str]
    unused: Sequence[str]
    """Settings in files that need Atropos."""


def evaluate_command(argv: Sequence[str], folder: Path, program: str, install_extra: str) -> int:
    """Evaluate one model or several and return 0.

    `folder` may hold a checkout of the library. `install_extra` is the command that installs Atropos. Raises
    ConfigError for a mistake of the user, ServerError for a server that cannot be used, and ReasoningEnvError for a
    score below --fail-under.
    """
    parser = option_parser(program, "evaluate", HostedSettings.model_fields, ServerSettings.model_fields)
    options = _read(parser, argv, install_extra)
    models: list[str] = options.pop("models", [])
    typed = parser.typed(argv)
    names = {**{name: typed.get(f"env.{name}", f"env.{name}") for name in HostedSettings.model_fields}, **typed}
    try:
        request = _read_request(options, names, install_extra)
        if "print-config" in options:
            print(write_config(request.settings, [request.server]), end="")
            return 0
        if "dry-run" in options:
            session = Session[Problem](request.settings, checkout=find_checkout(folder))
            print(run_to_end(lambda: preview(session, request.settings)))
            return 0
        key = read_key(request.server.api_key, for_chat=True)
        secrets = _secrets(key)
        start_log(secrets, quiet="quiet" in options, verbose="verbose" in options)
        if request.unused:
            logger.info("not used without Atropos: %s", visible(", ".join(request.unused)))

        def evaluate(model: str | None) -> Results | None:
            try:
                results = _run(request, model, key, find_checkout(folder), as_json="json" in options and not models)
            except ReasoningEnvError as error:
                error.text = redact(error.describe(names), secrets)
                raise
            check_score(results, options.get("fail-under"))
            return results

        if models:
            evaluate_each(models, evaluate, program, as_json="json" in options)
        else:
            evaluate(request.server.model_name)
    except ConfigError as error:
        error.text = error.describe(names)
        raise
    return 0


ARGUMENTS = {
    "model": "openai.model_name",
    "base_url": "openai.base_url",
    "api_key": "openai.api_key",
    "server_type": "openai.server_type",
    "tasks": "env.eval_tasks",
    "preset": "env.eval_preset",
    "limit": "env.num_eval_samples_per_task",
    "repeats": "env.eval_repeats",
    "temperature": "env.eval_temperature",
    "max_tokens": "env.eval_max_completion_tokens",
    "seed": "env.eval_seed",
    "concurrency": "env.max_eval_workers",
    "folder": "env.data_dir_to_save_evals",
}
"""The settings of the arguments of `evaluate`; any other argument is a setting `env.NAME`."""


def evaluate(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    tasks: str | Sequence[str] | None = None,
    preset: str | None = None,
    limit: int | None = None,
    repeats: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    concurrency: int | None = None,
    folder: str | Path | None = None,
    **settings: Any,
) -> EvaluationResult:
    """Score a model on a fixed set of problems over chat completions, from a script or a notebook; needs no Atropos.

    The same call resumes an evaluation that was interrupted. The arguments are those of the same name in
    `reasoning_gym_environment.evaluate`, which asks other types of servers too.

    Raises:
        ConfigError: A setting is invalid.
        ServerError: No server answers.
        WorkerError: The worker processes cannot be started.
    """
    given = {
        "model": model,
        "base_url": base_url,
        "api_key": api_key,
        "tasks": tasks,
        "preset": preset,
        "limit": limit,
        "repeats": repeats,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "seed": seed,
        "concurrency": concurrency,
        "folder": folder,
        **settings,
    }
    values, names = name_settings(given)
    names = {**names, **{name.removeprefix("env."): typed for name, typed in names.items()}}
    secrets: list[str] = []
    try:
        request = _read_request(values, names, install_extra="")
        key = read_key(request.server.api_key, for_chat=True)
        secrets = _secrets(key)
        run = HostedEvaluation(request.settings, request.server, key, checkout=None)
        return run_on_thread(run.evaluate(model))
    except ReasoningEnvError as error:
        error.text = redact(error.describe(names), secrets)
        raise


def name_settings(given: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of the arguments of `evaluate` that are not None, and the argument of each setting."""
    names = {ARGUMENTS.get(argument, f"env.{argument}"): argument for argument in given}
    values = {name: given[argument] for name, argument in names.items() if given[argument] is not None}
    return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}, names


def _secrets(key: str) -> list[str]:
    """Return the keys that no text shows."""
    return usable_as_secrets([key, os.environ.get("OPENAI_API_KEY")])


def evaluate_each(
    models: Sequence[str], evaluate: Callable[[str], Mapping[str, Any] | None], program: str, *, as_json: bool
) -> None:
    """Evaluate models one after the other; a model that fails is logged, and the others are evaluated.

    With `as_json`, prints all results as one list; otherwise, the command that compares them. Raises ConfigError at
    once, since all models have the same settings, and ReasoningEnvError at the end if a model failed.
    """
    done: list[Mapping[str, Any]] = []
    failed: list[str] = []
    for model in models:
        try:
            results = evaluate(model)
        except (ConfigError, Interrupted):
            raise
        except ReasoningEnvError as error:
            logger.error("%s: %s", visible(model), error)
            failed.append(model)
        else:
            if results is not None:
                done.append(results)
    if as_json:
        print_json(done)
    elif len(done) > 1:
        print(f"\nSide by side: {program} compare FOLDER FOLDER, with the folders named above.", flush=True)
    if failed:
        raise ReasoningEnvError(f"{len(failed)} of {len(models)} models failed ({', '.join(failed)}); see above")


def check_score(results: Mapping[str, Any] | None, least: float | None) -> None:
    """Raise ReasoningEnvError if the mean score of an evaluation is below `least`."""
    score = ((results or {}).get("overall") or {}).get("mean_score")
    if least is not None and (score is None or score < least):
        came = "no completion was scored" if score is None else f"the mean score is {score:.3f}"
        raise ReasoningEnvError(f"{came}; it must be at least {least:g}", setting="--fail-under")


# ------------------------------------------------------------------ settings


def _read(parser: OptionParser, argv: Sequence[str], install_extra: str) -> dict[str, Any]:
    """Return the options. Raises ConfigError, which says if a setting exists only with Atropos."""
    try:
        options = parser.read(argv)
    except UnknownOptionError as error:
        if error.name.startswith(("--env.", "--openai.")):
            raise ConfigError(f"{error.problem} without Atropos", remedy=f"{install_extra} has all settings") from error
        raise
    for name in ("slurm", "testing"):
        if name in options:
            raise ConfigError("needs Atropos", setting=f"--{name}", remedy=install_extra)
    return options


def _read_request(options: Mapping[str, Any], names: Mapping[str, str], install_extra: str) -> Request:
    """Return the settings of files and options. Raises ConfigError."""
    file = read_config_files(options.get("config", ()))
    given = {name.removeprefix("env."): value for name, value in options.items() if name.startswith("env.")}
    settings, unused = split_settings(HostedSettings, file.model_copy(update={"openai": []}), {}, given)
    check_seed(settings, options)
    if len(file.openai) > 1:
        raise ConfigError("several inference servers need Atropos", setting="--config", remedy=install_extra)
    server, unused_of_server = _read_server(file, options)
    return Request(settings, server, names, [*(name for name in unused if name != "openai"), *unused_of_server])


def _read_server(file: Sections, options: Mapping[str, Any]) -> tuple[ServerSettings, list[str]]:
    """Return the settings of the server, and the names of settings in files that need Atropos. Raises ConfigError."""
    of_file = file.openai[0] if file.openai else {}
    known = {name: value for name, value in of_file.items() if name in ServerSettings.model_fields}
    if known.get("server_type") not in (None, "auto", "chat"):
        known["server_type"] = "chat"  # a type for training: chat completions of the same server do for an evaluation
    section = "openai."
    from_options = {name.removeprefix(section): value for name, value in options.items() if name.startswith(section)}
    variable = os.environ.get("OPENAI_BASE_URL")
    from_variable = {"base_url": variable} if variable else {}
    server = make_settings(ServerSettings, {**from_variable, **known, **from_options}, "openai.")
    if server.model_name == "":
        raise ConfigError("is empty", setting="openai.model_name", remedy="name the model")
    by_variable = variable is not None and "base_url" not in known and "base_url" not in from_options
    check_url("OPENAI_BASE_URL" if by_variable else "openai.base_url", server.base_url)
    return server, [f"openai.{name}" for name in of_file if name not in known]


# ------------------------------------------------------------------ an evaluation


def _run(request: Request, model: str | None, key: str, checkout: Path | None, *, as_json: bool) -> Results | None:
    """Evaluate a model and print its results, those of an interrupted evaluation too; returns the results."""
    run = HostedEvaluation(request.settings, request.server, key, checkout)
    try:
        run_to_end(lambda: run.evaluate(model))
    finally:
        if run.results is not None and as_json:
            print_json(run.results)
        elif run.results is not None:
            print_results(run.results)
            print(f"\n{run.last_line}", flush=True)
    return run.results

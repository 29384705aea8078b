"""The commands that need the environment class: `serve`, `process` and `evaluate`."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...dumps.chat import KEEP
from ...errors import ConfigError, ReasoningEnvError, ServerError
from ...garbage import calm_garbage_collector
from ...terminal import StderrHandler
from ..inference.failures import describe_failure
from .configs import build_launch, known_options, read_options
from .full_help import full_help
from .redaction import RedactingFormatter, find_secrets, redact

CHATTY_LOGGERS = {
    **dict.fromkeys(("httpx", "httpx2", "openai"), logging.WARNING),
    # Each try to reach the hub, and warnings for developers; what fails in the end is an error of ours.
    **dict.fromkeys(("huggingface_hub", "py.warnings"), logging.ERROR),
}
LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MANAGERS = {"serve": "env_manager", "process": "process_manager", "evaluate": "_run_evaluate"}

logger = logging.getLogger(__name__)


def commands(env_cls: Any) -> dict[str, Callable[[Sequence[str]], int]]:
    """Return an environment class' commands by name; each takes arguments and returns an exit status."""
    return {name: functools.partial(run_environment, env_cls, name) for name in MANAGERS}


def run_environment(env_cls: Any, command: str, argv: Sequence[str]) -> int:
    """Run `serve`, `process` or `evaluate`; returns the exit status.

    Raises ConfigError for what a user got wrong, and whatever else ends the command.
    """
    known = known_options(env_cls, command)
    options = read_options(argv, known)
    if "help-all" in options:
        print(full_help(command, known))
        return 0
    keep = options.get("keep")
    if keep not in (None, *KEEP):
        raise ConfigError(f"--keep: this must be {', '.join(KEEP)}; got {keep!r}")
    launch = build_launch(env_cls, command, options)
    if "print-config" in options:
        print(launch.as_yaml(), end="")
        return 0
    secrets = find_secrets(launch.servers)
    # Whoever keeps the command line, as wandb does, keeps no key.
    sys.argv[1:] = [command, *(redact(word, secrets) for word in argv)]
    start_log(secrets)
    logger.info("%s", launch.describe())
    try:
        env = env_cls(launch.config, launch.servers, slurm=launch.slurm, testing=launch.testing)
        calm_garbage_collector()
        try:
            asyncio.run(getattr(env, MANAGERS[command])())
        finally:
            env.print_summary(keep)
    except Exception as error:
        explained = explain(error, secrets)
        if explained is error:
            raise
        raise explained from error
    return 0


def start_log(secrets: Sequence[str]) -> None:
    """Send all logs to stderr; what others say there is cut down to what a user can act on."""
    handler = StderrHandler()
    handler.setFormatter(RedactingFormatter(LOG_LINE, secrets))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Python's warnings come from Atropos and its dependencies, for developers.
    logging.captureWarnings(True)
    for name, level in CHATTY_LOGGERS.items():
        logging.getLogger(name).setLevel(level)


def explain(error: Exception, secrets: Sequence[str]) -> Exception:
    """Return an error of this package in place of one that a user can cause; no secret is in its text."""
    if getattr(error, "last_attempt", None) is not None:  # tenacity gave up on something: a server that is gone
        error = ServerError(f"gave up after several tries: {describe_failure(error)}")
    if isinstance(error, ReasoningEnvError):
        error.args = (redact(str(error), secrets),)
    return error

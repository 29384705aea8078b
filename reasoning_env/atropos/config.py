"""Work with Atropos' own configs: ranges, defaults of servers, log levels, explanations of errors."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from atroposlib.envs.base import BaseEnvConfig
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from ..errors import ConfigError
from ..runtime.listening import ListenAddress
from ..seeds import INSTANCES
from ..settings import Decides, ReasoningSettings, TemplateOptions


@dataclass(frozen=True)
class Range:
    """A test of a value, and in words the values that pass."""

    allows: Callable[[Any], bool]
    words: str


def _at_least(low: float, *, or_minus_one: bool = False) -> Range:
    if or_minus_one:
        return Range(lambda value: value == -1 or value >= low, f"at least {low}, or -1")
    return Range(lambda value: value >= low, f"at least {low}")


def _share() -> Range:
    return Range(lambda value: value is None or 0.0 <= value <= 1.0, "between 0 and 1")


def _any_of(*words: str) -> Range:
    return Range(lambda value: value is None or value in words, f"one of {', '.join(words)}, or none")


DEFAULT_MODEL = "NousResearch/DeepHermes-3-Llama-3-3B-Preview"
"""Model of the default server, and name of its tokenizer."""
ENV_NAME = "reasoning_gym"

BASE_RANGES = {
    "group_size": _at_least(1),
    "max_num_workers": _at_least(1, or_minus_one=True),
    "max_eval_workers": _at_least(1),
    "max_num_workers_per_node": _at_least(1),
    "steps_per_eval": _at_least(-1),
    "max_token_length": _at_least(16),
    "eval_limit_ratio": _share(),
    "inference_weight": Range(lambda value: value == -1 or value >= 0, "at least 0, or -1 to ignore it"),
    "batch_size": _at_least(1, or_minus_one=True),
    "max_batches_offpolicy": _at_least(1),
    "total_steps": _at_least(1, or_minus_one=True),
    "num_rollouts_to_keep": _at_least(0),
    "num_rollouts_per_group_for_logging": _at_least(-1),
    "min_batch_allocation": _share(),
    "worker_timeout": Range(lambda value: value == -1 or value > 0, "positive, or -1 for none"),
    "reasoning_effort": _any_of("none", "minimal", "low", "medium", "high", "xhigh"),
    "rollout_server_url": Range(
        lambda value: value.startswith(("http://", "https://")), "a URL that begins with http:// or https://"
    ),
    "tokenizer_name": Range(bool, "the name or folder of a tokenizer"),
}
"""Ranges of the fields of Atropos' own config; Atropos checks only their types."""

SERVER_RANGES = {
    "timeout": _at_least(1),
    "num_max_requests_at_once": _at_least(1),
    "num_requests_for_eval": _at_least(1),
}
"""Ranges of the fields of Atropos' settings of an inference server."""


def check_base_settings(values: object) -> None:
    """Raise ConfigError for the first field out of its range."""
    for name, allowed in BASE_RANGES.items():
        value = getattr(values, name)
        if not allowed.allows(value):
            raise ConfigError(f"must be {allowed.words}", setting=name, got=value)


def _read_address(value: object) -> object:
    """Accept a port, or HOST:PORT; a port alone becomes a number. Raises ValueError for other values."""
    if value is None:
        return None
    host, colon, port = str(value).rpartition(":")
    if isinstance(value, bool) or not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise ValueError("must be a port from 0 to 65535, or HOST:PORT")
    return value if colon else int(port)


class ReasoningGymEnvConfig(ReasoningSettings, BaseEnvConfig):
    """All settings: Atropos' own and this environment's; unknown names and values out of range raise."""

    model_config = ConfigDict(extra="forbid")

    with_word_none = frozenset({"reasoning_effort"})

    wandb_name: str | None = ENV_NAME
    """Name of the run at wandb, and of this environment at run-api."""
    ensure_scores_are_not_same: bool = True
    """Do not send groups whose scores are all equal; off for a `group_size` of 1."""

    chat_template: Annotated[str | None, Decides("answers")] = None
    """Chat template instead of the tokenizer's: the path of a Jinja file, or `plain` for base models."""
    chat_template_kwargs: Annotated[TemplateOptions, Decides("answers")] = Field(default_factory=dict)
    """Options of the chat template: `{enable_thinking: false}`; chat servers get them too."""
    temperature: Annotated[float, Field(ge=0.0, le=2.0), Decides("answers")] = 1.0
    """Sampling temperature in training."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0), Decides("answers")] = 1.0
    """Nucleus sampling threshold in training."""
    mask_too_long_completions: Annotated[bool, Decides("answers")] = True
    """Give rollouts that ran out of tokens the override `set_advantage_to_zero`."""

    dump_rollouts: bool = False
    """Write groups with a score above `rollout_save_score_threshold` to `data_dumps_dir`."""
    dump_failed_rollouts: bool = False
    """Write groups whose scores are all 0 to `data_dumps_dir`."""
    rollout_save_score_threshold: Annotated[float, Field(ge=0.0, le=1.0)] = 0.7
    """`dump_rollouts` writes groups with a score above this threshold."""
    data_dumps_dir: str | None = None
    """Folder of the dumps. None: `data_dumps/` beside the module, or in the working directory if the module is
    installed."""

    startup_timeout_s: Annotated[float | None, Field(gt=0.0, le=86_400.0)] = None
    """Seconds to wait for an absent server: at startup and, except in `serve`, later too. None: no limit in `serve`, 30
    elsewhere."""
    instance: Annotated[int, Field(ge=0, lt=INSTANCES)] = 0
    """Number of this environment among those of one trainer. It names the folder of checkpoints and picks the stream of
    problems; without a `checkpoint_dir`, run-api's number picks the stream."""
    resume_with_changes: bool = False
    """Resume a checkpoint that was made with another seed, other tasks or other settings that decide the problems,
    instead of refusing it."""

    metrics_port: Annotated[int | str | None, BeforeValidator(_read_address)] = None
    """Port at which `serve` and `process` serve `/metrics` for Prometheus; 0 takes a free port. `HOST:PORT` listens on
    another address than 127.0.0.1; whoever can reach the address can read the metrics, without a token. None: no
    port."""

    @property
    def metrics_address(self) -> ListenAddress | None:
        """Where to serve metrics; None for nowhere."""
        if self.metrics_port is None:
            return None
        host, _, port = str(self.metrics_port).rpartition(":")
        setting = "env.metrics_port"
        return ListenAddress(host.strip("[]") or "127.0.0.1", int(port), setting, setting)

    @model_validator(mode="after")
    def _check(self) -> ReasoningGymEnvConfig:
        check_base_settings(self)
        if self.wandb_name is None:
            # run-api refuses an environment without a name.
            self.wandb_name = ENV_NAME
        if self.group_size == 1 and self.ensure_scores_are_not_same:
            # The scores of a single rollout are always equal; the filter would drop every group.
            self.ensure_scores_are_not_same = False
        return self


def calm_garbage_collector() -> None:
    """Leave all objects that exist now out of later collections, and collect less often.

    A collection over all imported modules takes 40 to 130 ms. A young one looks at the lists of the groups under way:
    with 2,000 new objects it takes up to 24 ms, with 20,000 it took up to 53 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 20, 200)


def put_event_loop_first() -> None:
    """Set up a process that runs this environment alone: no collection and no thread holds the event loop for long.

    By default Python lets another thread work for 5 ms before the event loop gets the interpreter back, at each of
    several steps of a wake-up.
    """
    calm_garbage_collector()
    sys.setswitchinterval(0.001)


def set_log_levels(own: logging.Logger) -> None:
    """Log this environment's lines, and of Atropos' own loggers warnings only. A level that was set before stays."""
    core = logging.getLogger(__package__.rpartition(".")[0])
    for logger in (own, core):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
    for name in ("atroposlib", "atroposlib.envs.base"):
        logging.getLogger(name).setLevel(logging.WARNING)


def check_batch_size(config: ReasoningGymEnvConfig) -> None:
    """Raise ConfigError if there is no batch size, or a group exceeds the batch."""
    if config.batch_size == -1:
        raise ConfigError("neither the trainer nor a setting gives a batch size", remedy="set {env.batch_size}")
    if config.group_size > config.batch_size:
        raise ConfigError(
            f"must be at most the trainer's batch size, {config.batch_size}",
            setting="env.group_size",
            got=config.group_size,
        )


def explain_construction(error: Exception, config: ReasoningGymEnvConfig, slurm: bool) -> ConfigError:
    """Return an error that says in a line why Atropos could not build the environment, and what to do."""
    if slurm and isinstance(error, TypeError):
        return ConfigError(
            "Atropos reads the inference servers from SLURM's variables",
            setting="slurm",
            remedy="set NUM_TRAINING_NODES, and do not set INFER_TP",
        )
    if isinstance(error, OSError) and error.errno is not None:
        return ConfigError(str(error))
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ConfigError(
        f"the environment cannot be built, most likely because a tokenizer cannot be read ({reason})",
        remedy=f"{{env.tokenizer_name}} (now {config.tokenizer_name!r}) and {{openai.tokenizer_name}} take a folder, "
        "or a name on the Hugging Face hub",
    )

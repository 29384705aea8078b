"""Configs of the environment and the servers. Also sets log levels and explains Atropos' errors."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from atroposlib.envs import base
from atroposlib.envs.base import BaseEnvConfig
from atroposlib.envs.server_handling.server_baseline import APIServerConfig, ServerBaseline
from pydantic import ConfigDict, model_validator

from ..errors import ConfigError
from ..inference.addresses import read_secrets
from ..inference.completer import ServerSettings
from ..inference.formats import AUTO, format_named
from ..inference.formats.choices import CHAT
from ..inference.formats.reply_format import ReplyFormat
from ..program.training import ENV_NAME, TrainingSettings
from ..runtime.listening import ListenAddress

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Range:
    """A check of a setting's value, and a description of the valid values."""

    allows: Callable[[Any], bool]
    words: str


def check_value(setting: str, value: object, allowed: Range) -> None:
    """Raise ConfigError if `allowed` does not allow the value of the setting."""
    if not allowed.allows(value):
        raise ConfigError(f"must be {allowed.words}", setting=setting, got=value)


def at_least(low: float, *, or_minus_one: bool = False) -> Range:
    if or_minus_one:
        return Range(lambda value: value == -1 or value >= low, f"at least {low}, or -1")
    return Range(lambda value: value >= low, f"at least {low}")


def _share() -> Range:
    return Range(lambda value: value is None or 0.0 <= value <= 1.0, "between 0 and 1")


BASE_RANGES = {
    "max_num_workers": at_least(1, or_minus_one=True),
    "max_num_workers_per_node": at_least(1),
    "eval_limit_ratio": _share(),
    "inference_weight": Range(lambda value: value == -1 or value >= 0, "at least 0, or -1, which counts as 0"),
    "batch_size": at_least(1, or_minus_one=True),
    "max_batches_offpolicy": at_least(1),
    "total_steps": at_least(1, or_minus_one=True),
    "num_rollouts_to_keep": at_least(0),
    "num_rollouts_per_group_for_logging": at_least(-1),
    "min_batch_allocation": _share(),
    "rollout_server_url": Range(
        lambda value: value.startswith(("http://", "https://")), "a URL that begins with http:// or https://"
    ),
    "tokenizer_name": Range(bool, "the name or folder of a tokenizer"),
}
"""Ranges of the fields of Atropos' own config. Atropos itself checks only types."""

SERVER_RANGES = {
    "num_max_requests_at_once": at_least(1),
    "num_requests_for_eval": at_least(1),
}
"""Ranges of Atropos' own settings of inference servers."""


NOT_SENT = {
    "thinking_mode": "set reasoning_effort, or chat_template_kwargs such as {enable_thinking: true}",
    "max_reasoning_tokens": "set max_token_length, which limits thinking and answer together",
}
"""Atropos settings that are never sent to the inference server, each with the settings to use instead."""


def check_base_settings(values: object) -> None:
    """Raise ConfigError for the first field whose value is out of range."""
    for name, allowed in BASE_RANGES.items():
        check_value(name, getattr(values, name), allowed)


class ReasoningGymEnvConfig(TrainingSettings, BaseEnvConfig):
    """All settings: Atropos' own and this environment's. Unknown names and values out of range raise ConfigError."""

    model_config = ConfigDict(extra="forbid")

    @property
    def metrics_address(self) -> ListenAddress | None:
        """Address of the metrics server; None if `metrics_port` is not set."""
        if self.metrics_port is None:
            return None
        host, _, port = str(self.metrics_port).rpartition(":")
        setting = "env.metrics_port"
        return ListenAddress(host.strip("[]") or "127.0.0.1", int(port), setting, setting)

    def max_groups(self, servers: int) -> int:
        """Return how many groups a run with this number of inference servers may collect at the same time."""
        per_server: int = self.max_num_workers_per_node * servers
        return per_server if self.max_num_workers == -1 else int(self.max_num_workers)

    @model_validator(mode="after")
    def _check(self) -> ReasoningGymEnvConfig:
        check_base_settings(self)
        for name, instead in NOT_SENT.items():
            if getattr(self, name) != type(self).model_fields[name].default:
                logger.warning("%s is ignored: %s", name, instead)
        if self.wandb_name is None:
            # run-api refuses an environment without a name.
            self.wandb_name = ENV_NAME
        if self.group_size == 1 and self.ensure_scores_are_not_same:
            # In a group of one completion all scores are equal, so the filter would drop every group.
            self.ensure_scores_are_not_same = False
        return self


def tune_garbage_collector() -> None:
    """Exclude all existing objects from later garbage collections. Run a collection after every 2,000 new objects."""
    gc.collect()
    # A collection that includes all imported modules blocks the event loop for 40 to 130 ms.
    gc.freeze()
    gc.collect()  # lowers Python's count of old objects, which still includes the frozen objects
    # After 2,000 new objects, a collection takes up to 24 ms; after 20,000, up to 53 ms. Full collections stay on: only
    # these free old objects that refer to each other, such as those of closed connections. A full collection takes
    # 4 ms, or 65 ms if groups in flight have lists with 12 million numbers, as in subclasses.
    gc.set_threshold(2_000, 5, 5)


def tune_process_for_event_loop() -> None:
    """Tune garbage collection and the switching of threads in a process that runs only this environment."""
    tune_garbage_collector()
    # By default, a thread may keep the interpreter's lock for 5 ms each time that the event loop waits for the lock.
    sys.setswitchinterval(0.001)


def set_log_levels(own: logging.Logger) -> None:
    """Log this program's messages and Atropos' warnings. Keep a level that the user has set."""
    core = logging.getLogger(__package__.rpartition(".")[0])
    for logger in (own, core):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
    for name in ("atroposlib", "atroposlib.envs.base"):
        logging.getLogger(name).setLevel(logging.WARNING)


def check_batch_size(config: ReasoningGymEnvConfig) -> None:
    """Raise ConfigError if the batch size is unknown, or if a group is larger than the batch."""
    if config.batch_size == -1:
        raise ConfigError("the trainer reported no batch size", remedy="set {env.batch_size}")
    if config.group_size > config.batch_size:
        raise ConfigError(
            f"must be at most the trainer's batch size, {config.batch_size}",
            setting="env.group_size",
            got=config.group_size,
        )


def explain_construction(error: Exception, config: ReasoningGymEnvConfig, slurm: bool) -> ConfigError:
    """Return an error that says in one line why Atropos could not create the environment, and what to do."""
    if slurm and isinstance(error, TypeError):
        return ConfigError(
            "Atropos could not read the inference servers from SLURM's environment variables",
            setting="slurm",
            remedy="set NUM_TRAINING_NODES and unset INFER_TP",
        )
    if isinstance(error, OSError) and error.errno is not None:
        return ConfigError(str(error))
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ConfigError(
        f"Atropos could not create the environment, most likely because no tokenizer could be loaded ({reason})",
        remedy=f"set {{env.tokenizer_name}} (now {config.tokenizer_name!r}) and {{openai.tokenizer_name}} to a folder, "
        "or to a name on the Hugging Face hub",
    )


# ---------------------------------------------------------------------------- settings of servers


class ServerConfig(ServerSettings, APIServerConfig):
    """All settings of an inference server: this program's own and Atropos'."""


def named_format(config: object) -> ReplyFormat | None:
    """Return the reply format that a server's `server_type` names; None if the type is `auto` or unset.

    Atropos' default `openai` counts as unset. Raises ConfigError for an unknown type.
    """
    if isinstance(config, ServerBaseline) and "server_type" in config.model_fields_set:
        return format_named(config.server_type)
    return None


def complete_servers(
    configs: ServerBaseline | list[APIServerConfig], tokenizer_name: str
) -> ServerBaseline | list[APIServerConfig]:
    """Return the servers' settings with API keys, and with `tokenizer_name` for servers that have no tokenizer.

    Raises ConfigError if

    - there is no server,
    - the servers have different types, or an unknown type, or
    - the environment variable of a key is not set.
    """
    several = configs if isinstance(configs, list) else [configs]
    types = sorted({name_of_type(named_format(config)) for config in several})
    if len(types) != 1:
        raise ConfigError(
            f"all inference servers must have the same type; got {', '.join(types) or 'no server'}",
            setting="openai.server_type",
        )
    completed = []
    for config in several:
        missing: dict[str, object] = {"server_type": types[0]}
        if config.tokenizer_name == "none":
            missing["tokenizer_name"] = tokenizer_name
        if config.model_name is None:
            missing["model_name"] = APIServerConfig.model_fields["model_name"].default
        if isinstance(config, APIServerConfig):
            missing |= read_secrets(config, for_chat=types[0] == CHAT.name)
        completed.append(config.model_copy(update=missing))
    # Return a single APIServerConfig as a list. Outside a list, Atropos would replace its URL by four local URLs.
    return completed if isinstance(configs, (list, APIServerConfig)) else completed[0]


def name_of_type(reply_format: ReplyFormat | None) -> str:
    return AUTO if reply_format is None else reply_format.name


def needs_tokenizer(configs: ServerBaseline | list[APIServerConfig]) -> bool:
    """Return True unless all servers are chat servers, which work without a tokenizer."""
    several = configs if isinstance(configs, list) else [configs]
    return not several or any(named_format(config) is not CHAT for config in several)


@contextlib.contextmanager
def tokenizer_if_needed(configs: ServerBaseline | list[APIServerConfig], *, testing: bool = False) -> Iterator[None]:
    """If all servers are chat servers, keep BaseEnv from loading a tokenizer. The attribute `tokenizer` is then None.

    With `testing`, nothing is downloaded: a tokenizer that is not on this machine raises OSError.
    """
    # BaseEnv's constructor always loads a tokenizer and has no hook, so replace the loader in Atropos' module.
    loader = base.AutoTokenizer

    def load_none(_name: str) -> None:
        return None

    def load_local(name: str) -> object:
        try:
            return loader.from_pretrained(name, local_files_only=True)
        except OSError as error:
            raise OSError(f"the tokenizer {name!r} is not on this machine; omit testing=True to download it") from error

    if not needs_tokenizer(configs):
        base.AutoTokenizer = SimpleNamespace(from_pretrained=load_none)
    elif testing:
        base.AutoTokenizer = SimpleNamespace(from_pretrained=load_local)
    try:
        yield
    finally:
        base.AutoTokenizer = loader

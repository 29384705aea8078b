"""The settings of `evaluate` and of training, and the names of Atropos' other settings, without importing Atropos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from ..inference.completer import ServerSettings
from ..seeds import INSTANCES
from ..settings import Affects, CommandName, ReasoningSettings, TemplateOptions, UsedBy
from ..settings.removed import UNUSED

DEFAULT_MODEL = "NousResearch/DeepHermes-3-Llama-3-3B-Preview"
"""Default model, and the name of its tokenizer."""
ENV_NAME = "reasoning_gym"


def _read_address(value: object) -> object:
    """Accept HOST:PORT, or a port, which is returned as a number. Raises ValueError for other values."""
    if value is None:
        return None
    host, colon, port = str(value).rpartition(":")
    if isinstance(value, bool) or not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise ValueError("must be a port from 0 to 65535, or HOST:PORT")
    return value if colon else int(port)


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


def _check_limit(limit_s: float) -> float:
    if limit_s == -1 or limit_s > 0:
        return limit_s
    raise ValueError("must be positive, or -1 for no limit")


class EvaluateSettings(ReasoningSettings):
    """`ReasoningSettings`, and the further settings that `serve`, `process` and `evaluate` use."""

    with_word_none = frozenset({"reasoning_effort"})

    max_token_length: Annotated[int, Field(ge=16)] = 2048
    """Maximum tokens of prompt and completion together. Unless you set it, `evaluate` allows 32,768 tokens per
    chat completion instead."""
    chat_template: Annotated[str | None, Affects("answers", "evaluation")] = None
    """Chat template to use instead of the tokenizer's: the path of a Jinja file, or `plain` for base models. `plain`
    requests text completions, which end at the first `</answer>`. `evaluate` accepts only `plain`."""
    chat_template_kwargs: Annotated[TemplateOptions, Affects("answers", "evaluation")] = Field(default_factory=dict)
    """Variables for the chat template, such as `{enable_thinking: false}`. Chat servers receive them too."""
    reasoning_effort: Annotated[ReasoningEffort | None, Affects("answers", "evaluation")] = None
    """Reasoning effort to request from a chat server. None: the server's default."""

    max_eval_workers: Annotated[int | None, Field(ge=1), UsedBy("serve", "evaluate")] = None
    """Maximum evaluation problems in flight. None means 16 in `evaluate`. In `serve`, None allows as many requests at
    once as training sends, times `1 - eval_limit_ratio` unless `eval_handling` is STOP_TRAIN."""
    data_dir_to_save_evals: Annotated[str | None, UsedBy("serve", "evaluate")] = None
    """Folder for evaluations. None: `evals/`."""

    startup_timeout_s: Annotated[float | None, Field(gt=0.0, le=86_400.0)] = None
    """How long to wait at startup for a server that does not answer, in seconds. None: no limit in `serve`, 30 s in
    other commands. After startup, `serve` waits without limit; `process` and `evaluate` wait at least ten minutes."""
    worker_timeout: Annotated[float, AfterValidator(_check_limit)] = 600
    """Time limit for all completions of a problem, in seconds; -1: no limit. The default in `evaluate` is 1,200."""


class TrainingSettings(EvaluateSettings):
    """Adds settings of `serve` and `process`, and frequently changed settings of Atropos, to `EvaluateSettings`."""

    group_size: Annotated[int, Field(ge=1)] = 4
    """Completions per problem."""
    tokenizer_name: str = DEFAULT_MODEL
    """Tokenizer of the model: a folder, or a name on the Hugging Face hub."""
    rollout_server_url: Annotated[str, UsedBy("serve")] = "http://localhost:8000"
    """Address of the server that receives the groups."""
    total_steps: int = 1000
    """In `serve`: training steps to run; -1: the number that the trainer registered. In `process`: groups to write."""
    steps_per_eval: Annotated[int, Field(ge=-1), UsedBy("serve")] = 100
    """Training steps between evaluations. 0 or -1: no evaluations."""
    wandb_name: str | None = ENV_NAME
    """Name of the run in wandb, and of this environment in the trainer."""
    ensure_scores_are_not_same: Annotated[bool, UsedBy("serve")] = True
    """Do not send groups whose scores are all equal. Always off if `group_size` is 1."""

    temperature: Annotated[float, Field(ge=0.0, le=2.0), Affects("answers")] = 1.0
    """Sampling temperature in training."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0), Affects("answers")] = 1.0
    """Nucleus sampling threshold in training."""
    mask_too_long_completions: Annotated[bool, Affects("answers")] = True
    """Send `set_advantage_to_zero` for truncated completions, so that the trainer ignores them."""

    dump_rollouts: bool = False
    """Write to `data_dumps_dir` the groups in which a completion scores above `rollout_save_score_threshold`."""
    dump_failed_rollouts: bool = False
    """Write to `data_dumps_dir` the groups whose scores are all 0."""
    rollout_save_score_threshold: Annotated[float, Field(ge=0.0, le=1.0)] = 0.7
    """`dump_rollouts` writes groups in which a completion scores above this threshold."""
    data_dumps_dir: str | None = None
    """Folder for dumps. None: `data_dumps/` in the source tree or, for an installed package, in the working
    directory."""

    instance: Annotated[int, Field(ge=0, lt=INSTANCES), UsedBy("serve")] = 0
    """Number of this environment. If a trainer has several environments, give each a different number. The number
    selects the checkpoint folder and the problems."""
    resume_with_changes: Annotated[bool, UsedBy("serve")] = False
    """Resume a checkpoint even if the seed, tasks or other settings that affect the problems have changed since. By
    default, such a checkpoint is an error."""
    metrics_port: Annotated[int | str | None, BeforeValidator(_read_address)] = None
    """Port for Prometheus metrics (`/metrics`) in `serve` and `process`; 0 chooses a free port. The server listens on
    127.0.0.1, or on the address of `HOST:PORT`. None: no metrics server."""


TRAINING: Sequence[CommandName] = ("serve", "process")
"""The commands that sample and score completions of training problems."""
WITH_SERVER: Sequence[CommandName] = (*TRAINING, "evaluate")
"""The commands that use an inference server."""


@dataclass(frozen=True)
class AtroposSetting:
    """A setting that only Atropos declares, with the commands that use the setting.

    For an empty `description`, the command `settings` prints "As in Atropos."
    """

    description: str = ""
    used_by: Sequence[CommandName] = TRAINING


OF_ATROPOS: Mapping[str, AtroposSetting] = {
    "data_path_to_save_groups": AtroposSetting("File to which `process` writes groups."),
    "use_wandb": AtroposSetting("Send metrics to wandb."),
    "max_num_workers_per_node": AtroposSetting("Maximum groups in flight per inference server."),
    "max_num_workers": AtroposSetting("Maximum groups in flight; -1: only `max_num_workers_per_node` limits them."),
    "batch_size": AtroposSetting("Rollouts per batch; -1: the trainer's batch size.", ["serve"]),
    "max_batches_offpolicy": AtroposSetting("Maximum batches that may wait for the trainer.", ["serve"]),
    "include_messages": AtroposSetting("Add the messages of each rollout to its group."),
    "custom_thinking_prompt": AtroposSetting("Text to insert before the system prompt."),
    "num_rollouts_to_keep": AtroposSetting("Number of groups in wandb's table of rollouts."),
    "num_rollouts_per_group_for_logging": AtroposSetting("Rollouts per group in wandb's table; -1: all."),
    "min_batch_allocation": AtroposSetting("This environment's minimum share of each batch.", ["serve"]),
    "inference_weight": AtroposSetting(
        "This environment's weight when a trainer's environments share the concurrent requests.", ["serve"]
    ),
    "eval_handling": AtroposSetting(
        "Training during an evaluation: stopped (STOP_TRAIN, default), limited by `eval_limit_ratio` (LIMIT_TRAIN) or "
        "unchanged (NONE).",
        ["serve"],
    ),
    "eval_limit_ratio": AtroposSetting(
        "Share of the usual groups in flight that LIMIT_TRAIN allows (default: 0.5).", ["serve"]
    ),
    "min_items_sent_before_logging": AtroposSetting("", ["serve"]),
    "thinking_mode": AtroposSetting("Ignored.", []),
    "max_reasoning_tokens": AtroposSetting("Ignored.", []),
}
"""The environment settings of Atropos that `TrainingSettings` does not declare."""
OF_SERVER: Mapping[str, AtroposSetting] = {
    "num_max_requests_at_once": AtroposSetting("Maximum concurrent requests."),
    "num_requests_for_eval": AtroposSetting("Maximum concurrent requests of evaluations.", ["serve"]),
    "tokenizer_name": AtroposSetting("Tokenizer of the server's model; default: `env.tokenizer_name`."),
    "rolling_buffer_length": AtroposSetting(),
    "n_kwarg_is_ignored": AtroposSetting(),
    "health_check": AtroposSetting(),
}
"""The inference server settings of Atropos that `ServerSettings` does not declare."""


NAMES_OF_TRAINING = TrainingSettings.model_fields.keys() | OF_ATROPOS.keys()
"""The names of all settings of `serve` and `process`."""
NAMES_OF_SERVER = ServerSettings.model_fields.keys() | OF_SERVER.keys()
"""The names of all settings of an inference server."""


def _used_by() -> Iterator[tuple[str, Sequence[CommandName]]]:
    """Yield each setting with the commands that use the setting."""
    for section, settings_cls, commands in (
        ("env", TrainingSettings, TRAINING),
        ("env", EvaluateSettings, WITH_SERVER),
        ("env", ReasoningSettings, get_args(CommandName)),
        ("openai", ServerSettings, WITH_SERVER),
    ):
        for name, field in settings_cls.model_fields.items():
            marks = [mark.commands for mark in field.metadata if isinstance(mark, UsedBy)]
            yield f"{section}.{name}", marks[0] if marks else commands
    for section, further in (("env", OF_ATROPOS), ("openai", OF_SERVER)):
        for name, setting in further.items():
            yield f"{section}.{name}", setting.used_by
    yield from ((f"env.{name}", ()) for name in UNUSED)  # accepted, but no command uses them
    yield from ((name, TRAINING) for name in ("slurm", "testing"))  # the only ones outside a section


USED_BY: Mapping[str, Sequence[CommandName]] = dict(_used_by())
"""The commands that use each setting. Names include the section, as in `env.seed`."""

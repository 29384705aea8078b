"""The settings of a training, as far as they can be read without Atropos, and the names of Atropos' other settings.

All commands know these names, so that each can tell a setting of another command from a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ..seeds import INSTANCES
from ..settings import Decides, ReasoningSettings, TemplateOptions

DEFAULT_MODEL = "NousResearch/DeepHermes-3-Llama-3-3B-Preview"
"""Model of the default server, and name of its tokenizer."""
ENV_NAME = "reasoning_gym"


def _read_address(value: object) -> object:
    """Accept a port, or HOST:PORT; a port alone becomes a number. Raises ValueError for other values."""
    if value is None:
        return None
    host, colon, port = str(value).rpartition(":")
    if isinstance(value, bool) or not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise ValueError("must be a port from 0 to 65535, or HOST:PORT")
    return value if colon else int(port)


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class TrainingSettings(ReasoningSettings):
    """The settings of the core, those of Atropos that users change, and those that the adapter adds."""

    with_word_none = frozenset({"reasoning_effort"})

    group_size: Annotated[int, Field(ge=1)] = 4
    """Completions of each problem."""
    max_token_length: Annotated[int, Field(ge=16)] = 2048
    """Tokens of prompt and completion together at most."""
    tokenizer_name: str = DEFAULT_MODEL
    """Tokenizer of the model: a folder, or a name on the Hugging Face hub."""
    rollout_server_url: str = "http://localhost:8000"
    """Address where the trainer takes groups."""
    total_steps: int = 1000
    """Steps of the trainer after which `serve` ends, or groups that `process` writes. -1: no end."""
    steps_per_eval: Annotated[int, Field(ge=-1)] = 100
    """Steps of the trainer between evaluations. 0 or -1: no evaluations."""
    wandb_name: str | None = ENV_NAME
    """Name of the run at wandb, and of this environment at the trainer."""
    ensure_scores_are_not_same: bool = True
    """Do not send groups whose scores are all equal; off for a `group_size` of 1."""

    chat_template: Annotated[str | None, Decides("answers")] = None
    """Chat template instead of the tokenizer's: the path of a Jinja file, or `plain` for base models, whose completions
    end with the first `</answer>`."""
    chat_template_kwargs: Annotated[TemplateOptions, Decides("answers")] = Field(default_factory=dict)
    """Options of the chat template: `{enable_thinking: false}`; chat servers get them too."""
    reasoning_effort: Annotated[ReasoningEffort | None, Decides("answers")] = None
    """How much a model of a chat server thinks, sent with each request. None: the server's default."""
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
    """Seconds to wait for an absent server at startup. None: no limit in `serve`, 30 elsewhere. Later `serve` waits
    without limit, and `process` and `evaluate` for ten minutes at least."""
    instance: Annotated[int, Field(ge=0, lt=INSTANCES)] = 0
    """Number of this environment among those of one trainer. It names the folder of checkpoints and picks the stream of
    problems; without a `checkpoint_dir`, the number that the trainer gives picks the stream."""
    resume_with_changes: bool = False
    """Resume a checkpoint that was made with another seed, other tasks or other settings that decide the problems,
    instead of refusing it."""
    metrics_port: Annotated[int | str | None, BeforeValidator(_read_address)] = None
    """Port at which `serve` and `process` serve `/metrics` for Prometheus; 0 takes a free port. `HOST:PORT` listens on
    another address than 127.0.0.1; whoever can reach the address can read the metrics, without a token. None: no
    port."""


OF_ATROPOS: Mapping[str, str] = {
    "data_path_to_save_groups": "`process` writes groups to this file",
    "data_dir_to_save_evals": "folder of evaluations",
    "use_wandb": "send metrics to wandb",
    "worker_timeout": "seconds for the completions of a group; -1 for no limit",
    "max_num_workers_per_node": "groups in flight for each inference server",
    "max_num_workers": "groups in flight; -1 for those of `max_num_workers_per_node`",
    "max_eval_workers": "evaluation problems under way at a time",
    "batch_size": "rollouts of a batch; -1 for the trainer's",
    "max_batches_offpolicy": "batches that wait for the trainer at most",
    "include_messages": "send the messages of each rollout too",
    "custom_thinking_prompt": "text before the system prompt",
    "num_rollouts_to_keep": "rollouts in wandb's table",
    "num_rollouts_per_group_for_logging": "rollouts of a group in wandb's table",
    "min_batch_allocation": "share of a batch that this environment gets at least",
    "inference_weight": "weight of this environment among those of a trainer",
    "eval_handling": "",
    "eval_limit_ratio": "",
    "min_items_sent_before_logging": "",
    "thinking_mode": "not used",
    "max_reasoning_tokens": "not used",
}
"""The trainer's further settings of an environment, which work as upstream, in a few words where they matter here."""
OF_SERVER: Mapping[str, str] = {
    "base_url": "Address of the inference server, as in http://localhost:9001/v1 (`--openai.base_url`). By default the "
    "variable OPENAI_BASE_URL. A file lists several servers under `openai`.",
    "model_name": "Model to ask the server for (`--openai.model_name`).",
    "api_key": "Key of the server (`--openai.api_key`); `$NAME` reads a variable. By default OPENAI_API_KEY.",
    "headers": "headers of every request: `api-key=$AZURE_KEY`; then only a key that `api_key` names is sent",
    "server_type": "how tokens are asked for; auto detects it",
    "timeout": "seconds for a request",
    "num_max_requests_at_once": "requests at a time",
    "num_requests_for_eval": "requests of evaluations at a time",
    "tokenizer_name": "its tokenizer; by default the environment's",
    "rolling_buffer_length": "",
    "n_kwarg_is_ignored": "",
    "health_check": "",
}
"""Settings of an inference server in a training, in a few words."""
OF_EVALUATE = ("stream",)
"""Settings of an inference server that `evaluate` alone has."""


NAMES_OF_TRAINING = TrainingSettings.model_fields.keys() | OF_ATROPOS.keys()
"""The names of all settings of a training."""

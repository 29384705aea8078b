"""The settings of training that are declared without importing Atropos, and the names of Atropos' other settings.

All commands read these names, to distinguish a setting of another command from a typo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ..seeds import INSTANCES
from ..settings import Decides, ReasoningSettings, TemplateOptions

DEFAULT_MODEL = "NousResearch/DeepHermes-3-Llama-3-3B-Preview"
"""Default model, and the name of its tokenizer."""
ENV_NAME = "reasoning_gym"


def _read_address(value: object) -> object:
    """Accept a port or HOST:PORT, and return a port alone as a number. Raises ValueError for other values."""
    if value is None:
        return None
    host, colon, port = str(value).rpartition(":")
    if isinstance(value, bool) or not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise ValueError("must be a port from 0 to 65535, or HOST:PORT")
    return value if colon else int(port)


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class TrainingSettings(ReasoningSettings):
    """`ReasoningSettings`, settings of `serve` and `process`, and settings of Atropos that users commonly change."""

    with_word_none = frozenset({"reasoning_effort"})

    group_size: Annotated[int, Field(ge=1)] = 4
    """Completions per problem."""
    max_token_length: Annotated[int, Field(ge=16)] = 2048
    """Maximum tokens of prompt and completion together."""
    tokenizer_name: str = DEFAULT_MODEL
    """Tokenizer of the model: a folder, or a name on the Hugging Face hub."""
    rollout_server_url: str = "http://localhost:8000"
    """Address of the trainer's API, which receives the groups."""
    total_steps: int = 1000
    """In `serve`: training steps to run. In `process`: groups to write. -1: no limit."""
    steps_per_eval: Annotated[int, Field(ge=-1)] = 100
    """Training steps between evaluations. 0 or -1: no evaluations."""
    wandb_name: str | None = ENV_NAME
    """Name of the run in wandb, and of this environment in the trainer."""
    ensure_scores_are_not_same: bool = True
    """Do not send groups whose scores are all equal. Always off if `group_size` is 1."""

    chat_template: Annotated[str | None, Decides("answers", "evaluation")] = None
    """Chat template to use instead of the tokenizer's: the path of a Jinja file, or `plain` for base models. With
    `plain`, a completion ends at the first `</answer>`."""
    chat_template_kwargs: Annotated[TemplateOptions, Decides("answers", "evaluation")] = Field(default_factory=dict)
    """Variables for the chat template, such as `{enable_thinking: false}`. Chat servers receive them too."""
    reasoning_effort: Annotated[ReasoningEffort | None, Decides("answers", "evaluation")] = None
    """Reasoning effort to request from a chat server. None: the server's default."""
    temperature: Annotated[float, Field(ge=0.0, le=2.0), Decides("answers")] = 1.0
    """Sampling temperature in training."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0), Decides("answers")] = 1.0
    """Nucleus sampling threshold in training."""
    mask_too_long_completions: Annotated[bool, Decides("answers")] = True
    """Give truncated completions no weight in training: sets `set_advantage_to_zero` for them."""

    dump_rollouts: bool = False
    """Write groups to `data_dumps_dir` if one of their scores is above `rollout_save_score_threshold`."""
    dump_failed_rollouts: bool = False
    """Write groups to `data_dumps_dir` if all of their scores are 0."""
    rollout_save_score_threshold: Annotated[float, Field(ge=0.0, le=1.0)] = 0.7
    """Threshold for `dump_rollouts`: a group is written if one of its scores is higher."""
    data_dumps_dir: str | None = None
    """Folder for dumps. None: `data_dumps/` in the source tree or, for an installed package, in the working
    directory."""

    startup_timeout_s: Annotated[float | None, Field(gt=0.0, le=86_400.0)] = None
    """How long to wait at startup for a server that does not answer, in seconds. None: no limit in `serve`, 30 s in
    other commands. After startup, `serve` waits without limit; `process` and `evaluate` wait at least ten minutes."""
    instance: Annotated[int, Field(ge=0, lt=INSTANCES)] = 0
    """Number of this environment if a trainer has several; give each a different number. The number selects the
    checkpoint folder and the problems. Without a `checkpoint_dir`, the trainer's own number for this environment
    selects the problems."""
    resume_with_changes: bool = False
    """Resume a checkpoint even if its seed, tasks or other settings that affect the problems differ from the present
    ones. By default such a checkpoint is an error."""
    metrics_port: Annotated[int | str | None, BeforeValidator(_read_address)] = None
    """Port for Prometheus metrics (`/metrics`) in `serve` and `process`; 0 chooses a free port. `HOST:PORT` listens on
    another address than 127.0.0.1; anybody who can reach that address can read the metrics. None: no metrics
    server."""


OF_ATROPOS: Mapping[str, str] = {
    "data_path_to_save_groups": "File to which `process` writes groups.",
    "data_dir_to_save_evals": "Folder for evaluations.",
    "use_wandb": "Send metrics to wandb.",
    "worker_timeout": "Time limit for the completions of a group, in seconds; -1: no limit.",
    "max_num_workers_per_node": "Groups in flight for each inference server.",
    "max_num_workers": "Groups in flight in total; -1: only `max_num_workers_per_node` limits them.",
    "max_eval_workers": "Evaluation problems in flight.",
    "batch_size": "Rollouts per batch; -1: the trainer's batch size.",
    "max_batches_offpolicy": "Maximum batches that may wait for the trainer.",
    "include_messages": "Also send the messages of each rollout.",
    "custom_thinking_prompt": "Text to insert before the system prompt.",
    "num_rollouts_to_keep": "Rollouts in wandb's table.",
    "num_rollouts_per_group_for_logging": "Rollouts per group in wandb's table.",
    "min_batch_allocation": "Minimum share of a batch for this environment.",
    "inference_weight": "Weight of this environment if a trainer has several.",
    "eval_handling": "",
    "eval_limit_ratio": "",
    "min_items_sent_before_logging": "",
    "thinking_mode": "Ignored.",
    "max_reasoning_tokens": "Ignored.",
}
"""Further environment settings of Atropos; settings that matter here have a short description."""
OF_SERVER: Mapping[str, str] = {
    "base_url": "Address of the inference server, such as http://localhost:9001/v1 (`--openai.base_url`). Default: "
    "the environment variable OPENAI_BASE_URL. To use several servers, list them under `openai` in a file.",
    "model_name": "Name of the model on the inference server (`--openai.model_name`).",
    "api_key": "API key of the inference server (`--openai.api_key`). `$NAME` reads an environment variable. Default: "
    "OPENAI_API_KEY.",
    "headers": "HTTP headers of every request, such as `api-key=$AZURE_KEY`. With headers, the key is sent only if "
    "`api_key` is set.",
    "server_type": "API that the server offers; auto detects the API.",
    "timeout": "Time limit of a request, in seconds.",
    "num_max_requests_at_once": "Concurrent requests.",
    "num_requests_for_eval": "Concurrent requests of evaluations.",
    "tokenizer_name": "Tokenizer of the server's model; default: `env.tokenizer_name`.",
    "rolling_buffer_length": "",
    "n_kwarg_is_ignored": "",
    "health_check": "",
}
"""Settings of an inference server in `serve` and `process`, each with a short description."""
OF_EVALUATE: Mapping[str, str] = {"stream": "Only in `evaluate`: whether to stream replies (always, never or auto)."}
"""Settings of an inference server that only `evaluate` has."""


NAMES_OF_TRAINING = TrainingSettings.model_fields.keys() | OF_ATROPOS.keys()
"""The names of all settings of `serve` and `process`."""

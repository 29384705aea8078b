"""Settings that were removed: advice for users, and the conversion of stored settings.

`current_settings` converts the settings in checkpoints and in the headers of row files. `REMOVED` also contains
settings that only the upstream environment had.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Removed:
    """A setting that was removed.

    - `instead` is the advice. Each `{setting}` in it is replaced by the name that the user wrote, such as `--env.seed`.
    - `was` is the setting's former default. A stored state with this value counts as unchanged.
    - `now` converts a stored value into the present settings.
    """

    instead: str
    was: object = None
    now: Callable[[object], Mapping[str, object]] | None = None


_DEADLINES = "remove it; {scoring_deadline_s} sets all deadlines"
_EVALUATION_SET = "the evaluation set is generated, not downloaded"

REMOVED: Mapping[str, Removed] = {
    "strict_rewards": Removed(
        "if it was `true`, set {rewards} to `strict`; if it was `false`, to `plain`",
        now=lambda value: {} if value is None else {"rewards": "strict" if value else "plain"},
    ),
    "max_answer_bytes": Removed("remove it; the limit is always 20,000 bytes, and longer answers score 0", 20_000),
    "eval_top_p": Removed("remove it; evaluations always sample with top_p 0.95", now=lambda value: {"top_p": value}),
    "worker_niceness": Removed("remove it; workers always run at niceness 3", 3),
    "worker_start_timeout_s": Removed("remove it; workers always have 300 s to start", 300.0),
    "max_failed_groups_in_a_row": Removed("remove it; a command always ends after 8 failed groups in a row", 8),
    "progress_interval_s": Removed("remove it; progress is logged every 30 s", 30.0),
    "shutdown_grace_s": Removed("remove it; groups in flight always get 10 s to finish", 10.0),
    "prefetch_problems": Removed(
        "remove it; the groups in flight determine how many problems are made in advance", 128
    ),
    "generation_deadline_s": Removed(_DEADLINES, 10.0),
    "eval_generation_deadline_s": Removed(_DEADLINES, 60.0),
    "reference_deadline_s": Removed(_DEADLINES, 5.0),
    "scoring_budget_s": Removed(_DEADLINES),
    "min_completion_tokens": Removed(
        "remove it; a problem is served if prompt and expected answer fit into {max_token_length}", 64
    ),
    "exclude_gameable": Removed(
        "remove it; to train on tasks that are excluded by default, name them in {tasks}", True
    ),
    "lenient_answers": Removed("remove it; formatting of answers affects scores only if {rewards} is `library`", True),
    "eval_params": Removed(
        "to evaluate with the parameters of training, set {eval_level} to `training`",
        now=lambda value: {"eval_level": "training"} if value == "training" else {},
    ),
    "fast_generators": Removed(
        "remove it; fast generators are used if they make the same problems as the library", True
    ),
    "stop_after_answer": Removed("remove it; only with {chat_template} `plain`, completions end after the answer"),
    "calm_garbage_collector": Removed("remove it; the garbage collector is always tuned", True),
    "metrics_host": Removed("set {metrics_port} to HOST:PORT", "127.0.0.1"),
    "dataset": Removed(f"{_EVALUATION_SET}; select its tasks with {{tasks}} and {{eval_tasks}}"),
    "max_eval_samples": Removed(f"{_EVALUATION_SET}; set its size with {{num_eval_samples_per_task}}"),
    "eval_sample_seed": Removed(f"{_EVALUATION_SET}; set its seed with {{eval_seed}}"),
}


UNUSED: Mapping[str, str] = {
    "debug_logging": "for debug messages, call logging.getLogger('reasoning_env').setLevel(logging.DEBUG)",
    "suppress_base_env_logs": "Atropos' loggers are set to WARNING; change their levels with Python's logging",
}
"""Settings of the upstream environment that are accepted without effect, each with what to do instead."""


def unknown_setting(name: str, fields: Collection[str], section: str = "") -> ConfigError:
    """Return the error, with a remedy, for the name of a setting that does not exist. `fields` are the known names."""
    if name in REMOVED and section != "openai.":
        instead = REMOVED[name].instead.replace("{", f"{{{section}")
        return ConfigError("there is no such setting", setting=f"{section}{name}", remedy=instead)
    remedy = did_you_mean(name, fields) or "the command `settings` lists all settings"
    return ConfigError("there is no such setting", setting=f"{section}{name}", remedy=remedy)


def current_settings(stored: Mapping[str, object]) -> dict[str, object]:
    """Return stored settings under their present names.

    A removed setting stays in the result if its stored value differs from `Removed.was`.
    """
    values = dict(stored)
    for name in REMOVED.keys() & stored.keys():
        removed = REMOVED[name]
        if removed.now is not None:
            values.update(removed.now(values.pop(name)))
        elif values[name] == removed.was:
            del values[name]
    return values

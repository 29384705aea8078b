"""Settings that are no fields any more: what a user does instead, and how stored states are read.

Files, command lines and keywords get their error from `unknown_setting`. Checkpoints and the headers of files with rows
are read through `current_settings`. Upstream's names that never were settings here are in the table too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Removed:
    """A setting that is gone.

    `instead` says what to do; settings in braces are shown by the name that the user knows. `was` is the value that
    still holds, so that a stored state with this value has not changed. `now` returns the present settings of another
    value.
    """

    instead: str
    was: object = None
    now: Callable[[object], Mapping[str, object]] | None = None


_DEADLINES = "take it out; {scoring_deadline_s} sets all deadlines"
_EVALUATION_SET = "the evaluation set is generated, not fetched"

REMOVED: Mapping[str, Removed] = {
    "strict_rewards": Removed(
        "set {rewards}: strict instead of true, plain instead of false",
        now=lambda value: {} if value is None else {"rewards": "strict" if value else "plain"},
    ),
    "max_answer_bytes": Removed("take it out; answers above 20,000 bytes score 0", 20_000),
    "eval_top_p": Removed("take it out; evaluations sample with top_p 0.95", now=lambda value: {"top_p": value}),
    "worker_niceness": Removed("take it out; workers run at niceness 3", 3),
    "worker_start_timeout_s": Removed("take it out; workers have 300 s to start", 300.0),
    "max_failed_groups_in_a_row": Removed("take it out; a command ends after 8 failed groups in a row", 8),
    "progress_interval_s": Removed("take it out; a line of progress comes every 30 s", 30.0),
    "shutdown_grace_s": Removed("take it out; groups in flight get 10 s; a second signal ends at once", 10.0),
    "prefetch_problems": Removed("take it out; it follows from the groups in flight", 128),
    "generation_deadline_s": Removed(_DEADLINES, 10.0),
    "eval_generation_deadline_s": Removed(_DEADLINES, 60.0),
    "reference_deadline_s": Removed(_DEADLINES, 5.0),
    "scoring_budget_s": Removed(_DEADLINES),
    "min_completion_tokens": Removed("take it out; it follows from {max_token_length}", 64),
    "exclude_gameable": Removed("name the tasks in {tasks} to train on them", True),
    "lenient_answers": Removed("take it out; {rewards}: plain scores answers as they are written", True),
    "eval_params": Removed(
        "set {eval_level}: training for evaluation problems with the parameters of training",
        now=lambda value: {"eval_level": "training"} if value == "training" else {},
    ),
    "fast_generators": Removed("take it out; fast generators make the same problems", True),
    "stop_after_answer": Removed("take it out; generation ends after the answer with {chat_template}: plain"),
    "calm_garbage_collector": Removed("take it out; the garbage collector is always calmed", True),
    "metrics_host": Removed("write the address in {metrics_port}: HOST:PORT", "127.0.0.1"),
    "dataset": Removed(f"{_EVALUATION_SET}: {{tasks}} and {{eval_tasks}} select its tasks"),
    "max_eval_samples": Removed(f"{_EVALUATION_SET}: {{num_eval_samples_per_task}} sets its size"),
    "eval_sample_seed": Removed(f"{_EVALUATION_SET}: {{eval_seed}} is its seed"),
}


UNUSED: Mapping[str, str] = {
    "debug_logging": "logging.getLogger('reasoning_env').setLevel(logging.DEBUG) logs each item",
    "suppress_base_env_logs": "Python's logging sets the levels of Atropos' own loggers, which are at warning",
}
"""Settings of upstream's environment that are accepted and have no effect, each with what has."""


def unknown_setting(name: str, fields: Collection[str], section: str = "") -> ConfigError:
    """Return the error for a name that is none of the `fields`, with what to do about it."""
    if name in REMOVED and section != "openai.":
        instead = REMOVED[name].instead.replace("{", f"{{{section}")
        return ConfigError("is not a setting", setting=f"{section}{name}", remedy=instead)
    return ConfigError("there is no such setting", setting=f"{section}{name}", remedy=did_you_mean(name, fields))


def current_settings(stored: Mapping[str, object]) -> dict[str, object]:
    """Return stored settings by their present names. A removed setting stays where its value does not hold any more."""
    values = dict(stored)
    for name in REMOVED.keys() & stored.keys():
        removed = REMOVED[name]
        if removed.now is not None:
            values.update(removed.now(values.pop(name)))
        elif values[name] == removed.was:
            del values[name]
    return values

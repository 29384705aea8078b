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
    "dataset": Removed(f"{_EVALUATION_SET}: {{tasks}} and {{eval_tasks}} select its tasks"),
    "max_eval_samples": Removed(f"{_EVALUATION_SET}: {{num_eval_samples_per_task}} sets its size"),
    "eval_sample_seed": Removed(f"{_EVALUATION_SET}: {{eval_seed}} is its seed"),
}


def unknown_setting(name: str, fields: Collection[str], section: str = "") -> ConfigError:
    """Return the error for a name that is none of the `fields`, with what to do about it."""
    if name in REMOVED:
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

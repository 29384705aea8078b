"""The long help of `serve`, `process` and `evaluate`: all options, in groups, with range and default."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from pydantic.fields import FieldInfo

from ...settings import ReasoningSettings, default_text, range_text
from ..config import BASE_RANGES

WIDTH = 100
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Tasks and difficulty": ("task", "exclude_tasks", "complexity", "curriculum", "seed", "exclude_gameable"),
    "Prompts and sampling": ("system_prompt", "temperature", "top_p", "min_completion", "mask_too_long"),
    "Scoring": ("max_answer", "strict_rewards", "lenient_answers", "scoring_deadline"),
    "Evaluation": ("num_eval", "eval_"),
    "Dumps": ("dump_", "rollout_save", "data_dumps"),
    "Worker processes": ("num_", "prefetch", "fast_generators", "generation_", "sandbox", "worker_", "quarantine"),
    "Running": ("",),
}
"""This environment's settings by how their names begin; the first group that fits has a setting."""
OWN = {
    "config": "A YAML file with settings: `env` for those of the environment, `openai` for one server or a list.",
    "slurm": "Take the inference servers from SLURM's list of nodes.",
    "testing": "Use Atropos' mock server.",
    "help-all": "This text.",
    "print-config": "Print all settings as a file for --config, without keys, and end.",
    "keep": "Write chat data for fine-tuning beside the file of groups: `best` has the best completion of each group "
    "that earned anything, `correct` all right ones, `all` every one.",
}


def full_help(command: str, options: Mapping[str, FieldInfo | None]) -> str:
    """Return a command's help; `options` maps names to the fields of their settings, None for others."""
    groups: dict[str, list[str]] = {"The command": []}
    groups |= {title: [] for title in (*GROUPS, "Atropos", "Inference server")}
    for name, field in options.items():
        groups[_group(name)].append(_entry(name, field))
    parts = [f"All options of {command}. Later ones win over earlier ones, and all of them over --config."]
    return "\n\n".join(parts + [f"{title}:\n" + "\n".join(entries) for title, entries in groups.items() if entries])


def _group(option: str) -> str:
    section, _, name = option.rpartition(".")
    if not section:
        return "The command"
    if section == "openai":
        return "Inference server"
    if name not in ReasoningSettings.model_fields:
        return "Atropos"
    return next(title for title, beginnings in GROUPS.items() if name.startswith(beginnings))


def _entry(name: str, field: FieldInfo | None) -> str:
    if field is None:
        return f"  --{name}\n{_indented(OWN[name])}"
    setting = name.rpartition(".")[2]
    facts = [f"default: {default_text(field)}"]
    if allowed := BASE_RANGES[setting].words if setting in BASE_RANGES else range_text(field):
        facts.insert(0, allowed)
    words = f"{field.description or setting} ({'; '.join(facts)})"
    return f"  --{name}\n{_indented(words)}"


def _indented(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)

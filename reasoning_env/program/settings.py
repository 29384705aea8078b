"""The command `settings`: print all settings, or those that contain the given words.

Importing Atropos takes seconds, so this module uses the list of Atropos' settings in `training.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic.fields import FieldInfo

from ..errors import ConfigError, did_you_mean
from ..inference.completer import ServerSettings
from ..runtime.terminal import Table, print_json
from ..settings import CommandName
from ..settings.given import description_line
from .options import ABOUT, settings_parser, short_names
from .parser import program
from .shared_options import LONG, default_text, range_text
from .training import OF_ATROPOS, OF_SERVER, USED_BY, TrainingSettings

SettingRow = tuple[str, str, str, str]
"""The name, default, range and meaning of a setting."""

SUBJECTS: Mapping[str, Sequence[str]] = {
    "Settings that most users change": (
        "tasks",
        "task_params",
        "task_weights",
        "task_modules",
        "complexity_mode",
        "seed",
        "rewards",
        "system_prompt",
        "base_url",
        "model_name",
        "api_key",
        "tokenizer_name",
        "max_token_length",
        "temperature",
        "group_size",
        "rollout_server_url",
        "total_steps",
        "steps_per_eval",
        "eval_preset",
        "num_eval_samples_per_task",
        "wandb_name",
        "dump_rollouts",
        "dump_failed_rollouts",
        "rollout_save_score_threshold",
    ),
    "Problems": ("exclude_tasks", "checkout", "task_sampling", "complexity_level", "curriculum_target_accuracy"),
    "Prompts and completions": (
        "thinking",
        "chat_template",
        "chat_template_kwargs",
        "reasoning_effort",
        "top_p",
        "mask_too_long_completions",
    ),
    "Evaluation": (
        "eval_tasks",
        "eval_level",
        "eval_seed",
        "eval_repeats",
        "eval_temperature",
        "eval_max_completion_tokens",
        "max_eval_workers",
        "data_dir_to_save_evals",
    ),
    "Inference server (section `openai`)": ("headers", "server_type", "timeout", "stream"),
    "Workers": ("num_generators", "num_verifiers", "scoring_deadline_s", "worker_memory_mb", "sandbox_verifiers"),
    "The run": (
        "ensure_scores_are_not_same",
        "data_dumps_dir",
        "startup_timeout_s",
        "worker_timeout",
        "instance",
        "resume_with_changes",
        "metrics_port",
    ),
}
"""All settings by subject, except the settings of Atropos in OF_ATROPOS and OF_SERVER."""

FURTHER = "Further settings of Atropos"
ALL_COMMANDS = {command.split()[0] for command in get_args(CommandName)}
"""The names of the commands that read settings."""


def settings_command(
    argv: Sequence[str],
    folder: Path | None = None,
    fields: Mapping[str, FieldInfo] = TrainingSettings.model_fields,
    schema: Callable[[], Mapping[str, object]] | None = None,
) -> int:
    """Print all settings, or those that contain the given words, and return 0.

    `fields` are the fields of an environment class. `schema` returns the JSON Schema of a `--config` file.

    Raises ConfigError if no setting contains the words.
    """
    options = settings_parser(program()).read(argv)
    words = options["words"]
    if options["json"]:
        if words:
            raise ConfigError("--json always prints the schema of all settings", remedy="omit the search words")
        assert schema is not None, "internal error: --json needs the argument `schema`"
        print_json(schema())
        return 0
    sections = _sections(fields)
    if not options["markdown"]:
        short = {command: short_names(command) for command in ABOUT}
        sections = {title: [_with_short_names(row, short) for row in rows] for title, rows in sections.items()}
    if words:
        sections = _with_words(sections, words)
    for title, rows in sections.items():
        if options["markdown"]:
            print(f"## {title}\n\n{_markdown(rows)}\n")
        else:
            print(f"{title}\n")
            Table({"SETTING": "", "DEFAULT": "", "RANGE": "", "MEANING": ""}, rows).print()
            print()
    return 0


def _with_words(sections: Mapping[str, Sequence[SettingRow]], words: Sequence[str]) -> dict[str, list[SettingRow]]:
    """Return the rows that contain all of `words`, grouped by subject. Raises ConfigError if there are none."""
    matching = {title: [row for row in rows if _has_words(row, words)] for title, rows in sections.items()}
    if not any(matching.values()):
        names = [name for rows in sections.values() for name, *_ in rows]
        remedy = did_you_mean(words[-1].lower(), names) or "run `settings` without search words to list all settings"
        raise ConfigError(f"no setting contains {' and '.join(words)} in its name or description", remedy=remedy)
    return {title: rows for title, rows in matching.items() if rows}


def _sections(fields: Mapping[str, FieldInfo]) -> dict[str, list[SettingRow]]:
    """Return the settings as rows, grouped by subject. The settings in OF_ATROPOS and OF_SERVER come last."""
    sections = {title: [_row(name, fields) for name in names] for title, names in SUBJECTS.items()}
    shown = {name for names in SUBJECTS.values() for name in names}
    added = [name for name in fields if name not in shown and name not in OF_ATROPOS]
    if added:
        sections["Settings that your environment class adds"] = [_row(name, fields) for name in added]
    further = [(f"env.{name}", setting) for name, setting in OF_ATROPOS.items()]
    further += [(f"openai.{name}", setting) for name, setting in OF_SERVER.items()]
    sections[FURTHER] = [
        (name, "", "", _with_commands(name, setting.description or "As in Atropos.")) for name, setting in further
    ]
    return sections


def _row(name: str, fields: Mapping[str, FieldInfo]) -> SettingRow:
    is_of_server = name not in fields
    field = ServerSettings.model_fields[name] if is_of_server else fields[name]
    text = _with_commands(f"openai.{name}" if is_of_server else f"env.{name}", description_line(field))
    return name, default_text(field), range_text(field), text


def _with_commands(name: str, text: str) -> str:
    """Return a setting's description and, unless all commands use the setting, the commands that use it."""
    commands = dict.fromkeys(command.split()[0] for command in USED_BY.get(name, ()))
    if len(commands) in (0, len(ALL_COMMANDS)):
        return text
    return f"{text.rstrip('.')}. Commands: {', '.join(f'`{command}`' for command in commands)}."


def _has_words(row: SettingRow, words: Sequence[str]) -> bool:
    """Return True if a setting's name, choices and meaning together contain all words."""
    name, _default, choices, text = row
    return all(word.lower() in f"{name} {choices} {text}".lower() for word in words)


def _with_short_names(row: SettingRow, short: Mapping[str, Mapping[str, str]]) -> SettingRow:
    """Return the row with the setting's short options after the description: `Short form: evaluate --limit.`

    An option that all commands have is shown without a command.
    """
    name, default, choices, text = row
    commands_of: dict[str, list[str]] = {}
    for command, options in short.items():
        for option, setting in options.items():
            if setting.partition(".")[2] == name.rpartition(".")[2]:
                commands_of.setdefault(option, []).append(command)
    texts = []
    for option, commands in commands_of.items():
        texts += [option] if len(commands) == len(short) else [f"{command} {option}" for command in commands]
    return name, default, choices, f"{text.rstrip('.')}. Short form: {', '.join(texts)}." if texts else text


def _markdown(rows: Sequence[SettingRow]) -> str:
    """Return the rows as a Markdown table, without the columns that are empty in all rows."""
    lines = [("setting", "default", "range", "meaning"), ("---",) * 4]
    for name, default, allowed, words in rows:
        shown = default if default in ("", "empty", "none", LONG) else f"`{default}`"
        lines.append((f"`{name}`", shown, allowed, words))
    used = [column for column, cells in enumerate(zip(*lines[2:], strict=True)) if any(cells)]
    return "\n".join(f"| {' | '.join(_cell(cells[column]) for column in used)} |" for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())

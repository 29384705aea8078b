"""The command `settings`: print all settings, or the settings with some words.

The settings of Atropos that users change are declared in `training.py`, so that nothing here imports Atropos, which
takes seconds. Its other settings are named in one paragraph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from pydantic.fields import FieldInfo

from ..errors import ConfigError, did_you_mean
from ..runtime.terminal import Table, print_json
from ..settings.given import choices, meaning
from .options import ABOUT, settings_parser, short_names
from .parser import program
from .training import OF_ATROPOS, OF_SERVER, TrainingSettings

SettingRow = tuple[str, str, str, str]
"""Name, default, range and meaning."""

SUBJECTS: Mapping[str, Sequence[str]] = {
    "Settings that most runs change": (
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
    ),
    "Workers": ("num_generators", "num_verifiers", "scoring_deadline_s", "worker_memory_mb", "sandbox_verifiers"),
    "The run": (
        "ensure_scores_are_not_same",
        "data_dumps_dir",
        "startup_timeout_s",
        "instance",
        "resume_with_changes",
        "metrics_port",
    ),
}
"""All settings but those that Atropos alone has, by subject."""

FURTHER = "Atropos' further settings"


def settings_command(
    argv: Sequence[str],
    folder: Path | None = None,
    fields: Mapping[str, FieldInfo] = TrainingSettings.model_fields,
    schema: Callable[[], Mapping[str, object]] | None = None,
) -> int:
    """Print all settings, or the settings with some words, and return 0.

    `fields` are those of an environment class, and `schema` returns the JSON Schema of a file for `--config`. Raises
    ConfigError if no setting has the words.
    """
    options = settings_parser(program()).read(argv)
    words = options["words"]
    if options["json"]:
        if words:
            raise ConfigError("--json prints the schema of all settings", remedy="leave the words out")
        assert schema is not None, "the command line starts --json with an environment class"
        print_json(schema())
        return 0
    sections = _sections(fields)
    if not options["markdown"]:
        short = {command: short_names(command) for command in ABOUT}
        sections = {title: [_with_short_names(row, short) for row in rows] for title, rows in sections.items()}
    if words:
        sections = _with_words(sections, words)
    else:
        del sections[FURTHER]
    for title, rows in sections.items():
        if options["markdown"]:
            print(f"#### {title}\n\n{_markdown(rows)}\n")
        else:
            print(f"{title}\n")
            Table({"SETTING": "", "DEFAULT": "", "RANGE": "", "MEANING": ""}, rows).print()
            print()
    if not words:
        print(f"#### {FURTHER}\n\n{_further('`')}" if options["markdown"] else f"{FURTHER}\n\n{_further('')}")
    return 0


def _with_words(sections: Mapping[str, Sequence[SettingRow]], words: Sequence[str]) -> dict[str, list[SettingRow]]:
    """Return the rows with all words, by subject. Raises ConfigError for no such row."""
    matching = {title: [row for row in rows if _has_words(row, words)] for title, rows in sections.items()}
    if not any(matching.values()):
        remedy = did_you_mean(words[-1].lower(), [name for rows in sections.values() for name, *_ in rows])
        raise ConfigError(f"no setting has {' and '.join(words)} in its name or meaning", remedy=remedy)
    return {title: rows for title, rows in matching.items() if rows}


def _sections(fields: Mapping[str, FieldInfo]) -> dict[str, list[SettingRow]]:
    """Return the rows of all settings by subject; those that Atropos alone has come last."""
    sections = {title: [_row(name, fields) for name in names] for title, names in SUBJECTS.items()}
    shown = {name for names in SUBJECTS.values() for name in names}
    added = [name for name in fields if name not in shown and name not in OF_ATROPOS]
    if added:
        sections["Settings of this environment class"] = [_row(name, fields) for name in added]
    sections[FURTHER] = [
        (name, "", "", words) for name, words in {**OF_ATROPOS, **OF_SERVER}.items() if name not in shown
    ]
    return sections


def _row(name: str, fields: Mapping[str, FieldInfo]) -> SettingRow:
    field = fields.get(name)
    if field is None:
        return name, "", "", OF_SERVER[name]
    return name, default_text(field), range_text(field), meaning(field)


def _further(code: str) -> str:
    """Return a paragraph on the settings that Atropos alone has; `code` stands around each name."""
    common = SUBJECTS["Settings that most runs change"]
    lists = []
    for several in (OF_ATROPOS, {name: words for name, words in OF_SERVER.items() if name not in common}):
        named = [f"{code}{name}{code}" + (f" ({words})" if words else "") for name, words in several.items()]
        lists.append(", ".join(named))
    return (
        f"The other settings of Atropos work as upstream. As --env.NAME: {lists[0]}. Of an inference server, as "
        f"--openai.NAME: {lists[1]}. `evaluate` alone has {code}stream{code} of a server."
    )


def _has_words(row: SettingRow, words: Sequence[str]) -> bool:
    """Tell whether all words stand in a setting's name, its choices or its meaning."""
    name, _default, choices, text = row
    return all(word.lower() in f"{name} {choices} {text}".lower() for word in words)


def _with_short_names(row: SettingRow, short: Mapping[str, Mapping[str, str]]) -> SettingRow:
    """Return the row with the `short` options of the setting, by command, behind its meaning.

    `Written short: evaluate --limit.` An option of all commands stands without a command.
    """
    name, default, choices, text = row
    commands_of: dict[str, list[str]] = {}
    for command, options in short.items():
        for option, setting in options.items():
            if setting.partition(".")[2] == name:
                commands_of.setdefault(option, []).append(command)
    texts = []
    for option, commands in commands_of.items():
        texts += [option] if len(commands) == len(short) else [f"{command} {option}" for command in commands]
    return name, default, choices, f"{text.rstrip('.')}. Written short: {', '.join(texts)}." if texts else text


def _markdown(rows: Sequence[SettingRow]) -> str:
    lines = ["| setting | default | range | meaning |", "| --- | --- | --- | --- |"]
    for name, default, allowed, words in rows:
        shown = default if default in ("", "empty", "none", "a text") else f"`{default}`"
        cells = (f"`{name}`", shown, allowed, words)
        lines.append("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |")
    return "\n".join(lines)


def default_text(field: FieldInfo) -> str:
    """Return the default in words; long texts and empty values are described."""
    value: object = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return "none"
    if value in ("", []):
        return "empty"
    text = str(value)
    return text if len(text) <= 40 else "a text"


def range_text(field: FieldInfo) -> str:
    """Return the limits of a number or the choices of a word, joined by commas; empty without either."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    words = []
    for constraint in field.metadata:
        words += [f"{sign} {getattr(constraint, limit)}" for limit, sign in signs.items() if hasattr(constraint, limit)]
    extra = field.json_schema_extra
    of_table = extra.get("enum") if isinstance(extra, dict) else None  # of a table that may grow
    words += map(str, of_table) if isinstance(of_table, list) else choices(field)
    return ", ".join(words)

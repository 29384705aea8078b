"""Every setting of the core, with default, description and range. The adapter's settings are in `atropos/config.py`.

A value may be a text, as on the command line: each field parses the text that its description shows.

A field also names what it `decides`:

- `problems`: the problems that are drawn, the evaluation set included, since training leaves its questions out
- `answers`: what completions look like and earn
- `evaluation`: the figures of an evaluation

A run resumes the state of another run only if both have the same `fingerprint`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .errors import NOTHING, ConfigError, SeveralConfigErrors, did_you_mean

SYSTEM_PROMPT = """\
You solve reasoning problems. Work the problem out step by step first, and put all of that work between <think> and \
</think>. After it, state your final answer exactly once, between <answer> and </answer>.

Inside the answer tags write the bare answer in the form that the question asks for: no explanation, no restating of \
the question, nothing else. A reply without exactly one pair of answer tags earns nothing."""

NATIVE_SYSTEM_PROMPT = """\
You solve reasoning problems. Work the problem out step by step first. Then, in your reply, state your final answer \
exactly once, between <answer> and </answer>.

Inside the answer tags write the bare answer in the form that the question asks for: no explanation, no restating of \
the question, nothing else. A reply without exactly one pair of answer tags earns nothing."""
"""The default for models that think in another format than <think> tags."""


class DuplicateKeyError(ValueError):
    """A key stands twice in a mapping of YAML; the text names the key and both lines."""


class _Loader(yaml.SafeLoader):
    """YAML's loader, which by itself drops all but the last value of a key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                name = (key.tag, key.value)
                if name in lines:
                    raise DuplicateKeyError(f"the key {key.value!r} stands twice, in lines {lines[name]} and {line}")
                lines[name] = line
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """Return the content of YAML or JSON text. Raises yaml.YAMLError, and DuplicateKeyError for a double key."""
    return yaml.load(text, _Loader)


def _split_names(value: object) -> object:
    """Accept "a, b" for ["a", "b"]; raises ValueError for commas without a name."""
    if not isinstance(value, str):
        return value
    names = [name.strip() for name in value.split(",") if name.strip()]
    if not names and value.strip():
        raise ValueError("must hold a name at least")
    return names


def parse_mapping(value: object) -> object:
    """Accept YAML or JSON text, and `pattern=value, pattern=value` for a mapping of numbers."""
    if not isinstance(value, str):
        _check_blanks(value)
        return value
    text = value.strip()
    if "=" in text and not text.startswith("{"):
        pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
        return {name.strip(): number.strip() for name, _, number in pairs}
    try:
        parsed = load_yaml(text) or {}
    except DuplicateKeyError:
        raise
    except yaml.YAMLError as error:
        raise ValueError(f"is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if not isinstance(parsed, dict):
        raise ValueError("must be a mapping, as in {name: value}")
    _check_blanks(parsed)
    return parsed


def _parse_options(value: object) -> object:
    """Accept YAML or JSON text, and `name=value, name=value`, whose values are YAML: `false` is a boolean."""
    parsed = parse_mapping(value)
    if isinstance(value, str) and isinstance(parsed, dict):
        return {name: load_yaml(text) if isinstance(text, str) else text for name, text in parsed.items()}
    return parsed


def _check_blanks(value: object) -> None:
    """Raise ValueError for `{a:1}`, which YAML reads as the name `a:1` without a value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if inner is None and ":" in str(name):
                raise ValueError(f"the name {name!r} has no value; write a blank after each colon, as in {{a: 1}}")
            _check_blanks(inner)


NameList = Annotated[list[str], BeforeValidator(_split_names)]
Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Weights = Annotated[dict[str, Weight], BeforeValidator(parse_mapping)]
TemplateOptions = Annotated[dict[str, Any], BeforeValidator(_parse_options)]
TaskParams = Annotated[dict[str, dict[str, Any]], BeforeValidator(parse_mapping)]


class ReasoningSettings(BaseModel):
    """Settings of tasks, workers, scoring, dumps and evaluation.

    Unknown names and values out of range raise ConfigError in one line. The front door's config inherits them.
    """

    model_config = ConfigDict(extra="forbid")

    if not TYPE_CHECKING:  # a type checker takes the fields as the arguments

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _settings_error(error, type(self).model_fields, section="") from error

    tasks: NameList = Field(
        default_factory=list,
        description="Tasks to train and evaluate on: names, globs (`*_sorting`) or categories (`games`, `games/*`), as "
        "a list or joined by commas. Empty or `all`: every task.",
        json_schema_extra={"decides": ["problems"]},
    )
    exclude_tasks: NameList = Field(
        default_factory=list,
        description="Tasks to leave out of `tasks`: names, globs or categories.",
        json_schema_extra={"decides": ["problems"]},
    )
    task_modules: NameList = Field(
        default_factory=list,
        description="Modules that add your own tasks: names that Python can import, or paths of `.py` files, whose "
        "code calls reasoning-gym's `register_dataset`. Imported in worker processes only.",
    )
    checkout: str | None = Field(
        default=None,
        description="Folder with a `reasoning_gym` package, such as a clone or a fork, to use in place of the "
        "installed package.",
    )
    task_weights: Weights = Field(
        default_factory=dict,
        description="Weights of tasks for `task_sampling: weighted`, by name, glob or category: `games/*=2, gcd=0.5`. "
        "Other tasks have the weight 1.",
        json_schema_extra={"decides": ["problems"]},
    )
    task_params: TaskParams = Field(
        default_factory=dict,
        description="Parameters of the library's own configs, by name, glob or category: "
        "`{chain_sum: {min_terms: 4, max_digits: 6}}`.",
        json_schema_extra={"decides": ["problems"]},
    )
    task_sampling: Literal["uniform", "weighted", "adaptive"] = Field(
        default="uniform",
        description="How tasks are drawn: equally often, by `task_weights`, or more often if groups carry a signal.",
        json_schema_extra={"decides": ["problems"]},
    )
    complexity_mode: Literal["random", "curriculum"] | None = Field(
        default=None,
        description="Level of difficulty of training problems: random for each problem, or following the learner. "
        "None: `complexity_level`, or the library's defaults.",
        json_schema_extra={"decides": ["problems"]},
    )
    complexity_level: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Fixed level of difficulty of training problems, from 0 to 1.",
        json_schema_extra={"decides": ["problems"]},
    )
    curriculum_target_accuracy: float = Field(
        default=0.7,
        ge=0.05,
        le=0.95,
        description="Share of right answers that the curriculum aims at, for each task.",
        json_schema_extra={"decides": ["problems"]},
    )
    seed: int = Field(
        default=42,
        ge=0,
        description="Seed of the training stream. The same seed gives the same problems.",
        json_schema_extra={"decides": ["problems"]},
    )
    system_prompt: str = Field(
        default=SYSTEM_PROMPT,
        description="System message. Empty: the question is sent alone.",
        json_schema_extra={"decides": ["answers", "evaluation"]},
    )
    thinking: Literal[
        "auto",
        "none",
        "think",
        "gpt-oss",
        "gemma",
        "magistral",
        "seed-oss",
        "command-a",
        "kimi",
        "kimi-k3",
        "minimax",
        "hunyuan",
        "solar",
        "apriel",
        "muse",
        "thinking",
        "reasoning",
    ] = Field(
        default="auto",
        description="Format of the model's thinking, in which no answer is looked for. `auto`: `<think>` tags, and the "
        "formats that the tokenizer or its chat template knows.",
        json_schema_extra={"decides": ["answers", "evaluation"]},
    )
    temperature: float = Field(
        default=1.0,
        ge=0.0,
        le=2.0,
        description="Sampling temperature in training.",
        json_schema_extra={"decides": ["answers"]},
    )
    top_p: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Nucleus sampling threshold in training.",
        json_schema_extra={"decides": ["answers"]},
    )
    min_completion_tokens: int = Field(
        default=64,
        ge=1,
        description="Fewest tokens for a completion. Problems whose prompt leaves fewer are skipped and counted.",
        json_schema_extra={"decides": ["answers", "evaluation"]},
    )
    mask_too_long_completions: bool = Field(
        default=True,
        description="Give rollouts that ran out of tokens the override `set_advantage_to_zero`.",
        json_schema_extra={"decides": ["answers"]},
    )
    max_answer_bytes: int = Field(
        default=20_000,
        ge=1,
        le=10_000_000,
        description="Answers above this many bytes of UTF-8 score 0 (`too_long`).",
        json_schema_extra={"decides": ["answers", "evaluation"]},
    )

    strict_rewards: bool = Field(
        default=True,
        description="Correct verifiers that give credit for meaningless answers, wrong answers, and questions with "
        "several readings. Off: the library's own questions, answers and scores count.",
        json_schema_extra={"decides": ["problems", "answers", "evaluation"]},
    )
    lenient_answers: bool = Field(
        default=True,
        description="Also score an answer without its wrapping (a code fence, `\\boxed{}`, bold), and in the form of "
        "the right answer if both say the same (`161.0` for 161, a board in another layout).",
        json_schema_extra={"decides": ["answers", "evaluation"]},
    )
    exclude_gameable: bool = Field(
        default=True,
        description="Do not train on tasks that still give credit for meaningless answers, unless `tasks` names them.",
        json_schema_extra={"decides": ["problems"]},
    )

    eval_preset: Literal["rg-easy", "rg-hard"] | None = Field(
        default=None,
        description="Evaluate by the protocol of the Reasoning Gym paper, beside its published models: the paper's "
        "problems, prompt and token budget, and 50 problems a task unless `num_eval_samples_per_task` is set.",
        json_schema_extra={"decides": ["problems"]},
    )
    eval_tasks: NameList = Field(
        default_factory=list,
        description="Tasks to evaluate on, written as in `tasks`. Empty: the selected tasks.",
        json_schema_extra={"decides": ["problems"]},
    )
    num_eval_samples_per_task: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Evaluation problems per task. None: 5, or the number of the preset's protocol.",
        json_schema_extra={"decides": ["problems", "evaluation"]},
    )
    num_eval_tasks: int = Field(
        default=-1,
        ge=-1,
        description="Number of evaluation tasks, spread evenly by name; -1 for all.",
        json_schema_extra={"decides": ["problems"]},
    )
    eval_repeats: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Completions of each evaluation problem. None: 1, or the number of the preset's protocol.",
        json_schema_extra={"decides": ["evaluation"]},
    )
    eval_level: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Level of difficulty of evaluation problems, from 0 to 1. None: the library's defaults.",
        json_schema_extra={"decides": ["problems", "evaluation"]},
    )
    eval_params: Literal["library", "training"] = Field(
        default="library",
        description="Parameters of evaluation problems: the library's defaults, or `task_params` as in training.",
        json_schema_extra={"decides": ["problems", "evaluation"]},
    )
    eval_seed: int = Field(
        default=123,
        ge=0,
        description="Seed of the evaluation set.",
        json_schema_extra={"decides": ["problems", "evaluation"]},
    )
    eval_temperature: float = Field(
        default=0.6,
        ge=0.0,
        le=2.0,
        description="Sampling temperature in evaluation.",
        json_schema_extra={"decides": ["evaluation"]},
    )
    eval_top_p: float = Field(
        default=0.95,
        gt=0.0,
        le=1.0,
        description="Nucleus sampling threshold in evaluation.",
        json_schema_extra={"decides": ["evaluation"]},
    )
    eval_max_completion_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Most tokens of a completion in evaluation, however long the prompt is. None: the tokens that "
        "`max_token_length` leaves, or the preset's 32,768.",
        json_schema_extra={"decides": ["evaluation"]},
    )

    num_generators: int = Field(default=2, ge=1, le=256, description="Processes that generate problems.")
    num_verifiers: int = Field(default=2, ge=1, le=256, description="Processes that score answers.")
    prefetch_problems: int = Field(default=128, ge=1, le=100_000, description="Problems kept ready ahead of demand.")
    fast_generators: bool = Field(
        default=True,
        description="Generate the same problems faster, if the version of the library is a known one.",
    )
    generation_deadline_s: float = Field(
        default=10.0, gt=0.0, le=3600.0, description="Seconds for the generation of a training problem."
    )
    eval_generation_deadline_s: float = Field(
        default=60.0,
        gt=0.0,
        le=3600.0,
        description="Seconds for the generation of an evaluation problem; many, for slow machines to get the same set.",
    )
    reference_deadline_s: float = Field(
        default=5.0,
        gt=0.0,
        le=3600.0,
        description="Seconds of processor time for the generation of a problem from its reference, which may come from "
        "a stranger.",
    )
    scoring_deadline_s: float = Field(
        default=5.0,
        gt=0.0,
        le=3600.0,
        description="Seconds of processor time for the scoring of one answer. An answer that takes longer scores 0.",
        json_schema_extra={"decides": ["answers", "evaluation"]},
    )
    scoring_budget_s: float | None = Field(
        default=None,
        gt=0.0,
        le=86_400.0,
        description="Seconds of processor time for the scoring of a group. A group that takes longer is dropped and "
        "counted, never scored 0. None: four times `scoring_deadline_s`.",
    )
    sandbox_verifiers: bool = Field(
        default=True,
        description="Deny verifier workers files, network and processes, as far as the operating system can.",
    )
    worker_memory_mb: int = Field(
        default=1024,
        ge=512,
        le=1_048_576,
        description="Address space of a worker process, in megabytes; what `task_modules` take at import is added.",
    )
    worker_niceness: int = Field(
        default=3,
        ge=0,
        le=19,
        description="Niceness of workers: how far they give way to the main process and its event loop.",
    )
    worker_start_timeout_s: float = Field(
        default=300.0,
        gt=0.0,
        le=3600.0,
        description="Seconds for the worker processes to import the library.",
    )
    quarantine_after_failures: int = Field(
        default=3, ge=1, le=1000, description="Failed generations in a row after which a task is no longer drawn."
    )

    dump_rollouts: bool = Field(
        default=False, description="Write groups with a score above `rollout_save_score_threshold` to `data_dumps_dir`."
    )
    dump_failed_rollouts: bool = Field(
        default=False, description="Write groups whose scores are all 0 to `data_dumps_dir`."
    )
    rollout_save_score_threshold: float = Field(
        default=0.7, ge=0.0, le=1.0, description="`dump_rollouts` writes groups with a score above this threshold."
    )
    data_dumps_dir: str | None = Field(
        default=None,
        description="Folder of the dumps. None: `data_dumps/` beside the module, or in the working directory if the "
        "module is installed.",
    )

    max_failed_groups_in_a_row: int = Field(
        default=8,
        ge=1,
        le=100_000,
        description="`process` and evaluations end with an error after this many failed groups in a row.",
    )

    @field_validator(
        "complexity_mode",
        "complexity_level",
        "checkout",
        "eval_preset",
        "eval_repeats",
        "eval_level",
        "data_dumps_dir",
        "num_eval_samples_per_task",
        "eval_max_completion_tokens",
        mode="before",
    )
    @classmethod
    def _accept_none_as_text(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().lower() in ("", "none", "null") else value

    @model_validator(mode="after")
    def _check_difficulty_and_sampling(self) -> ReasoningSettings:
        if self.complexity_mode is not None and self.complexity_level is not None:
            raise ConfigError(
                "sets the level of each problem itself",
                setting="complexity_mode",
                remedy="take it or {complexity_level} out",
            )
        if self.eval_preset is not None and self.eval_level is not None:
            raise ConfigError(
                "sets the parameters of its tasks itself", setting="eval_preset", remedy="take it or {eval_level} out"
            )
        if self.eval_preset is not None and self.eval_params == "training":
            raise ConfigError(
                "sets the parameters of its tasks itself", setting="eval_preset", remedy="take it or {eval_params} out"
            )
        if self.task_weights and self.task_sampling != "weighted":
            raise ConfigError(
                "have no effect without `task_sampling: weighted`",
                setting="task_weights",
                remedy="set {task_sampling}, or take the weights out",
            )
        return self


# ------------------------------------------------------------------ settings from what a user writes

Settings = TypeVar("Settings", bound=BaseModel)


def read_settings(owner: type, settings: object, fields: Mapping[str, object]) -> ReasoningSettings:
    """Return the settings that a caller of `owner` gave, as an object or as keywords `fields`.

    Raises ConfigError for an unknown keyword, for a value out of range, and for both forms at once.
    """
    if settings is not None and not isinstance(settings, ReasoningSettings):
        remedy = f"pass keywords, as in {owner.__name__}(tasks=['gcd'])"
        raise ConfigError("must be ReasoningSettings", setting="settings", got=settings, remedy=remedy)
    parameters = inspect.signature(owner).parameters
    for name in fields:
        if name not in ReasoningSettings.model_fields:
            nearest = did_you_mean(name, [*ReasoningSettings.model_fields, *parameters])
            raise ConfigError("there is no such setting", setting=name, remedy=nearest)
    if settings is not None and fields:
        raise ConfigError(
            f"{', '.join(fields)} cannot stand beside `settings`",
            remedy=f"pass them to ReasoningSettings, or pass keywords to {owner.__name__} alone",
        )
    return settings or make_settings(ReasoningSettings, fields)


def check_whole_number(name: str, value: object, least: int) -> None:
    """Raise ConfigError unless the argument is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError("must be a whole number", setting=name, got=value)
    if value < least:
        raise ConfigError(f"must be at least {least}", setting=name, got=value)


def make_settings(settings_cls: type[Settings], values: Mapping[Any, object], section: str = "") -> Settings:
    """Return settings with these values, which may be texts.

    Raises ConfigError in one line for unknown names and for values that the settings do not take. Settings are named
    with `section` in front (`env.`).
    """
    fields = settings_cls.model_fields
    for name in values:
        if name not in fields:
            remedy = did_you_mean(str(name), fields)
            raise ConfigError("there is no such setting", setting=f"{section}{name}", remedy=remedy)
        types = _alternatives(fields[name])
        if isinstance(values[name], bool) and bool not in types and not {int, float}.isdisjoint(types):
            # pydantic would read 0 or 1.
            kind = "a whole number" if int in types else "a number"
            raise ConfigError(f"must be {kind}", setting=f"{section}{name}", got=values[name])
    read = {name: _read_text(value, fields[name]) for name, value in values.items()}
    try:
        return settings_cls(**read)
    except ValidationError as error:
        raise _settings_error(error, fields, section) from error
    except ConfigError as error:  # of a class that raises its own errors, which name no section
        if isinstance(error.__cause__, ValidationError):
            raise _settings_error(error.__cause__, fields, section) from error
        raise


def _settings_error(error: ValidationError, fields: Mapping[str, FieldInfo], section: str) -> ConfigError:
    """Return the mistakes that pydantic found as one error of ours."""
    mistakes = [_config_error(mistake, fields, section) for mistake in error.errors()]
    return mistakes[0] if len(mistakes) == 1 else SeveralConfigErrors(mistakes)


def _read_text(value: object, field: FieldInfo) -> object:
    """Read texts that pydantic refuses: `none` and `null` for optional settings, `1e6` for whole numbers."""
    if not isinstance(value, str):
        return value
    allowed = _alternatives(field)
    is_word = "'none'" in (field.description or "")  # `none` is a value of Atropos' `reasoning_effort`
    if value.lower() in ("none", "null") and type(None) in allowed and not (is_word and value.lower() == "none"):
        return None
    if int in allowed and re.fullmatch(r"\d+(?:\.\d*)?[eE]\+?\d+", value) and float(value).is_integer():
        return int(float(value))
    return value


def _config_error(mistake: ErrorDetails, fields: Mapping[str, FieldInfo], section: str) -> ConfigError:
    """Return a mistake that pydantic found as an error of ours."""
    cause = mistake.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):  # of a check of several settings
        return cause
    name, *entry = mistake["loc"]
    if mistake["type"] == "extra_forbidden":
        remedy = did_you_mean(str(name), fields)
        return ConfigError("there is no such setting", setting=f"{section}{name}", remedy=remedy)
    problem = str(cause) if cause is not None else _expected(mistake, fields[str(name)])
    if entry and entry[-1] == "[key]":
        return ConfigError(f"{problem}, as every name", setting=f"{section}{name}", got=mistake["input"])
    if entry:
        problem = f"entry {'.'.join(map(repr, entry))} {problem}"
    got = NOTHING if name == "api_key" else mistake["input"]  # a key stays out of the message
    return ConfigError(problem, setting=f"{section}{name}", got=got)


def _expected(mistake: ErrorDetails, field: FieldInfo) -> str:
    """Return what would have been right."""
    limits = mistake.get("ctx", {})
    if mistake["input"] != mistake["input"] or str(mistake["input"]).strip().lower() in ("nan", "inf", "-inf"):
        return "must be a number"
    match mistake["type"]:
        case "greater_than_equal":
            return f"must be at least {limits['ge']:g}"
        case "greater_than":
            return f"must be above {limits['gt']:g}"
        case "less_than_equal":
            return f"must be at most {limits['le']:g}"
        case "less_than":
            return f"must be below {limits['lt']:g}"
        case "literal_error" | "enum":
            return f"must be one of {', '.join(map(repr, _choices(field)))}"
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return "must be a whole number"
        case "float_parsing" | "float_type" | "finite_number":
            return "must be a number"
        case "bool_parsing" | "bool_type":
            return "must be true or false"
        case "string_type":
            return "must be a text"
        case "list_type":
            return "must be a list"
        case "dict_type" | "model_type":
            return "must be a mapping of names to values"
        case _:
            return mistake["msg"]


def _alternatives(field: FieldInfo) -> tuple[Any, ...]:
    """Return the types that a setting takes: `int` and `NoneType` for `int | None`."""
    is_union = get_origin(field.annotation) in (Union, UnionType)
    return get_args(field.annotation) if is_union else (field.annotation,)


def _choices(field: FieldInfo) -> list[str]:
    """Return the words that a setting takes; empty where it takes something else."""
    choices: list[str] = []
    for annotation in _alternatives(field):
        if get_origin(annotation) is Literal:
            choices += map(str, get_args(annotation))
        elif isinstance(annotation, type) and issubclass(annotation, Enum):
            choices += [str(choice.value) for choice in annotation]
    return choices


# ------------------------------------------------------------------ facts about settings

Decided = Literal["problems", "answers", "evaluation"]


def decides(field: FieldInfo, part: Decided) -> bool:
    """Tell whether a setting decides the problems, the answers or the figures of an evaluation."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and part in extra.get("decides", [])  # type: ignore[operator]


def fingerprint(settings: ReasoningSettings, *parts: Decided) -> dict[str, Any]:
    """Return the settings that decide one of the parts, by name; values are as JSON reads them back."""
    fields = ReasoningSettings.model_fields
    names = [name for name, field in fields.items() if any(decides(field, part) for part in parts)]
    return dict(json.loads(json.dumps({name: getattr(settings, name) for name in names})))


def default_text(field: FieldInfo) -> str:
    """Return the default in words; long texts and empty values are described."""
    value: Any = field.get_default(call_default_factory=True, validated_data={})
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
    words += _choices(field)
    return ", ".join(words)

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
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from ..errors import ConfigError, did_you_mean
from .given import make_settings, read_none, settings_error
from .yaml_text import parse_mapping, parse_options

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


def _split_names(value: object) -> object:
    """Accept "a, b" for ["a", "b"]; raises ValueError for commas without a name."""
    if not isinstance(value, str):
        return value
    names = [name.strip() for name in value.split(",") if name.strip()]
    if not names and value.strip():
        raise ValueError("must hold at least one name")
    return names


NameList = Annotated[list[str], BeforeValidator(_split_names)]
Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Weights = Annotated[dict[str, Weight], BeforeValidator(parse_mapping)]
TemplateOptions = Annotated[dict[str, Any], BeforeValidator(parse_options)]
TaskParams = Annotated[dict[str, dict[str, Any]], BeforeValidator(parse_mapping)]


class ReasoningSettings(BaseModel):
    """Settings of tasks, workers, scoring and evaluation.

    Unknown names and values out of range raise ConfigError in one line. The config of `ReasoningGymEnv` is a subclass.
    """

    model_config = ConfigDict(extra="forbid")

    with_word_none: ClassVar[frozenset[str]] = frozenset()
    """Settings for which `none` is a word of its own, and not None."""

    if not TYPE_CHECKING:  # a type checker takes the fields as the arguments

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise settings_error(error, type(self).model_fields, section="") from error

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
    min_completion_tokens: int = Field(
        default=64,
        ge=1,
        description="Fewest tokens for a completion. Problems whose prompt leaves fewer are skipped and counted.",
        json_schema_extra={"decides": ["answers", "evaluation"]},
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
        description="Correct the library: verifiers that give credit for meaningless answers, wrong answers, and "
        "ambiguous questions. Off: the library's own questions, answers and scores count.",
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
        description="Niceness of workers: a higher value leaves more CPU time to the main process.",
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

    max_failed_groups_in_a_row: int = Field(
        default=8,
        ge=1,
        le=100_000,
        description="`process` and evaluations end with an error after this many failed groups in a row.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read_none(cls, value: object, about: ValidationInfo) -> object:
        """Read `none`, `null` and an empty text as None, for settings that may be None."""
        name = str(about.field_name)
        return value if name in cls.with_word_none else read_none(value, cls.model_fields[name], ("none", "null", ""))

    @model_validator(mode="after")
    def _check_difficulty_and_sampling(self) -> ReasoningSettings:
        if self.complexity_mode is not None and self.complexity_level is not None:
            raise ConfigError(
                "sets the level of each problem itself",
                setting="complexity_mode",
                remedy="remove {complexity_mode} or {complexity_level}",
            )
        if self.eval_preset is not None and self.eval_level is not None:
            raise ConfigError(
                "sets the parameters of its tasks itself",
                setting="eval_preset",
                remedy="remove {eval_preset} or {eval_level}",
            )
        if self.eval_preset is not None and self.eval_params == "training":
            raise ConfigError(
                "sets the parameters of its tasks itself",
                setting="eval_preset",
                remedy="remove {eval_preset} or {eval_params}",
            )
        if self.task_weights and self.task_sampling != "weighted":
            raise ConfigError(
                "have no effect without `task_sampling: weighted`",
                setting="task_weights",
                remedy="set {task_sampling}, or take the weights out",
            )
        return self


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
            f"{', '.join(fields)} cannot be combined with `settings`",
            remedy=f"pass them to ReasoningSettings, or pass keywords to {owner.__name__} alone",
        )
    return settings or make_settings(ReasoningSettings, fields)


# ------------------------------------------------------------------ facts about settings

Decided = Literal["problems", "answers", "evaluation"]


def decides(field: FieldInfo, part: Decided) -> bool:
    """Tell whether a setting decides the problems, the answers or the figures of an evaluation."""
    extra = field.json_schema_extra
    return isinstance(extra, dict) and part in extra.get("decides", [])  # type: ignore[operator]


def fingerprint(settings: ReasoningSettings, *parts: Decided) -> dict[str, Any]:
    """Return the settings that decide one of the parts, those of a subclass too; values are as JSON reads them back."""
    fields = type(settings).model_fields
    names = [name for name, field in fields.items() if any(decides(field, part) for part in parts)]
    return dict(json.loads(json.dumps({name: getattr(settings, name) for name in names})))

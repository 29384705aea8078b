"""All settings that do not depend on Atropos, with default, description and range.

A field's description is the string below it. Every field also accepts a string, as on the command line (`given.py`).
`Affects` marks what a field affects:

- `problems`: which problems are drawn. Training excludes the evaluation set, so the set's settings belong here.
- `answers`: what completions look like, and their rewards
- `evaluation`: the scores of an evaluation

A run resumes another run's state only if both have the same `fingerprint`, unless `resume_with_changes` is on.
`UsedBy` marks a field that only some commands use.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

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

from ..errors import ConfigError
from .cores import default_workers
from .given import drop_unused, make_settings, parse_mapping, parse_options, raise_all, read_none, settings_error
from .removed import REMOVED, UNUSED, current_settings, unknown_setting

SYSTEM_PROMPT = """\
You solve reasoning problems. Work the problem out step by step first, and put all of that work between <think> and \
</think>. After it, state your final answer exactly once, between <answer> and </answer>: the bare answer, in the form \
that the question asks for.

For example, this is a whole reply to the problem "Ada, Beatrice and Carl stand in a row. Ada is left of Carl, and \
Beatrice is left of Ada. Who stands on the left?":

<think>Carl is right of Ada, so he is not on the left. Ada is right of Beatrice, so she is not on the left. That \
leaves Beatrice.</think>
<answer>Beatrice</answer>"""
"""The example at the end is not a problem of any task, and its answer is not right for any problem of a task."""
# An earlier prompt had prohibitions instead of the example. A 0.5B instruct model copied them in 16 of 40 replies.

NATIVE_SYSTEM_PROMPT = """\
You solve reasoning problems. Work the problem out step by step first. Then, in your reply, state your final answer \
exactly once, between <answer> and </answer>: the bare answer, in the form that the question asks for.

For example, after your work, this is a whole reply to the problem "Ada, Beatrice and Carl stand in a row. Ada is left \
of Carl, and Beatrice is left of Ada. Who stands on the left?":

<answer>Beatrice</answer>"""
"""The default system prompt for models whose thinking is not in <think> tags."""


def _split_names(value: object) -> object:
    """Accept "a, b" for ["a", "b"]; raises ValueError for commas without names."""
    if not isinstance(value, str):
        return value
    names = [name.strip() for name in value.split(",") if name.strip()]
    if not names and value.strip():
        raise ValueError("must contain at least one name")
    return names


def _read_level(value: object) -> object:
    """Accept a number from 0 to 1, or `training`. Raises ValueError for other values."""
    if value in (None, "training"):
        return value
    with suppress(TypeError, ValueError):
        if not isinstance(value, bool) and 0.0 <= (level := float(value)) <= 1.0:  # type: ignore[arg-type]
            return level
    raise ValueError("must be a number from 0 to 1, or `training`")


Decided = Literal["problems", "answers", "evaluation"]


class Affects:
    """Mark a setting that affects these `parts`: a run's problems, its answers, or an evaluation's scores."""

    def __init__(self, *parts: Decided) -> None:
        self.parts = parts


CommandName = Literal[
    "serve", "process", "evaluate", "problems", "problems --evaluation", "judge", "rescore", "score", "tasks", "audit"
]
"""The commands that read settings. "problems" means `problems --count`, which generates training problems."""


class UsedBy:
    """Mark a setting that only the named commands use. Other commands ignore the setting, with a warning."""

    def __init__(self, *commands: CommandName) -> None:
        self.commands = commands


_IN_TRAINING = UsedBy("serve", "process", "problems")
"""Marks settings used only by commands that generate training problems."""
_WITH_EVALUATION_SET = UsedBy("serve", "process", "evaluate", "problems", "problems --evaluation")
"""Marks settings of commands that use the evaluation set, or exclude its questions from training."""
_IN_EVALUATION = UsedBy("serve", "evaluate")
"""Marks settings of commands that evaluate a model."""
_IN_PROMPTS = UsedBy("serve", "process", "evaluate", "problems", "problems --evaluation", "score", "tasks")
"""Marks settings of commands that make prompts."""
_IN_PROMPTS_AND_ANSWERS = UsedBy(*_IN_PROMPTS.commands, "judge", "rescore")
"""Marks settings of commands that make prompts or score completions."""


def has_effect_on(field: FieldInfo, part: Decided) -> bool:
    """Return True if a setting affects `part`: a run's problems, its answers, or an evaluation's scores."""
    return any(isinstance(mark, Affects) and part in mark.parts for mark in field.metadata)


Rewards = Literal["strict", "plain", "library"]
NameList = Annotated[list[str], BeforeValidator(_split_names)]
Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Weights = Annotated[dict[str, Weight], BeforeValidator(parse_mapping)]
TemplateOptions = Annotated[dict[str, object], BeforeValidator(parse_options)]
TaskParams = Annotated[dict[str, dict[str, object]], BeforeValidator(parse_mapping)]


class ReasoningSettings(BaseModel):
    """Settings of tasks, workers, scoring and evaluation.

    Unknown names and values out of range raise ConfigError. The config of `ReasoningGymEnv` is a subclass.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    with_word_none: ClassVar[frozenset[str]] = frozenset()
    """Settings for which the string `none` is a value and does not mean None."""

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**drop_unused(values))
            except ValidationError as error:
                raise settings_error(error, type(self).model_fields, section="") from error

    tasks: Annotated[NameList, Affects("problems")] = []
    """Tasks to train and evaluate on: names, globs (`*_sorting`) or categories (`games`, `games/*`), as a list or
    separated by commas. Empty or `all`: every task."""
    exclude_tasks: Annotated[NameList, Affects("problems")] = []
    """Tasks to exclude from `tasks`: names, globs or categories."""
    task_modules: NameList = []
    """Modules with your own tasks: importable names, or paths of `.py` files. Only worker processes import them."""
    checkout: str | None = None
    """Folder (such as a clone) whose `reasoning_gym` package is used instead of the installed package."""
    task_weights: Annotated[Weights, Affects("problems"), _IN_TRAINING] = {}
    """Weights for `task_sampling: weighted`, by name, glob or category: `games/*=2, gcd=0.5`. The default is 1."""
    task_params: Annotated[TaskParams, Affects("problems")] = {}
    """Parameters of reasoning-gym's task configs, by name, glob or category: `{chain_sum: {min_terms: 4, max_digits:
    6}}`."""
    task_sampling: Annotated[Literal["uniform", "weighted", "adaptive"], Affects("problems"), _IN_TRAINING] = "uniform"
    """How to choose tasks. `uniform`: equally often. `weighted`: by `task_weights`. `adaptive`: prefer tasks in
    which the scores within a group differ."""
    complexity_mode: Annotated[Literal["random", "curriculum"] | None, Affects("problems"), _IN_TRAINING] = None
    """How to choose the level of training problems. `random`: a random level for each problem. `curriculum`: for each
    task, the level at which the model reaches `curriculum_target_accuracy`. None: `complexity_level` if set, else
    reasoning-gym's defaults."""
    complexity_level: Annotated[float | None, Field(ge=0.0, le=1.0), Affects("problems"), _WITH_EVALUATION_SET] = None
    """Fixed level of difficulty of training problems, from 0 to 1."""
    curriculum_target_accuracy: Annotated[
        float, Field(ge=0.05, le=0.95), Affects("problems"), UsedBy("serve", "process")
    ] = 0.7
    """Share of right answers that the curriculum aims at in each task."""
    seed: Annotated[int, Field(ge=0), Affects("problems"), _IN_TRAINING] = 42
    """Seed of the training problems. The same seed gives the same problems."""
    system_prompt: Annotated[str, Affects("answers", "evaluation"), _IN_PROMPTS] = SYSTEM_PROMPT
    """System message. Empty: send the question without a system message."""
    thinking: Annotated[
        Literal[
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
        ],
        Affects("answers", "evaluation"),
        _IN_PROMPTS_AND_ANSWERS,
    ] = "auto"
    """Format of the model's thinking; answers inside the thinking are ignored. `auto`: `<think>` tags, and the formats
    found in the tokenizer or its chat template."""

    rewards: Annotated[Rewards, Affects("problems", "answers", "evaluation")] = "strict"
    """Problems and verifiers to use. `strict`: corrected verifiers and answers, ambiguous questions clarified, flawed
    problems skipped. `plain`: the problems of `strict`, scored by reasoning-gym's own verifiers. `library`:
    reasoning-gym's problems and verifiers without any change, for comparisons."""

    eval_preset: Annotated[Literal["rg-easy", "rg-hard"] | None, Affects("problems"), _WITH_EVALUATION_SET] = None
    """Evaluate with the tasks, prompt and token limit of the Reasoning Gym paper, to compare with its published
    scores."""
    eval_tasks: Annotated[NameList, Affects("problems"), _WITH_EVALUATION_SET] = []
    """Tasks to evaluate on, in the same form as `tasks`. Empty: use `tasks`."""
    num_eval_samples_per_task: Annotated[
        int | None, Field(ge=1, le=100_000), Affects("problems", "evaluation"), _WITH_EVALUATION_SET
    ] = None
    """Evaluation problems per task. None: 5, or 50 with `eval_preset`."""
    eval_repeats: Annotated[int | None, Field(ge=1, le=1000), Affects("evaluation"), _IN_EVALUATION] = None
    """Completions per evaluation problem. None: 1 or, with `eval_preset`, as many as in the Reasoning Gym paper."""
    eval_level: Annotated[
        float | Literal["training"] | None,
        BeforeValidator(_read_level),
        Affects("problems", "evaluation"),
        _WITH_EVALUATION_SET,
    ] = None
    """Level of difficulty of evaluation problems, from 0 to 1. `training`: use `task_params` and `complexity_level`, as
    in training. None: reasoning-gym's defaults."""
    eval_seed: Annotated[int, Field(ge=0), Affects("problems", "evaluation"), _WITH_EVALUATION_SET] = 123
    """Seed of the evaluation set."""
    eval_temperature: Annotated[float, Field(ge=0.0, le=2.0), Affects("evaluation"), _IN_EVALUATION] = 0.6
    """Sampling temperature in evaluations."""
    eval_max_completion_tokens: Annotated[int | None, Field(ge=1), Affects("evaluation"), _IN_EVALUATION] = None
    """Maximum tokens per completion in evaluations. None: 32,768 with `eval_preset`, otherwise limited
    by `max_token_length`."""

    num_generators: Annotated[int | None, Field(ge=1, le=256)] = None
    """Number of processes that generate problems. None: half of the available cores, at least 2 and at most 8."""
    num_verifiers: Annotated[int | None, Field(ge=1, le=256)] = None
    """Number of processes that score answers. None: half of the available cores, at least 2 and at most 8."""
    scoring_deadline_s: Annotated[float, Field(gt=0.0, le=3600.0), Affects("answers", "evaluation")] = 5.0
    """CPU time limit for scoring one answer, in seconds. An answer that takes longer scores 0. All answers of a
    group together may take 4 times this limit; a slower group is dropped. In wall-clock time, generating a training
    problem may take 2 times this limit, and generating an evaluation problem 12 times."""
    sandbox_verifiers: bool = True
    """Deny verifier workers access to files, network and processes, as far as the operating system allows."""
    worker_memory_mb: Annotated[int, Field(ge=512, le=1_048_576)] = 1024
    """Limit for the address space of a worker process, in megabytes. The size of your imported modules is added."""

    @property
    def generators(self) -> int:
        """Number of processes that generate problems."""
        return self.num_generators or default_workers()

    @property
    def verifiers(self) -> int:
        """Number of processes that score answers."""
        return self.num_verifiers or default_workers()

    @property
    def evaluation_level(self) -> float | None:
        """Level of evaluation problems; None for the library's defaults."""
        return self.complexity_level if self.eval_level == "training" else self.eval_level

    @property
    def scoring_budget_s(self) -> float:
        """CPU time limit for scoring a group, in seconds."""
        return 4 * self.scoring_deadline_s

    @property
    def reference_deadline_s(self) -> float:
        """Limit in CPU seconds for generating a problem from a reference; low, because anybody can send references."""
        return self.scoring_deadline_s

    @property
    def generation_deadline_s(self) -> float:
        """Wall-clock limit for generating a training problem, in seconds."""
        return 2 * self.scoring_deadline_s

    @property
    def eval_generation_deadline_s(self) -> float:
        """Wall-clock limit for generating an evaluation problem, in seconds; high enough for slow machines."""
        return 12 * self.scoring_deadline_s

    @field_validator("*", mode="before")
    @classmethod
    def _read_none(cls, value: object, about: ValidationInfo) -> object:
        """Read `none`, `null` and the empty string as None, for settings that may be None."""
        name = str(about.field_name)
        return value if name in cls.with_word_none else read_none(value, cls.model_fields[name], ("none", "null", ""))

    @model_validator(mode="after")
    def _check_difficulty_and_sampling(self) -> ReasoningSettings:
        if self.complexity_mode is not None and self.complexity_level is not None:
            raise ConfigError(
                "cannot be combined with a fixed level, because the mode sets the level of each problem",
                setting="complexity_mode",
                remedy="remove {complexity_mode} or {complexity_level}",
            )
        if self.eval_preset is not None and self.eval_level is not None:
            raise ConfigError(
                "cannot be combined with eval_level, because the preset sets the parameters of its tasks",
                setting="eval_preset",
                remedy="remove {eval_preset} or {eval_level}",
            )
        if self.task_weights and self.task_sampling != "weighted":
            raise ConfigError(
                "have no effect without `task_sampling: weighted`",
                setting="task_weights",
                remedy="set {task_sampling} to weighted, or remove {task_weights}",
            )
        return self


def read_settings(owner: type, settings: object, fields: Mapping[str, object]) -> ReasoningSettings:
    """Return the settings that a caller passed to the class `owner`: the object `settings`, or the keywords `fields`.

    Raises ConfigError for an unknown keyword, for a value out of range, and if both object and keywords were passed.
    """
    if settings is not None and not isinstance(settings, ReasoningSettings):
        remedy = f"pass keywords, as in {owner.__name__}(tasks=['gcd'])"
        raise ConfigError("must be a ReasoningSettings object", setting="settings", got=settings, remedy=remedy)
    parameters = inspect.signature(owner).parameters
    known = ReasoningSettings.model_fields
    raise_all(
        [unknown_setting(name, [*known, *parameters]) for name in fields if name not in known and name not in UNUSED]
    )
    if settings is not None and fields:
        raise ConfigError(
            f"{', '.join(fields)} cannot be combined with `settings`",
            remedy=f"pass all settings to ReasoningSettings, or all as keywords to {owner.__name__}",
        )
    return settings or make_settings(ReasoningSettings, fields)


def fingerprint(settings: ReasoningSettings, *parts: Decided) -> dict[str, object]:
    """Return the settings that affect at least one of `parts` (see `Affects`), by name, as JSON values."""
    fields = type(settings).model_fields
    names = [name for name, field in fields.items() if any(has_effect_on(field, part) for part in parts)]
    return dict(json.loads(json.dumps({name: getattr(settings, name) for name in names})))


def changed_settings(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the names of the settings whose values differ between `before` and `now`.

    `before` has values that were read from JSON. A setting missing in `before` counts as None. Unknown names in
    `before` are ignored. For settings that were removed from this program, see `current_settings`.
    """
    as_read: dict[str, object] = json.loads(json.dumps(now))
    stored = current_settings(before)
    changed = [name for name, value in as_read.items() if stored.get(name) != value]
    return [*changed, *sorted(stored.keys() & REMOVED.keys())]

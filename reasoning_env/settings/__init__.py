"""Every setting of the core, with default, description and range. The adapter's settings are in `atropos/config.py`.

`given.py` reads what a user gives for settings. A field's description is the text below it. A value may be a text, as
on the command line: each field parses the text that its description shows. `Decides` names what a field decides:

- `problems`: the problems that are drawn, the evaluation set included, since training leaves its questions out
- `answers`: what completions look like and earn
- `evaluation`: the figures of an evaluation

A run resumes the state of another run only if both have the same `fingerprint`.
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
from .given import make_settings, parse_mapping, parse_options, raise_all, read_none, settings_error, without_unused
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
"""The default ends with an example of another problem, which no task has, with an answer that no task pays. A real
instruct model of 0.5B repeated the prohibitions that stood there before in 16 of 40 replies."""

NATIVE_SYSTEM_PROMPT = """\
You solve reasoning problems. Work the problem out step by step first. Then, in your reply, state your final answer \
exactly once, between <answer> and </answer>: the bare answer, in the form that the question asks for.

For example, after your work, this is a whole reply to the problem "Ada, Beatrice and Carl stand in a row. Ada is left \
of Carl, and Beatrice is left of Ada. Who stands on the left?":

<answer>Beatrice</answer>"""
"""The default for models that think in another format than <think> tags."""


def _split_names(value: object) -> object:
    """Accept "a, b" for ["a", "b"]; raises ValueError for commas without a name."""
    if not isinstance(value, str):
        return value
    names = [name.strip() for name in value.split(",") if name.strip()]
    if not names and value.strip():
        raise ValueError("must hold at least one name")
    return names


def _read_level(value: object) -> object:
    """Accept a number from 0 to 1, and `training`. Raises ValueError for other values."""
    if value in (None, "training"):
        return value
    with suppress(TypeError, ValueError):
        if not isinstance(value, bool) and 0.0 <= (level := float(value)) <= 1.0:  # type: ignore[arg-type]
            return level
    raise ValueError("must be a number from 0 to 1, or `training`")


Decided = Literal["problems", "answers", "evaluation"]


class Decides:
    """Marks a setting that decides parts of a run."""

    def __init__(self, *parts: Decided) -> None:
        self.parts = parts


def decides(field: FieldInfo, part: Decided) -> bool:
    """Tell whether a setting decides the problems, the answers or the figures of an evaluation."""
    return any(isinstance(mark, Decides) and part in mark.parts for mark in field.metadata)


Rewards = Literal["strict", "plain", "library"]
NameList = Annotated[list[str], BeforeValidator(_split_names)]
Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Weights = Annotated[dict[str, Weight], BeforeValidator(parse_mapping)]
TemplateOptions = Annotated[dict[str, object], BeforeValidator(parse_options)]
TaskParams = Annotated[dict[str, dict[str, object]], BeforeValidator(parse_mapping)]


class ReasoningSettings(BaseModel):
    """Settings of tasks, workers, scoring and evaluation.

    Unknown names and values out of range raise ConfigError in one line. The config of `ReasoningGymEnv` is a subclass.
    """

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    with_word_none: ClassVar[frozenset[str]] = frozenset()
    """Settings for which `none` is a word of its own, and not None."""

    if not TYPE_CHECKING:  # a type checker takes the fields as the arguments

        def __init__(self, **values: object) -> None:
            try:
                super().__init__(**without_unused(values))
            except ValidationError as error:
                raise settings_error(error, type(self).model_fields, section="") from error

    tasks: Annotated[NameList, Decides("problems")] = []
    """Tasks to train and evaluate on: names, globs (`*_sorting`) or categories (`games`, `games/*`), as a list or
    joined by commas. Empty or `all`: every task."""
    exclude_tasks: Annotated[NameList, Decides("problems")] = []
    """Tasks to leave out of `tasks`: names, globs or categories."""
    task_modules: NameList = []
    """Modules that add your own tasks: names that Python can import, or paths of `.py` files, whose code calls
    reasoning-gym's `register_dataset`. Imported in worker processes only."""
    checkout: str | None = None
    """Folder with a `reasoning_gym` package, such as a clone or a fork, to use in place of the installed package."""
    task_weights: Annotated[Weights, Decides("problems")] = {}
    """Weights of tasks for `task_sampling: weighted`, by name, glob or category: `games/*=2, gcd=0.5`. Other tasks have
    the weight 1."""
    task_params: Annotated[TaskParams, Decides("problems")] = {}
    """Parameters of the library's own configs, by name, glob or category: `{chain_sum: {min_terms: 4, max_digits:
    6}}`."""
    task_sampling: Annotated[Literal["uniform", "weighted", "adaptive"], Decides("problems")] = "uniform"
    """How tasks are drawn: equally often, by `task_weights`, or more often if groups carry a signal."""
    complexity_mode: Annotated[Literal["random", "curriculum"] | None, Decides("problems")] = None
    """Level of difficulty of training problems: random for each problem, or following the learner. None:
    `complexity_level`, or the library's defaults."""
    complexity_level: Annotated[float | None, Field(ge=0.0, le=1.0), Decides("problems")] = None
    """Fixed level of difficulty of training problems, from 0 to 1."""
    curriculum_target_accuracy: Annotated[float, Field(ge=0.05, le=0.95), Decides("problems")] = 0.7
    """Share of right answers that the curriculum aims at, for each task."""
    seed: Annotated[int, Field(ge=0), Decides("problems")] = 42
    """Seed of the training stream. The same seed gives the same problems."""
    system_prompt: Annotated[str, Decides("answers", "evaluation")] = SYSTEM_PROMPT
    """System message. Empty: the question is sent alone."""
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
        Decides("answers", "evaluation"),
    ] = "auto"
    """Format of the model's thinking, in which no answer is looked for. `auto`: `<think>` tags, and the formats that
    the tokenizer or its chat template knows."""

    rewards: Annotated[Rewards, Decides("problems", "answers", "evaluation")] = "strict"
    """strict: corrected verifiers; wrong answers are corrected, ambiguous questions clarified, flawed problems not
    served. plain: the same problems, scored by the library's verifiers. library: the library's problems and scores as
    they are, for comparisons."""

    eval_preset: Annotated[Literal["rg-easy", "rg-hard"] | None, Decides("problems")] = None
    """Evaluate by the protocol of the Reasoning Gym paper, beside its published models: the paper's problems, prompt
    and token budget, and 50 problems a task unless `num_eval_samples_per_task` is set."""
    eval_tasks: Annotated[NameList, Decides("problems")] = []
    """Tasks to evaluate on, written as in `tasks`. Empty: the selected tasks."""
    num_eval_samples_per_task: Annotated[int | None, Field(ge=1, le=100_000), Decides("problems", "evaluation")] = None
    """Evaluation problems per task. None: 5, or the number of the preset's protocol."""
    eval_repeats: Annotated[int | None, Field(ge=1, le=1000), Decides("evaluation")] = None
    """Completions of each evaluation problem. None: 1, or the number of the preset's protocol."""
    eval_level: Annotated[
        float | Literal["training"] | None, BeforeValidator(_read_level), Decides("problems", "evaluation")
    ] = None
    """Level of difficulty of evaluation problems, from 0 to 1. `training`: `task_params` and `complexity_level`, as in
    training. None: the library's defaults."""
    eval_seed: Annotated[int, Field(ge=0), Decides("problems", "evaluation")] = 123
    """Seed of the evaluation set."""
    eval_temperature: Annotated[float, Field(ge=0.0, le=2.0), Decides("evaluation")] = 0.6
    """Sampling temperature in evaluation."""
    eval_max_completion_tokens: Annotated[int | None, Field(ge=1), Decides("evaluation")] = None
    """Most tokens of a completion in evaluation, however long the prompt is. None: the tokens that `max_token_length`
    leaves, or the preset's 32,768."""

    num_generators: Annotated[int | None, Field(ge=1, le=256)] = None
    """Processes that generate problems. None: half of the cores that the process may use, from 2 to 8."""
    num_verifiers: Annotated[int | None, Field(ge=1, le=256)] = None
    """Processes that score answers. None: half of the cores that the process may use, from 2 to 8."""
    scoring_deadline_s: Annotated[float, Field(gt=0.0, le=3600.0), Decides("answers", "evaluation")] = 5.0
    """Seconds of processor time for the scoring of one answer. An answer that takes longer scores 0. Other deadlines
    follow. A group of answers gets four times as long, and is then dropped and counted, never scored 0. The problem of
    a reference gets as long. By the clock, a training problem gets twice and an evaluation problem twelve times as
    long to be generated."""
    sandbox_verifiers: bool = True
    """Deny verifier workers files, network and processes, as far as the operating system can."""
    worker_memory_mb: Annotated[int, Field(ge=512, le=1_048_576)] = 1024
    """Address space of a worker process, in megabytes; what `task_modules` take at import is added."""

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
        """Seconds of processor time for the scoring of a group."""
        return 4 * self.scoring_deadline_s

    @property
    def reference_deadline_s(self) -> float:
        """Seconds of processor time to generate a problem from its reference, which may come from a stranger."""
        return self.scoring_deadline_s

    @property
    def generation_deadline_s(self) -> float:
        """Seconds to generate a training problem."""
        return 2 * self.scoring_deadline_s

    @property
    def eval_generation_deadline_s(self) -> float:
        """Seconds to generate an evaluation problem; many, so that slow machines get the same set."""
        return 12 * self.scoring_deadline_s

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
    known = ReasoningSettings.model_fields
    raise_all(
        [unknown_setting(name, [*known, *parameters]) for name in fields if name not in known and name not in UNUSED]
    )
    if settings is not None and fields:
        raise ConfigError(
            f"{', '.join(fields)} cannot be combined with `settings`",
            remedy=f"pass them to ReasoningSettings, or pass keywords to {owner.__name__} alone",
        )
    return settings or make_settings(ReasoningSettings, fields)


def fingerprint(settings: ReasoningSettings, *parts: Decided) -> dict[str, object]:
    """Return the settings that decide one of the parts, those of a subclass too; values are as JSON reads them back."""
    fields = type(settings).model_fields
    names = [name for name, field in fields.items() if any(decides(field, part) for part in parts)]
    return dict(json.loads(json.dumps({name: getattr(settings, name) for name in names})))


def changed_settings(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return the names of the settings that were others when something was made.

    A setting that was not there counts as None, and one that is no setting now decides nothing. Values are compared as
    JSON reads them back. Settings that were removed are read by their present names.
    """
    as_read: dict[str, object] = json.loads(json.dumps(now))
    stored = current_settings(before)
    changed = [name for name, value in as_read.items() if stored.get(name) != value]
    return [*changed, *sorted(stored.keys() & REMOVED.keys())]

"""Generate and score with reasoning-gym. Only this module imports it, and only in workers."""

from __future__ import annotations

import contextlib
import decimal
import importlib
import importlib.metadata
import json
import numbers
import pickle
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

from ..answers.scoring import Scorer
from ..problems.giving_up import MAX_REJECTED
from ..records import ProblemRequest
from ..runtime.text import encode_strictly, error_text, json_value
from ..seeds import follow_seed, hash_fraction
from ..sources.contract import Generated, Source, SourceTask
from ..sources.joined import JoinedSources
from ..sources.modules import TaskModule, import_task_modules
from ..tasks import COMPOSITE, TASKS, Task, find_task
from ..tasks.serving import Flaw, clarify, find_flaw, flaw_of_error, with_right_answer
from .clock import frozen_clock
from .datasets import DatasetCache
from .levels import DifficultyMap, Resolved


class Library(Source):
    """The imported library with its caches; one per worker process.

    `rewards` has the value of the setting `rewards`, and can be changed later. With "strict", verifiers that reward
    wrong answers are corrected. With "library", problems and scores are the library's own.

    The constructor raises any error that occurs while it imports reasoning_gym and reads the registry of tasks.
    """

    def __init__(self, checkout: str | None) -> None:
        if checkout is not None:
            sys.path.insert(0, checkout)
        self._from_checkout = checkout is not None
        self.rewards = "strict"
        with without_plotting():
            self.module: ModuleType = importlib.import_module("reasoning_gym")
        self.warnings: list[str] = []
        self._modules: dict[str, TaskModule] = {}
        self.read_paths = [self.path]
        """Paths that verifier workers may read: those of the library and of the modules with tasks."""
        sort_fonts()
        self._factory: ModuleType = importlib.import_module("reasoning_gym.factory")
        registered = sorted(self._factory.DATASETS.items())
        categories = {str(name): _category(classes[0].__module__) for name, classes in registered}
        self._difficulty = DifficultyMap.from_factory(self._factory)
        self._tasks = self._describe_tasks(categories)
        self._datasets = DatasetCache(self.module)

    @property
    def tasks(self) -> Mapping[str, SourceTask]:
        return self._tasks

    def add_modules(
        self, entries: Sequence[str], folder: str | None = None, announce: Callable[[str], None] = lambda entry: None
    ) -> Source:
        """Import modules that register tasks. Return a source with the tasks of the library and of the modules.

        Arguments and errors are those of `import_task_modules`.
        """
        if not entries:
            return self
        imported = import_task_modules(entries, self._factory.DATASETS, folder, announce)
        self._modules |= imported.modules
        self.read_paths += sorted(imported.read_paths)
        self._difficulty = DifficultyMap.from_factory(self._factory)
        self._tasks |= self._describe_tasks({task: module.name for task, module in self._modules.items()})
        return JoinedSources(self, imported.sources) if imported.sources else self

    @property
    def path(self) -> str:
        return str(Path(str(self.module.__file__)).parent)

    @cached_property
    def version(self) -> str:
        """The version of the installed distribution, because the module's own `__version__` is out of date."""
        if not self._from_checkout:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                return importlib.metadata.version("reasoning-gym")
        return str(getattr(self.module, "__version__", "unknown"))

    @property
    def system_prompt(self) -> str:
        """The system message of the library's own evaluation; empty if there is none."""
        prompts = getattr(sys.modules.get("reasoning_gym.utils"), "SYSTEM_PROMPTS", {})
        return str(prompts.get("default", "")) if isinstance(prompts, dict) else ""

    def check(self, task: str, params: Mapping[str, object], level: float | None) -> str | None:
        """Return an error message for a task's parameters, or None if they are valid. Level None means the defaults.

        Parameters are valid if the library's config accepts them and the library makes a problem with them.
        """
        fault = self._difficulty.check(task, params, level)
        if fault is None and task in self._modules:
            fault = self._difficulty.check_curriculum(task)
        if fault is not None:
            return fault
        try:
            generated = self.generate(ProblemRequest(task, 0, params, level))
        except Exception as error:
            as_json = json.dumps(dict(params), default=repr)
            return f"{task}: the library failed to make a problem with the parameters {as_json} ({error_text(error)})"
        return self._check_score(task, generated) if task in self._modules else None

    def describe(self, task: str) -> dict[str, dict[str, object]]:
        """Return the parameters of a task as `DifficultyMap.describe` does, but as strict JSON values."""
        parameters = self._difficulty.describe(task)
        return {
            name: {fact: json_value(value, other=repr) for fact, value in facts.items()}
            for name, facts in parameters.items()
        }

    def _describe_tasks(self, categories: Mapping[str, str]) -> dict[str, SourceTask]:
        return {
            task: SourceTask(
                category,
                release=self._modules[task].release if task in self._modules else self.version,
                has_levels=self._has_levels(task),
                needs_trial=task in self._modules,
            )
            for task, category in categories.items()
        }

    def _has_levels(self, task: str) -> bool:
        try:
            return self._difficulty.adjustable(task)
        except Exception as error:
            self.warnings.append(
                f"the curriculum of {task} raised an error, so {task} has no levels: {error_text(error)}"
            )
            return False

    def generate(self, request: ProblemRequest) -> Generated:
        """Return the problem of a request: `create_dataset(task, seed=seed, size=dataset_size, **params)[item]`.

        If the problem has a flaw, such as a wrong answer, try seeds derived from `seed`. Ignore flaws if `exact_seed`
        is set, or if the setting `rewards` is "library".

        Raises:
            ValueError: MAX_REJECTED problems in a row were rejected.
            Exception: The library raised an error, which may have any type.
        """
        if self.rewards == "library":
            request = replace(request, exact_seed=True, uncorrected=True)
        flawed: Counter[str] = Counter()
        for number in range(MAX_REJECTED):
            drawn = self._draw(replace(request, seed=follow_seed(request.seed, number)))
            if isinstance(drawn, Generated):
                return replace(drawn, flawed=dict(flawed))
            flawed[drawn.cause] += 1
            reason = drawn.reason
        causes = ", ".join(f"{count} {cause}" for cause, count in flawed.most_common())
        raise ValueError(f"all {MAX_REJECTED} problems were rejected ({causes}); the last one because {reason}")

    def _draw(self, request: ProblemRequest) -> Generated | Flaw:
        """Generate a problem from exactly the request's seed. If the problem has a flaw, return the flaw instead."""
        _reset_globals(request.seed)
        task = request.task
        seed = request.seed
        params = request.params
        if task == COMPOSITE:
            task, seed, params = _composite_member(seed, params)
        if request.params_are_whole and request.task != COMPOSITE:
            resolved = Resolved(params, request.level)
        else:
            resolved = self._resolve(task, params, request.level, draw=hash_fraction("level", seed))
            if not request.exact_seed and request.task != COMPOSITE:
                served = {**find_task(task).served_params, **resolved.params}
                resolved = replace(resolved, params=served)
        if request.dataset_size == 1:
            dataset = self._datasets.get(task, resolved.params, seed)
        else:
            dataset = self._datasets.get_whole(task, resolved.params, seed, request.dataset_size)
        if task in self._modules:  # the constructor may have used random numbers
            _reset_globals(request.seed)
        declared = find_task(task)
        if declared.preview is not None and not request.exact_seed:
            flaw = self._find_flaw(declared, declared.preview(dataset, request.item), request.seed)
            if flaw is not None:
                return flaw
        try:
            with frozen_clock() if declared.reads_clock else contextlib.nullcontext():
                entry = dataset[request.item]
        except BaseException as error:
            failure = None if request.exact_seed else flaw_of_error(declared, error)
            if failure is None:
                raise
            return failure
        if task in self._modules:
            _check_entry(entry)
        library_entry = entry
        if not request.uncorrected:
            entry = with_right_answer(declared, entry, dataset)
        if not request.uncorrected if request.clarified is None else request.clarified:
            entry = clarify(declared, entry, dataset)
        if not request.exact_seed:
            flaw = self._find_flaw(declared, entry, request.seed)
            if flaw is not None:
                return flaw
        answer = entry.get("answer")
        kept = entry if entry is library_entry else {**entry, LIBRARY_ENTRY: library_entry}
        return Generated(
            question=str(entry["question"]),
            answer=None if answer is None else str(answer),
            metadata_json=encode_strictly(entry.get("metadata", {}), other=repr),
            entry=pickle.dumps(kept),
            seed=request.seed,
            params=request.params if request.task == COMPOSITE else resolved.params,
            level=resolved.level,
        )

    def scorer(
        self, task: str, params: Mapping[str, Any], entry: bytes, level: float | None = None, *, plainly: bool = False
    ) -> Scorer:
        """Return the scorer of answers to the problem `entry`. Raises any error of unpickling or of the task.

        If `plainly` is true, score as the library's own evaluation does: without corrections, and without removing
        formatting from the answer.
        """
        # Unpickle here, where an error is an infrastructure error. Later, the error would be blamed on an answer.
        whole = pickle.loads(entry)
        if plainly and LIBRARY_ENTRY in whole:
            whole = whole[LIBRARY_ENTRY]
            entry = pickle.dumps(whole)
        if task == COMPOSITE:
            task = whole["metadata"]["source_dataset"]
            params = next((member.get("config", {}) for member in params["datasets"] if member["name"] == task), {})
        dataset = self._datasets.get(task, self._resolve(task, params, level).params, None)
        # Plain rewards score the answer with and without its tags, as the library does. Strict rewards remove the tags:
        # no verifier of a declared task needs tags, and a verifier could read their letters as part of the answer.
        plainly = plainly or self.rewards == "library"
        strict = self.rewards == "strict" and not plainly
        with_tags = not plainly and (not strict or task not in TASKS)
        rules = find_task(task).answer
        scorer = Scorer(rules, dataset, entry, strict=strict, accepts_forms=not plainly, with_tags=with_tags)
        if strict and self._from_checkout and _rejects_expected_answer(scorer, whole):
            return replace(scorer, strict=False)
        return scorer

    def bare_scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None
    ) -> Callable[[str], object]:
        """Return the verifier of the library (corrected, if rewards are strict) or of the user's module."""
        strict = self.rewards == "strict"
        scorer = self.scorer(task, params, entry, level, plainly=not strict)
        if strict and task not in self._modules:
            return scorer.score
        # Not one copy for each answer, so that `audit` detects a verifier that changes the entry.
        whole = pickle.loads(entry)
        return lambda answer: scorer.dataset.score_answer(answer, whole)

    def _find_flaw(self, task: Task, entry: Mapping[str, object], seed: int) -> Flaw | None:
        """Return the flaw of a problem, such as an ambiguous question; None if there is none.

        With a checkout, ignore errors that the rules raise, because its questions may be worded differently.
        """
        try:
            return find_flaw(task, entry, seed)
        except (LookupError, TypeError, ValueError, AttributeError):
            if not self._from_checkout:
                raise
            return None

    def _check_score(self, task: str, generated: Generated) -> str | None:
        """Return an error message if a user's verifier cannot score the task's own answer with a number from 0 to 1."""
        if generated.answer is None:
            return None
        params = self._resolve(task, generated.params, None).params
        try:
            dataset = self._datasets.get(task, params, None)
            score = dataset.score_answer(generated.answer, pickle.loads(generated.entry))
        except Exception as error:
            return f"{task}: the task's score_answer raised an error on the expected answer ({error_text(error)})"
        if not isinstance(score, numbers.Real) or not 0.0 <= float(score) <= 1.0:
            return f"{task}: score_answer returned {score!r} for the expected answer; return a number from 0 to 1"
        return None

    def _resolve(self, task: str, params: Mapping[str, object], level: float | None, *, draw: float = 0.5) -> Resolved:
        if level is None:
            return Resolved(params, None)
        return self._difficulty.parameters(task, level, params, draw=draw)


def _rejects_expected_answer(scorer: Scorer, entry: Mapping[str, object]) -> bool:
    """Return True if the task's answer type cannot parse the expected answer.

    A translated checkout may have such answers: `gieße A->B` is not a valid move of the task jugs.
    """
    return entry.get("answer") is not None and not scorer.reads_expected_answer()


LIBRARY_ENTRY = "library_entry"
"""Key of the library's own entry in a corrected or clarified entry."""
PLOTTING = (
    "matplotlib",
    "matplotlib.animation",
    "matplotlib.collections",
    "matplotlib.pyplot",
    "mpl_toolkits",
    "mpl_toolkits.mplot3d",
)
"""Modules that cellpylib imports to draw pictures, which no task does."""


@contextlib.contextmanager
def without_plotting() -> Iterator[None]:
    """Replace matplotlib by empty modules while the library is imported. Later imports find the real modules.

    Importing matplotlib would take a third of the processor time of the library's import, and 31 of 111 MB of memory.
    """
    if "matplotlib" in sys.modules:
        yield
        return
    for name in PLOTTING:
        empty = sys.modules[name] = ModuleType(name)
        empty.__path__ = []
    sys.modules["mpl_toolkits.mplot3d"].Axes3D = None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name in PLOTTING:
            del sys.modules[name]


def sort_fonts() -> None:
    """Sort the fonts of figlet_font and leave out fonts that a user installed, so that every machine has the same list.

    The library lists fonts in the order of a directory, which differs between file systems.
    """
    module = sys.modules.get("reasoning_gym.cognition.figlet_fonts")
    fonts = getattr(module, "OK_FONTS", None)
    if not isinstance(fonts, list):  # a different library
        return
    of_package = {file.name.partition(".")[0] for file in resources.files("pyfiglet.fonts").iterdir()}
    fonts[:] = sorted(of_package.intersection(fonts))


def _reset_globals(seed: int) -> None:
    """Seed the global random generators and reset the decimal context, which earlier problems may have changed."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    decimal.setcontext(decimal.DefaultContext.copy())


def _category(module_name: str) -> str:
    parts = module_name.split(".")
    return parts[1] if len(parts) > 2 else "other"


def _composite_member(seed: int, params: Mapping[str, Any]) -> tuple[str, int, Mapping[str, object]]:
    """Return the task, the seed and the parameters of the member that CompositeDataset picks for its first item."""
    members = params["datasets"]
    weights = [float(member.get("weight", 1.0)) for member in members]
    position = random.Random(seed).choices(range(len(members)), weights=weights, k=1)[0]
    member = members[position]
    return str(member["name"]), seed + position + 1, dict(member.get("config", {}))


def _check_entry(entry: object) -> None:
    """Raise ValueError if the value that a user's task returned is not a valid problem."""
    if not isinstance(entry, dict):
        raise ValueError(f"__getitem__ must return a dictionary with question and answer, not {type(entry).__name__}")
    question = entry.get("question")
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"'question' is {question!r}; it must be a string that is not empty")
    try:
        pickle.dumps(entry)
    except Exception as error:
        raise ValueError(f"the entry cannot be pickled; use plain values ({error_text(error)})") from error

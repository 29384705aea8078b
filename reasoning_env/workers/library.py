"""Generate and score with reasoning-gym: the one module that imports it. Runs inside workers only.

A task, a seed, the parameters that a user set and the level of difficulty, if there is one, determine a problem.
"""

from __future__ import annotations

import contextlib
import decimal
import importlib
import importlib.metadata
import json
import math
import pickle
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..library_facts import COMPOSITE, FACTS
from ..verifiers import find_flaw, preload, verify
from .datasets import DatasetCache
from .deferred import PLOTTING, defer
from .levels import DifficultyMap, Resolved


@dataclass(frozen=True)
class Generated:
    question: str
    answer: str | None
    metadata_json: str
    entry: bytes
    flaw: str | None
    params: Mapping[str, Any]
    level: float | None


@dataclass(frozen=True)
class Scorer:
    """Scores answers to one entry, which is unpickled anew for each verification: verifiers may write into it."""

    task: str
    dataset: Any
    entry: bytes
    strict: bool
    with_tags: bool

    def score(self, answer: str) -> float:
        """The higher of the scores, in [0, 1], of the answer bare and inside its tags.

        A form whose verifier raises, or returns what is not a finite number, earns nothing; when every form does,
        raises the last one's error. Raises MemoryError at once.
        """
        best: float | None = None
        failure: BaseException | None = None
        for form in (answer, f"<answer>{answer}</answer>") if self.with_tags else (answer,):
            try:
                value = self._verify(form)
            except MemoryError:
                raise
            except BaseException as error:  # verifiers raise anything for hostile text, SystemExit included
                failure = error
            else:
                best = value if best is None else max(best, value)
                if best >= 1.0:
                    break
        if best is None:
            assert failure is not None
            raise failure
        return best

    def _verify(self, form: str) -> float:
        value = float(verify(self.task, self.dataset, form, pickle.loads(self.entry), strict=self.strict))
        if not math.isfinite(value):
            raise ValueError(f"the verifier returned {value}")
        return min(1.0, max(0.0, value))


class Library:
    """The imported library with its caches, one per worker process; `strict` corrects verifiers that pay for nonsense.

    Raises ImportError at construction when there is no reasoning_gym to import.
    """

    def __init__(self, checkout: str | None, *, strict: bool = True) -> None:
        if checkout is not None:
            sys.path.insert(0, checkout)
        defer(PLOTTING)
        self._from_checkout = checkout is not None
        self._strict = strict
        self.module: ModuleType = importlib.import_module("reasoning_gym")
        self.warnings: list[str] = []
        self.tasks = self._discover()
        preload(self.tasks)
        self._difficulty = self._read_difficulty()
        self.adjustable = self._find_adjustable()
        self._datasets = DatasetCache(self.module, self._difficulty.configs)

    @property
    def path(self) -> str:
        return str(Path(str(self.module.__file__)).parent)

    @property
    def version(self) -> str:
        """The installed distribution's version, since the module's own `__version__` lags behind it."""
        if not self._from_checkout:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                return importlib.metadata.version("reasoning-gym")
        return str(getattr(self.module, "__version__", "unknown"))

    @property
    def system_prompt(self) -> str:
        """The system message of the library's own evaluation; empty where the library has none."""
        prompts = getattr(sys.modules.get("reasoning_gym.utils"), "SYSTEM_PROMPTS", {})
        return str(prompts.get("default", "")) if isinstance(prompts, dict) else ""

    def _discover(self) -> dict[str, str]:
        """Task names with their categories: the registry's or, where that cannot be read, the known ones that work."""
        try:
            registry = importlib.import_module("reasoning_gym.factory").DATASETS
            return {str(name): _category(classes[0].__module__) for name, classes in sorted(registry.items())}
        except Exception as error:
            self.warnings.append(
                f"the library's registry cannot be read ({type(error).__name__}: {error}); "
                f"trying {len(FACTS)} known task names one by one"
            )
        found: dict[str, str] = {}
        for name in sorted(FACTS):
            try:
                dataset = self.module.create_dataset(name, seed=0, size=1)
            except Exception as error:
                self.warnings.append(f"task {name} is left out: {type(error).__name__}: {error}")
            else:
                found[name] = _category(type(dataset).__module__)
        return found

    def check(self, task: str, params: Mapping[str, Any], level: float | None) -> str | None:
        """Say what is wrong with a task's parameters, at a level or over the library's own; None if nothing is.

        Parameters that the config accepts must also be enough to make a problem.
        """
        fault = self._difficulty.check(task, params, level)
        if fault is None:
            try:
                self.generate(task, 0, params, level)
            except Exception as error:
                wanted = json.dumps(dict(params), default=repr)
                fault = f"{task}: the library makes no problem with {wanted} ({type(error).__name__}: {error})"
        return fault

    def _read_difficulty(self) -> DifficultyMap:
        try:
            return DifficultyMap.from_factory(importlib.import_module("reasoning_gym.factory"))
        except Exception:  # a registry that cannot be read, for which there is a warning already
            return DifficultyMap({}, {})

    def _find_adjustable(self) -> list[str]:
        """The tasks whose difficulty a level changes."""
        found = []
        for task in self.tasks:
            try:
                if self._difficulty.adjustable(task):
                    found.append(task)
            except Exception as error:
                self.warnings.append(f"the curriculum of {task} cannot be read ({type(error).__name__}: {error})")
        return found

    def generate(
        self,
        task: str,
        seed: int,
        params: Mapping[str, Any],
        level: float | None = None,
        item: int = 0,
        dataset_size: int = 1,
    ) -> Generated:
        """What `create_dataset(task, seed=seed, size=dataset_size, **params)[item]` gives, or raises.

        Where there is a level, `params` are set over its parameters.
        """
        _reset_globals(seed)
        wanted = params
        composite = task == COMPOSITE
        if composite:
            task, seed, params = _composite_member(seed, params)
        resolved = self._resolve(task, params, level)
        if dataset_size == 1:
            dataset = self._datasets.get(task, params, resolved.params, seed)
        else:
            dataset = self._datasets.get_whole(task, resolved.params, seed, dataset_size)
        entry = dataset[item]
        answer = entry.get("answer")
        return Generated(
            question=str(entry["question"]),
            answer=None if answer is None else str(answer),
            metadata_json=_metadata_json(entry.get("metadata", {})),
            entry=pickle.dumps(entry),
            flaw=find_flaw(task, entry),
            params=wanted if composite else resolved.params,
            level=resolved.level,
        )

    def scorer(
        self, task: str, params: Mapping[str, Any], entry: bytes, level: float | None = None, *, plainly: bool = False
    ) -> Scorer:
        """The scorer of one entry; raises what unpickling the entry or building its task raises.

        `plainly` is how the library's own evaluation scores: without corrections, and the bare answer alone.
        """
        whole = pickle.loads(entry)  # an entry that cannot be read fails here, as our fault, not below, as the answer's
        if task == COMPOSITE:
            task = whole["metadata"]["source_dataset"]
            params = next((member.get("config", {}) for member in params["datasets"] if member["name"] == task), {})
        dataset = self._datasets.get(task, params, self._resolve(task, params, level).params, None)
        # No verifier of a measured task looks for the tags: the tagged form could only earn more where a verifier takes
        # their letters for a part of the answer. Plain rewards are the library's, with the tags.
        with_tags = not plainly and (not self._strict or task not in FACTS)
        return Scorer(task, dataset, entry, strict=self._strict and not plainly, with_tags=with_tags)

    def _resolve(self, task: str, params: Mapping[str, Any], level: float | None) -> Resolved:
        if level is None:
            return Resolved(params, None)
        return self._difficulty.parameters(task, level, params)


def _reset_globals(seed: int) -> None:
    """Make an item independent of earlier ones: some tasks draw from global generators, one sets the precision."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    decimal.setcontext(decimal.DefaultContext.copy())


def _category(module_name: str) -> str:
    parts = module_name.split(".")
    return parts[1] if len(parts) > 2 else "other"


def _composite_member(seed: int, params: Mapping[str, Any]) -> tuple[str, int, Mapping[str, Any]]:
    """Repeat the draw that CompositeDataset makes for its first item, without building every member."""
    members = params["datasets"]
    weights = [float(member.get("weight", 1.0)) for member in members]
    position = random.Random(seed).choices(range(len(members)), weights=weights, k=1)[0]
    member = members[position]
    return str(member["name"]), seed + position + 1, dict(member.get("config", {}))


def _metadata_json(metadata: Any) -> str:
    try:
        return json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(_plain(metadata))


def _plain(value: Any) -> Any:
    """The nearest value that strict JSON can hold: keys as text, other objects by their repr."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return repr(value)

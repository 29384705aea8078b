"""Turn a difficulty level in [0, 1] into parameters of the library's configs. Runs in workers only.

A level is rounded to one of `LEVEL_STEPS` + 1 points, so that a task has few different datasets, which can be cached.

An attribute of a task's curriculum (one config field or a range) has a list of values. Level 0 has the first value and
level 1 the last. Between two values, numbers are interpolated, and other values change at the midpoint. The bounds of a
range come from one list: the lower bound is one position before the upper bound. So both bounds rise with the level,
and hard levels have no easy problems.

If an attribute has few values (`drawn`), no value is interpolated: the seed of the problem picks one of the two nearest
values. A quarter of the way from one value to the next, one problem in four has the harder value.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeGuard, get_type_hints

import msgspec

from ..records import LEVEL_STEPS, level_step
from ..runtime.text import error_text
from ..tasks import COMPOSITE, SHOWN_LEVELS, find_task

RESERVED_FIELDS = ("seed", "size")
"""Config fields that the user cannot set: each problem has its own `seed`, and each dataset has the `size` 1."""


@dataclass(frozen=True)
class Resolved:
    """Parameters of a task, as JSON values. Callers share the record and must not change it.

    `level` is the valid level that is nearest to the requested level; None if the task has no levels.
    """

    params: Mapping[str, object]
    level: float | None


@dataclass(frozen=True)
class Attribute:
    """An attribute of a curriculum: one config field, or the two fields for the bounds of a range.

    `levels` has the values from easy to hard: pairs of bounds, or single values. If `distinct_bounds` is true, the
    bounds of a range differ also at level 0. If `drawn` is true, the seed picks one of the two values between which a
    level lies.
    """

    fields: tuple[str, ...]
    levels: tuple[Any, ...]
    distinct_bounds: bool = False
    drawn: bool = False

    def at(self, level: float, draw: float = 0.5) -> dict[str, object]:
        """Return the value of each config field of the attribute at a level.

        If `drawn` is true, the random number `draw` in [0, 1) picks the value before or after the level.
        """
        last = len(self.levels) - 1
        if self.drawn:
            before = math.floor(level * last)
            chosen = self.levels[before + 1 if draw < level * last - before else before]
            return dict.fromkeys(self.fields, chosen)
        if len(self.fields) == 1:
            return {self.fields[0]: interpolate(self.levels, level * last)}
        if isinstance(self.levels[0], tuple):
            bounds = [interpolate(ends, level * last) for ends in zip(*self.levels, strict=True)]
        else:
            upper = min(1 + level * (last - 1), last) if self.distinct_bounds else level * last
            bounds = [interpolate(self.levels, position) for position in (max(0.0, upper - 1), upper)]
        return {self.fields[0]: min(bounds), self.fields[1]: max(bounds)}


class DifficultyMap:
    """Maps levels to parameters for the tasks of a library.

    `configs` are the config classes by task. `curricula` are the curriculum classes by task; some tasks have none.
    """

    def __init__(self, configs: Mapping[str, Callable[..., Any]], curricula: Mapping[str, Callable[[], Any]]) -> None:
        self.configs = configs
        self._curricula = curricula
        self._attributes = lru_cache(maxsize=None)(self._read_attributes)
        # 4096 is about twice the number of tasks times levels.
        self._resolve_cached = lru_cache(maxsize=4096)(self._resolve)

    @classmethod
    def from_factory(cls, factory: ModuleType) -> DifficultyMap:
        """Return a DifficultyMap for all tasks in the registry of the library's `factory` module."""
        configs = {name: classes[1] for name, classes in factory.DATASETS.items()}
        return cls(configs, getattr(factory, "CURRICULA", {}))

    def adjustable(self, task: str) -> bool:
        """Return True if a task has levels; always True for a composite, even if none of its members has levels."""
        return task == COMPOSITE or bool(self._attributes(task))

    def parameters(
        self, task: str, level: float, overrides: Mapping[str, Any] | None = None, *, draw: float = 0.5
    ) -> Resolved:
        """Return the parameters of a task at a level in [0, 1]. `overrides` replace parameters of the level.

        If the library's config rejects the parameters, use the nearest valid level; of two equally near levels, the
        lower one. The random number `draw` in [0, 1) picks the values of `drawn` attributes. For the task `composite`,
        `overrides` must list the member tasks, and the members get the parameters of the level.

        Raises:
            ValueError: no level is valid, or the level is not in [0, 1].
            TypeError: JSON cannot represent the overrides.
        """
        if not 0.0 <= level <= 1.0:
            raise ValueError(f"level {level} is not in [0, 1]: pass a number from 0 to 1")
        step = level_step(level)
        if task != COMPOSITE:
            as_json = json.dumps(overrides, sort_keys=True) if overrides else "{}"
            is_drawn = any(attribute.drawn for attribute in self._attributes(task))
            return self._resolve_cached(task, step, as_json, _middle_of_step(draw) if is_drawn else 0.5)
        params = overrides or {}
        members = params["datasets"]
        resolved = [self.parameters(member["name"], level, member.get("config")) for member in members]
        members = [
            {**member, "config": dict(at_level.params)} for member, at_level in zip(members, resolved, strict=True)
        ]
        adjustable = any(member.level is not None for member in resolved)
        return Resolved({**params, "datasets": members}, step / LEVEL_STEPS if adjustable else None)

    def describe(self, task: str) -> dict[str, dict[str, object]]:
        """Return each parameter of a task with its `default` and, if levels change it, its values at SHOWN_LEVELS.

        If the seed picks one of two values, show the more likely value. For the task `composite`, return {}.
        """
        if task == COMPOSITE:
            return {}
        config = self.configs[task]
        fields = dataclasses.fields(config) if dataclasses.is_dataclass(config) else ()
        parameters = {field.name: {"default": _default(field)} for field in fields if field.name not in RESERVED_FIELDS}
        if self.adjustable(task):
            at_levels = {str(level): self.parameters(task, level).params for level in SHOWN_LEVELS}
            moved = [name for attribute in self._attributes(task) for name in attribute.fields]
            for name in moved:
                parameters.setdefault(name, {"default": None})
                parameters[name]["levels"] = {level: params[name] for level, params in at_levels.items()}
        return parameters

    def check(self, task: str, params: Mapping[str, object], level: float | None = None) -> str | None:
        """Return an error message for a user's parameters, or None if they are valid.

        The user's parameters replace those of `level`, or the library's defaults if `level` is None.
        """
        if task == COMPOSITE:
            return self._check_composite(params, level)
        config = self.configs[task]
        if dataclasses.is_dataclass(config):
            fields = [field.name for field in dataclasses.fields(config)]
            unknown = _unknown(params, [name for name in fields if name not in RESERVED_FIELDS], "parameter")
            if unknown is not None:
                return f"{task}: {unknown}"
            wrong = _wrong_type(config, params)
            if wrong is not None:
                return f"{task}: {wrong}"
        try:
            if level is None:
                self._validate(task, params)
            else:
                self.parameters(task, level, params)
        except Exception as error:  # configs raise any error for unexpected values
            return f"{task}: the library rejects {json.dumps(dict(params), default=repr)} ({error_text(error)})"
        return None

    def check_curriculum(self, task: str) -> str | None:
        """Check a user's own curriculum. Return an error message, or None if the curriculum is valid or missing.

        Every attribute must have levels that include its default level, and the config must accept the parameters at
        SHOWN_LEVELS.
        """
        if task not in self._curricula:
            return None
        try:
            for name, definition in self._curricula[task]().attributes.items():
                count = len(definition.levels)
                default = getattr(definition, "default_level", 0)
                if default not in range(count):
                    return f"{task}: the curriculum has {count} levels of {name}, so default_level {default} is invalid"
            attributes = self._attributes(task)
        except Exception as error:
            return f"{task}: the curriculum raised an error; correct the curriculum ({error_text(error)})"
        for level in SHOWN_LEVELS:
            params = {field: value for attribute in attributes for field, value in attribute.at(level).items()}
            try:
                self._validate(task, params)
            except Exception as error:
                as_json = json.dumps(params, default=repr)
                return f"{task}: the config rejects {as_json}, the parameters at level {level:g} ({error_text(error)})"
        return None

    def _check_composite(self, params: Mapping[str, Any], level: float | None) -> str | None:
        unknown = _unknown(params, ["datasets"], "parameter")
        if unknown is not None:
            return f"{COMPOSITE}: {unknown}"
        members = params.get("datasets")
        if not members:
            return f"{COMPOSITE}: the parameter `datasets` must list at least one task"
        tasks = [name for name in self.configs if name != COMPOSITE]
        for member in members:
            name = member["name"]
            fault = _unknown([name], tasks, "task") or self.check(name, member.get("config", {}), level)
            if fault is not None:
                return f"{COMPOSITE}: {fault}"
        return None

    def _resolve(self, task: str, step: int, overrides_json: str, draw: float) -> Resolved:
        overrides = json.loads(overrides_json)
        attributes = self._attributes(task)
        if not attributes:
            return Resolved(overrides, None)
        refusal: Exception | None = None
        for candidate in sorted(range(LEVEL_STEPS + 1), key=lambda other: (abs(other - step), other)):
            level = candidate / LEVEL_STEPS
            try:
                params = {
                    field: value for attribute in attributes for field, value in attribute.at(level, draw).items()
                }
                params = json.loads(json.dumps({**params, **overrides}))  # a copy that shares no lists with the library
                self._validate(task, params)
            except Exception as error:  # configs raise any error for unexpected values
                refusal = refusal or error
            else:
                return Resolved(params, level)
        assert refusal is not None
        raise ValueError(f"{task}: no level is valid with {overrides_json} ({error_text(refusal)})") from refusal

    def _validate(self, task: str, params: Mapping[str, object]) -> None:
        config = self.configs[task](**params, seed=0, size=1)
        if hasattr(config, "validate"):
            config.validate()

    def _read_attributes(self, task: str) -> tuple[Attribute, ...]:
        declared = find_task(task).levels
        if task not in self._curricula or declared is None:
            return ()
        attributes = {}
        for definition in self._curricula[task]().attributes.values():
            if hasattr(definition, "field_name"):
                fields: tuple[str, ...] = (definition.field_name,)
            else:
                fields = (definition.lower_field_name, definition.upper_field_name)
            distinct_bounds = bool(getattr(definition, "ensure_interval", False))
            defaults = [getattr(self.configs[task], field, None) for field in fields]
            attributes[fields] = Attribute(fields, _with_easiest_default(definition.levels, defaults), distinct_bounds)
        for row in declared:
            distinct_bounds = row.fields in attributes and attributes[row.fields].distinct_bounds
            attributes[row.fields] = Attribute(row.fields, tuple(row.levels), distinct_bounds, row.drawn)
        return tuple(attributes.values())


def _default(field: dataclasses.Field[object]) -> object:
    """Return the default value of a config field; None if the field has no default."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _with_easiest_default(levels: Sequence[Any], defaults: Sequence[Any]) -> tuple[object, ...]:
    """If `min(defaults) < levels[0]` and `max(defaults) <= levels[0]`, put `min(defaults)` before the levels.

    `defaults` has one value per config field. Levels that are not ascending numbers are returned unchanged.
    """
    if all(map(_is_number, (*levels, *defaults))) and max(defaults) <= levels[0] < levels[-1]:
        return (min(defaults), *levels) if min(defaults) < levels[0] else tuple(levels)
    return tuple(levels)


def _middle_of_step(draw: float) -> float:
    """Round `draw` to the middle of one of LEVEL_STEPS intervals, so that the cache gets few different keys."""
    return (math.floor(draw * LEVEL_STEPS) + 0.5) / LEVEL_STEPS


def interpolate(levels: Sequence[Any], position: float) -> Any:
    """Return the value of the list `levels` at a position, which may be between two indices.

    Interpolate numbers and lists of numbers, and round integers. For other values, return the nearer neighbour.
    """
    before = math.floor(position)
    share = position - before
    return levels[before] if share == 0 else _between(levels[before], levels[before + 1], share)


def _between(first: object, second: object, share: float) -> Any:
    if _is_number(first) and _is_number(second):
        value = first + share * (second - first)
        if isinstance(first, int) and isinstance(second, int):
            return math.floor(value + 0.5)
        # These digits suffice for weights to sum to 1, and hide rounding errors.
        return float(f"{value:.12g}")
    if isinstance(first, list) and isinstance(second, list) and all(map(_is_number, (*first, *second))):
        return [_between(float(start), float(end), share) for start, end in zip(first, second, strict=True)]
    return first if share < 0.5 else second


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unknown(names: Iterable[str], choices: Sequence[str], what: str) -> str | None:
    """Return an error message about the first name that is not one of `choices`; None if there is no such name."""
    for name in names:
        if name in RESERVED_FIELDS:
            return f"remove {name}: it cannot be set, because the environment sets it for each problem"
        if name not in choices:
            nearest = difflib.get_close_matches(name, choices, n=3, cutoff=0.4) or choices[:10]
            return f"there is no {what} {name!r}; choose from: {', '.join(nearest) or 'none'}"
    return None


def _wrong_type(config: type, params: Mapping[str, object]) -> str | None:
    """Return a message about the first parameter whose value has a wrong type; None if all types are right."""
    types = get_type_hints(config)
    for field in dataclasses.fields(config):
        if field.name not in params:
            continue
        value, default = params[field.name], _default(field)
        if value is None and default is None:
            continue
        if default is not None and _type_fault(types[field.name], default) is not None:
            continue  # some annotations of the library are wrong, such as `diff_ub: int = 0.2`
        fault = _type_fault(types[field.name], value)
        if fault is not None:
            example = "" if default is None else f" (default: {json.dumps(default, default=repr)})"
            return f"{field.name} is {json.dumps(value, default=repr)}, which has the wrong type: {fault}{example}"
    return None


def _type_fault(annotation: object, value: object) -> str | None:
    """Return what is wrong with a JSON value's type; None if the type is right or only the library can check it."""
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=annotation)
    except msgspec.ValidationError as error:
        return str(error)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return None

"""Combine several sources into one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..records import ProblemRequest
from .contract import Answers, Generated, Source, SourceTask
from .modules import TaskModuleError


class JoinedSources(Source):
    """The tasks of all sources. Raises TaskModuleError for duplicate and invalid names."""

    def __init__(self, first: Source, others: Sequence[Source]) -> None:
        self._tasks = dict(first.tasks)
        self._source_of = dict.fromkeys(first.tasks, first)
        for source in others:
            for name, task in source.tasks.items():
                if name in self._tasks:
                    raise TaskModuleError(f"two sources have a task {name}; rename one of them")
                if not name.startswith(f"{task.category}/") or set(name) & set(":,*?[] "):
                    raise TaskModuleError(
                        f"the name of task {name!r} must begin with its category, {task.category}/, and must not "
                        "contain colons, commas, spaces or wildcards"
                    )
                self._tasks[name] = task
                self._source_of[name] = source

    @property
    def tasks(self) -> Mapping[str, SourceTask]:
        return self._tasks

    def generate(self, request: ProblemRequest) -> Generated:
        return self._source_of[request.task].generate(request)

    def scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None, *, plainly: bool
    ) -> Answers:
        return self._source_of[task].scorer(task, params, entry, level, plainly=plainly)

    def bare_scorer(
        self, task: str, params: Mapping[str, object], entry: bytes, level: float | None
    ) -> Callable[[str], object]:
        return self._source_of[task].bare_scorer(task, params, entry, level)

    def check(self, task: str, params: Mapping[str, object], level: float | None) -> str | None:
        return self._source_of[task].check(task, params, level)

    def describe(self, task: str) -> Mapping[str, Mapping[str, object]]:
        return self._source_of[task].describe(task)

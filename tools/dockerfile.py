"""Read a Dockerfile: stages, steps, and what a container of a stage runs.

Covers the instructions that this project's Dockerfile uses. Any other instruction or option is an error, so that a
build without Docker never leaves a step out.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

OPTIONS: Mapping[str, frozenset[str]] = {
    "RUN": frozenset(),
    "COPY": frozenset({"from"}),
    "ENV": frozenset(),
    "WORKDIR": frozenset(),
    "USER": frozenset(),
    "ENTRYPOINT": frozenset(),
    "CMD": frozenset(),
    "EXPOSE": frozenset(),
    "HEALTHCHECK": frozenset({"interval", "timeout", "start-period"}),
}
"""The instructions after FROM, with the options of each."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class DockerfileError(Exception):
    """A line of the Dockerfile that this module does not understand."""


@dataclass(frozen=True)
class Step:
    """An instruction: its line number, keyword, options and text."""

    line: int
    keyword: str
    options: Mapping[str, str]
    text: str

    def words(self) -> list[str]:
        """Return the words of the text: a JSON list, or words as in a shell."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return shlex.split(self.text)


@dataclass(frozen=True)
class Stage:
    """A stage: the stage or image under it, and its steps."""

    name: str
    base: str
    steps: Sequence[Step]


@dataclass(frozen=True)
class Container:
    """How a stage's commands run: variables, working directory, user, and the words of its commands."""

    environment: Mapping[str, str]
    directory: str = "/"
    user: str = "0:0"
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    health: Sequence[str] = ()

    def after(self, step: Step) -> Container:
        """Return what holds after a step."""
        match step.keyword:
            case "ENV":
                variables = dict(self.environment)
                for word in step.words():
                    name, _, value = word.partition("=")
                    variables[name] = Template(value).substitute(self.environment)
                return replace(self, environment=variables)
            case "WORKDIR":
                return replace(self, directory=step.text)
            case "USER":
                return replace(self, user=step.text)
            case "ENTRYPOINT":
                return replace(self, entrypoint=step.words())
            case "CMD":
                return replace(self, command=step.words())
            case "HEALTHCHECK":
                keyword, _, words = step.text.partition(" ")
                if keyword != "CMD":
                    raise DockerfileError(f"line {step.line}: HEALTHCHECK wants CMD; got {keyword}")
                return replace(self, health=[str(word) for word in json.loads(words)])
        return self


def read_dockerfile(text: str) -> dict[str, Stage]:
    """Return the stages by name, in order; the last is Docker's default. Raises DockerfileError."""
    stages: dict[str, Stage] = {}
    steps: list[Step] = []
    for line, instruction in _instructions(text):
        keyword, *words = instruction.split(maxsplit=1)
        if keyword == "FROM":
            match instruction.split():
                case [_, base, "AS", name]:
                    steps = []
                    stages[name] = Stage(name, base, steps)
                case _:
                    raise DockerfileError(f"line {line}: expected FROM IMAGE AS NAME; got {instruction}")
            continue
        if keyword not in OPTIONS or not stages:
            raise DockerfileError(f"line {line}: {keyword} is not supported here")
        steps.append(_step(line, keyword, words[0] if words else ""))
    return stages


def _step(line: int, keyword: str, text: str) -> Step:
    options: dict[str, str] = {}
    while match := re.match(r"--([a-z-]+)=(\S+)\s+", text):
        options[match[1]] = match[2]
        text = text[match.end() :]
    if unknown := options.keys() - OPTIONS[keyword]:
        raise DockerfileError(f"line {line}: {keyword} has no option {', '.join(sorted(unknown))} here")
    return Step(line, keyword, options, text)


def _instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield instructions with their first line's number: without comments, continued lines joined."""
    first, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        first = first if parts else number
        parts.append(stripped.removesuffix("\\").strip())
        if not stripped.endswith("\\"):
            yield first, " ".join(parts)
            parts = []


def container_of(stages: Mapping[str, Stage], name: str) -> Container:
    """Return how commands run at the end of a stage."""
    stage = stages[name]
    container = container_of(stages, stage.base) if stage.base in stages else Container({"PATH": DEFAULT_PATH})
    for step in stage.steps:
        container = container.after(step)
    return container


def needed_stages(stages: Mapping[str, Stage], targets: Sequence[str]) -> list[str]:
    """Return the names of the stages that `targets` are made of, in the order of the file."""
    needed: set[str] = set()
    waiting = list(targets)
    while waiting:
        name = waiting.pop()
        if name in stages and name not in needed:
            needed.add(name)
            waiting.append(stages[name].base)
            waiting += [step.options["from"] for step in stages[name].steps if "from" in step.options]
    return [name for name in stages if name in needed]


def is_ignored(path: Path, patterns: Sequence[str]) -> bool:
    """Tell whether `.dockerignore` keeps a path from Docker: the last pattern that matches it or a parent decides."""
    names = [str(path), *(str(parent) for parent in path.parents if parent.name)]
    ignored = False
    for pattern in patterns:
        plain = pattern.removeprefix("!").removeprefix("**/")
        anywhere = pattern.removeprefix("!").startswith("**/")
        candidates = [Path(name).name for name in names] if anywhere else names
        depth = plain.count("/")
        if any(name.count("/") == depth and fnmatch.fnmatch(name, plain) for name in candidates):
            ignored = not pattern.startswith("!")
    return ignored


def read_patterns(text: str) -> list[str]:
    """Return the patterns of a `.dockerignore`."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]

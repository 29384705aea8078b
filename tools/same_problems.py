"""Check that a seed gives the same problems everywhere: `python -m tools.same_problems --python PATH`.

Makes problems of each task at the defaults and at levels, twice: in the normal environment, and with another hash
seed, locale, time zone and file system (with a copy of the library) and two workers. Does both with this Python, and
with each Python of `--python`. All runs must agree with the first run:

- question, answer and metadata of every problem
- the first problems of a training, in the same order
- full marks for the first run's answers, scored by reference

Prints a line for each difference, and the single change that causes it. The status is 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reasoning_env.errors import ReasoningEnvError
from reasoning_env.problems.evaluation_set import evaluation_spec
from reasoning_env.problems.references import without_release
from reasoning_env.program.running import map_with_progress, run_to_end
from reasoning_env.records import Problem, ProblemSpec
from reasoning_env.session import Session
from reasoning_env.settings import ReasoningSettings
from reasoning_env.sources.contract import Generated

from .running import run_tool

ROOT = Path(__file__).parents[1]
PLAIN = {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
COPIED = ("reasoning_gym", "pyfiglet")
"""Packages with files that generators read."""


@dataclass(frozen=True)
class Change:
    """A difference from the normal environment: variables of the process, options of this tool."""

    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Made:
    """The result of a run: for each problem its digest, its reference without the release, and its answer.

    `stream` has the references of the first problems of a training. `judged` has another run's answers that did not
    earn full marks, with the reason.
    """

    problems: Mapping[str, tuple[str, str, str | None]]
    stream: Sequence[str]
    judged: Mapping[str, str]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="all", metavar="NAME,NAME", help="patterns of tasks (default: all)")
    parser.add_argument("--count", type=int, default=50, help="problems of each task and level (default: %(default)s)")
    parser.add_argument("--levels", default="defaults,0,0.5,1", help="levels from 0 to 1 (default: %(default)s)")
    parser.add_argument(
        "--judged",
        type=int,
        default=5,
        help="problems per task that the other runs score by reference (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the problems (default: %(default)s)")
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="another interpreter")
    parser.add_argument(
        "--folder",
        type=Path,
        default="/dev/shm",
        help="folder on a different file system than /tmp (default: %(default)s)",
    )
    # Hidden options for the processes that this tool starts.
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--checkout", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.write is not None:
        options.write.write_text(json.dumps(vars(run_to_end(lambda: _make(options)))))
        return 0
    differences = _compare_runs(options)
    print(*differences, f"{len(differences)} differences", sep="\n")
    return int(bool(differences))


# ------------------------------------------------------------------ one run


async def _make(options: argparse.Namespace) -> Made:
    settings = ReasoningSettings(
        tasks=options.tasks,
        seed=options.seed,
        num_generators=options.workers,
        num_verifiers=options.workers,
        complexity_mode="random",
    )
    async with Session(settings, checkout=options.checkout) as session:
        specs = {
            f"{task} {level} {number}": evaluation_spec(
                task, number, 0, run_seed=options.seed, params=session.plan.all_params.get(task)
            ).with_request(level=None if level == "defaults" else float(level))
            for level in options.levels.split(",")
            for task in session.plan.tasks
            for number in range(options.count)
        }
        deadline_s = settings.eval_generation_deadline_s

        async def make(spec: ProblemSpec) -> tuple[str, str, str | None]:
            try:
                problem = await session.pool.generate(spec, deadline_s)
            except ReasoningEnvError as error:
                return str(error), "", None
            return digest(problem), problem.reference, problem.answer

        made = await map_with_progress("problems", list(specs.values()), make, at_once=8)
        stream = [without_release((await session.next()).reference) for _ in range(2 * options.count)]
        judged = {} if options.judge is None else await _judge(session, _read(options.judge), options.judged)
    return Made(dict(zip(specs, made, strict=True)), stream, judged)


def digest(problem: Problem | Generated) -> str:
    """Return a hash of a problem's question, answer and metadata."""
    # Rounded, because Python 3.12 sums floats differently: the metadata of rearc differ in the last bits.
    metadata = json.loads(problem.metadata_json, parse_float=lambda number: f"{float(number):.12g}")
    text = json.dumps([problem.question, problem.answer, metadata])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


async def _judge(session: Session[Problem], other: Made, judged: int) -> dict[str, str]:
    """Score the first answers of another run by reference. Return those without full marks, with the reason."""

    async def judge(name: str) -> str:
        _, reference, answer = other.problems[name]
        try:
            problem = await session.remake(reference)
            # `session.judge` would reject the longest answers of the library.
            verdicts = await session.pool.score(problem, [] if answer is None else [answer])
        except ReasoningEnvError as error:
            return str(error)
        return "" if all(verdict.correct for verdict in verdicts) else f"its answer earns {verdicts[0].score}"

    names = [name for name, made in other.problems.items() if made[1] and int(name.split()[-1]) < judged]
    faults = await map_with_progress("answers", names, judge, at_once=8)
    return {name: fault for name, fault in zip(names, faults, strict=True) if fault}


# ------------------------------------------------------------------ runs and their differences


def _compare_runs(options: argparse.Namespace) -> list[str]:
    other_file_system = options.folder if options.folder.is_dir() else None
    with tempfile.TemporaryDirectory(dir=other_file_system) as elsewhere, tempfile.TemporaryDirectory() as results:
        changes = changes_of(Path(elsewhere))
        runs = _Runs(options, Path(results))
        first = runs.run("plain", [])
        differences = []
        others = [os.path.abspath(shutil.which(python) or python) for python in options.python]
        for python in [sys.executable, *others]:
            other = runs.run(f"{python}, other environment", changes.values(), python=python, judge="plain")
            found = _differences(first, other)
            differences += [f"{python}, other environment: {line}" for line in found]
            tasks = {line.split()[0] for line in found} - {"training"}
            if tasks and python == sys.executable:
                for name, change in changes.items():
                    alone = runs.run(name, [change], judge="plain", tasks=",".join(sorted(tasks)))
                    differences += [f"{name} alone: {line}" for line in _differences(first, alone, tasks)]
            if python != sys.executable:
                found = _differences(first, runs.run(python, [], python=python))
                differences += [f"{python}: {line}" for line in found]
        return differences


def changes_of(elsewhere: Path) -> dict[str, Change]:
    """Return the changes of the environment by name. `elsewhere` is a folder on another file system."""
    for package in COPIED:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, elsewhere / package)
    return {
        "hash seed": Change({"PYTHONHASHSEED": "2"}),
        "locale": Change(_other_locale(elsewhere)),
        "time zone": Change({"TZ": "Asia/Kathmandu"}),
        "two workers": Change(options=("--workers", "2")),
        "file system": Change({"TMPDIR": str(elsewhere)}, ("--checkout", str(elsewhere))),
    }


def _other_locale(elsewhere: Path) -> dict[str, str]:
    """Return the variables of a Turkish locale, whose letters I differ; of the C locale if that cannot be made."""
    if shutil.which("localedef") is not None:
        command = ["localedef", "-i", "tr_TR", "-f", "UTF-8", str(elsewhere / "tr_TR.UTF-8")]
        made = subprocess.run(command, capture_output=True, check=False)
        if made.returncode in (0, 1):  # 1: with warnings
            return {"LC_ALL": "tr_TR.UTF-8", "LOCPATH": str(elsewhere)}
    return {"LC_ALL": "C"}


class _Runs:
    """Runs of this tool in other processes, which write into a folder."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._files: dict[str, Path] = {}

    def run(
        self,
        name: str,
        changes: Iterable[Change],
        *,
        python: str = sys.executable,
        judge: str | None = None,
        tasks: str | None = None,
    ) -> Made:
        """Make problems in an environment with some changes. `judge` names an earlier run whose answers to score."""
        file = self._files[name] = self._folder / f"{len(self._files)}.json"
        options = self._options
        command = [python, "-m", "tools.same_problems", "--write", str(file), "--tasks", tasks or options.tasks]
        command += ["--count", str(options.count), "--levels", options.levels, "--seed", str(options.seed)]
        if judge is not None and tasks is None:
            command += ["--judge", str(self._files[judge]), "--judged", str(options.judged)]
        variables = {**os.environ, **PLAIN}
        for change in changes:
            variables.update(change.variables)
            command += change.options
        print(f"{name} ...", file=sys.stderr)
        subprocess.run(command, cwd=ROOT, env=variables, check=True, stdout=subprocess.DEVNULL)
        return _read(file)


def _read(file: Path) -> Made:
    content: dict[str, Any] = json.loads(file.read_text())
    problems = {name: (digest, reference, answer) for name, (digest, reference, answer) in content["problems"].items()}
    return Made(problems, content["stream"], content["judged"])


def _differences(first: Made, other: Made, tasks: Iterable[str] | None = None) -> list[str]:
    """Return a line for each task and level with differences. `tasks` are the tasks of the other run."""
    lines = []
    differing: dict[str, list[str]] = {}
    for name, (digest, reference, _) in first.problems.items():
        task, level, _ = name.split()
        if (tasks is None or task in tasks) and other.problems[name][0] != digest:
            differing.setdefault(f"{task} {level}", []).append(reference or digest)
    lines += [f"{place}: {len(found)} differ, the first is {found[0]}" for place, found in differing.items()]
    if tasks is None and first.stream != other.stream:
        lines.append("training gets different problems, or a different order")
    return lines + [f"{name}: {fault}" for name, fault in other.judged.items()]


if __name__ == "__main__":
    run_tool(main)

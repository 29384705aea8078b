"""Tasks of user modules: selection, levels, scoring, references and errors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env import Bridge, ConfigError, InvalidReferenceError, Session, integrations
from reasoning_env.evaluations.plan import identify
from reasoning_env.integrations import process_bridge, verl
from reasoning_env.problems.plan import check_own_tasks
from reasoning_env.records import Sampling
from reasoning_env.workers.fork_server import ForkServer
from reasoning_env.workers.protocol import Frame
from reasoning_env.workers.worker import Channel, DeadlineExceeded
from tests.waiting import until

ROOT = Path(__file__).parent.parent
EXAMPLE = str(ROOT / "examples" / "own_task.py")
RIGHT = "<answer>{}</answer>"
on_module_loop = pytest.mark.asyncio(loop_scope="module")


def own_session(**settings: Any) -> Session[Any]:
    small = {"num_generators": 1, "num_verifiers": 1, "task_modules": [EXAMPLE]}
    return Session(**{**small, "tasks": ["last_letter"], **settings})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session[Any]]:
    """A session with the example's task, gcd and composite, at level 1, with parameters for the example's task."""
    settings = {
        "tasks": ["own_task/*", "gcd", "composite"],
        "task_params": {"own_task": {"max_length": 20}},
        "task_sampling": "weighted",
        "task_weights": {"category:own_task": 2.0},
        "complexity_level": 1.0,
        "num_eval_samples_per_task": 2,
    }
    async with own_session(**settings) as started:
        yield started


@on_module_loop
async def test_task_patterns_select_tasks_of_user_modules(session: Session[Any]) -> None:
    assert session.plan.tasks == ("composite", "gcd", "last_letter")
    assert session.plan.params == {"last_letter": {"max_length": 20}}
    assert session.plan.weights["last_letter"] == 2.0
    assert "last_letter" in session.plan.adjustable


@on_module_loop
async def test_parameters_of_a_user_task_follow_the_level(session: Session[Any]) -> None:
    lengths = []
    for level in (0.0, 0.5, 1.0):
        problem = await session.make("last_letter", 7, level=level, params={})
        lengths.append(problem.params["min_length"])
    assert lengths == [8, 8, 14]


@on_module_loop
async def test_verifier_of_a_user_task_scores_answers(session: Session[Any]) -> None:
    problem = await session.make("last_letter", 3)
    verdicts = await session.judge(problem, [RIGHT.format(problem.answer), RIGHT.format("99"), "none"])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.0]


@on_module_loop
async def test_problem_reference_of_a_user_task_names_the_user_module(session: Session[Any]) -> None:
    problem = await session.make("last_letter", 3)
    release = problem.reference.split(":")[4]
    assert release.startswith("own_task@")
    assert (await session.remake(problem.reference)).question == problem.question
    assert (await session.make("gcd", 3)).reference.split(":")[4] == session.library.version


@on_module_loop
async def test_evaluation_results_contain_the_version_of_the_user_module(session: Session[Any]) -> None:
    problem = await session.make("last_letter", 3)
    _, _, version = problem.reference.split(":")[4].partition("@")
    sampling = Sampling(0.6, 1.0, token_limit=100, split="eval")
    model: Any = SimpleNamespace(model="m", server_type="openai", base_url="")
    made_with = identify(session, sampling, model, step=None, version="1")
    assert made_with["versions"]["module own_task"] == version


@on_module_loop
async def test_problems_of_the_composite_task_contain_problems_of_user_tasks(session: Session[Any]) -> None:
    members = [member["name"] for member in session.plan.all_params["composite"]["datasets"]]
    assert members == ["gcd", "last_letter"]
    made = [await session.make("composite", seed) for seed in range(12)]
    assert any("last in the alphabet" in problem.question for problem in made)


@on_module_loop
async def test_evaluation_set_contains_user_tasks(session: Session[Any]) -> None:
    problems = await session.evaluation_set.problems()
    assert [problem.task for problem in problems].count("last_letter") == 2


@on_module_loop
async def test_judging_a_user_task_without_its_module_raises(session: Session[Any], other: Session[Any]) -> None:
    reference = (await session.make("last_letter", 3)).reference.replace("last_letter", "first_letter")
    release = session.library.release("last_letter")
    with pytest.raises(
        InvalidReferenceError, match=f"{release} made .* no module in task_modules adds .*'first_letter'"
    ):
        await other.judge(reference, ["1"])


@on_module_loop
async def test_judging_with_a_changed_user_module_logs_a_warning(
    session: Session[Any], other: Session[Any], caplog: pytest.LogCaptureFixture
) -> None:
    for seed in (3, 4):
        await other.judge((await session.make("last_letter", seed)).reference, ["1"])
    made, judged = (each.library.release("last_letter") for each in (session, other))
    assert made != judged
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [f"problems of last_letter were made by {made}, but answers to them are judged here by {judged}"]


def test_bridge_serves_user_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples")
    with Bridge(tasks=["last_letter"], task_modules="own_task", num_generators=1, num_verifiers=1) as bridge:
        problem = bridge.next()
        assert [verdict.score for verdict in bridge.judge(problem, [RIGHT.format(problem.answer)]) if verdict] == [1.0]
    assert "own_task" not in sys.modules


@on_module_loop
async def test_compute_score_for_verl_judges_answers_to_user_tasks(session: Session[Any]) -> None:
    problem = await session.make("last_letter", 3)
    settings = {"task_modules": (EXAMPLE,), "num_generators": 1, "num_verifiers": 1}
    answer = RIGHT.format(problem.answer)
    found = await verl.compute_score("reasoning_gym", answer, problem.reference, settings=settings)
    assert found["score"] == 1.0
    await asyncio.to_thread(process_bridge(verl._as_json(settings)).close)
    integrations._bridge_of.cache_clear()


BAD_TASKS = """
import math, os, pathlib, random
from dataclasses import dataclass
from reasoning_gym.coaching import BaseCurriculum, ScalarAttributeDefinition
from reasoning_gym.factory import ProceduralDataset, register_dataset


@dataclass
class Config:
    size_of_it: int = 1
    seed: int = None
    size: int = 500

    def validate(self):
        assert self.size_of_it < 3, "too large"


class Base(ProceduralDataset):
    score = 1.0

    def __init__(self, config):
        super().__init__(config=config, seed=config.seed, size=config.size)

    def __getitem__(self, index):
        return {"question": f"What is {self.seed + index} + 1?", "answer": "1", "metadata": {}}

    def score_answer(self, answer, entry):
        return self.score


class Silent(Base):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "question": " "}


class Locked(Base):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "metadata": {"key": lambda: 0}}


class Unseeded(Base):
    def __getitem__(self, index):
        return {"question": f"What is {random.Random().random()} + 1?", "answer": "1", "metadata": {}}


class Ends(Base):
    def __getitem__(self, index):
        os._exit(1)


class Hangs(Base):
    def score_answer(self, answer, entry):
        while True:
            pass


class EndsVerifier(Base):
    def score_answer(self, answer, entry):
        os._exit(1)


class Asserts(Base):
    def score_answer(self, answer, entry):
        assert answer == "not this"


class Explains(Base):
    def score_answer(self, answer, entry):
        raise ValueError("first line\\n  second line")


class DrawsGlobally(Base):
    built = 0

    def __init__(self, config):
        super().__init__(config)
        if not DrawsGlobally.built:
            random.random()
        DrawsGlobally.built += 1

    def __getitem__(self, index):
        return {"question": f"What is {random.random()} + 1?", "answer": "1", "metadata": {}}


class Outside(Base):
    def score_answer(self, answer, entry):
        return float(bool(pathlib.Path("/etc/hostname").read_text()))


def curriculum(levels, default):
    class Curriculum(BaseCurriculum):
        def __init__(self):
            super().__init__("Curriculum", Config)
            self._define_attributes(
                ScalarAttributeDefinition(name="it", field_name="size_of_it", levels=levels, default_level=default)
            )

    return Curriculum


for name, score in {"unscored": None, "nan": math.nan, "over": 2.0, "texts": "1"}.items():
    register_dataset(name, type(name, (Base,), {"score": score}), Config)
for dataset in (Silent, Locked, Outside, Unseeded, DrawsGlobally, Ends, Hangs, EndsVerifier, Asserts, Explains):
    register_dataset(dataset.__name__.lower(), dataset, Config)
register_dataset("no_levels", Base, Config, curriculum([], 0))
register_dataset("no_such_level", Base, Config, curriculum([1, 2], 4))
register_dataset("refused_level", Base, Config, curriculum([1, 2, 3], 0))
"""
NO_NUMBER = (
    "in the sandbox, the verifier cannot score the expected answer "
    "(ValueError: the verifier must return a number from 0 to 1"
)
MISTAKES = {
    "unscored": f"{NO_NUMBER}; it returned None)",
    "nan": f"{NO_NUMBER}; it returned nan)",
    "over": "score_answer returned 2.0 for the expected answer",
    "texts": "score_answer returned '1' for the expected answer",
    "silent": "'question' is ' '; it must be a string that is not empty",
    "locked": "the entry cannot be pickled",
    "ends": "generation ended two worker processes; the second one ",
    "hangs": "in the sandbox, the verifier cannot score the expected answer (timeout)",
    "endsverifier": "in the sandbox, the verifier cannot score the expected answer (crash)",
    "asserts": "in the sandbox, the verifier cannot score the expected answer (AssertionError)",
    "explains": "in the sandbox, the verifier cannot score the expected answer (ValueError: first line second line)",
    "no_levels": "the curriculum has 0 levels of it, so default_level 0 is invalid",
    "no_such_level": "the curriculum has 2 levels of it, so default_level 4 is invalid",
    "refused_level": "the parameters at level 1",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session[Any]]:
    """A session with a changed version of the example, and with a module of faulty tasks."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "bad_tasks.py").write_text(BAD_TASKS)
    (folder / "own_task.py").write_text(Path(EXAMPLE).read_text() + "# another comment\n")
    modules = [str(folder / name) for name in ("bad_tasks.py", "own_task.py")]
    async with own_session(task_modules=modules, tasks=["gcd"], scoring_deadline_s=0.5) as started:
        yield started


@on_module_loop
@pytest.mark.parametrize("task", MISTAKES)
async def test_broken_user_task_raises_a_one_line_error(task: str, other: Session[Any]) -> None:
    with pytest.raises(ConfigError) as raised:
        await check_own_tasks([task], {}, other.pool)
    assert str(raised.value).startswith(f"task_modules: {task}")
    assert MISTAKES[task] in str(raised.value)
    assert "\n" not in str(raised.value)


@on_module_loop
@pytest.mark.skipif(sys.platform != "linux", reason="needs Landlock")
async def test_user_verifier_that_reads_a_file_without_permission_raises(other: Session[Any]) -> None:
    if "Landlock" not in other.pool.fork_servers.sandbox.partition("; not by")[0]:
        pytest.skip("no Landlock here")
    with pytest.raises(ConfigError, match=r"in the sandbox, .* answer .*; a verifier can read only its module"):
        await check_own_tasks(["outside"], {}, other.pool)


@on_module_loop
async def test_user_task_that_ignores_the_seed_causes_a_warning(
    other: Session[Any], caplog: pytest.LogCaptureFixture
) -> None:
    await check_own_tasks(["unseeded", "drawsglobally"], {}, other.pool)
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("these tasks can make different problems from the same seed: unseeded; ")


async def test_user_module_that_exits_raises_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "ends_import.py"
    path.write_text("import os; os._exit(3)")
    with pytest.raises(ConfigError) as raised:
        await own_session(task_modules=[str(path)]).start()
    line = f"task_modules: the process that imported {path} exited with status 3; an import must not end it"
    assert str(raised.value) == line


async def test_error_about_a_hanging_import_contains_the_module_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first wait times out with the name of the module. The second ends when the warning is logged."""
    waits: list[object] = []
    first_frame = ForkServer._first_frame

    async def wait(server: ForkServer, channel: Channel) -> Frame:
        waits.append(channel)
        if len(waits) == 1:
            return await first_frame(server, channel)
        await until(lambda: caplog.messages)
        raise DeadlineExceeded

    monkeypatch.setattr(ForkServer, "_first_frame", wait)
    monkeypatch.setattr(ForkServer, "SLOW_IMPORT_S", 0.0)
    path = tmp_path / "hangs_at_import.py"
    path.write_text("import time; time.sleep(600)")
    with pytest.raises(ConfigError) as raised:
        await own_session(task_modules=[str(path)]).start()
    assert str(raised.value) == f"task_modules: {path} was still being imported after 300 s"
    assert caplog.messages == [f"{path} is still being imported"]


async def test_missing_user_module_raises_config_error() -> None:
    with pytest.raises(ConfigError, match=r"^task_modules: there is no module no_such_lab"):
        await own_session(task_modules=["no_such_lab"]).start()


async def test_error_of_a_user_verifier_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = Path(EXAMPLE).read_text().replace("answer.strip() ==", "str(int(answer)) ==")
    text = text.replace("last_letter", "raising_letter")
    path = tmp_path / "raising_task.py"
    path.write_text(text)
    async with own_session(task_modules=[str(path)], tasks=["raising_letter"]) as session:
        problem = await session.next()
        await session.judge(problem, [RIGHT.format("wrong")] * 2)
    assert "the verifier of raising_letter raised an error for all completions" in caplog.text

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.errors import RefusedError, ScoringError, ServerError, WorkerError
from reasoning_env.evaluations.folder import SAMPLES
from reasoning_env.evaluations.run import EvaluatedProblem, Evaluation
from reasoning_env.inference.formats.reply_format import SentRequest
from reasoning_env.problems.plan import EvaluationPlan
from reasoning_env.problems.presets import load_preset
from reasoning_env.prompts.messages import Messages, build_messages
from reasoning_env.prompts.thinking import TAGS
from reasoning_env.records import DropReason, Problem, Prompt, Reason, Rollout, Sampling, Split, Verdict
from reasoning_env.rewards import score_texts
from reasoning_env.settings import ReasoningSettings
from tests.records import make_library, make_problem
from tests.waiting import until

RAISED = {"gone": ServerError, "refused": RefusedError}


class Scorer:
    """Uses the number in an answer as its score. The library score is 1 minus this number."""

    async def score(self, problem: Problem, answers: Sequence[str], *, plainly: bool = False) -> list[Verdict]:
        if "fault" in answers:
            raise ScoringError("the worker cannot score")
        if "no workers" in answers:
            raise WorkerError("no verifier can be started")
        scores = [1.0 - float(answer) if plainly else float(answer) for answer in answers]
        return [Verdict(score, Reason.SCORED, answer) for score, answer in zip(scores, answers, strict=True)]


class Questions:
    """An evaluation set with the given questions."""

    def __init__(self, questions: Sequence[str]) -> None:
        self._questions = questions

    async def stream(self, *, done: Container[tuple[str, int]]) -> AsyncIterator[Problem]:
        for number, question in enumerate(self._questions):
            if ("gcd", number) not in done:
                yield make_problem("gcd", number, question)


class AskedSession:
    """A session with the set `Questions`, which records dropped problems."""

    def __init__(self, questions: Sequence[str], repeats: int, *, preset: bool, **settings: Any) -> None:
        self.settings = ReasoningSettings(**settings)
        self.thinking = TAGS
        self.eval_plan = EvaluationPlan(
            ("gcd",), len(questions), repeats, seed=9, preset=load_preset("rg-easy") if preset else None
        )
        self.evaluation_set: Any = Questions(questions)
        self.library = make_library({"gcd": "arithmetic"})
        self.pool = Scorer()
        self.dropped: list[tuple[str, DropReason]] = []

    def system_prompt(self, split: Split = Split.TRAIN) -> str:
        return ""

    def messages(self, problem: Problem) -> tuple[Mapping[str, str], ...]:
        return build_messages("", problem.question)

    async def judge(self, problem: Problem, completions: Sequence[str], /) -> list[Verdict]:
        return await score_texts(self.pool, problem, completions)

    def drop(self, problem: Problem, reason: DropReason) -> None:
        self.dropped.append((problem.question, reason))


class Echo:
    """A model that returns the question as its answer, or raises the error that the question names."""

    model = "echo"
    server_type = "chat"
    base_url = "http://localhost/v1"
    sends: Mapping[str, object] = {"temperature": 0.6}
    """The sampling parameters as sent."""

    def __init__(self) -> None:
        self.stuck: asyncio.Event | None = None
        """Set when the question `stuck` is asked, which gets no reply."""

    async def context_lengths(self) -> list[int | None]:
        return [None, 70_000]

    def prompt(self, messages: Messages) -> Prompt:
        question = messages[-1]["content"]
        return Prompt(tuple(messages), question, (0,) * (100_000 if question == "long" else 3))

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling, answered: list[SentRequest]) -> list[Rollout]:
        await asyncio.sleep(0)
        if prompt.text in RAISED:
            raise RAISED[prompt.text]("no reply")
        if prompt.text == "stuck" and self.stuck is not None:
            self.stuck.set()
            await asyncio.Event().wait()
        answer = "0.5" if prompt.text == "stuck" else prompt.text
        text = answer if answer.startswith("<") else f"<answer>{answer}</answer>"
        answered.append(SentRequest({"temperature": sampling.temperature}, self.sends, "echo-1"))
        return [Rollout(text, (1, 2), (-100, 2), None, "stop")] * n


async def open_evaluation(
    root: Path, session: AskedSession, model: Echo, set_by_user: frozenset[str] = frozenset()
) -> Evaluation:
    settings: Any = SimpleNamespace(
        max_token_length=2048, max_eval_workers=2, data_dir_to_save_evals=str(root), model_fields_set=set_by_user
    )
    return await Evaluation.open(session, model, settings, version="1")


@pytest.fixture
def evaluate(tmp_path: Path) -> Any:
    """Evaluates the questions one by one, and returns the session and the results."""

    async def evaluate(
        *questions: str, repeats: int = 1, preset: bool = False, **settings: Any
    ) -> tuple[AskedSession, list[EvaluatedProblem]]:
        session = AskedSession(questions, repeats, preset=preset, **settings)
        evaluation = await open_evaluation(tmp_path, session, Echo())
        problems = [problem async for problem in session.evaluation_set.stream(done=())]
        results = [await evaluation.evaluate(problem) for problem in problems]
        await evaluation.conclude()
        return session, results

    return evaluate


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs an evaluation of the given questions to its end, and returns the session and the results."""

    async def run(*questions: str, **settings: Any) -> tuple[AskedSession, Mapping[str, Any]]:
        session = AskedSession(questions, 1, preset=False, **settings)
        evaluation = await open_evaluation(tmp_path, session, Echo())
        try:
            await evaluation.run()
        finally:
            result = await evaluation.conclude()
        return session, result.results

    return run


async def test_eval_repeats_is_the_number_of_completions_per_problem(evaluate: Any) -> None:
    _, (first, second) = await evaluate("1.0", "0.5", repeats=3)
    assert (first.group.scores, second.group.scores) == ((1.0,) * 3, (0.5,) * 3)
    assert (first.library_scores, first.failed, first.dropped) == (None, 0, None)


async def test_library_score_is_computed_for_the_last_answer_in_a_completion(evaluate: Any) -> None:
    thinking = "<think><answer>0.25</answer></think>"
    texts = (f"{thinking}<answer>1</answer>", f"<answer>1</answer>{thinking}", "<answer>1")
    _, results = await evaluate(*texts, preset=True)
    assert [list(result.library_scores or ()) for result in results] == [[0.0], [0.75], [0.0]]
    assert [result.group.scores for result in results] == [(1.0,), (1.0,), (0.0,)]


@pytest.mark.parametrize(
    ("question", "dropped"),
    [
        ("gone", DropReason.INFERENCE),
        ("fault", DropReason.SCORING),
        ("no workers", DropReason.SCORING),
        ("long", DropReason.PROMPT_TOO_LONG),
    ],
)
async def test_dropped_problem_gets_no_score(evaluate: Any, question: str, dropped: DropReason) -> None:
    session, (first, second, third) = await evaluate("1.0", question, "0.5", repeats=2)
    assert [first.group.scores, second.group.scores, third.group.scores] == [(1.0, 1.0), (), (0.5, 0.5)]
    assert (second.failed, second.dropped) == (2, dropped)
    assert session.dropped == [(question, dropped)]


async def test_results_contain_the_evaluation_plan_with_defaults_filled_in(run: Any) -> None:
    """The settings do not contain the resolved numbers of problems and repeats."""
    _, results = await run("1.0", "0.5")
    settings = results["settings"]
    assert (settings["tasks"], settings["num_eval_samples_per_task"], settings["eval_repeats"]) == (["gcd"], 2, 1)
    assert settings["eval_seed"] == 9


async def test_consecutive_failed_problems_end_the_evaluation(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reasoning_env.evaluations.run.MAX_FAILED_GROUPS", 3)
    failures = r"3 evaluation .* in a row failed; last error: (ServerError: no reply|ScoringError: .* cannot score)$"
    with pytest.raises(ServerError, match=failures):
        await run("1.0", *["gone", "fault"] * 3, *["1.0"] * 50)


async def test_refused_request_ends_the_evaluation(run: Any) -> None:
    with pytest.raises(RefusedError):
        await run("1.0", "refused", *["1.0"] * 50)


@pytest.mark.parametrize("dropped", ["gone", "long"])
async def test_failed_problems_that_are_not_consecutive_do_not_end_the_evaluation(
    run: Any, dropped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.evaluations.run.MAX_FAILED_GROUPS", 3)
    _, results = await run(*[dropped, dropped, "1.0", "1.0"] * 5)
    assert (results["finished"], results["overall"]["failed"]) == (True, 10)


async def test_evaluation_that_scores_no_problem_leaves_no_folder(run: Any, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no evaluation problem could be evaluated"):
        await run("gone", "gone")
    assert list(tmp_path.iterdir()) == []


async def test_evaluation_during_training_logs_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("reasoning_env.evaluations.run.PROGRESS_INTERVAL_S", 0.01)
    caplog.set_level("INFO")
    model = Echo()
    model.stuck = asyncio.Event()
    evaluation = await open_evaluation(tmp_path, AskedSession(["1.0", "stuck"], 1, preset=False), model)
    running = asyncio.create_task(evaluation.run(bar=False))
    await until(lambda: "evaluation: 1 of 2, mean score 1.000" in caplog.messages)
    running.cancel()
    await asyncio.wait([running])
    await evaluation.conclude()


async def test_resumed_evaluation_does_not_repeat_finished_problems(tmp_path: Path) -> None:
    model = Echo()
    model.stuck = asyncio.Event()
    session = AskedSession(["1.0", "stuck", "stuck", "1.0"], 1, preset=False)
    evaluation = await open_evaluation(tmp_path, session, model)
    running = asyncio.create_task(evaluation.run())
    await asyncio.wait_for(model.stuck.wait(), 60)
    await until(lambda: "results of 1 of 4 problems" in evaluation.describe())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    interrupted = await evaluation.conclude()
    assert (interrupted.finished, interrupted.score) == (False, 1.0)
    assert "results of 1 of 4 problems" in evaluation.describe()
    again = await open_evaluation(tmp_path, session, Echo())
    await again.run()
    finished = await again.conclude()
    assert (finished.folder, finished.finished, finished.score) == (interrupted.folder, True, 0.75)
    lines = (finished.folder / SAMPLES).read_text().splitlines()
    assert sorted(json.loads(line)["index"] for line in lines) == [0, 1, 2, 3]
    assert finished.results["sent"]["requests"] == 4
    assert finished.results["sent"]["models"] == ["echo-1"]


@pytest.mark.parametrize(
    ("preset", "set_by_user", "limits"),
    [
        (False, frozenset(), (2048, None)),
        (True, frozenset(), (70_000, 32_768)),
        (True, frozenset({"max_token_length"}), (2048, 32_768)),
    ],
)
async def test_evaluation_token_limits_come_from_the_preset_unless_the_user_set_them(
    tmp_path: Path, preset: bool, set_by_user: frozenset[str], limits: tuple[int, int | None]
) -> None:
    session = AskedSession(["1.0"], 1, preset=preset)
    evaluation = await open_evaluation(tmp_path, session, Echo(), set_by_user)
    await evaluation.run()
    settings = (await evaluation.conclude()).results["settings"]
    assert (settings["max_token_length"], settings["max_completion_tokens"]) == limits


async def test_line_of_the_samples_file_has_the_documented_fields(evaluate: Any) -> None:
    _, (result,) = await evaluate("1.0", preset=True)
    line = json.loads(result.line())
    assert (line["item_id"], line["index"], line["failed"], line["dropped"]) == ("gcd", 0, 0, None)
    (rollout,) = line["rollouts"]
    conversation = [{"role": "user", "content": "1.0"}, {"role": "assistant", "content": "<answer>1.0</answer>"}]
    assert rollout["conversation"] == conversation
    assert (rollout["score"], rollout["library_score"], rollout["correct"], rollout["tokens"]) == (1.0, 0.0, True, 1)
    assert rollout["seconds"] >= 0

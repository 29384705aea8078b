from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos import problem_source
from reasoning_env.atropos.problem_source import LONG_QUESTION, ProblemSource
from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.plan import EvalPlan
from reasoning_env.metrics import MetricsRecorder
from reasoning_env.records import ProblemSpec, Prompt
from reasoning_env.tasks.plan import TaskPlan
from reasoning_gym_environment import ReasoningGymEnvConfig
from tests.fake_workers import FakeWorkers
from tests.records import SAMPLING, make_problem, problem_of

TASKS = ("long", "short")
PLAN = TaskPlan(TASKS, TASKS, TASKS, adjustable=frozenset(), params={}, weights=dict.fromkeys(TASKS, 1.0))

EVAL_PLAN = EvalPlan(TASKS, samples_per_task=5, repeats=1)


Make = Callable[..., ProblemSource]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Builds sources that are not started, and closes them at the end."""
    made: list[ProblemSource] = []

    def render(messages: Any) -> Prompt:
        """A prompt of one token, or of the whole limit for the task `long`."""
        length = SAMPLING.token_limit if messages[-1]["content"].startswith("long") else 1
        return Prompt(tuple(messages), "", (0,) * length)

    def make_one(metrics: MetricsRecorder | None = None, **settings: Any) -> ProblemSource:
        pool: Any = FakeWorkers(lambda spec: problem_of(spec, f"{spec.task} {spec.seed}"))
        chat: Any = SimpleNamespace(prompt=render)
        config = ReasoningGymEnvConfig(**{"prefetch_problems": 2, **settings})
        made.append(ProblemSource(config, PLAN, pool, chat, metrics or MetricsRecorder(), eval_plan=EVAL_PLAN))
        return made[-1]

    yield make_one
    for source in made:
        await source.close()


async def take(source: ProblemSource, count: int) -> list[ProblemSpec]:
    return [(await source.next(SAMPLING)).problem.spec for _ in range(count)]


async def test_problems_whose_prompts_are_too_long_are_skipped_counted_and_named_once(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = MetricsRecorder()
    source = make(metrics)
    source.start()
    specs = await take(source, 10)
    assert {spec.task for spec in specs} == {"short"}
    skipped = specs[-1].index + 1 - len(specs)
    assert metrics.dropped == {"prompt_too_long": skipped}
    assert skipped > 1
    assert source.in_flight == 10
    assert [record.args for record in caplog.records] == [("long", SAMPLING.token_limit)]


async def test_limit_that_fits_no_prompt_at_all_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_source, "PROMPTS_TOO_LONG_LIMIT", 20)
    source = make(min_completion_tokens=SAMPLING.token_limit)
    source.start()
    with pytest.raises(ConfigError, match=f"max_token_length={SAMPLING.token_limit}"):
        await source.next(SAMPLING)


async def test_only_the_first_start_counts_and_each_instance_has_a_stream_of_its_own(make: Make) -> None:
    one, other, another_seed = make(), make(), make(seed=43)
    one.start()
    one.start(instance=1)
    other.start(instance=1)
    another_seed.start()
    seeds = [{spec.seed for spec in await take(each, 30)} for each in (one, other, another_seed)]
    assert not (seeds[0] & seeds[1] or seeds[0] & seeds[2])


@pytest.mark.parametrize(
    ("settings", "system"),
    [
        ({"system_prompt": "Be brief."}, ["Be brief."]),
        ({"system_prompt": "Be brief.", "custom_thinking_prompt": "Think."}, ["Think.\n\nBe brief."]),
        ({"system_prompt": "", "custom_thinking_prompt": "Think."}, ["Think."]),
        ({"system_prompt": ""}, []),
    ],
)
@pytest.mark.parametrize("question", ["2 + 3?", "?" * (LONG_QUESTION + 1)], ids=["here", "in a thread"])
async def test_prompt_asks_the_question_after_all_system_prompts(
    make: Make, settings: dict[str, Any], system: list[str], question: str
) -> None:
    prompt = await make(**settings).prompt(make_problem(question=question))
    assert [message["content"] for message in prompt.messages] == [*system, question]

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from reasoning_env.atropos import problem_source
from reasoning_env.atropos.problem_source import LONG_QUESTION, ProblemSource
from reasoning_env.errors import ConfigError
from reasoning_env.evaluations.plan import EvalPlan
from reasoning_env.metrics import MetricsRecorder
from reasoning_env.records import Problem, ProblemSpec, Prompt
from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks.plan import TaskPlan
from tests.records import SAMPLING, make_problem

TASKS = ("long", "short")
PLAN = TaskPlan(TASKS, TASKS, TASKS, adjustable=frozenset(), params={}, weights=dict.fromkeys(TASKS, 1.0))

EVAL_PLAN = EvalPlan(TASKS, samples_per_task=5, repeats=1)


class Config(ReasoningSettings):
    """The settings that a source reads, Atropos' own included."""

    group_size: int = 4
    custom_thinking_prompt: str | None = None


class Pool:
    """Generates problems whose questions begin with their task."""

    async def generate(self, spec: ProblemSpec, deadline_s: float) -> Problem:
        return Problem(spec, f"{spec.task} {spec.seed}", "2", "{}", b"")


class Chat:
    """Renders prompts of one token, or of the whole limit for the task `long`."""

    def prompt(self, messages: Any) -> Prompt:
        length = SAMPLING.token_limit if messages[-1]["content"].startswith("long") else 1
        return Prompt(tuple(messages), "", (0,) * length)


class Source:
    """A source with what stands around it."""

    def __init__(self, **settings: Any) -> None:
        self.metrics = MetricsRecorder()
        self.settled = 0
        pool: Any = Pool()
        chat: Any = Chat()
        config = Config(**{"prefetch_problems": 2, **settings})
        self.source = ProblemSource(config, PLAN, pool, chat, self.metrics, eval_plan=EVAL_PLAN, settled=self._settle)

    async def _settle(self) -> None:
        self.settled += 1


Make = Callable[..., Source]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Builds sources that are not started, and closes them at the end."""
    made: list[Source] = []

    def make_one(**settings: Any) -> Source:
        made.append(Source(**settings))
        return made[-1]

    yield make_one
    for one in made:
        await one.source.close()


async def take(source: ProblemSource, count: int) -> list[ProblemSpec]:
    return [(await source.next(SAMPLING)).problem.spec for _ in range(count)]


async def test_problems_whose_prompts_are_too_long_are_skipped_counted_and_named_once(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = make()
    one.source.start()
    specs = await take(one.source, 10)
    assert {spec.task for spec in specs} == {"short"}
    skipped = specs[-1].index + 1 - len(specs)
    assert one.metrics.dropped == {"prompt_too_long": skipped}
    assert skipped > 1
    assert one.source.in_flight == 10
    assert one.settled == 10 + skipped
    [message] = caplog.messages
    assert "problems of long are skipped" in message


async def test_limit_that_fits_no_prompt_at_all_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_source, "PROMPTS_TOO_LONG_LIMIT", 20)
    one = make(min_completion_tokens=SAMPLING.token_limit)
    one.source.start()
    with pytest.raises(ConfigError, match=f"max_token_length={SAMPLING.token_limit}"):
        await one.source.next(SAMPLING)


async def test_only_the_first_start_counts_and_each_instance_has_a_stream_of_its_own(make: Make) -> None:
    one, other, another_seed = make(), make(), make(seed=43)
    one.source.start()
    one.source.start(instance=1)
    other.source.start(instance=1)
    another_seed.source.start()
    seeds = [{spec.seed for spec in await take(each.source, 30)} for each in (one, other, another_seed)]
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
    prompt = await make(**settings).source.prompt(make_problem(question=question))
    assert [message["content"] for message in prompt.messages] == [*system, question]

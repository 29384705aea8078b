from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from reasoning_env import ConfigError, Problem, ReasoningSettings, Session
from reasoning_env.problems import stream
from reasoning_env.records import ProblemRequest, ProblemSpec, Reason, Split, Verdict
from reasoning_env.workers.pool import PoolSettings
from tests.lent_pool import lent_pool
from tests.records import make_rollout
from tests.small_library import write_small_library
from tests.waiting import PATIENCE_S

WRONG = "<answer>wrong</answer>"

on_module_loop = pytest.mark.asyncio(loop_scope="module")

MakeSession = Callable[..., Awaitable[Session[Any]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers() -> AsyncIterator[Any]:
    async with lent_pool() as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def make_session(workers: Any) -> AsyncIterator[MakeSession]:
    """Starts sessions, and closes them at the end."""
    made: list[Session[Any]] = []

    async def make(*, fits: Callable[[Problem], bool] | None = None, **settings: Any) -> Session[Any]:
        small = {"tasks": ["chain_sum"], "seed": 1, **settings}
        if fits is None:
            session: Session[Any] = Session(ReasoningSettings(**small), pool=workers)
        else:
            session = Session(
                ReasoningSettings(**small), prepare=lambda problem: problem if fits(problem) else None, pool=workers
            )
        made.append(session)
        await made[-1].start()
        return made[-1]

    yield make
    for session in made:
        await session.close()


def right(problem: Problem) -> str:
    return f"<answer>{problem.answer}</answer>"


async def take(session: Session[Any], count: int) -> list[Problem]:
    return [await session.next() for _ in range(count)]


@on_module_loop
async def test_messages_begin_with_system_prompt(make_session: MakeSession) -> None:
    session = await make_session(system_prompt="Be brief.")
    problem = await session.next()
    assert list(session.messages(problem)) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": problem.question},
    ]


@on_module_loop
async def test_problem_is_no_longer_in_flight_after_the_observe_method(make_session: MakeSession) -> None:
    session = await make_session()
    problem = await session.next()
    assert session.in_flight == 1
    session.observe(problem, await session.judge(problem, [right(problem), WRONG]))
    assert session.in_flight == 0


@on_module_loop
async def test_problem_of_an_undelivered_group_stays_in_flight(make_session: MakeSession) -> None:
    session = await make_session()
    problem = await session.next()
    session.observe(problem, await session.judge(problem, [WRONG]), done=False)
    assert session.in_flight == 1
    session.done(problem)
    assert session.in_flight == 0


@on_module_loop
async def test_report_method_covers_only_the_time_since_its_previous_call(make_session: MakeSession) -> None:
    session = await make_session()
    problem = await session.next()
    session.observe(problem, await session.judge(problem, [right(problem), WRONG]))
    assert session.report()["train/mean_score"] == 0.5
    assert "train/mean_score" not in session.report()


@on_module_loop
async def test_session_resumed_from_a_state_continues_the_problem_stream(make_session: MakeSession) -> None:
    expected = [problem.question for problem in await take(await make_session(), 4)]
    first = await make_session()
    served = await take(first, 2)
    first.done(served[0])
    resumed = await make_session()
    resumed.begin(state=first.state())
    assert [problem.question for problem in await take(resumed, 3)] == expected[1:]


@on_module_loop
async def test_session_resumed_from_an_earlier_state_serves_the_same_problems_again(make_session: MakeSession) -> None:
    """The first run continued after it saved the state, as a run does before kill -9.

    The second run resumes from this state.
    """
    curriculum = {"tasks": ["chain_sum", "gcd"], "complexity_mode": "curriculum", "task_sampling": "adaptive"}

    async def serve(session: Session, count: int) -> list[str]:
        references = []
        for problem in [await session.next() for _ in range(count)]:
            score = problem.spec.seed % 2
            session.observe(problem, [Verdict(float(score), Reason.SCORED), Verdict(1.0, Reason.SCORED)])
            references.append(problem.reference)
        return references

    whole, begun = await make_session(**curriculum), await make_session(**curriculum)
    expected = await serve(whole, 6) + await serve(whole, 6) + await serve(whole, 6)
    served = await serve(begun, 6)
    for _ in range(2):
        state = begun.state()
        await serve(begun, 4)
        begun = await make_session(**curriculum)
        begun.begin(state=state)
        served += await serve(begun, 6)
    assert served == expected


@on_module_loop
async def test_length_penalty_does_not_affect_adaptive_sampling(make_session: MakeSession) -> None:
    session = await make_session(task_sampling="adaptive")
    rollouts = [make_rollout(1.0), make_rollout(1.0, reward=0.5)]
    verdicts = [Verdict(1.0, Reason.SCORED), Verdict(1.0, Reason.SCORED)]
    session.observe(await session.next(), verdicts, rollouts=rollouts)
    (_, *counts) = session.state()["sampler"]["chain_sum"][0]
    assert counts == [1.0, 1.0, 0.0, 1]


@on_module_loop
async def test_evaluation_questions_are_not_served_in_training(make_session: MakeSession) -> None:
    session = await make_session(tasks=["coin_flip"], num_eval_samples_per_task=50)
    held_out = {problem.question for problem in await session.evaluation_set.problems()}
    assert not held_out & {problem.question for problem in await take(session, 40)}


@on_module_loop
async def test_evaluation_can_use_the_task_params_of_training(make_session: MakeSession) -> None:
    params = {"spell_backward": {"min_word_len": 3, "max_word_len": 5}}
    session = await make_session(tasks=["spell_backward"], task_params=params, eval_level="training")
    answers = [problem.answer for problem in await session.evaluation_set.problems()]
    assert answers and all(3 <= len(answer or "") <= 5 for answer in answers)


@on_module_loop
async def test_too_long_problem_is_replaced(make_session: MakeSession) -> None:
    session = await make_session(fits=lambda problem: problem.spec.attempt % 3 == 2)
    drawn = [(problem.spec.index, problem.spec.attempt) for problem in await take(session, 3)]
    assert drawn == [(0, 2), (1, 2), (2, 2)]
    assert session.report()["problems/flawed/too_long"] >= 6
    assert session.in_flight == 3


@on_module_loop
async def test_session_returns_the_result_of_the_prepare_callback(workers: Any) -> None:
    session = Session(ReasoningSettings(tasks=["gcd"]), prepare=lambda problem: problem.question.upper(), pool=workers)
    await session.start()
    assert "FIND THE GREATEST COMMON DIVISOR" in await session.next()
    await session.close()


@on_module_loop
async def test_calls_of_the_prepare_callback_run_concurrently(workers: Any) -> None:
    calls, second_call = count(1), threading.Event()

    def wait_for_second_call(_: Problem) -> bool:
        if next(calls) == 2:
            second_call.set()
        return second_call.wait(PATIENCE_S)

    session = Session(ReasoningSettings(tasks=["gcd"]), prepare=wait_for_second_call, pool=workers)
    await session.start()
    assert await session.next()
    await session.close()


@on_module_loop
async def test_problem_whose_answer_exceeds_the_size_limit_is_not_served(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reasoning_env.session.MAX_ANSWER_BYTES", 4)
    session = await make_session(tasks=["spell_backward"])
    assert all(len(problem.answer or "") <= 4 for problem in await take(session, 5))


@on_module_loop
async def test_levels_whose_problems_are_too_long_are_excluded(
    make_session: MakeSession, caplog: pytest.LogCaptureFixture
) -> None:
    session = await make_session(complexity_mode="random", fits=lambda problem: (problem.level or 0) < 0.5)
    levels = [problem.level for problem in await take(session, 80)]
    assert max(level or 0.0 for level in levels) < 0.5
    assert "no more problems of chain_sum are drawn at level 0." in caplog.text
    assert session.state()["stream"]["ceilings"]["chain_sum"] >= 0.5


@on_module_loop
async def test_fixed_level_is_still_used_if_most_problems_are_too_long(
    make_session: MakeSession, caplog: pytest.LogCaptureFixture
) -> None:
    verdicts = cycle([True, *[False] * 7])
    session = await make_session(complexity_level=0.5, fits=lambda problem: next(verdicts))
    assert {problem.level for problem in await take(session, 10)} == {0.5}
    assert "are drawn at level" not in caplog.text


@on_module_loop
async def test_session_logs_one_warning_about_too_long_problems(
    make_session: MakeSession, caplog: pytest.LogCaptureFixture
) -> None:
    session = await make_session(fits=lambda problem: problem.spec.attempt > 2)
    await session.next()
    assert caplog.text.count("replaced a problem of chain_sum") == 1


@on_module_loop
async def test_session_raises_if_all_first_problems_are_too_long(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_UNFIT", 3)
    session = await make_session(fits=lambda problem: False)
    with pytest.raises(ConfigError, match="in each of the first 3 problems, prompt and expected answer together"):
        await session.next()


@on_module_loop
async def test_run_continues_after_many_too_long_problems(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_UNFIT", 3)
    session = await make_session(fits=lambda problem: problem.spec.index != 1 or problem.spec.attempt == 9)
    assert [problem.spec.attempt for problem in await take(session, 3)] == [0, 9, 0]


@on_module_loop
async def test_length_check_of_problems_runs_in_a_thread(make_session: MakeSession) -> None:
    threads: set[int] = set()
    session = await make_session(fits=lambda _: threads.add(threading.get_ident()) is None)
    await session.next()
    assert threads and threading.get_ident() not in threads


# ---------------------------------------------------------------------------- references


@on_module_loop
async def test_problem_of_the_composite_task_is_made_from_its_problem_reference(make_session: MakeSession) -> None:
    session = await make_session(tasks=["composite", "gcd", "lcm"], complexity_level=0.5)
    composite = next(problem for problem in await take(session, 20) if problem.task == "composite")
    assert (await session.remake(composite.reference)).question == composite.question


@on_module_loop
@pytest.mark.parametrize("clarified", [True, False])
async def test_right_answer_scores_1_with_the_original_or_clarified_question(
    make_session: MakeSession, clarified: bool
) -> None:
    session = await make_session()
    request = ProblemRequest("maze", 5, exact_seed=True, clarified=clarified)
    problem = await session.pool.generate(ProblemSpec(request, Split.TRAIN, 0), PATIENCE_S)
    assert ("up, down, left or right" in problem.question) is clarified
    assert (await session.judge(problem.reference, [right(problem)]))[0].score == 1.0


@on_module_loop
async def test_problem_made_from_a_problem_reference_is_cached(make_session: MakeSession) -> None:
    session = await make_session()
    [problem] = await take(session, 1)
    assert await session.remake(problem.reference) is await session.remake(problem.reference)


# ---------------------------------------------------------------------------- single problems


@on_module_loop
async def test_make_method_uses_the_given_seed_unchanged(make_session: MakeSession) -> None:
    session = await make_session(tasks=["coin_flip"])
    seeds = [(await session.make("coin_flip", seed)).spec.seed for seed in range(20)]
    assert seeds == list(range(20))


@on_module_loop
async def test_draw_method_returns_the_problems_of_the_stream(make_session: MakeSession) -> None:
    session = await make_session(tasks=["chain_sum", "leg_counting"], complexity_mode="random")
    served = [await session.next() for _ in range(4)]
    assert [(await session.draw(index)).reference for index in range(4)] == [problem.reference for problem in served]


@on_module_loop
async def test_draw_method_accepts_task_and_level(make_session: MakeSession) -> None:
    session = await make_session(tasks=["chain_sum", "leg_counting"])
    problem = await session.draw(3, task="chain_sum", level=0.5)
    assert (problem.task, problem.level) == ("chain_sum", 0.5)
    assert session.in_flight == 0


@on_module_loop
async def test_draw_method_ignores_the_curriculum_state(make_session: MakeSession) -> None:
    session = await make_session(tasks=["chain_sum"], complexity_mode="curriculum")
    before = [(await session.draw(index)).reference for index in range(5)]
    for _ in range(5):
        session.observe(await session.next(), [1.0] * 8)
    assert [(await session.draw(index)).reference for index in range(5)] == before


@on_module_loop
async def test_draw_method_replaces_a_problem_whose_question_is_in_the_evaluation_set(
    make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await make_session(tasks=["chain_sum"])
    first = await session.draw(0)

    async def has_question(problem: Problem) -> bool:
        return problem.reference == first.reference

    monkeypatch.setattr(session.evaluation_set, "has_question", has_question)
    assert (await session.draw(0)).question != first.question


@on_module_loop
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"index": -1}, "index: must be at least 0; got -1"),
        ({"index": "1"}, "index: must be a whole number; got '1'"),
        (
            {"index": 0, "task": "chain_sun"},
            "task: must be one of the selected tasks; got 'chain_sun'; did you mean chain_sum?",
        ),
        (
            {"index": 0, "task": "gcd"},
            "task: must be one of the selected tasks; got 'gcd'; add it to the setting `tasks`",
        ),
        ({"index": 0, "level": 1.5}, "level: must be a number from 0 to 1; got 1.5"),
        ({"index": 0, "level": float("nan")}, "level: must be a number from 0 to 1; got nan"),
        ({"index": 0, "task": "acre", "level": 0.5}, "level: acre has no levels; got 0.5; omit the level"),
    ],
)
async def test_invalid_arguments_of_the_draw_method_raise_a_one_line_error(
    make_session: MakeSession, arguments: dict[str, Any], text: str
) -> None:
    session = await make_session(tasks=["chain_sum", "acre"])
    with pytest.raises(ConfigError) as error:
        await session.draw(**arguments)
    assert str(error.value) == text


@on_module_loop
async def test_params_of_the_make_method_override_task_params(make_session: MakeSession) -> None:
    session = await make_session(task_params={"chain_sum": {"min_terms": 5, "max_terms": 5}})
    problem = await session.make("chain_sum", 1, params={"max_terms": 6, "min_terms": 6})
    assert problem.question.count(" + ") + problem.question.count(" - ") == 5


# ---------------------------------------------------------------------------- beginning and end


async def test_library_warnings_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkout = write_small_library(tmp_path) / "reasoning-gym"
    factory = checkout / "reasoning_gym" / "factory.py"
    factory.write_text(f"{factory.read_text()}CURRICULA = {{'exact': None}}\n")
    async with Session(ReasoningSettings(num_generators=1, num_verifiers=1), checkout=checkout):
        pass
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(set(warnings)) == len(warnings) > 0


@on_module_loop
async def test_session_closes_the_workers_if_its_settings_are_invalid(workers: Any, make_session: MakeSession) -> None:
    closings = workers.closings
    with pytest.raises(ConfigError, match="no_such_task"):
        await make_session(tasks=["no_such_task"])
    assert workers.closings == closings + 1


def test_plan_cannot_be_read_before_the_session_starts() -> None:
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = Session(ReasoningSettings()).plan


@on_module_loop
async def test_state_cannot_be_read_before_the_stream_begins(make_session: MakeSession) -> None:
    session = await make_session()
    with pytest.raises(RuntimeError, match=r"call begin\(\) first"):
        session.state()


def test_library_paths_in_settings_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have other working directories. The setting overrides the checkout beside the package."""
    monkeypatch.chdir(tmp_path)
    settings = ReasoningSettings(checkout="fork", task_modules="lab.words, own.py")
    pool = PoolSettings(settings, Path("/beside"))
    assert pool.checkout == tmp_path / "fork"
    assert pool.for_child()["task_modules"] == ["lab.words", str(tmp_path / "own.py")]


def test_workers_get_only_the_settings_they_need() -> None:
    sent = {"rewards": "plain", "sandbox_verifiers": False}
    sent |= {"worker_memory_mb": 600}
    own = {"task_modules": [], "folder": None, "source_wrapper": None, "fast": True, "niceness": 3}
    assert PoolSettings(ReasoningSettings(**sent)).for_child() == {**sent, **own}


def test_session_raises_if_the_library_checkout_does_not_contain_the_library_package(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not contain the package reasoning_gym"):
        Session(ReasoningSettings(), checkout=tmp_path)

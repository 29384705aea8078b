from __future__ import annotations

import asyncio
import threading

import pytest

from reasoning_env.runtime.turns import CALLS_PER_BATCH, NUMBERS_PER_TURN, map_in_turns, run_on_decoder
from tests.waiting import PATIENCE_S


async def turns_of_others(sizes: list[int]) -> int:
    """Return how many turns another asyncio task gets while `map_in_turns` processes sequences of these sizes."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    sequences = [[float(size)] * size for size in sizes]
    assert await map_in_turns(len, sequences) == sizes
    counting.cancel()
    return turns


async def test_processing_100_short_sequences_yields_as_often_as_processing_one() -> None:
    assert await turns_of_others([200] * 100) == await turns_of_others([200])


async def test_processing_yields_to_the_event_loop_after_each_long_sequence() -> None:
    alone = await turns_of_others([NUMBERS_PER_TURN])
    assert await turns_of_others([NUMBERS_PER_TURN] * 8) >= 8 * alone


async def test_map_over_an_empty_list_returns_an_empty_list() -> None:
    assert await map_in_turns(len, []) == []


async def test_short_sequences_are_processed_without_yielding_to_the_event_loop() -> None:
    assert await turns_of_others([NUMBERS_PER_TURN // 8] * 8) == 0


# ---------------------------------------------------------------------------- threaded calls


async def test_decoder_thread_does_not_mix_up_results_of_concurrent_calls() -> None:
    numbers = range(3 * CALLS_PER_BATCH)
    assert await asyncio.gather(*(run_on_decoder(str, number) for number in numbers)) == list(map(str, numbers))


async def test_error_of_one_decoder_call_does_not_affect_other_calls() -> None:
    outcomes = await asyncio.gather(*(run_on_decoder(int, text) for text in ("1", "x", "3")), return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [1, ValueError, 3]


async def test_queued_call_of_a_cancelled_caller_is_skipped() -> None:
    release = threading.Event()
    first = asyncio.create_task(run_on_decoder(release.wait, PATIENCE_S))
    done: list[int] = []
    gone, waiting = [asyncio.create_task(run_on_decoder(done.append, number)) for number in (1, 2)]
    await asyncio.sleep(0)
    gone.cancel()
    release.set()
    await asyncio.gather(first, waiting)
    assert done == [2]
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_simultaneous_calls_are_handed_to_the_decoder_thread_as_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reasoning_env.runtime.turns.MAX_BATCH_S", PATIENCE_S)
    handovers = 0
    run_in_executor = asyncio.get_running_loop().run_in_executor

    def count(*arguments: object) -> object:
        nonlocal handovers
        handovers += 1
        return run_in_executor(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", count)
    await asyncio.gather(*(run_on_decoder(int) for _ in range(1 + CALLS_PER_BATCH)))
    assert handovers == 2

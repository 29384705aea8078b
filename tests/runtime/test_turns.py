from __future__ import annotations

import asyncio

from reasoning_env.runtime.turns import NUMBERS_IN_A_TURN, each_in_turn


async def turns_of_others(sizes: list[int]) -> int:
    """Return how many turns another task has while `each_in_turn` works on sequences of these sizes."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    sequences = [[float(size)] * size for size in sizes]
    assert await each_in_turn(len, sequences) == sizes
    counting.cancel()
    return turns


async def test_short_sequences_share_a_turn() -> None:
    assert await turns_of_others([200] * 100) == await turns_of_others([200])


async def test_others_have_turns_between_long_sequences() -> None:
    alone = await turns_of_others([NUMBERS_IN_A_TURN])
    assert await turns_of_others([NUMBERS_IN_A_TURN] * 8) >= 8 * alone


async def test_no_sequences() -> None:
    assert await each_in_turn(len, []) == []

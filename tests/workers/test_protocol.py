"""Send frames between workers and the pool, and limit the size of frames."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.workers.protocol import (
    DISCONNECTED_STATUS,
    FRAME,
    OUT_OF_MEMORY_STATUS,
    Frame,
    FrameLimits,
    ProtocolFault,
    WorkerEnd,
    encode_frame,
    read_frame,
)
from reasoning_env.workers.worker import Channel, WorkerDied
from tests.waiting import PATIENCE_S

LIMITS = FrameLimits(header=1000, blob=1000)
FLOOD_BYTES = 8 << 20
TEXT = st.text(st.characters(), max_size=20)
FRAMES = st.lists(st.tuples(st.dictionaries(TEXT, TEXT | st.integers(), max_size=3), st.binary(max_size=50)))


def _read_all(data: bytes) -> list[Frame]:
    """Return all frames that a worker reads until its socket is closed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=lambda: (ours.sendall(data), ours.close()))
        sender.start()
        frames = list(iter(lambda: read_frame(theirs), None))
        sender.join()
        return frames


@given(FRAMES)
def test_worker_messages_round_trip(frames: list[tuple[dict[str, Any], bytes]]) -> None:
    data = b"".join(encode_frame(header, blob) for header, blob in frames)
    assert _read_all(data) == [Frame(header, blob) for header, blob in frames]


@pytest.mark.parametrize("number", [math.inf, -math.inf, 1e300, 10**30, -0.0])
def test_numbers_round_trip_through_a_worker_message(number: float) -> None:
    assert _read_all(encode_frame({"n": number})) == [Frame({"n": number}, b"")]


@pytest.mark.parametrize("cut", [3, 10, 20])
def test_incomplete_message_of_a_dead_worker_is_dropped(cut: int) -> None:
    assert _read_all(encode_frame({"n": 1}, b"blob" * 10)[:cut]) == []


# ------------------------------------------------------------------ the pool's side


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Channel, socket.socket]]:
    """A channel, and the socket at the other end of it."""
    ours, theirs = socket.socketpair()
    channel = await Channel.open(ours, LIMITS)
    with theirs:
        yield channel, theirs
        channel.close()


Ends = tuple[Channel, socket.socket]


async def test_worker_message_that_arrives_in_pieces_is_read(ends: Ends) -> None:
    channel, peer = ends
    receiving = asyncio.create_task(channel.receive(PATIENCE_S))
    for byte in encode_frame({"id": 1}, b"blob"):
        await asyncio.sleep(0)
        assert not receiving.done()
        peer.sendall(bytes([byte]))
    assert await receiving == Frame({"id": 1}, b"blob")


async def test_messages_that_a_worker_sent_before_disconnecting_are_read(ends: Ends) -> None:
    channel, peer = ends
    peer.sendall(encode_frame({"id": 1}) + encode_frame({"id": 2}))
    peer.close()
    assert [(await channel.receive(PATIENCE_S)).header["id"] for _ in range(2)] == [1, 2]
    with pytest.raises(WorkerDied):
        await channel.receive(PATIENCE_S)


@pytest.mark.parametrize(("header_bytes", "blob_bytes"), [(1001, 0), (0, 1001), (2**32 - 1, 2**32 - 1)])
async def test_worker_message_longer_than_the_limit_is_rejected(ends: Ends, header_bytes: int, blob_bytes: int) -> None:
    channel, peer = ends
    peer.sendall(FRAME.pack(header_bytes, blob_bytes))
    with pytest.raises(ProtocolFault):
        await channel.receive(PATIENCE_S)


async def test_worker_message_of_exactly_the_maximum_length_is_accepted(ends: Ends) -> None:
    channel, peer = ends
    header = {"x": "y" * (LIMITS.header - len('{"x":""}'))}
    peer.sendall(encode_frame(header, b"z" * LIMITS.blob))
    assert await channel.receive(PATIENCE_S) == Frame(header, b"z" * LIMITS.blob)


def test_worker_message_with_a_deeply_nested_header_is_rejected() -> None:
    text = b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    with pytest.raises(ProtocolFault):
        _read_all(FRAME.pack(len(text), 0) + text)


async def test_main_process_stops_reading_from_a_worker_that_sends_too_many_messages(ends: Ends) -> None:
    _, peer = ends
    peer.setblocking(False)
    flood = encode_frame({"id": 1, "score": 1.0}) * 1000
    sent, refusals = 0, 0
    while sent < FLOOD_BYTES and refusals < 20:
        try:
            sent += peer.send(flood)
            refusals = 0
        except BlockingIOError:
            refusals += 1
            await asyncio.sleep(0.01)
    assert sent < FLOOD_BYTES


@pytest.mark.parametrize(
    ("end", "from_outside", "told"),
    [
        (WorkerEnd(status=OUT_OF_MEMORY_STATUS), False, "reached its memory limit"),
        (WorkerEnd(status=3), False, "exited with status 3"),
        (WorkerEnd(signal=signal.SIGSEGV), False, "ended by SIGSEGV"),
        (WorkerEnd(signal=signal.SIGPIPE), False, "ended by SIGPIPE"),
        (WorkerEnd(status=DISCONNECTED_STATUS), False, "closed its connection to the pool"),
        (WorkerEnd(signal=signal.SIGKILL), True, "was killed by another process or the kernel (SIGKILL)"),
        (WorkerEnd(signal=signal.SIGTERM), True, "was killed by another process or the kernel (SIGTERM)"),
        (WorkerEnd(signal=99), True, "was killed by another process or the kernel (signal 99)"),
        (WorkerEnd(), True, "ended together with the process that forks workers"),
    ],
    ids=str,
)
def test_error_describes_how_a_worker_ended(end: WorkerEnd, from_outside: bool, told: str) -> None:
    assert (end.from_outside, str(end)) == (from_outside, told)

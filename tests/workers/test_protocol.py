from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.workers.fork_server import DeadlineExceeded, FrameStream, WorkerDied
from reasoning_env.workers.protocol import (
    FRAME,
    Frame,
    FrameDecoder,
    FrameLimits,
    ProtocolFault,
    decode_header,
    encode_frame,
    read_frame,
)

LIMITS = FrameLimits(header=1000, blob=1000)
FLOOD_BYTES = 8 << 20
SMALL_TEXT = st.text(st.characters(), max_size=20)
FRAMES = st.lists(
    st.tuples(st.dictionaries(SMALL_TEXT, SMALL_TEXT | st.integers(), max_size=3), st.binary(max_size=50))
)


def _decode(data: bytes, limits: FrameLimits = LIMITS) -> list[Frame]:
    return FrameDecoder(limits).feed(data)


@given(FRAMES, st.integers(1, 60))
def test_frames_survive_any_cutting_of_the_stream(frames: list[tuple[dict[str, Any], bytes]], piece: int) -> None:
    decoder = FrameDecoder(FrameLimits(header=10_000, blob=10_000))
    data = b"".join(encode_frame(header, blob) for header, blob in frames)
    decoded = [frame for at in range(0, len(data), piece) for frame in decoder.feed(data[at : at + piece])]
    assert decoded == [Frame(header, blob) for header, blob in frames]


def test_lone_surrogates_pass_unchanged() -> None:
    assert _decode(encode_frame({"answer": "\ud800 \udfff"})) == [Frame({"answer": "\ud800 \udfff"}, b"")]


def test_incomplete_frame_is_kept_back() -> None:
    decoder = FrameDecoder(LIMITS)
    data = encode_frame({"id": 1}, b"blob")
    assert decoder.feed(data[:-1]) == []
    assert decoder.feed(data[-1:]) == [Frame({"id": 1}, b"blob")]


@pytest.mark.parametrize(("header_bytes", "blob_bytes"), [(1001, 0), (0, 1001), (2**32 - 1, 2**32 - 1)])
def test_length_over_a_limit_is_a_fault_before_the_frame_is_there(header_bytes: int, blob_bytes: int) -> None:
    with pytest.raises(ProtocolFault, match="over the limits"):
        _decode(FRAME.pack(header_bytes, blob_bytes))


def test_lengths_at_the_limits_are_accepted() -> None:
    header = {"x": "y" * (LIMITS.header - len('{"x":""}'))}
    assert _decode(encode_frame(header, b"z" * LIMITS.blob)) == [Frame(header, b"z" * LIMITS.blob)]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"nonsense", b"\xff\xfe{}", b"\x80", b"[" * 900, b'{"id": 1} trailing'],
    ids=["empty", "cut", "words", "utf-16", "no utf-8", "deep", "trailing"],
)
def test_header_that_is_not_json_is_a_fault(text: bytes) -> None:
    with pytest.raises(ProtocolFault, match="not JSON"):
        decode_header(text)


@pytest.mark.parametrize("value", [[], "text", 1, None, True])
def test_header_that_is_not_an_object_is_a_fault(value: object) -> None:
    with pytest.raises(ProtocolFault, match="not an object"):
        decode_header(json.dumps(value).encode())


def test_header_nested_beyond_the_parser_is_a_fault() -> None:
    with pytest.raises(ProtocolFault, match="not JSON"):
        decode_header(b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}")


def test_child_reads_frames_one_by_one_until_the_end_of_the_stream() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=_send_and_close, args=(ours, encode_frame({"n": 1}, b"x" * 300_000)))
        sender.start()
        assert read_frame(theirs) == Frame({"n": 1}, b"x" * 300_000)
        assert read_frame(theirs) is None
        sender.join()


@pytest.mark.parametrize("cut", [3, 10, 20])
def test_child_takes_a_stream_that_ends_inside_a_frame_for_its_end(cut: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        _send_and_close(ours, encode_frame({"n": 1}, b"blob" * 10)[:cut])
        assert read_frame(theirs) is None


def _send_and_close(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    sock.close()


# ------------------------------------------------------------------ the parent's side of a stream


async def _accepted_from_a_flood(data: bytes) -> int:
    """How many bytes a peer gets rid of, sending `data` over and over, while the parent waits for nothing."""
    ours, theirs = socket.socketpair()
    with theirs:
        stream = FrameStream(LIMITS)
        await asyncio.get_running_loop().create_connection(lambda: stream, sock=ours)
        theirs.setblocking(False)
        sent, refusals = 0, 0
        while sent < FLOOD_BYTES and refusals < 20:
            try:
                sent += theirs.send(data)
                refusals = 0
            except BlockingIOError:
                refusals += 1
                await asyncio.sleep(0.01)
            except ConnectionError:
                break
        stream.close()
        return sent


async def test_frames_that_nobody_waits_for_are_not_stored_without_end() -> None:
    frame = encode_frame({"id": 1, "score": 1.0})
    assert await _accepted_from_a_flood(frame * 1000) < FLOOD_BYTES


async def test_bytes_after_a_fault_are_not_stored() -> None:
    assert await _accepted_from_a_flood(FRAME.pack(8, 0) + b"nonsense" * 1000) < FLOOD_BYTES


async def test_reply_is_received_after_it_came_in_pieces() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        stream = FrameStream(LIMITS)
        await asyncio.get_running_loop().create_connection(lambda: stream, sock=ours)
        for byte in encode_frame({"id": 1}, b"blob"):
            theirs.sendall(bytes([byte]))
            await asyncio.sleep(0)
        assert await stream.receive(30.0) == Frame({"id": 1}, b"blob")
        stream.close()


async def test_frames_that_came_before_the_end_of_the_stream_are_received_first() -> None:
    ours, theirs = socket.socketpair()
    stream = FrameStream(LIMITS)
    await asyncio.get_running_loop().create_connection(lambda: stream, sock=ours)
    _send_and_close(theirs, encode_frame({"id": 1}) + encode_frame({"id": 2}))
    assert [(await stream.receive(30.0)).header["id"] for _ in range(2)] == [1, 2]
    with pytest.raises(WorkerDied):
        await stream.receive(30.0)


async def test_missing_reply_is_a_missed_deadline() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        stream = FrameStream(LIMITS)
        await asyncio.get_running_loop().create_connection(lambda: stream, sock=ours)
        with pytest.raises(DeadlineExceeded):
            await stream.receive(0.05)
        stream.close()

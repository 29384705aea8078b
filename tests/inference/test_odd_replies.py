"""Replies that no sound server sends: garbled HTTP, and pauses of years."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import aiohttp
import pytest

from reasoning_env.inference.failures import LONGEST_WAIT_S, FailureKind, explain_failure, seconds_asked

SOUND = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
GARBLED = {
    "NUL in a header": SOUND.replace(b"OK\r\n", b"OK\r\nX-Trace: a\0b\r\n"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a status that is none": SOUND.replace(b"200", b"2x0"),
    "two lengths": SOUND.replace(b"OK\r\n", b"OK\r\nContent-Length: 1\r\n"),
}
"""Replies that aiohttp cannot parse, and reports as the server's status 400."""


async def failure_of(reply: bytes) -> BaseException:
    """Return what aiohttp raises for a reply as it comes over the network."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await session.get(f"http://{host}:{port}/")
    return caught.value


@pytest.mark.parametrize("reply", GARBLED.values(), ids=GARBLED)
async def test_garbled_reply_has_no_status(reply: bytes) -> None:
    failure = explain_failure(await failure_of(reply))
    assert (failure.kind, failure.status) == (FailureKind.UNUSABLE, None)
    assert failure.description.startswith("its reply is no HTTP (400, message=")


def test_date_in_retry_after_is_read() -> None:
    asked = seconds_asked(format_datetime(datetime.now(UTC) + timedelta(seconds=600)))
    assert asked == pytest.approx(600.0, abs=60.0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT_S),
        ("1e30", LONGEST_WAIT_S),
        ("86400", LONGEST_WAIT_S),
        ("1 Jan 99999999999999999999 10:00:00", None),
        ("Fri, 01 Jan 2100 00:00:00 +9999999999", None),
        ("-5", 0.0),
    ],
)
def test_retry_after_is_limited(header: str, seconds: float | None) -> None:
    assert seconds_asked(header) == seconds

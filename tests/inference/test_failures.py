from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import ssl
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from openai import APIConnectionError
from tenacity import RetryError, retry, stop_after_attempt

from reasoning_env.errors import ServerError
from reasoning_env.inference import served_model
from reasoning_env.inference.failures import (
    MAX_REQUEST_FAILURES,
    BrokenOffError,
    Failure,
    FailureKind,
    History,
    Timeouts,
    decide,
    describe_failure,
    explain_failure,
)
from reasoning_env.inference.formats.choices import read_finish_reason
from reasoning_env.inference.formats.reply_format import TextCompletion
from reasoning_env.inference.served_model import PatientRequests
from reasoning_env.inference.server import MAX_FINISH_REASONS, Endings
from reasoning_env.records import Rollout
from tests.waiting import until


class HTTPError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}\nand more")
        self.status = status
        self.headers: dict[str, str] = {}


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (HTTPError(429), FailureKind.BUSY),
        (HTTPError(503), FailureKind.ABSENT),
        (HTTPError(422), FailureKind.REFUSED),
        (HTTPError(418), FailureKind.UNUSABLE),
        (ConnectionRefusedError(), FailureKind.ABSENT),
        (TimeoutError(), FailureKind.ABSENT),
        (KeyError("choices"), FailureKind.UNUSABLE),
    ],
    ids=repr,
)
def test_error_type_decides_the_failure_kind(error: Exception, meaning: FailureKind) -> None:
    assert explain_failure(error).kind is meaning


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (HTTPError(401), "api_key"),
        (HTTPError(400), "max_token_length"),
        (HTTPError(404), "model_name"),
        (KeyError("choices"), "base_url"),
    ],
    ids=repr,
)
def test_failure_message_names_the_setting_to_change(error: Exception, setting: str) -> None:
    assert setting in str(explain_failure(error).remedy)


def test_tenacity_retry_error_has_the_status_of_its_last_attempt() -> None:
    @retry(stop=stop_after_attempt(2))
    async def ask() -> Any:
        raise HTTPError(404)

    with pytest.raises(RetryError) as raised:
        asyncio.run(ask())
    assert explain_failure(raised.value).status == 404


def test_failure_description_is_one_line() -> None:
    assert describe_failure(HTTPError(500)) == "HTTPError: status 500"


def test_error_about_an_unknown_host_quotes_the_message_of_the_operating_system() -> None:
    error = APIConnectionError(request=httpx.Request("POST", "http://nowhere/v1"))
    error.__cause__ = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert describe_failure(error) == "Name or service not known"


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0.5", 0.5), ("soon", None), ("inf", None), ("-3", 0.0)])
def test_seconds_in_a_retry_after_header_are_read(header: str, seconds: float | None) -> None:
    error = HTTPError(429)
    error.headers = {"Retry-After": header}
    assert explain_failure(error).retry_after_s == seconds


def test_date_in_a_retry_after_header_is_read() -> None:
    error = HTTPError(503)
    error.headers = {"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}
    assert explain_failure(error).retry_after_s == 3600.0


@pytest.mark.parametrize("sent", ["Fri, 01 Jan 2100 00:00:00 GMT", "Mon, 01 Jan 2001 00:00:00 GMT"])
def test_date_in_the_retry_after_header_is_compared_with_the_server_clock(sent: str) -> None:
    error = HTTPError(503)
    error.headers = {"Retry-After": sent.replace("00:00:00", "00:00:07"), "Date": sent}
    assert explain_failure(error).retry_after_s == 7.0


def test_https_request_to_an_http_server_counts_as_a_refused_request() -> None:
    # The error code of the installed OpenSSL for a reply without TLS must be a known code.
    server = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(server, ssl.MemoryBIO(), server_hostname="h")
    server.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as error:
        tls.do_handshake()
    assert explain_failure(error.value).kind is FailureKind.REFUSED


# ---------------------------------------------------------------------------- retry decisions

ABSENT = Failure("gone", FailureKind.ABSENT, "start one", None)
TIMED_OUT = Failure("gone", FailureKind.ABSENT, "start one", None, timed_out=True)
BUSY = Failure("busy", FailureKind.BUSY, "wait", 429)
ASKS_TO_WAIT = Failure("busy", FailureKind.BUSY, "wait", 429, retry_after_s=90.0)
REFUSED = Failure("refused", FailureKind.REFUSED, "check it", 400)
PATIENT = Timeouts(reply_s=None, outage_s=60.0)
ENDLESS = Timeouts(reply_s=None, outage_s=math.inf)
TESTING = Timeouts(reply_s=None, outage_s=60.0, tries=3)
BESIDE = {"successes": 1, "others_succeeded": True}


def history(**fields: Any) -> History:
    return History(**{"failures": 1, "pause_s": 0.5, **fields})


@pytest.mark.parametrize(
    ("failure", "met", "limits", "expected"),
    [
        (ABSENT, history(), PATIENT, 0.5),
        (ABSENT, history(outage_s=59.5), PATIENT, 0.5),
        (ABSENT, history(outage_s=59.6), PATIENT, r"for 60 s, and a retry would exceed the limit of 60 s \(gone\); "),
        (ABSENT, history(outage_s=1e9), ENDLESS, 0.5),
        (ABSENT, history(**BESIDE, failures_beside_successes=MAX_REQUEST_FAILURES - 1), PATIENT, 0.5),
        (
            ABSENT,
            history(failures_beside_successes=MAX_REQUEST_FAILURES),
            ENDLESS,
            "3 requests of one group failed while requests of other groups succeeded: gone",
        ),
        (BUSY, history(**BESIDE, failures=100), PATIENT, 0.5),
        (ASKS_TO_WAIT, history(), PATIENT, 90.0),
        (
            ASKS_TO_WAIT,
            history(),
            Timeouts(reply_s=80.0, outage_s=60.0),
            r"for 0 s, and a retry would exceed the limit of 80 s \(busy\); ",
        ),
        (TIMED_OUT, history(), PATIENT, 0.5),
        (ABSENT, history(failures=2), TESTING, 0.0),
        (ABSENT, history(failures=3), TESTING, "a group's request failed 3 times: gone"),
        (REFUSED, history(successes=1), PATIENT, r"refuses requests \(refused\); check it"),
        (REFUSED, history(), ENDLESS, r"refuses requests \(refused\); check it"),
    ],
)
def test_failed_request_is_retried_unless_earlier_failures_exceed_a_limit(
    failure: Failure, met: History, limits: Timeouts, expected: float | str
) -> None:
    decision = decide(failure, met, limits)
    if isinstance(expected, float):
        assert decision == expected
    else:
        assert type(decision) is ServerError
        assert re.search(expected, str(decision))


# ---------------------------------------------------------------------------- how completions ended


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason", "word"),
    [
        ("stop", "</answer>", "stop"),
        ({"type": "stop", "matched": 151645}, None, "stop"),
        ({"type": "abort", "message": "Abort before prefill"}, None, "abort"),
        (None, None, ""),
        ("", None, ""),
        (None, "</answer>", ""),
        (None, "max_tokens", "max_tokens"),
        (None, 151645, ""),
        (3, None, "3"),
        ({}, None, ""),
    ],
)
def test_finish_reasons_of_all_server_types_map_to_the_same_words(
    finish_reason: object, stop_reason: object, word: str
) -> None:
    assert read_finish_reason(finish_reason, stop_reason) == word


def test_unknown_finish_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    endings = Endings()
    for word in ["drained", "drained", "DRAINED", "abort", "stop"]:
        endings.broken_off(TextCompletion("x", "", word))
    [message] = caplog.messages
    assert "'drained'" in message


def test_number_of_logged_finish_reasons_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    endings = Endings()
    for number in range(10 * MAX_FINISH_REASONS):
        assert endings.broken_off(TextCompletion("x", "", f"\x1b[2J{number}"))
    assert len(caplog.messages) == MAX_FINISH_REASONS
    assert "\x1b" not in caplog.text


async def test_replies_that_take_long_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    requests, replies = PatientRequests(logging.getLogger("test")), asyncio.Event()

    async def ask(missing: int) -> list[Rollout]:
        await replies.wait()
        return [Rollout("yes", (), (), None, "stop")]

    groups = [asyncio.create_task(requests.complete(1, ask, PATIENT)) for _ in range(2)]
    await asyncio.sleep(0)
    requests.log_state()
    assert caplog.messages == []
    monkeypatch.setattr(served_model, "LONG_WAIT_S", 0.0)
    requests.log_state()
    assert caplog.messages == ["requests still waiting for a reply: 2, the oldest for 0 s"]
    replies.set()
    await asyncio.gather(*groups)


async def test_refused_requests_are_logged_again_while_a_retry_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 0.0
    busy = HTTPError(429)
    busy.headers = {"Retry-After": "600"}
    requests = PatientRequests(logging.getLogger("test"), lambda: now_s)
    asking = asyncio.create_task(requests.complete(1, AsyncMock(side_effect=busy), PATIENT))
    await until(lambda: len(caplog.messages) == 1)
    now_s = 40.0
    requests.log_state()
    asking.cancel()
    assert re.fullmatch(
        r"the server refuses some requests, .*asks to wait 600 s\) \(for 40 s now\)", caplog.messages[1]
    )


async def test_time_limit_of_failing_requests_excludes_time_without_a_reachable_server() -> None:
    now_s = 0.0

    async def ask(missing: int) -> list[Rollout]:
        nonlocal now_s
        if errors:
            now_s += 40.0
            raise errors.pop(0)
        return [Rollout("yes", (), (), None, "stop")]

    errors = [HTTPError(503), HTTPError(503), HTTPError(500)]
    requests = PatientRequests(logging.getLogger(__name__), lambda: now_s)
    assert len(await requests.complete(1, ask, Timeouts(None, outage_s=60.0, away_s=600.0))) == 1


async def give_up(requests: PatientRequests, word: str) -> None:
    async def ask(missing: int) -> list[Rollout]:
        raise BrokenOffError(word)

    with pytest.raises(ServerError):
        await requests.complete(1, ask, Timeouts(None, 600.0, tries=1))


async def test_finish_reasons_become_metric_names() -> None:
    requests = PatientRequests(logging.getLogger("test"))
    for word in ["abort", "abort", "Weight Update/now", "?"]:
        await give_up(requests, word)
    for number in range(10 * MAX_FINISH_REASONS):
        await give_up(requests, f"made up {number}")
    assert (requests.ended["abort"], requests.ended["weight_update_now"]) == (2, 1)
    assert len(requests.ended) <= MAX_FINISH_REASONS + 1
    assert requests.ended.total() == 4 + 10 * MAX_FINISH_REASONS

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tenacity import RetryError, retry, stop_after_attempt

from reasoning_env.atropos.inference.failures import Meaning, describe_failure, explain_failure


class HTTPError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}\nand more")
        self.status = status


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (HTTPError(429), Meaning.BUSY),
        (HTTPError(503), Meaning.ABSENT),
        (HTTPError(422), Meaning.REFUSED),
        (HTTPError(418), Meaning.UNUSABLE),
        (ConnectionRefusedError(), Meaning.ABSENT),
        (TimeoutError(), Meaning.ABSENT),
        (KeyError("choices"), Meaning.UNUSABLE),
    ],
    ids=repr,
)
def test_meaning_of_a_failure(error: Exception, meaning: Meaning) -> None:
    assert explain_failure(error).meaning is meaning


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (HTTPError(401), "api_key"),
        (HTTPError(400), "max_token_length"),
        (HTTPError(404), "model_name"),
        (AttributeError("'str' object has no attribute 'choices'"), "base_url"),
    ],
    ids=repr,
)
def test_remedy_names_a_setting(error: Exception, setting: str) -> None:
    assert setting in explain_failure(error).remedy


def test_last_attempt_is_what_a_retry_error_means() -> None:
    @retry(stop=stop_after_attempt(2))
    async def ask() -> Any:
        raise HTTPError(404)

    with pytest.raises(RetryError) as raised:
        asyncio.run(ask())
    assert explain_failure(raised.value).status == 404


def test_description_is_one_line() -> None:
    assert describe_failure(HTTPError(500)) == "HTTPError: status 500"

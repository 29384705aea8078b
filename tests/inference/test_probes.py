from __future__ import annotations

from types import SimpleNamespace

import pytest

from reasoning_env.inference.addresses import StatusError, explain_failure, find_context_length, path_remedy


def remedy(url: str, status: int = 404) -> str | None:
    return path_remedy(explain_failure(StatusError(status, b"", {})), url)


@pytest.mark.parametrize(
    "url",
    ["http://host:9001", "http://host:9001/", "http://host:9001/v2", "http://host:9001/v1/chat/completions"],
)
def test_error_suggests_a_base_url_that_ends_in_v1(url: str) -> None:
    assert remedy(url) == "check {openai.base_url}: the usual form is http://host:9001/v1"


def test_error_suggests_a_base_url_with_the_proxy_path() -> None:
    assert remedy("https://host/openai/") == "check {openai.base_url}: the usual form is https://host/openai/v1"


@pytest.mark.parametrize(
    ("url", "status"),
    [("http://host/v1", 404), ("http://host/v1/", 404), ("http://host", 500), ("http://host/d?api-version=1", 404)],
)
def test_error_suggests_another_base_url_only_if_the_url_lacks_v1(url: str, status: int) -> None:
    assert remedy(url, status) is None


def test_error_suggests_a_base_url_with_escaped_braces() -> None:
    assert remedy("http://host/{a}") == "check {openai.base_url}: the usual form is http://host/{{a}}/v1"


@pytest.mark.parametrize(
    ("models", "length"),
    [
        ([{"id": "m", "max_model_len": 4096}], 4096),
        ([{"id": "other", "context_length": 1}, {"id": "m", "context_length": 8192}], 8192),
        ([{"id": "renamed", "max_model_len": 512}], 512),
        ([{"id": "m"}], None),
        ([], None),
    ],
)
def test_context_length_is_found_in_the_model_list(models: list[dict[str, object]], length: int | None) -> None:
    assert find_context_length([SimpleNamespace(**model) for model in models], "m") == length

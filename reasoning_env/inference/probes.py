"""What the first request to a server says: that the server works, is absent, or will never work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..errors import ServerError
from .addresses import Absence
from .failures import Failure, FailureKind, describe_status, explain_failure, is_quota

CONTEXT_NAMES = ("max_model_len", "context_length")
"""Fields of a model in a server's list that hold the tokens of prompt and completion: vLLM's, and other servers'."""


NO_REPLY = Absence("it accepts requests and does not reply")


def explain_probe(
    error: Exception, url: str, endpoint: str, *, is_chat: bool, below_v1: bool = True, hint: str = ""
) -> Absence | None:
    """Return why the server is absent, or None if it works all the same.

    Args:
        error: What a request for one token raised.
        url: Address of the server.
        endpoint: What messages call the place that was asked.
        is_chat: Whether chat completions were asked for.
        below_v1: Whether the endpoint is below `/v1`, where the address should end.
        hint: What to do beside a look at the name of the model, if that may be wrong.

    Raises:
        ServerError: The server will never work.
    """
    failure = explain_failure(error)
    if failure.kind is FailureKind.BUSY and is_quota(error):
        raise ServerError(
            f"the inference server at {url} refuses: the quota of this key is used up ({failure.description})",
            remedy="check your plan with the provider, or {openai.api_key}",
        ) from error
    if failure.ended is not None:
        return Absence(failure.description, answers=True)
    if failure.status is not None and failure.kind in (FailureKind.ABSENT, FailureKind.BUSY):
        return Absence(describe_status(error), answers=True, retry_after_s=failure.retry_after_s)
    if failure.kind is FailureKind.ABSENT:
        return NO_REPLY if isinstance(error, TimeoutError) else Absence(failure.description)
    if is_chat and "output limit" in str(error):
        return None  # the model thinks before it answers, and a single token is too few for that
    fault = "refuses" if failure.kind is FailureKind.REFUSED and failure.status != 404 else "does not answer"
    remedy = (path_remedy(failure, url) if below_v1 else None) or failure.remedy
    raise ServerError(
        f"the inference server at {url} cannot be used: it {fault} {endpoint} ({failure.description})",
        remedy=f"{remedy}{hint}" if "{openai.model_name}" in remedy else remedy,
    ) from error


def path_remedy(failure: Failure, url: str) -> str | None:
    """Return the remedy for a URL that does not end in `/v1`, where the server has no such page; None otherwise."""
    parts = urlsplit(url.rstrip("/"))
    if failure.status != 404 or parts.path.endswith("/v1"):
        return None
    before, version, _ = parts.path.partition("/v1/")
    path = before if version else re.sub(r"/v\d+$", "", parts.path)
    where = parts._replace(path=f"{path}/v1", query="", fragment="").geturl().replace("{", "{{").replace("}", "}}")
    return f"check {{openai.base_url}}: most servers want {where}"


def find_context_length(models: Sequence[object], name: str) -> int | None:
    """Return how many tokens a model takes for prompt and completion; None if the server's list does not say.

    Without the name in the list, the first model counts.
    """
    named = [model for model in models if getattr(model, "id", None) == name] or models[:1]
    lengths = [getattr(model, field, None) for model in named for field in CONTEXT_NAMES]
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)

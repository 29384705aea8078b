"""Get verdicts from a `judge` server, and retry while the server is busy or unreachable.

Replies are validated, because a program other than `judge` could listen at the URL.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ..errors import ConfigError, GenerationError, ReasoningEnvError, ScoringError
from ..inference.addresses import check_url
from ..inference.failures import seconds_asked
from ..records import Subject, Verdict
from ..runtime.retries import pauses
from ..sources.score_function import row_json
from .messages import TOKEN_VARIABLE, Refusal, ScoreReply

if TYPE_CHECKING:
    import aiohttp

NOT_GENERATED_KIND = "not_generated"
"""The `kind` of a refusal if a problem cannot be generated, although its reference is valid."""
RAISES_KIND = "raises"
"""The `kind` of a refusal if the score function raised an error for every completion."""
_JSON = {"Content-Type": "application/json"}
WAIT_STATUSES = frozenset({408, 429, 502, 503, 504})
"""HTTP statuses after which the client waits and sends the same request again."""


class JudgeClient:
    """Sends groups to the server at `url`. Call `judge`, or create a bridge: `Bridge(judge=JudgeClient(url))`.

    `timeout_s` limits the time for a group's verdicts, including retries. A client works on one event loop only, so
    create one client per bridge.
    """

    def __init__(self, url: str, timeout_s: float = 120.0) -> None:
        """Raises ConfigError for an invalid address or access token."""
        if not url:
            raise ConfigError("must be the address of a `judge` server", setting="judge_url", got=url)
        check_url("judge_url", url)
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        token = judge_token()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http: aiohttp.ClientSession | None = None

    async def judge(self, subject: Subject, completions: Sequence[str]) -> list[Verdict]:
        """Return each completion's verdict, in order. `subject` is a problem's reference, or a row for `judge --score`.

        Raises:
            ReasoningEnvError: The server refuses the reference, the token or the path of the URL.
            ReasoningEnvError: The server's score function raises an error for every completion.
            GenerationError: The server cannot generate the problem.
            ScoringError: The server returns no verdicts in time, or invalid verdicts.
        """
        import aiohttp  # imported here because only clients of a server need it

        named = {"ref": subject} if isinstance(subject, str) else {"row": json.loads(row_json(subject))}
        # A completion may have a lone surrogate, escaped in the inference server's JSON, which UTF-8 cannot encode.
        text = json.dumps({**named, "texts": list(completions)}, ensure_ascii=False)
        body = text.encode("utf-8", "replace")
        last = "no reply"
        try:
            async with asyncio.timeout(self._timeout_s):
                for pause_s in pauses():
                    try:
                        reply = await self._ask(body)
                    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
                        last = str(error) or type(error).__name__
                    else:
                        if reply.status not in WAIT_STATUSES or reply.refusal.kind == RAISES_KIND:
                            return self._verdicts(reply, subject, len(completions))
                        last = reply.error
                        pause_s = seconds_asked(reply.retry_after) or pause_s
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            last = f"timeout after {self._timeout_s:g} s; the last reply: {last}"
        except aiohttp.ClientError as error:
            last = str(error) or type(error).__name__
        raise ScoringError(f"the judge at {self._url} returned no verdicts: {last}")

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        if self._http is not None:
            await self._http.close()

    async def _ask(self, body: bytes) -> _JudgeReply:
        import aiohttp

        if self._http is None:
            timeout = aiohttp.ClientTimeout(total=self._timeout_s)
            self._http = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        data = io.BytesIO(body)  # aiohttp sends a file object in pieces
        async with self._http.post(f"{self._url}/score", data=data, headers=_JSON) as reply:
            return _JudgeReply(reply.status, reply.headers.get("Retry-After"), await reply.read())

    def _verdicts(self, reply: _JudgeReply, subject: Subject, count: int) -> list[Verdict]:
        """Return the verdicts of a reply. Raises the errors of `judge`."""
        if reply.status == 413 or reply.refusal.kind == NOT_GENERATED_KIND:  # other groups may get verdicts
            raise GenerationError(f"the judge at {self._url} cannot judge this group: {reply.error}")
        if 400 <= reply.status < 500 or reply.refusal.kind == RAISES_KIND:
            raise ReasoningEnvError(f"the judge at {self._url} refused the request: {reply.error}")
        if reply.status != 200:
            raise ScoringError(f"the judge at {self._url} returned no verdicts: {reply.error}")
        try:
            rows = msgspec.json.decode(reply.body, type=ScoreReply).verdicts
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ScoringError(f"the judge at {self._url} returned an invalid verdict: {error}") from error
        if len(rows) != count:
            raise ScoringError(f"the judge at {self._url} returned {len(rows)} verdicts for {count} completions")
        # For a problem, `Verdict.parts` is computed from score and reason, so only rows need the parts of the reply.
        own = [None if isinstance(subject, str) else row.parts for row in rows]
        return [
            Verdict(row.score, row.reason, row.answer, own_parts=parts, error=row.error)
            for row, parts in zip(rows, own, strict=True)
        ]


@dataclass(frozen=True)
class _JudgeReply:
    """A reply of the server. `body` is the raw body, which may be anything."""

    status: int
    retry_after: str | None
    body: bytes

    @property
    def refusal(self) -> Refusal:
        try:
            return msgspec.json.decode(self.body, type=Refusal)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Refusal()

    @property
    def error(self) -> str:
        """Why there are no verdicts: the server's message, or the HTTP status if there is no message."""
        return self.refusal.error[:500] or f"status {self.status}"


def judge_token() -> str | None:
    """Return the value of TOKEN_VARIABLE; None if the variable is not set.

    Raises ConfigError for a token that HTTP headers cannot transport unchanged.
    """
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is not None and (token != token.strip() or not token.isprintable()):
        raise ConfigError(
            "the token must not begin or end with whitespace, and must not contain control characters",
            setting=TOKEN_VARIABLE,
            remedy="remove these characters; in a shell, $(cat FILE) drops a file's final line breaks",
        )
    return token

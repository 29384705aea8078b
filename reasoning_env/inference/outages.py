"""Send failed requests for completions again, through the outages of servers, until `failures.decide` gives up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ..errors import ServerError
from ..records import Rollout, Timeouts
from ..runtime.retries import OutageLog, pauses
from .failures import History, Retry, decide, explain_failure


class PatientRequests:
    """The requests of all groups of a run: their successes, and the outage that they notice together."""

    def __init__(self, logger: logging.Logger) -> None:
        self._successes = 0
        self._outage = OutageLog(logger)

    @property
    def outage_s(self) -> float:
        """How long requests have failed; 0 after a success."""
        return self._outage.duration_s

    def note_outage(self, message: str) -> None:
        """Notice an outage that no request has met yet."""
        self._outage.note(message)

    def note_success(self) -> None:
        """Count a group that has its completions, and end the outage."""
        self._successes += 1
        self._outage.over("completions arrive again")

    async def complete(self, attempt: Callable[[], Awaitable[list[Rollout]]], timeouts: Timeouts) -> list[Rollout]:
        """Return the rollouts of the first attempt that succeeds. Failed attempts are repeated, with pauses.

        `failures.decide` is the policy. `attempt` calls `note_success`, and may raise any error.

        Raises:
            TimeoutError: A reply took over `timeouts.reply_s` while other requests succeeded.
            RefusedError: The server refuses requests and has never taken any; unless `timeouts.outage_s` is infinite.
            ServerError: The server refuses this request.
            ServerError: Requests failed MAX_REQUEST_FAILURES times while others succeeded.
            ServerError: Requests failed `timeouts.tries` times, or for `timeouts.outage_s`.
            ServerError: An attempt raised ServerError, which is final.
        """
        history = History(successes=self._successes)
        waits = pauses()
        while True:
            try:
                return await attempt()
            except ServerError:
                raise
            except Exception as error:  # clients raise all sorts of things for servers that are gone or talk nonsense
                failure = explain_failure(error)
                history = history.after(failure, successes=self._successes, outage_s=self.outage_s, pause_s=next(waits))
                decision = decide(failure, history, timeouts)
                if not isinstance(decision, Retry):
                    raise decision.error from error
                self._outage.note(f"requests for completions fail, and are tried again ({failure.description})")
            await asyncio.sleep(decision.pause_s)

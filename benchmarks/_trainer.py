"""A trainer as run-api sees one: it registers, takes batches, and comes back when run-api has lost it."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._servers import key_of_messages

REQUEST_TIMEOUT_S = 5.0
RETRY_S = 0.2
NO_TRAINER = -1
"""The batch size that a run-api without a trainer tells."""


@dataclass(frozen=True)
class Received:
    """A group that the trainer got in a batch, at `at` (monotonic)."""

    key: str
    env_id: int
    at: float
    scores: tuple[float, ...]


class Trainer:
    """Registers at run-api, asks for batches and keeps what they held; a thread over real HTTP.

    It registers again, with the step that it has come to, when run-api was restarted or emptied. `registration` holds
    fields of run-api's registration that differ from `DEFAULTS`. `pause_s` lies between two batches.
    """

    DEFAULTS: Mapping[str, Any] = {
        "wandb_group": "line",
        "wandb_project": "line",
        "batch_size": 16,
        "max_token_len": 2048,
        "checkpoint_dir": "",
        "save_checkpoint_interval": -1,
        "starting_step": 0,
        "num_steps": 1_000_000,
    }

    def __init__(self, url: str, *, pause_s: float = 0.0, **registration: Any) -> None:
        if unknown := registration.keys() - self.DEFAULTS.keys():
            raise TypeError(f"not part of a registration: {', '.join(sorted(unknown))}")
        self.received: list[Received] = []
        self.batches = 0
        self.registrations = 0
        self._url = url
        self._pause_s = pause_s
        self._registration = {**self.DEFAULTS, **registration}
        self._going = threading.Event()
        self._going.set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._train, daemon=True)
        self._thread.start()

    @property
    def step(self) -> int:
        """The step that it has come to: the one that it began with, and one more for each batch."""
        return int(self._registration["starting_step"]) + self.batches

    def pause(self) -> None:
        """Ask for no batches, until `go_on`."""
        self._going.clear()

    def go_on(self) -> None:
        self._going.set()

    def close(self) -> None:
        """End it; run-api is not told, as it is not by trainers."""
        self._ended.set()
        self._going.set()
        self._thread.join(4 * REQUEST_TIMEOUT_S)

    def _train(self) -> None:
        while not self._ended.is_set():
            self._going.wait()
            try:
                batch = self._next_batch()
            except (OSError, http.client.HTTPException):  # gone, or emptied between two requests
                batch = None
            if batch:
                self.received += [_received(group) for group in batch]
                self.batches += 1
            self._ended.wait(self._pause_s if batch else RETRY_S)

    def _next_batch(self) -> list[dict[str, Any]] | None:
        """A batch, or none when there is none yet. Raises OSError or HTTPException."""
        if self._ask("GET", "/info")["batch_size"] == NO_TRAINER:
            self._register()
        batch: list[dict[str, Any]] | None = self._ask("GET", "/batch").get("batch")
        return batch

    def _register(self) -> None:
        registration = {**self._registration, "starting_step": self.step}
        self._ask("POST", "/register", registration)
        self.registrations += 1
        if self._ask("GET", "/info")["batch_size"] == NO_TRAINER:
            # A group arrived between its emptying and this registration, which is then without effect, for good.
            self._ask("GET", "/reset_data")
            self._ask("POST", "/register", registration)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}{path}", data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as response:
            text = response.read()
        answer: dict[str, Any] = json.loads(text) if text.startswith(b"{") else {}
        return answer


def _received(group: Mapping[str, Any]) -> Received:
    key = key_of_messages(group["messages"]) if group["messages"] else ""
    return Received(key, group["env_id"], time.monotonic(), tuple(group["scores"]))

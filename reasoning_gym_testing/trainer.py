"""A trainer without a model: it registers at run-api, takes batches, and can check them."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from .batch_checks import check_batch

REQUEST_TIMEOUT_S = 30.0
"""Time limit of a request, in seconds. A batch that arrives later is lost."""
POLL_INTERVAL_S = 0.2
REGISTRATION: Mapping[str, Any] = {
    "wandb_group": "testing",
    "wandb_project": "testing",
    "batch_size": 16,
    "max_token_len": 2048,
    "checkpoint_dir": "",
    "save_checkpoint_interval": -1,
    "starting_step": 0,
    "num_steps": 1_000_000,
}


def key_of_messages(conversations: Iterable[Sequence[Mapping[str, str]]]) -> str:
    """Return a hash of a group's conversations, the same for the group at run-api and in the dumps."""
    plain = [[(message["role"], message["content"]) for message in conversation] for conversation in conversations]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


@dataclass(frozen=True)
class Delivery:
    """A group that environment `env_id` sent. `at` is the time of arrival, in seconds of the monotonic clock.

    `key` identifies the group; it is empty for a group without messages. `tokens` is the number of tokens of all
    rollouts.
    """

    key: str
    env_id: int | None
    at: float
    scores: tuple[float, ...]
    tokens: int

    @classmethod
    def of(cls, group: Mapping[str, Any]) -> Self:
        """Return the record of a group, with the present time as its time of arrival."""
        key = key_of_messages(group["messages"]) if group.get("messages") else ""
        return cls(key, group["env_id"], time.monotonic(), tuple(group["scores"]), sum(map(len, group["tokens"])))


class Trainer:
    """Requests batches on its own thread until the end of its `with` block, or until it has `max_batches`.

    While run-api is unreachable, the trainer waits. If run-api was restarted or reset, the trainer registers again with
    its current step.

    - `group_size`: if set, check that batches have valid groups of this size. An invalid batch ends the trainer, and
      `error` is the BatchError.
    - `pause_s`: seconds between two batches.
    - `registration`: fields that differ from REGISTRATION.
    """

    def __init__(
        self,
        url: str,
        *,
        group_size: int | None = None,
        max_batches: int | None = None,
        pause_s: float = 0.0,
        **registration: Any,
    ) -> None:
        self.batches: list[list[Delivery]] = []
        self.registrations = 0
        self.error: Exception | None = None
        self._url = url
        self._group_size = group_size
        self._max_batches = max_batches
        self._pause_s = pause_s
        self._registration = {**REGISTRATION, **registration}
        self._going = threading.Event()
        self._going.set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._train, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._going.set()
        self._thread.join()

    @property
    def received(self) -> list[Delivery]:
        """The groups of all batches."""
        return [group for batch in list(self.batches) for group in batch]

    @property
    def step(self) -> int:
        """The current step: the starting step plus the number of batches."""
        return int(self._registration["starting_step"]) + len(self.batches)

    def pause(self) -> None:
        """Stop requesting batches until `go_on` is called."""
        self._going.clear()

    def go_on(self) -> None:
        self._going.set()

    def _train(self) -> None:
        try:
            while not self._ended.is_set() and len(self.batches) != self._max_batches:
                self._going.wait()
                self._ended.wait(self._pause_s if self._train_once() else POLL_INTERVAL_S)
        except Exception as error:  # tests read `error`
            self.error = error

    def _train_once(self) -> bool:
        """Request a batch; return True if run-api had one. Raises BatchError for an invalid batch."""
        try:
            if self._ask("GET", "/info")["batch_size"] == -1:
                self._register()
            batch = self._ask("GET", "/batch").get("batch")
        except (OSError, http.client.HTTPException):  # run-api is unreachable, or was reset between two requests
            return False
        if not batch:
            return False
        if self._group_size is not None:
            check_batch(
                batch,
                batch_size=self._registration["batch_size"],
                group_size=self._group_size,
                max_token_len=self._registration["max_token_len"],
            )
        self.batches.append(list(map(Delivery.of, batch)))
        return True

    def _register(self) -> None:
        registration = {**self._registration, "starting_step": self.step}
        self._ask("POST", "/register", registration)
        self.registrations += 1
        if self._ask("GET", "/info")["batch_size"] == -1:
            # A group arrived after run-api was reset and before this registration, which therefore had no effect.
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

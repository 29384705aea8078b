"""The trainer for tests, with Atropos' real run-api."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from reasoning_gym_testing import BatchError, Processes, RunApi, Trainer
from reasoning_gym_testing.trainer import key_of_messages
from tests.waiting import PATIENCE_S, wait_until

MESSAGES = [[{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": text}] for text in "23"]
GROUP = {"tokens": [[1, 2], [1, 3, 4]], "masks": [[-100, 2], [-100, 3, 4]], "scores": [0.25, 1.0], "env_id": 0}


@pytest.fixture(scope="module")
def run_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunApi]:
    with Processes(tmp_path_factory.mktemp("processes"), isolated=True) as processes:
        started = RunApi(processes)
        started.start()
        yield started


def send(run_api: RunApi, group: Any) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{run_api.url}/scored_data", json.dumps(group).encode(), headers)
    urllib.request.urlopen(request, timeout=PATIENCE_S).close()


def test_trainer_stops_with_an_error_on_an_invalid_batch(run_api: RunApi) -> None:
    with Trainer(run_api.url, batch_size=4, group_size=2) as trainer:
        wait_until(lambda: trainer.registrations, "the registration")
        for messages in [None, MESSAGES, None, None]:
            send(run_api, {**GROUP, "messages": messages})
        wait_until(lambda: len(trainer.batches) == 2 or trainer.error, "two batches")
        for _ in range(2):
            send(run_api, {**GROUP, "scores": [1.0, 1.0]})
        wait_until(lambda: trainer.error, "the error")
    assert trainer.step == 2
    assert {(group.env_id, group.scores, group.tokens) for group in trainer.received} == {(0, (0.25, 1.0), 5)}
    assert sorted(group.key for group in trainer.received) == ["", "", "", key_of_messages(MESSAGES)]
    assert isinstance(trainer.error, BatchError)

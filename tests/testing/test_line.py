"""The trainer, run-api and the proxy before it, against Atropos' real run-api."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from testing import BatchError, Processes, RunApi, RunApiProxy, Trainer
from testing.trainer import key_of_messages
from tests.waiting import PATIENCE_S, wait_until

MESSAGES = [[{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": text}] for text in "23"]
GROUP = {"tokens": [[1, 2], [1, 3, 4]], "masks": [[-100, 2], [-100, 3, 4]], "scores": [0.25, 1.0], "env_id": 0}


@pytest.fixture(scope="module")
def run_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunApi]:
    with Processes(tmp_path_factory.mktemp("processes"), isolated=True) as processes:
        started = RunApi(processes)
        started.start()
        yield started


@pytest.fixture
def proxy(run_api: RunApi) -> Iterator[RunApiProxy]:
    run_api.reset_data()
    with RunApiProxy(run_api.url) as started:
        yield started


def send(url: str, body: Any, *, pack: bool = False) -> Any:
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **({"Content-Encoding": "gzip"} if pack else {})}
    request = urllib.request.Request(url, gzip.compress(data) if pack else data, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.load(response)


def wait_for_batches(trainer: Trainer, count: int) -> None:
    wait_until(lambda: len(trainer.batches) >= count or trainer.error, "a batch")
    assert trainer.error is None


def test_the_trainer_takes_batches_and_keeps_what_they_held(run_api: RunApi, proxy: RunApiProxy) -> None:
    with Trainer(run_api.url, batch_size=4, group_size=2, max_batches=2) as trainer:
        wait_until(lambda: trainer.registrations, "the registration")
        for messages in [None, MESSAGES, None, None]:
            send(f"{run_api.url}/scored_data", {**GROUP, "messages": messages})
        wait_for_batches(trainer, 2)
    assert trainer.step == 2
    assert {(group.env_id, group.scores, group.tokens) for group in trainer.received} == {(0, (0.25, 1.0), 5)}
    assert sorted(group.key for group in trainer.received) == ["", "", "", key_of_messages(MESSAGES)]


def test_a_bad_batch_ends_the_trainer(run_api: RunApi, proxy: RunApiProxy) -> None:
    with Trainer(run_api.url, batch_size=2, group_size=2) as trainer:
        wait_until(lambda: trainer.registrations, "the registration")
        send(f"{run_api.url}/scored_data", {**GROUP, "scores": [1.0, 1.0]})
        wait_until(lambda: trainer.error, "the error")
    assert isinstance(trainer.error, BatchError)

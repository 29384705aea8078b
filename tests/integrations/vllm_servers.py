"""A real vLLM as a process that can be killed and restarted, and Atropos' server with the same vLLM."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from learn.servers import VLLM, VLLM_VARIABLES
from reasoning_gym_testing import HOST, Processes, free_port, wait_until

CONTEXT = 256
START_TIMEOUT_S = 800.0
"""Slightly below the time limit of a test. On a busy machine, vLLM needs minutes to start."""
MASKED = -100
OPTIONS = ("--dtype", "float32", "--enforce-eager", "--max-model-len", str(CONTEXT), "--max-num-seqs", "64")
ATROPOS_SERVER = Path(__file__).with_name("atropos_server.py")


class RealServer:
    """A vLLM with the model in a folder.

    It keeps its port after a restart. With `atropos`, it has the route /generate instead of /v1/completions. With
    `key`, requests need this API key.
    """

    def __init__(
        self, processes: Processes, name: str, model: Path, *, atropos: bool = False, key: str | None = None
    ) -> None:
        port = str(free_port())
        self.url = f"http://{HOST}:{port}"
        words = [ATROPOS_SERVER, "--model", model] if atropos else ["-m", VLLM, "serve", model]
        named = [] if atropos else ["--served-model-name", "policy", "--enable-log-requests"]
        keyed = ["--api-key", key] if key else []
        self._command = [sys.executable, *map(str, words), *named, *keyed, "--host", HOST, "--port", port, *OPTIONS]
        self._processes = processes
        self._name = name
        self._starts = 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        name = f"{self._name}-{self._starts}"
        self._process = self._processes.start(name, self._command, variables=VLLM_VARIABLES)

    def wait(self) -> None:
        """Wait until the server answers."""
        wait_until(lambda: self._process.check() and self.answers(), START_TIMEOUT_S, f"the start of {self._name}")

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._process.end(signal.SIGKILL)

    @contextlib.contextmanager
    def suspended_engine(self) -> Iterator[None]:
        """Suspend the processes that generate tokens; the process that answers HTTP requests goes on."""
        pid = self._process.pid
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        for child in children:
            os.kill(child, signal.SIGSTOP)
        try:
            yield
        finally:
            for child in children:
                os.kill(child, signal.SIGCONT)

    def answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/health"):
            return True
        return False

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Return the status and the JSON body of a reply."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def metric(self, name: str) -> float:
        """Return a metric of vLLM, summed over its labels."""
        with urllib.request.urlopen(f"{self.url}/metrics") as response:
            lines = response.read().decode().splitlines()
        found = [line for line in lines if re.match(rf"vllm:{name}[{{ ]", line)]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    @property
    def in_flight(self) -> float:
        return self.metric("num_requests_running") + self.metric("num_requests_waiting")

    @property
    def aborted(self) -> int:
        """Return how often the server's log says that a request was aborted."""
        return self._process.stdout.count("Aborted request")


def largest_difference(model: Any, tokens: Sequence[int], masks: Sequence[int], logprobs: Sequence[float]) -> float:
    """Return the largest difference between the log-probabilities of unmasked tokens and those of a forward pass."""
    row = torch.tensor([list(tokens)])
    with torch.no_grad():
        chances = torch.log_softmax(model(row).logits[0, :-1].double(), dim=-1)
    own = chances.gather(1, row[0, 1:, None])[:, 0]
    active = torch.tensor([mask != MASKED for mask in masks[1:]])
    return float((own - torch.tensor(list(logprobs)[1:], dtype=torch.float64)).abs()[active].max())

"""A training on this machine: run-api behind a proxy, inference servers, trainers and environment processes.

with LocalTraining(folder, policy) as training:
    training.start_trainer(batch_size=16)
    environment = training.start_environment("first", seed=1)
    wait_until(lambda: len(training.proxy.delivered) > 10, 60, "the first groups")
    training.proxy.fail(refuse)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from . import recorded_environment
from .completions import TOKENIZER, Policy
from .inference_server import InferenceServer, server_settings
from .processes import Process, Processes
from .run_api import RunApi, RunApiProxy
from .trainer import Trainer

SCRIPT = Path(__file__).parents[1] / "reasoning_gym_environment.py"
RECORDED_SCRIPT = Path(recorded_environment.__file__)
CHEAP_TASKS = "chain_sum,gcd,lcm,count_bits,products,letter_counting,spell_backward,word_sorting"
"""Tasks that are fast, and that the scripted policy of the demo can solve."""
SMALL = {
    "tasks": CHEAP_TASKS,
    "group_size": 4,
    "max_token_length": 1024,
    "max_num_workers": 4,
    "use_wandb": False,
    "include_messages": True,
    "scoring_deadline_s": 150,  # so that a slow machine drops no problem
}


def start_environment(
    processes: Processes,
    name: str,
    settings: Mapping[str, Any],
    servers: Sequence[Mapping[str, Any]],
    *,
    script: Path = SCRIPT,
    variables: Mapping[str, str] | None = None,
) -> Process:
    """Start `serve` with settings for the environment and its servers, which are written to a file in the folder."""
    path = processes.folder / f"{name}.yaml"
    plain = {key: str(value) if isinstance(value, Path) else value for key, value in settings.items()}
    path.write_text(json.dumps({"env": plain, "openai": servers[0] if len(servers) == 1 else servers}))  # JSON is YAML
    return processes.start(name, [script.resolve(), "serve", "--config", path], python=True, variables=variables)


class LocalTraining:
    """Runs run-api behind a proxy, and an inference server. Start trainers and environments with the methods.

    All parts end with the `with` block, even after an error. `policy` is the policy of the first inference server.
    `latency_s` is the mean duration of a request. `settings` are added to SMALL for every environment.
    """

    def __init__(self, folder: Path, policy: Policy, *, latency_s: float = 0.0, **settings: Any) -> None:
        self.processes = Processes(folder, isolated=True, grace_s=0.0)
        self.run_api = RunApi(self.processes)
        self.proxy = RunApiProxy(self.run_api.url)
        self.servers: list[InferenceServer] = []
        self._stack = ExitStack()
        self._settings = {"tokenizer_name": TOKENIZER, "rollout_server_url": self.proxy.url, **SMALL, **settings}
        self._first = (policy, latency_s)

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.enter_context(self.proxy)
            self.add_server(*self._first)
            self._stack.enter_context(self.processes)
            self.run_api.start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add_server(self, policy: Policy, latency_s: float = 0.0) -> InferenceServer:
        """Start one more inference server. Environments that are started afterwards use all servers."""
        self.servers.append(self._stack.enter_context(InferenceServer(policy, latency_s=latency_s)))
        return self.servers[-1]

    def add_proxy(self) -> RunApiProxy:
        """Start one more proxy before run-api. An environment uses it if `rollout_server_url` is its address."""
        return self._stack.enter_context(RunApiProxy(self.run_api.url))

    def start_trainer(self, **options: Any) -> Trainer:
        """Start a trainer with options of `Trainer`. The trainer waits for run-api."""
        return self._stack.enter_context(Trainer(self.run_api.url, **options))

    def start_environment(
        self, name: str, *, server_type: str = "vllm", variables: Mapping[str, str] | None = None, **settings: Any
    ) -> Process:
        """Start an environment that keeps a journal (see `recorded_environment`); `name` must be new."""
        servers = [server_settings(server.url, server_type) for server in self.servers]
        settings = {**self._settings, **settings}
        return start_environment(self.processes, name, settings, servers, script=RECORDED_SCRIPT, variables=variables)

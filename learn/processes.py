"""The processes around the trainer: run-api, the inference server and the environment in serve mode."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import reasoning_gym_testing as rig

from .servers import START_TIMEOUT_S, PolicyServer
from .tasks import PARAMS, SYSTEM_PROMPT, TASKS, TEST_SEED

RESTARTS = 5
"""How often to restart an environment that ends by itself."""
VARIABLES = {"OMP_NUM_THREADS": "1", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1", "NO_PROXY": rig.HOST}
SETTINGS = {
    "tasks": sorted(TASKS),
    "task_params": PARAMS,
    "system_prompt": SYSTEM_PROMPT,
    # The evaluation set is the test set, so training uses none of its questions.
    "eval_seed": TEST_SEED,
    "eval_level": "training",
    "group_size": 8,
    "max_num_workers": 24,
    "max_batches_offpolicy": 1,
    "max_token_length": 64,
    "num_generators": 1,
    "num_verifiers": 1,
    "steps_per_eval": -1,
    "use_wandb": False,
    # Dumps also contain groups with equal scores and levels, which the trainer does not get.
    "dump_rollouts": True,
    "dump_failed_rollouts": True,
    "rollout_save_score_threshold": 0.0,
}


class TrainingProcesses:
    """Run-api, inference server and environment, which run inside `with`.

    Args:
        folder: The folder for logs and dumps. `folder`/warm contains the tokenizer.
        server: The inference server.
        seed: Seed of the environment.
        tests: Problems of each task in the evaluation set.
        settings: Further settings of the environment.
        say: Called with a line about each restart.
    """

    def __init__(
        self,
        folder: Path,
        server: PolicyServer,
        seed: int,
        tests: int,
        settings: Mapping[str, Any],
        say: Callable[[str], None],
    ) -> None:
        self.dumps = folder / "dumps"
        self.server = server
        self._processes = rig.Processes(folder / f"logs-{time.strftime('%Y%m%d-%H%M%S')}", VARIABLES)
        self.run_api = rig.RunApi(self._processes)
        own = {"seed": seed, "num_eval_samples_per_task": tests, "tokenizer_name": folder / "warm"}
        own |= {"rollout_server_url": self.run_api.url, "data_dumps_dir": self.dumps}
        self._settings = {**SETTINGS, **own, **settings}
        self._say = say
        self._starts = 0

    def __enter__(self) -> Self:
        self.dumps.mkdir(exist_ok=True)
        try:
            self.server.start(self._processes)
            self._environment = self._start_environment()
            self.run_api.start(wait=False)
            is_up = self.run_api.answers
            rig.wait_until(lambda: self.run_api.process.check() and is_up(), START_TIMEOUT_S, "the start of run-api")
            self.server.wait()
        except BaseException:
            self._processes.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.stop()

    def check(self) -> None:
        """Restart an ended environment, up to RESTARTS times. Raises ProcessError if another process has ended."""
        self.run_api.process.check()
        self.server.check()
        if (status := self._environment.exit_status) is not None:
            if self._starts > RESTARTS:
                self._environment.check()
            self._say(f"the environment ended with exit status {status}; restarting it")
            self._environment = self._start_environment()

    def _start_environment(self) -> rig.Process:
        self._starts += 1
        name = f"environment-{self._starts}"
        return rig.start_environment(self._processes, name, self._settings, [self.server.settings])

"""`python -m learn`: warm start, then RL through run-api, the environment and the server, each a process of its own.

Everything lies in one folder; the same command goes on from what is there, whatever was killed and however.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import testing as rig

from .errors import LearnError
from .tasks import SYSTEM_PROMPT, TASKS, confirms

MIN_MEMORY_MB = 2500
GROUP_SIZE = 8
POLL_INTERVAL_S = 0.05
START_TIMEOUT_S = 300.0
"""Long, because a busy machine takes minutes to import PyTorch."""
RESTARTS = 5
"""How often an environment that ended by itself is started again."""
SETTINGS = {
    "tasks": sorted(TASKS),
    "task_params": {name: dict(task.params) for name, task in TASKS.items()},
    "system_prompt": SYSTEM_PROMPT,
    "group_size": GROUP_SIZE,
    "max_num_workers": 12,
    "max_batches_offpolicy": 1,
    "min_completion_tokens": 16,
    "num_generators": 1,
    "num_verifiers": 1,
    "prefetch_problems": 32,
    "steps_per_eval": -1,
    "use_wandb": False,
    "dump_rollouts": True,
    "dump_failed_rollouts": True,
    "rollout_save_score_threshold": 0.0,
    "shutdown_grace_s": 0,
}
"""The environment's; dumps hold what the trainer does not get to see: groups without a signal, and levels."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    options = read_options(argv)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            _check_machine()
            Run(options).run()
            return 0
        print("learn: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    except (LearnError, rig.ProcessError, OSError, MemoryError) as error:
        what = "the machine has too little memory" if isinstance(error, MemoryError) else str(error)
        print(f"learn: {what}; what was learnt until the last checkpoint is in {options.folder}", file=sys.stderr)
        return 1


def read_options(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; ends the process with a message if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m learn",
        description="Watch a tiny transformer learn reasoning-gym tasks through Atropos' run-api and this environment.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("data_dumps/learn"), help="for all of it; a run goes on there"
    )
    parser.add_argument("--steps", type=int, default=200, help="batches to learn from")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after so long, the warm start included")
    parser.add_argument("--seed", type=int, default=1, help="seed of problems, first weights and samples")
    parser.add_argument("--warm-steps", type=int, default=300, help="supervised steps at most")
    parser.add_argument("--model", type=Path, help="a folder with a model of your own and its tokenizer")
    parser.add_argument("--eval-interval", type=int, default=20, help="steps between two looks at the test set")
    parser.add_argument("--tests", type=int, default=100, help="problems of the test set, per task")
    parser.add_argument("--threads", type=int, default=1, help="of the trainer; the server has one")
    parser.add_argument("--env", type=json.loads, default={}, help="JSON with settings of the environment")
    parser.add_argument("--shuffle-rewards", action="store_true", help="a control: nothing must be learnt")
    options = parser.parse_args(argv)
    for name in ("steps", "minutes", "warm_steps", "eval_interval", "tests", "threads"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    return options


def _check_machine() -> None:
    """Raise LearnError where PyTorch or memory is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise LearnError(
            "PyTorch is not installed; `make learn` installs it, and so does `pip install torch`"
        ) from None
    with contextlib.suppress(OSError):  # not Linux
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:") and int(line.split()[1]) < 1024 * MIN_MEMORY_MB:
                raise LearnError(
                    f"{MIN_MEMORY_MB} MB of free memory are needed, there are {int(line.split()[1]) // 1024}"
                )


class Run:
    """One run of the command, in the folder of its options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder: Path = options.folder.resolve()
        self._started = time.monotonic()
        self._earlier_s = 0.0
        self._restarts = 0
        self._read: dict[Path, int] = {}

    def run(self) -> None:
        """Learn until the steps are done or the time is over, and draw the curves."""
        import torch

        from .problems import Problems

        torch.set_num_threads(self._options.threads)
        torch.manual_seed(self._options.seed)
        (self._folder / "dumps").mkdir(parents=True, exist_ok=True)
        logs = self._folder / f"logs-{time.strftime('%Y%m%d-%H%M%S')}"
        with Problems(self._options.seed, self._options.tests) as self._problems:
            self._model, self._tokenizer = self._warm_model()
            # Memory-hungry parts start before the first step, so that none fails in the middle.
            with rig.Processes(logs, {"OMP_NUM_THREADS": "1", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}) as processes:
                self._learn(processes)

    def _warm_model(self) -> tuple[Any, Any]:
        """Return the model after its warm start, which is done once in a folder."""
        from . import model as models
        from .warm_start import warm_start

        options, warm = self._options, self._folder / "warm"
        if not (warm / "config.json").exists():
            model, tokenizer = models.load(options.model) if options.model else models.build(options.seed)
            self._say(f"{model.num_parameters() / 1e6:.2f} million parameters on {model.device}; warm start")
            warm_start(model, tokenizer, self._problems, options.seed, options.warm_steps, self._say)
            models.save(model, tokenizer, warm)
            (warm / "seconds.json").write_text(json.dumps(time.monotonic() - self._started))
        elif (warm / "seconds.json").exists():
            self._earlier_s = json.loads((warm / "seconds.json").read_text())
        return models.load(warm)

    def _learn(self, processes: rig.Processes) -> None:
        from .curves import write_curves
        from .trainer import Recipe, Trainer

        options = self._options
        run_api, port = rig.RunApi(processes), rig.free_port()
        server_url = f"http://{rig.HOST}:{port}"
        server = processes.start(
            "server",
            [sys.executable, "-m", "learn.server", self._folder / "warm", "--port", str(port)],
            cwd=Path(__file__).parents[1],
        )
        run_api.start(wait=False)
        rig.wait_until(lambda: run_api.process.check() and run_api.answers(), START_TIMEOUT_S, "the start of run-api")
        server.announcement(START_TIMEOUT_S)
        recipe = Recipe(shuffle_rewards=options.shuffle_rewards)
        trainer = Trainer(self._model, self._folder, run_api.url, server_url, recipe, options.seed)
        if trainer.history:
            self._say(f"going on from step {trainer.step}")
            self._earlier_s = trainer.history[-1]["seconds"]
        trainer.register(self._folder / "environment")
        self._skip_dumps()
        environment = self._start_environment(processes, run_api.url, server_url)
        if not trainer.history:
            trainer.history.append(
                {"step": 0, "completions": 0, "seconds": self._seconds, **self._tests(all_of_it=True)}
            )
        try:
            while trainer.step < options.steps and self._seconds < 60 * options.minutes:
                run_api.process.check()
                server.check()
                if environment.exit_status is not None:
                    environment = self._restart(environment, processes, run_api.url, server_url)
                groups = trainer.next_batch()
                if not groups:
                    time.sleep(POLL_INTERVAL_S)
                    continue
                self._note(trainer, trainer.train(groups))
                if trainer.step % recipe.save_interval == 0:
                    trainer.save()
                    write_curves(self._folder, trainer.history)
        finally:
            trainer.save()
        trainer.history[-1] |= self._tests(all_of_it=True)
        trainer.save()
        self._say(f"test set: {trainer.history[0]['test']} before, {trainer.history[-1]['test']} after")
        self._say(f"the curves: {write_curves(self._folder, trainer.history)}")

    def _note(self, trainer: Any, figures: dict[str, Any]) -> None:
        """Append a step to the history: its figures, those of all groups since the one before it, and the tests."""
        groups, before = list(self._new_groups()), trainer.history[-1]
        rollouts = [(group, rollout) for group in groups for rollout in group["rollouts"]]
        right = [(group, rollout) for group, rollout in rollouts if rollout["score"] == 1.0]
        confirmed = [
            confirms(group["item_id"], rollout["conversation"][-2]["content"], rollout["answer"])
            for group, rollout in right
            if group["item_id"] in TASKS
        ]
        levels = [group["level"] for group in groups if group["level"] is not None]
        entry = {
            "step": trainer.step,
            "completions": before["completions"] + len(rollouts),
            "seconds": self._seconds,
            **figures,
            "reward": _mean([rollout["score"] for _, rollout in rollouts]),
            "signal": _mean([len({rollout["score"] for rollout in group["rollouts"]}) > 1 for group in groups]),
            "level": _mean(levels),
            "full_marks": len(confirmed),
            "confirmed": sum(confirmed),
        }
        if trainer.step % self._options.eval_interval == 0:
            entry |= self._tests(all_of_it=False)
        trainer.history.append(entry)
        tested = f", test {entry['test']}" if "test" in entry else ""
        reward = "-" if entry["reward"] is None else f"{entry['reward']:.2f}"
        self._say(f"step {trainer.step}: reward {reward}, {entry['completions']} completions{tested}")

    def _tests(self, *, all_of_it: bool) -> dict[str, Any]:
        from .evaluation import K, accuracies

        asked = (self._model, self._tokenizer, self._problems, self._problems.tests)
        result: dict[str, Any] = {"test": accuracies(*asked)}
        return result | ({f"pass@{K}": accuracies(*asked, repeats=K)} if all_of_it else {})

    def _start_environment(self, processes: rig.Processes, run_api_url: str, server_url: str) -> rig.Process:
        tests = {"eval_seed": self._problems.test_seed, "num_eval_samples_per_task": self._options.tests}
        tokenizer = str(self._folder / "warm")
        settings = {**SETTINGS, **tests, "tokenizer_name": tokenizer, "rollout_server_url": run_api_url}
        settings |= {"data_dumps_dir": str(self._folder / "dumps"), "seed": self._options.seed, "max_token_length": 64}
        servers = [rig.server_settings(server_url, tokenizer=tokenizer)]
        name = f"environment-{self._restarts}"
        return rig.start_environment(processes, name, settings | self._options.env, servers)

    def _restart(self, ended: rig.Process, processes: rig.Processes, run_api_url: str, server_url: str) -> rig.Process:
        """Start the environment again, which goes on from its own checkpoint. Raises ProcessError, if too often."""
        self._restarts += 1
        if self._restarts > RESTARTS:
            ended.check()
        self._say(f"the environment ended with exit status {ended.exit_status}; it is started again")
        return self._start_environment(processes, run_api_url, server_url)

    def _skip_dumps(self) -> None:
        for _ in self._new_groups():
            pass

    def _new_groups(self) -> Iterator[dict[str, Any]]:
        """Read the groups that were dumped since the last time, up to the last whole line of each file."""
        for path in sorted((self._folder / "dumps").glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                news, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(news) + len(newline)
            yield from map(json.loads, news.splitlines())

    @property
    def _seconds(self) -> float:
        return round(self._earlier_s + time.monotonic() - self._started, 1)

    def _say(self, text: str) -> None:
        print(f"[{self._seconds:6.1f} s] {text}", flush=True)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None

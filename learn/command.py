"""`python -m learn`: a warm start, then RL with run-api, environment and server, each in its own process.

All files of a run are in one folder. If a process was killed, run the same command again to resume the run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import reasoning_gym_testing as rig

from .errors import LearnError
from .processes import TrainingProcesses
from .servers import OwnServer, PolicyServer, Vllm
from .tasks import PARAMS

MIN_MEMORY_MB = 2500
POLL_INTERVAL_S = 0.05


def main(argv: Sequence[str]) -> int:
    """Run the command and return the exit status."""
    options = read_options(argv)
    try:
        _check_machine(options.server)
        Run(options).run()
        return 0
    except KeyboardInterrupt:
        status = 130
        reason = "interrupted"
    except MemoryError:
        status = 1
        reason = "out of memory"
    except (LearnError, rig.ProcessError, OSError) as error:
        status = 1
        reason = str(error).splitlines()[0].removesuffix(" ends with:")
    if any(options.folder.glob("checkpoint-*")):
        reason += f"; the last checkpoint is in {options.folder}; run the same command again to resume"
    print(f"learn: {reason}", file=sys.stderr)
    return status


def read_options(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. End the process with a message if an option is out of range."""
    parser = argparse.ArgumentParser(
        prog="python -m learn",
        description="Train a small transformer on reasoning-gym tasks, with run-api and this environment.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=Path("data_dumps/learn"), help="folder for all files of the run")
    parser.add_argument("--steps", type=int, default=200, help="batches to train on")
    parser.add_argument("--minutes", type=float, default=9.5, help="time limit in minutes, warm start included")
    parser.add_argument("--seed", type=int, default=1, help="seed of problems, initial weights and samples")
    parser.add_argument("--warm-steps", type=int, default=1000, help="limit of supervised steps")
    parser.add_argument("--model", type=Path, help="folder of your own model and its tokenizer")
    parser.add_argument("--eval-interval", type=int, default=20, help="steps between two evaluations on the test set")
    parser.add_argument("--tests", type=int, default=100, help="problems of the test set, per task")
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of PyTorch; after the warm start, the server uses one of them"
    )
    parser.add_argument(
        "--env",
        type=json.loads,
        default={},
        metavar="JSON",
        help="settings of the environment; its task_params also apply to warm start and test set",
    )
    parser.add_argument(
        "--server",
        choices=["own", "vllm"],
        default="own",
        help="inference server: the small server of `learn`, or vLLM",
    )
    parser.add_argument(
        "--shuffle-rewards",
        action="store_true",
        help="control run with shuffled rewards, in which the model must learn nothing",
    )
    options = parser.parse_args(argv)
    for name in ("steps", "minutes", "warm_steps", "eval_interval", "tests", "threads"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    return options


def _check_machine(server: str) -> None:
    """Raise LearnError if PyTorch, a chosen vLLM or free memory is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise LearnError("PyTorch is missing; install it with `make learn` or `pip install torch`") from None
    if server == "vllm" and find_spec("vllm") is None:
        raise LearnError(
            "vLLM is missing; run `make integrations-vllm`, then `.venv-vllm/bin/python -m learn --server vllm`"
        )
    with contextlib.suppress(OSError):  # not Linux
        free = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()
        if free and int(free[0]) < 1024 * MIN_MEMORY_MB:
            raise LearnError(f"{MIN_MEMORY_MB} MB of free memory are needed; found {int(free[0]) // 1024} MB")


class Run:
    """One run of the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder: Path = options.folder.resolve()
        self._started = time.monotonic()
        self._earlier_s = 0.0

    def run(self) -> None:
        """Train until `--steps` or `--minutes` is reached, and draw the curves."""
        import torch

        from .problems import Problems
        from .trainer import Recipe, Trainer

        options = self._options
        recipe = Recipe(shuffle_rewards=options.shuffle_rewards)
        torch.set_num_threads(options.threads)
        torch.manual_seed(options.seed)
        self._folder.mkdir(parents=True, exist_ok=True)
        with Problems(options.seed, options.tests, options.env.get("task_params", PARAMS)) as self._problems:
            self._model, self._tokenizer = self._warm_model()
            torch.set_num_threads(max(1, options.threads - 1))  # one thread is for the server
            with TrainingProcesses(
                self._folder, self._server(), options.seed, options.tests, options.env, self._log
            ) as processes:
                trainer = Trainer(
                    self._model, self._folder, processes.run_api.url, processes.server, recipe, options.seed
                )
                self._earlier_s = max(self._earlier_s, trainer.history[-1]["seconds"] if trainer.history else 0.0)
                trainer.register(self._folder / "environment")
                self._learn(trainer, processes)

    def _warm_model(self) -> tuple[Any, Any]:
        """Return model and tokenizer after the warm start. If the folder has a finished warm start, load that one."""
        from . import model as models
        from .warm_start import warm_start

        options = self._options
        warm = self._folder / "warm"
        duration = warm / "seconds.json"
        if not duration.exists():
            model, tokenizer = models.load(options.model) if options.model else models.build(options.seed)
            self._log(f"{model.num_parameters() / 1e6:.2f} million parameters on {model.device}; warm start")
            warm_start(model, tokenizer, self._problems, options.seed, options.warm_steps, self._log)
            models.save(model, tokenizer, warm)
            duration.write_text(json.dumps(self._seconds))
        else:
            self._earlier_s = json.loads(duration.read_text())
        return models.load(warm)

    def _server(self) -> PolicyServer:
        warm = self._folder / "warm"
        if self._options.server == "vllm":
            return Vllm(warm, self._folder / "served")
        return OwnServer(warm, self._folder / "weights.safetensors")

    def _learn(self, trainer: Any, processes: TrainingProcesses) -> None:
        from .curves import write_curves
        from .figures import DumpedGroups, figures_of

        dumped = DumpedGroups(processes.dumps)
        history = trainer.history or [{"step": 0, "completions": 0, "seconds": self._seconds, **self._evaluate()}]
        trainer.history = history
        try:
            while trainer.step < self._options.steps and self._seconds < 60 * self._options.minutes:
                processes.check()
                if not (groups := trainer.next_batch()):
                    time.sleep(POLL_INTERVAL_S)
                    continue
                figures = trainer.train(groups) | figures_of(dumped.read_new())
                done = history[-1]["completions"] + figures.pop("rollouts")
                history.append({"step": trainer.step, "completions": done, "seconds": self._seconds, **figures})
                if trainer.step % self._options.eval_interval == 0:
                    history[-1] |= self._evaluate(sampled=False)
                self._log_step(history[-1])
                if trainer.step % trainer.recipe.save_interval == 0:
                    trainer.save()
                    write_curves(self._folder, history)
        finally:
            trainer.save()
        history[-1] |= self._evaluate()
        self._log(f"test set: {history[0]['test']} before, {history[-1]['test']} after")
        self._log(f"the curves: {write_curves(self._folder, history)}")

    def _evaluate(self, *, sampled: bool = True) -> dict[str, Any]:
        """Return the accuracies on the test set, by task: of greedy completions and, if `sampled`, also pass@K."""
        from .evaluation import K, accuracies

        asked = (self._model, self._tokenizer, self._problems, self._problems.tests)
        found = {"test": accuracies(*asked)}
        if sampled:
            found[f"pass@{K}"] = accuracies(*asked, repeats=K)
        return found

    def _log_step(self, entry: dict[str, Any]) -> None:
        reward = "-" if entry["reward"] is None else f"{entry['reward']:.2f}"
        tested = f", test set {entry['test']}" if "test" in entry else ""
        self._log(f"step {entry['step']}: reward {reward}, {entry['completions']} completions{tested}")

    @property
    def _seconds(self) -> float:
        return round(self._earlier_s + time.monotonic() - self._started, 1)

    def _log(self, text: str) -> None:
        print(f"[{self._seconds:6.1f} s] {text}", flush=True)

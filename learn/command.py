"""`python -m learn`: a warm start, then RL with run-api, environment and server as own processes.

All files lie in one folder, and the same command goes on from what is there, whatever was killed and however.
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
from .line import Line
from .servers import OwnServer, PolicyServer, Vllm
from .tasks import PARAMS

MIN_MEMORY_MB = 2500
POLL_INTERVAL_S = 0.05


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    options = read_options(argv)
    try:
        _check_machine(options.server)
        Run(options).run()
        return 0
    except KeyboardInterrupt:
        status, reason = 130, "interrupted"
    except MemoryError:
        status, reason = 1, "there is too little memory"
    except (LearnError, rig.ProcessError, OSError) as error:
        status, reason = 1, str(error).splitlines()[0].removesuffix(" ends with:")
    kept = any(options.folder.glob("checkpoint-*"))
    more = f"; what was learnt is kept in {options.folder}, where the same command goes on" if kept else ""
    print(f"learn: {reason}{more}", file=sys.stderr)
    return status


def read_options(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; ends the process with a message if they make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m learn",
        description="Watch a small transformer learn reasoning-gym tasks through run-api and this environment.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, default=Path("data_dumps/learn"), help="for all files of the run")
    parser.add_argument("--steps", type=int, default=200, help="batches to learn from")
    parser.add_argument("--minutes", type=float, default=9.5, help="stop after so long, the warm start included")
    parser.add_argument("--seed", type=int, default=1, help="seed of problems, first weights and samples")
    parser.add_argument("--warm-steps", type=int, default=1000, help="supervised steps at most")
    parser.add_argument("--model", type=Path, help="a folder with a model of your own and its tokenizer")
    parser.add_argument("--eval-interval", type=int, default=20, help="steps between two looks at the test set")
    parser.add_argument("--tests", type=int, default=100, help="problems of the test set, per task")
    parser.add_argument(
        "--threads", type=int, default=2, help="of PyTorch: all for the warm start, then one for the server"
    )
    parser.add_argument(
        "--env",
        type=json.loads,
        default={},
        metavar="JSON",
        help="settings of the environment, whose task_params also make the warm start and the test set",
    )
    parser.add_argument(
        "--server", choices=["own", "vllm"], default="own", help="what samples: the small server of `learn`, or vLLM"
    )
    parser.add_argument("--shuffle-rewards", action="store_true", help="a control: nothing must be learnt")
    options = parser.parse_args(argv)
    for name in ("steps", "minutes", "warm_steps", "eval_interval", "tests", "threads"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    return options


def _check_machine(server: str) -> None:
    """Raise LearnError where PyTorch, vLLM or memory is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise LearnError("PyTorch is missing; `make learn` installs it, and so does `pip install torch`") from None
    if server == "vllm" and find_spec("vllm") is None:
        raise LearnError("vLLM is missing here; `make integrations-vllm` makes an environment that has it")
    with contextlib.suppress(OSError):  # not Linux
        free = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()
        if free and int(free[0]) < 1024 * MIN_MEMORY_MB:
            raise LearnError(f"{MIN_MEMORY_MB} MB of free memory are needed, and {int(free[0]) // 1024} are there")


class Run:
    """One run of the command, in the folder of its options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder: Path = options.folder.resolve()
        self._started = time.monotonic()
        self._earlier_s = 0.0

    def run(self) -> None:
        """Learn until the steps are done or the time is over, and draw the curves."""
        import torch

        from .problems import Problems
        from .trainer import Recipe, Trainer

        options, recipe = self._options, Recipe(shuffle_rewards=self._options.shuffle_rewards)
        torch.set_num_threads(options.threads)
        torch.manual_seed(options.seed)
        self._folder.mkdir(parents=True, exist_ok=True)
        with Problems(options.seed, options.tests, options.env.get("task_params", PARAMS)) as self._problems:
            self._model, self._tokenizer = self._warm_model()
            torch.set_num_threads(max(1, options.threads - 1))  # the server wants one
            with Line(self._folder, self._server(), options.seed, options.tests, options.env, self._say) as line:
                trainer = Trainer(self._model, self._folder, line.run_api.url, line.server, recipe, options.seed)
                self._earlier_s = max(self._earlier_s, trainer.history[-1]["seconds"] if trainer.history else 0.0)
                trainer.register(self._folder / "environment")
                self._learn(trainer, line)

    def _warm_model(self) -> tuple[Any, Any]:
        """Return the model after its warm start, which is done once in a folder."""
        from . import model as models
        from .warm_start import warm_start

        options, warm, mark = self._options, self._folder / "warm", self._folder / "warm" / "seconds.json"
        if not mark.exists():
            model, tokenizer = models.load(options.model) if options.model else models.build(options.seed)
            self._say(f"{model.num_parameters() / 1e6:.2f} million parameters on {model.device}; warm start")
            warm_start(model, tokenizer, self._problems, options.seed, options.warm_steps, self._say)
            models.save(model, tokenizer, warm)
            mark.write_text(json.dumps(self._seconds))
        else:
            self._earlier_s = json.loads(mark.read_text())
        return models.load(warm)

    def _server(self) -> PolicyServer:
        warm = self._folder / "warm"
        if self._options.server == "vllm":
            return Vllm(warm, self._folder / "served")
        return OwnServer(warm, self._folder / "weights.safetensors")

    def _learn(self, trainer: Any, line: Line) -> None:
        from .curves import write_curves
        from .figures import DumpedGroups, figures_of

        dumped = DumpedGroups(line.dumps)
        history = trainer.history or [{"step": 0, "completions": 0, "seconds": self._seconds, **self._tests()}]
        trainer.history = history
        try:
            while trainer.step < self._options.steps and self._seconds < 60 * self._options.minutes:
                line.check()
                if not (groups := trainer.next_batch()):
                    time.sleep(POLL_INTERVAL_S)
                    continue
                figures = trainer.train(groups) | figures_of(dumped.news())
                done = history[-1]["completions"] + figures.pop("rollouts")
                history.append({"step": trainer.step, "completions": done, "seconds": self._seconds, **figures})
                if trainer.step % self._options.eval_interval == 0:
                    history[-1] |= self._tests(sampled=False)
                self._tell(history[-1])
                if trainer.step % trainer.recipe.save_interval == 0:
                    trainer.save()
                    write_curves(self._folder, history)
        finally:
            trainer.save()
        history[-1] |= self._tests()
        self._say(f"test set: {history[0]['test']} before, {history[-1]['test']} after")
        self._say(f"the curves: {write_curves(self._folder, history)}")

    def _tests(self, *, sampled: bool = True) -> dict[str, Any]:
        """Return the accuracies on the test set: of greedy answers and, if wanted, of sampled ones."""
        from .evaluation import K, accuracies

        asked = (self._model, self._tokenizer, self._problems, self._problems.tests)
        return {"test": accuracies(*asked)} | ({f"pass@{K}": accuracies(*asked, repeats=K)} if sampled else {})

    def _tell(self, entry: dict[str, Any]) -> None:
        reward = "-" if entry["reward"] is None else f"{entry['reward']:.2f}"
        tested = f", test set {entry['test']}" if "test" in entry else ""
        self._say(f"step {entry['step']}: reward {reward}, {entry['completions']} completions{tested}")

    @property
    def _seconds(self) -> float:
        return round(self._earlier_s + time.monotonic() - self._started, 1)

    def _say(self, text: str) -> None:
        print(f"[{self._seconds:6.1f} s] {text}", flush=True)

"""Train the model of `learn/` with TRL on several selections of problems, for the same number of seconds.

    python -m benchmarks.learning_trl --folder data_dumps/learn --rows uniform curriculum pass-rate

`--folder` is the folder of a `make learn`. All runs start from its warm model. If the folder has no warm model, the
program runs a warm start first. The tasks are those of `learn/`, with words of 3 to 10 letters (the library's default),
and those of `--also`, which the model has never seen. The warm start of `learn/` teaches the first three, with a
mistake in most answers that the training has to correct. Only right answers are rewarded. `--rows`:

- uniform: uniform sampling of tasks
- adaptive: adaptive sampling of tasks
- curriculum: adaptive sampling, with levels that follow the model, except for the tasks with parameters of `learn/`
- pass-rate: before the training, the model answers ASKED problems of `uniform` eight times; the training uses the
  problems with a pass rate from .2 to .8, in a new order in each epoch

With `--full-stops`, the warm start continues with answers, of which this share ends with a full stop. All runs then
start from that model (use a separate folder). With `--padded-positions`, the benchmark does not pass `position_ids` to
the model (see `give_positions`).

Each run is a JSON file in `--folder`, ROWS-SEED.json. Existing runs are not repeated. Figures of a run:

- `seconds`: of the training without tests; on a GPU wall-clock time, on a CPU processor time of this process
- `seconds_of_rows`: of the selection by pass rate
- `signal`: the share of groups of each step with unequal rewards
- `test`: greedy accuracy on a fixed set of problems of the tasks of `learn/`, with words of the default lengths

Prints the figures of each run as a line of JSON. Needs the extras `atropos`, `trl` and `learn`.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from learn import model as models
from learn.evaluation import COMPLETION_TOKENS, accuracies
from learn.model import prompt_tokens
from learn.problems import Problems
from learn.sampling import sample, text_of
from learn.tasks import PARAMS, SYSTEM_PROMPT, TASKS, TEST_SEED
from learn.trainer import Recipe
from learn.warm_start import warm_start
from reasoning_env import Bridge, Problem, Verdict
from reasoning_env.integrations.trl import TrlEnvironment
from reasoning_env.storage.files import replace_file

GROUP_SIZE = 8
RECIPE = Recipe()
ALSO = ("basic_arithmetic", "complex_arithmetic", "lcm", "number_sequence", "simple_equations")
TEST_PARAMS = {**PARAMS, "spell_backward": {}}
ROWS = ("uniform", "adaptive", "curriculum", "pass-rate")
ASKED = 1024
PASS_RATES = (0.2, 0.8)
WARM_SEED = 1


class FullStops(Problems):
    """Problems of `learn/`. A share of the warm start's answers ends with a full stop."""

    def __init__(self, seed: int, tests_per_task: int, share: float) -> None:
        super().__init__(seed, tests_per_task)
        self.share = share

    def warm(self, number: int) -> dict[str, list[Problem]]:
        rng = random.Random(1)
        return {
            task: [
                replace(problem, answer=f"{problem.answer}.") if rng.random() < self.share else problem
                for problem in drawn
            ]
            for task, drawn in super().warm(number).items()
        }


class RightOrWrong(TrlEnvironment):
    """Rewards as in `learn/trainer.py`: 1 for a right answer and 0 for all others, without partial credit."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__(bridge)
        self.signal: list[float] = []
        """For each step, the share of groups with unequal rewards."""

    async def reward(self, completions: Any, reference: Any, log_extra: Any = None, **_: Any) -> list[float | None]:
        scores = await super().reward(completions, reference, log_extra=log_extra)
        rewards = [None if score is None else float(score >= Verdict.CORRECT_SCORE) for score in scores]
        groups = [rewards[at : at + GROUP_SIZE] for at in range(0, len(rewards), GROUP_SIZE)]
        self.signal.append(round(fmean(len(set(group)) > 1 for group in groups), 4))
        return rewards

    def choose_rows(self, model: Any, tokenizer: Any, batch: int) -> Dataset:
        """Return the rows of the problems with a pass rate in PASS_RATES."""
        rows = []
        for _ in range(0, ASKED, batch // GROUP_SIZE):
            problems = [self.bridge.next() for _ in range(batch // GROUP_SIZE)]
            prompts = [prompt_tokens(tokenizer, problem.question) for problem in problems for _ in range(GROUP_SIZE)]
            texts = [text_of(tokenizer, one) for one in sample(model, tokenizer, prompts, [COMPLETION_TOKENS] * batch)]
            for at, problem in enumerate(problems):
                verdicts = self.bridge.judge(problem, texts[at * GROUP_SIZE : (at + 1) * GROUP_SIZE])
                self.bridge.observe(problem, verdicts)
                rate = fmean(verdict is not None and verdict.correct for verdict in verdicts)
                if PASS_RATES[0] <= rate <= PASS_RATES[1]:
                    rows.append({"prompt": self.bridge.messages(problem), "reference": problem.reference})
        if not rows:
            raise SystemExit(
                f"learning_trl: none of {ASKED} problems has a pass rate from {PASS_RATES[0]} to {PASS_RATES[1]}; use "
                "easier tasks, or a longer warm start"
            )
        return Dataset.from_list(rows)


def give_positions(model: Any) -> None:
    """Let rows that are padded on the left begin at position 0, as at sampling.

    TRL passes no `position_ids` to the model. GPT-2 has absolute positions and needs them; the rotary positions of
    newer models do not.
    """

    def add_positions(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        mask = named.get("attention_mask")
        if named.get("position_ids") is None and mask is not None and mask.shape == named["input_ids"].shape:
            named["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        return given, named

    model.register_forward_pre_hook(add_positions, with_kwargs=True)


def clock() -> float:
    """Return seconds: wall-clock time on a GPU, processor time on a CPU, which other programs may share."""
    return time.monotonic() if torch.cuda.is_available() else time.process_time()


class TestSet(TrainerCallback):
    """Tests every `interval` steps, and ends the training after `limit_s` seconds, tests not counted."""

    def __init__(self, gym: RightOrWrong, tokenizer: Any, problems: Problems, interval: int, limit_s: float) -> None:
        self._gym, self._tokenizer, self._problems = gym, tokenizer, problems
        self._interval, self._limit_s = interval, limit_s
        self._started = 0.0
        self.tests: list[dict[str, Any]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.test(0, 0.0, model)
        self._started = clock()

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        seconds = clock() - self._started
        if seconds > self._limit_s:
            control.should_training_stop = True
        if state.global_step % self._interval == 0 or control.should_training_stop:
            self.test(state.global_step, seconds, model)
            self._started = clock() - seconds

    def test(self, step: int, seconds: float, model: Any) -> None:
        was_training = model.training
        model.eval()
        test = accuracies(model, self._tokenizer, self._problems, self._problems.tests)
        model.train(was_training)
        level = self._gym.bridge.report().get("sampler/mean_level")
        mean = round(fmean(test.values()), 3)
        self.tests.append({"step": step, "seconds": round(seconds, 1), "test": test, "mean": mean, "level": level})
        print(json.dumps(self.tests[-1]), flush=True)


def make_warm(options: argparse.Namespace) -> Path:
    """Return the folder of the model after the warm start. Run the warm start once for all runs."""
    warm: Path = options.folder / "warm"
    if not warm.exists():
        _warm_up(options, models.build(WARM_SEED), 0.0, warm)
    if not options.full_stops:
        return warm
    formed: Path = options.folder / "warm-full-stops"
    if not formed.exists():
        _warm_up(options, models.load(warm), options.full_stops, formed)
    return formed


def _warm_up(options: argparse.Namespace, loaded: tuple[Any, Any], full_stops: float, folder: Path) -> None:
    model, tokenizer = loaded
    with FullStops(WARM_SEED, options.tests, full_stops) as problems:
        warm_start(model, tokenizer, problems, WARM_SEED, options.warm_steps, print)
    models.save(model, tokenizer, folder)


def open_bridge(options: argparse.Namespace, seed: int, rows: str) -> Bridge:
    return Bridge(
        tasks=[*TASKS, *options.also],
        task_params={task: dict(params) for task, params in TEST_PARAMS.items()},
        complexity_mode="curriculum" if rows == "curriculum" else None,
        task_sampling="adaptive" if rows in ("adaptive", "curriculum") else "uniform",
        seed=seed,
        system_prompt=SYSTEM_PROMPT,
        eval_seed=TEST_SEED,
        eval_level="training",
        num_eval_samples_per_task=options.tests,
        num_generators=1,
        num_verifiers=1,
        group_size=GROUP_SIZE,
    )


def grpo_config(options: argparse.Namespace, seed: int, *, shuffle: bool) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(options.folder / "trl"),
        seed=seed,
        max_steps=options.steps,
        num_generations=GROUP_SIZE,
        per_device_train_batch_size=options.batch,
        max_completion_length=COMPLETION_TOKENS,
        shuffle_dataset=shuffle,
        learning_rate=RECIPE.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=RECIPE.ramp_steps,
        adam_beta2=0.95,
        max_grad_norm=RECIPE.max_grad_norm,
        loss_type="dr_grpo",
        scale_rewards="none",
        beta=0.0,
        epsilon=RECIPE.clip_low,
        epsilon_high=RECIPE.clip_high,
        disable_dropout=True,
        gradient_checkpointing=False,
        bf16=False,
        report_to=[],
        save_strategy="no",
        logging_steps=20,
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )


def run(options: argparse.Namespace, rows: str, seed: int) -> dict[str, Any]:
    """Run one training, and return its figures."""
    model, tokenizer = models.load(make_warm(options))
    with Problems(seed, options.tests, TEST_PARAMS) as problems, open_bridge(options, seed, rows) as bridge:
        gym = RightOrWrong(bridge)
        torch.manual_seed(seed)
        started = clock()
        chosen = gym.choose_rows(model, tokenizer, options.batch) if rows == "pass-rate" else None
        seconds_of_rows = clock() - started
        if not options.padded_positions:
            give_positions(model)
        tests = TestSet(gym, tokenizer, problems, options.interval, options.seconds)
        GRPOTrainer(
            model,
            reward_funcs=gym.reward,
            args=grpo_config(options, seed, shuffle=chosen is not None),
            train_dataset=gym.rows() if chosen is None else chosen,
            processing_class=tokenizer,
            callbacks=[tests] if chosen is not None else [gym.callback(), tests],
        ).train()
    return {
        "rows": rows,
        "seed": seed,
        "completions_a_step": options.batch,
        "seconds_of_rows": round(seconds_of_rows, 1) if chosen is not None else None,
        "chosen": len(chosen) if chosen is not None else None,
        "tests": tests.tests,
        "signal": gym.signal,
    }


def summarize(done: dict[str, Any]) -> dict[str, Any]:
    last = done["tests"][-1]
    kept = {name: done[name] for name in ("rows", "seed", "seconds_of_rows", "chosen")}
    return {
        **kept,
        "steps": last["step"],
        "seconds": last["seconds"],
        "signal": round(fmean(done["signal"]), 3),
        "before": done["tests"][0]["mean"],
        "after": last["mean"],
        "level": last["level"],
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="learning_trl", description="Compare selections of problems for a training with TRL."
    )
    parser.add_argument("--folder", type=Path, default=Path("data_dumps/rows"), help="folder for models and runs")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["uniform"])
    parser.add_argument("--also", nargs="*", default=list(ALSO), help="tasks that the model has never seen")
    parser.add_argument(
        "--full-stops", type=float, default=0.0, help="share of warm-start answers that end in a full stop"
    )
    parser.add_argument("--warm-steps", type=int, default=1000, help="limit of supervised steps")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--seconds", type=float, default=60.0, help="maximum seconds of training")
    parser.add_argument("--steps", type=int, default=1000, help="maximum training steps")
    parser.add_argument("--batch", type=int, default=128, help="completions a step")
    parser.add_argument("--tests", type=int, default=100, help="problems of the test set, per task")
    parser.add_argument("--interval", type=int, default=10, help="steps between two tests")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument(
        "--padded-positions", action="store_true", help="do not pass position_ids to the model, like TRL"
    )
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    for seed in options.seeds:
        for rows in options.rows:
            path = options.folder / f"{rows}-{seed}.json"
            if not path.exists():
                replace_file(path, [json.dumps(run(options, rows, seed)).encode()])
            print(json.dumps(summarize(json.loads(path.read_text()))), flush=True)


if __name__ == "__main__":
    main()

"""Train with TRL's GRPOTrainer in place of the trainer of `learn/`: same warm start, tasks, test set and learning rate.

    python -m benchmarks.learning_trl --folder data_dumps/learn --steps 180
    python -m benchmarks.learning_trl --folder data_dumps/trl --levels curriculum --padded-positions
    python -m benchmarks.learning_trl --folder data_dumps/trl --picture curve.svg

`--folder` is the folder of a `make learn`, whose warm model is used; a folder without a warm model gets one first.
Prints a line of JSON at each evaluation on the test set: step, completions, seconds, greedy accuracy of each
task, and the mean level of the curriculum.
Needs the extras `atropos`, `trl` and `learn`.

`--levels fixed` and `--levels curriculum` train on two tasks, whose prompts have unlike lengths: spiral_matrix, and
spell_backward with words of 3 to 10 letters (the library's defaults), or of levels that follow the learner. Both are
tested on the same set, of the library's defaults. `--padded-positions` leaves out the positions that the benchmark
gives the model (see `give_positions`). `--picture FILE` draws the runs in `--folder` and trains nothing.

TRL trains on all sampled groups, those without a signal included. `learn` samples about 234 completions for a batch of
128 in groups with a signal; a step has 256 here.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from learn import model as models
from learn.evaluation import COMPLETION_TOKENS, accuracies
from learn.problems import Problems
from learn.tasks import PARAMS, SYSTEM_PROMPT, TASKS, TEST_SEED
from learn.trainer import Recipe
from learn.warm_start import warm_start
from reasoning_env import Bridge, Verdict
from reasoning_env.integrations.trl import TrlEnvironment

GROUP_SIZE = 8
RECIPE = Recipe()


class RightOrWrong(TrlEnvironment):
    """Rewards as in `learn/trainer.py`: 1 for a right answer and 0 for all others, without partial credit."""

    async def reward(self, completions: Any, reference: Any, log_extra: Any = None, **_: Any) -> list[float | None]:
        scores = await super().reward(completions, reference, log_extra)
        return [None if score is None else float(score >= Verdict.CORRECT_SCORE) for score in scores]


def give_positions(model: Any) -> None:
    """Let rows that are padded on the left begin at position 0, as when they were sampled.

    TRL passes no positions to the model. The positions of GPT-2 are absolute; rotary positions of newer models work
    without.
    """

    def add_positions(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        mask = named.get("attention_mask")
        if named.get("position_ids") is None and mask is not None and mask.shape == named["input_ids"].shape:
            named["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
        return given, named

    model.register_forward_pre_hook(add_positions, with_kwargs=True)


class TestSet(TrainerCallback):
    """Prints greedy accuracies before the first step and after every `interval` steps."""

    def __init__(
        self, bridge: Bridge, tokenizer: Any, problems: Problems, interval: int, batch_size: int, path: Path
    ) -> None:
        self._bridge = bridge
        self._tokenizer, self._problems = tokenizer, problems
        self._interval, self._batch_size = interval, batch_size
        self._path = path
        self._lines: list[str] = []
        self._started = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._tell(state.global_step, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if state.global_step % self._interval == 0:
            self._tell(state.global_step, model)

    def _tell(self, step: int, model: Any) -> None:
        was_training = model.training
        model.eval()
        test = accuracies(model, self._tokenizer, self._problems, self._problems.tests)
        model.train(was_training)
        line = {
            "step": step,
            "completions": step * self._batch_size,
            "seconds": round(time.monotonic() - self._started),
            "test": test,
            "mean": round(sum(test.values()) / len(test), 3),
            "level": self._bridge.report().get("sampler/mean_level"),
        }
        print(json.dumps(line), flush=True)
        self._lines.append(json.dumps(line))
        self._path.write_text("\n".join([*self._lines, ""]))


def draw(folder: Path, picture: Path) -> None:
    """Draw the mean accuracy on the test set by completions, a line for each run in the folder."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    panel = figure.subplots()
    panel.spines[["top", "right"]].set_visible(False)
    for path in sorted(folder.glob("*.jsonl")):
        points = [json.loads(line) for line in path.read_text().splitlines()]
        panel.plot([at["completions"] for at in points], [at["mean"] for at in points], "o-", label=path.stem)
    panel.set(xlabel="completions", ylabel="accuracy on the test set, greedy", ylim=(0, 1.02))
    figure.legend(frameon=False, ncols=2, loc="outside upper center")
    figure.savefig(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the model of learn/ with TRL.")
    parser.add_argument("--folder", type=Path, default=Path("data_dumps/learn"))
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--batch-size", type=int, default=256, help="completions a step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=int, default=100, help="problems of the test set, per task")
    parser.add_argument("--interval", type=int, default=20, help="steps between two looks at the test set")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch")
    parser.add_argument("--levels", choices=["easy", "fixed", "curriculum"], default="easy")
    parser.add_argument("--width", type=int, default=128, help="of the model that the warm start makes")
    parser.add_argument("--layers", type=int, default=4, help="of that model")
    parser.add_argument("--padded-positions", action="store_true", help="give the model no positions, as TRL itself")
    parser.add_argument("--picture", type=Path, help="draw the runs in --folder into this file")
    options = parser.parse_args()
    if options.picture is not None:
        draw(options.folder, options.picture)
        return
    torch.set_num_threads(options.threads)
    is_easy = options.levels == "easy"
    tasks = sorted(TASKS) if is_easy else ["spell_backward", "spiral_matrix"]
    params = {task: {} if task == "spell_backward" and not is_easy else PARAMS[task] for task in tasks}
    name = f"{options.levels}, padded positions" if options.padded_positions else options.levels
    path = options.folder / f"{name}.jsonl"
    args = GRPOConfig(
        output_dir=str(options.folder / "trl"),
        seed=options.seed,
        max_steps=options.steps,
        num_generations=GROUP_SIZE,
        per_device_train_batch_size=options.batch_size,
        max_completion_length=COMPLETION_TOKENS,
        shuffle_dataset=False,
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
        logging_steps=options.interval,
        use_cpu=not torch.cuda.is_available(),
    )
    with Problems(options.seed, options.tests, params, tasks) as problems:
        warm = options.folder / "warm"
        if not warm.exists():
            model, tokenizer = models.build(options.seed, width=options.width, layers=options.layers)
            warm_start(model, tokenizer, problems, options.seed, 1000, print)
            models.save(model, tokenizer, warm)
        model, tokenizer = models.load(warm)
        if not options.padded_positions:
            give_positions(model)
        with Bridge(
            tasks=tasks,
            task_params=params,
            complexity_mode="curriculum" if options.levels == "curriculum" else None,
            seed=options.seed,
            system_prompt=SYSTEM_PROMPT,
            eval_seed=TEST_SEED,
            eval_params="training",
            num_eval_samples_per_task=options.tests,
            num_generators=1,
            num_verifiers=1,
        ) as bridge:
            gym = RightOrWrong(bridge)
            GRPOTrainer(
                model,
                reward_funcs=gym.reward,
                args=args,
                train_dataset=gym.rows(),
                processing_class=tokenizer,
                callbacks=[
                    gym.callback(),
                    TestSet(bridge, tokenizer, problems, options.interval, options.batch_size, path),
                ],
            ).train()


if __name__ == "__main__":
    main()

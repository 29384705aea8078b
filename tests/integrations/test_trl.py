"""Train with TRL on a CPU: judging, curriculum levels and resuming."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

trl = pytest.importorskip("trl", reason="needs the extra `trl`: make integrations")

from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, TrainerControl, TrainerState

import reasoning_env
from examples.trl_cpu import make_trainer
from reasoning_env.bridge import Bridge
from reasoning_env.commands.problems import problems_command
from reasoning_env.errors import ConfigError
from reasoning_env.integrations.trl import TrlEnvironment
from reasoning_env.problems.state import NOT_GENERATED
from reasoning_gym_testing.http_server import free_port
from tests.waiting import PATIENCE_S

from .direct_judge import ARMS, arm, judge_directly
from .shown import shown_block

# The packages' own warnings are not this project's.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOT = Path(reasoning_env.__file__).parent.parent
SETTINGS: dict[str, Any] = {"tasks": ["gcd", "chain_sum"], "seed": 1, "complexity_mode": "curriculum"}


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    with Bridge(**SETTINGS) as bridge:
        yield bridge


class Watched(TrlEnvironment):
    """Records the trainer's scores and references. With `oracle`, right answers replace the completions."""

    def __init__(self, bridge: Bridge, *, oracle: bool = False) -> None:
        super().__init__(bridge)
        self.oracle = oracle
        self.scores: list[float | None] = []
        self.drawn: list[str] = []

    def draw(self) -> dict[str, Any]:
        row = super().draw()
        self.drawn.append(row["reference"])
        return row

    async def reward(
        self, completions: Any, reference: Any, completion_ids: Any = None, log_extra: Any = None, **others: Any
    ) -> list[float | None]:
        if self.oracle:
            completions = [f"<answer>{self.problems[name].answer}</answer>" for name in reference]
        found = await super().reward(completions, reference, completion_ids, log_extra, **others)
        self.scores += found
        return found


def levels(bridge: Bridge) -> float:
    return bridge.report()["sampler/mean_level"]


def test_every_trl_rollout_is_judged(bridge: Bridge, tmp_path: Path) -> None:
    gym = Watched(bridge)
    make_trainer(gym, tmp_path, 10).train()
    assert len(gym.scores) == 320
    assert None not in gym.scores


def test_trl_trains_with_each_reward_part_as_a_reward_function(bridge: Bridge, tmp_path: Path) -> None:
    """Train with GDPO and the documented reward functions."""
    gym = TrlEnvironment(bridge)
    trainer = make_trainer(gym, tmp_path, 2)
    args = replace(trainer.args, multi_objective_aggregation="normalize_then_sum", generation_batch_size=None)
    parts = trl.GRPOTrainer(
        trainer.model, gym.rewards(), args, gym.rows(), None, trainer.processing_class, callbacks=[gym.callback()]
    )
    parts.train()
    logged = parts.state.log_history[0]
    assert [logged[f"rewards/{part}/mean"] for part in ("format", "answer", "length")] == [0.0, 0.0, 1.0]


def test_curriculum_levels_rise_in_trl_training(bridge: Bridge, tmp_path: Path) -> None:
    gym = Watched(bridge, oracle=True)
    make_trainer(gym, tmp_path, 4).train()
    assert set(gym.scores) == {1.0}
    assert levels(bridge) > 0.3


def test_truncation_warning_names_max_completion_length(
    bridge: Bridge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_trainer(TrlEnvironment(bridge), tmp_path, 8).train()
    [remark] = [message for message in caplog.messages if "were cut off without an answer" in message]
    assert "raise the token limit: max_completion_length of GRPOConfig, which is 16" in remark
    assert not any("have no answer tags" in message for message in caplog.messages)


@pytest.mark.parametrize("name", ["GRPO", "RLOO"])
def test_trl_scores_rows_of_a_problems_file(model: str, tmp_path: Path, name: str) -> None:
    """Use a file of `problems --format trl` for training and for evaluation."""
    rows = tmp_path / "rows.jsonl"
    options = ["--format", "trl", "--count", "8", "--tasks", "gcd", "--out", str(rows)]
    assert problems_command(options, tmp_path) == 0
    data = Dataset.from_json(str(rows))
    args = getattr(trl, f"{name}Config")(
        output_dir=str(tmp_path),
        max_steps=1,
        num_generations=2,
        max_completion_length=8,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
    )
    with Bridge(tasks=["gcd"], group_size=2) as bridge:
        gym = TrlEnvironment(bridge)
        trainer = getattr(trl, f"{name}Trainer")(model, gym.reward, args, train_dataset=data, eval_dataset=data)
        trainer.train()
        assert trainer.evaluate()["eval_reward"] == 0.0


@pytest.mark.parametrize("rewards", ARMS)
def test_trl_rewards_equal_the_scores_of_the_bridge_class(rewards: str) -> None:
    expected = judge_directly(rewards)
    with Bridge(**arm(rewards)) as bridge:
        gym = TrlEnvironment(bridge)
        found = asyncio.run(gym.reward([one.completion for one in expected], [one.reference for one in expected]))
    assert found == [one.score for one in expected]


def test_trl_skips_problems_whose_prompts_are_too_long(bridge: Bridge, tmp_path: Path) -> None:
    trainer = make_trainer(Watched(bridge), tmp_path, 1)
    room = trainer.model.config.max_position_embeddings
    trainer.train()
    problem = bridge.next()
    assert bridge.fits is not None
    assert bridge.fits(problem)
    assert not bridge.fits(replace(problem, question="word " * room))


def test_model_with_learned_position_embeddings_logs_a_warning(
    bridge: Bridge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer(TrlEnvironment(bridge), tmp_path, 1)
    callback = TrlEnvironment(bridge).callback()
    small = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    rotary = Qwen2ForCausalLM(Qwen2Config(**small, num_attention_heads=1, num_key_value_heads=1))
    told = []
    for model in (rotary, trainer.model):
        caplog.clear()
        callback.on_train_begin(
            trainer.args, TrainerState(), TrainerControl(), model=model, processing_class=trainer.processing_class
        )
        told.append("learned position embeddings" in caplog.text)
    assert told == [False, True]


def test_trl_logs_the_environment_metrics(bridge: Bridge, tmp_path: Path) -> None:
    trainer = make_trainer(TrlEnvironment(bridge), tmp_path, 1)
    trainer.train()
    logged = trainer.state.log_history[0]
    assert 0.0 <= logged["reasoning/level"] <= 1.0
    assert logged["reasoning/fault"] == 0.0
    assert sum(share for name, share in logged.items() if name.startswith("reasoning/") and "level" not in name) == (
        pytest.approx(1.0)
    )


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ({"shuffle_dataset": True}, r"GRPOConfig\.shuffle_dataset: .*; set shuffle_dataset=False"),
        ({"num_generations": 4}, r"GRPOConfig\.num_generations: .*; got 4; use Bridge\(group_size=4\)"),
    ],
)
def test_wrong_trl_arguments_raise(bridge: Bridge, argument: dict[str, Any], line: str) -> None:
    given = {"shuffle_dataset": False, "num_generations": 8, "max_completion_length": 8}
    arguments = SimpleNamespace(**given | argument)
    with pytest.raises(ConfigError, match=line):
        TrlEnvironment(bridge).callback().on_init_end(arguments, TrainerState(), TrainerControl())


@pytest.fixture
def model(bridge: Bridge, tmp_path: Path) -> str:
    """The folder of a tiny model that replaces the model on the page."""
    make_trainer(TrlEnvironment(bridge), tmp_path, 1).save_model(str(tmp_path / "model"))
    return str(tmp_path / "model")


def run_shown(word: str, model: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the page's code block that contains a word, for one step of a tiny model; return the trainer's state."""
    small = partial(trl.GRPOConfig, use_cpu=True, report_to=[], save_strategy="no", logging_steps=1)
    monkeypatch.setattr(trl, "GRPOConfig", small)
    lines = shown_block("python", word)
    replaced = {
        "Qwen/Qwen2.5-1.5B-Instruct": model,
        "max_steps=500": "max_steps=1",
        "max_completion_length=2048": "max_completion_length=8",
    }
    for shown, used in replaced.items():
        assert shown in lines
        lines = lines.replace(shown, used)
    found: dict[str, Any] = {}
    exec(lines, found)
    return found["trainer"].state


def test_documented_trl_training_code_runs(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_shown("GRPOTrainer", model, monkeypatch).global_step == 1


def test_documented_trl_code_scores_completions_for_rows_of_a_file(
    bridge: Bridge, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = []
    for problem in (bridge.draw(number) for number in range(2)):
        messages = [*bridge.messages(problem), {"role": "assistant", "content": "no"}]
        rows.append({"messages": messages, "task": problem.task, "reference": problem.reference})
    Path("data").mkdir()
    Path("data/candidates-best.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    state = run_shown("candidates-best.jsonl", model, monkeypatch)
    assert state.log_history[0]["reasoning/no_answer"] == 1.0


REWARDS = """
import os


def score(completion, prompt, answer):
    if answer == "crash":
        os.abort()
    return {"score": {"right": 1.0, "half": 0.5, "none": None}[answer], "length": len(completion)}
"""


def test_documented_trl_training_with_a_score_function_runs(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score function returns 1 or 0.5, raises, or ends its process."""
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    monkeypatch.chdir(tmp_path)
    answers = ("right", "half", "none", "crash")
    args = trl.GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=1,
        num_generations=2,
        per_device_train_batch_size=8,
        max_completion_length=8,
        report_to=[],
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
    )
    rows = Dataset.from_list([{"prompt": f"Say {answer}.", "answer": answer} for answer in answers])
    given = {"GRPOTrainer": trl.GRPOTrainer, "model": model, "args": args, "rows": rows}
    exec(shown_block("python", "score_reward"), given)
    logged = given["trainer"].state.log_history[0]  # type: ignore[attr-defined]
    assert logged["rewards/score/mean"] == pytest.approx(0.375)
    assert [logged[f"score/{reason}"] for reason in ("scored", "verifier_error", "crash")] == [0.5, 0.25, 0.25]


def start(output: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "examples.trl_cpu", "--output", str(output), *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_killed_trl_training_resumes(tmp_path: Path) -> None:
    with start(tmp_path, "--steps", "1000") as killed:
        saved = tmp_path / "checkpoint-5" / "reasoning_stream.json"
        until = time.monotonic() + PATIENCE_S
        while not saved.exists() and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(1)  # the files that TRL itself writes into the checkpoint
        killed.kill()
    state = json.loads(saved.read_text())
    positions = [reference for _, _, reference in state["stream"]["positions"]]
    # Problems that were sampled but not served have no question in the state.
    in_flight = [reference for reference in positions if NOT_GENERATED not in reference]
    with Bridge(**SETTINGS) as bridge:
        gym = Watched(bridge)
        make_trainer(gym, tmp_path, 6).train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert in_flight
    assert gym.drawn[: len(in_flight)] == in_flight


def test_two_trl_ranks_sample_the_same_groups(tmp_path: Path) -> None:
    """Both ranks sample completions. Rank 0 generates every row and observes all groups."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port", str(free_port())]
    ended = subprocess.run(
        [*launcher, "-m", "tests.integrations.trl_ranks", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2))
    assert first["drawn"] == second["drawn"]
    assert first["observed"] == [8] * 12
    assert second["observed"] == []
    assert first["judged"] == second["judged"] == 48

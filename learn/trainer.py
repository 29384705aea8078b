"""A policy-gradient trainer for Atropos' run-api, short enough to read as a lesson.

One step, in the order of this file:

1. `GET /batch` returns groups: completions of one prompt, with their scores.
2. A right completion earns 1, any other 0. With partial credit, a small model would stop at nearly right answers. The
   *advantage* of a completion is its reward minus the mean of its group. The advantage is not divided by the group's
   standard deviation, because that would favour problems nearly always or nearly never solved (Dr. GRPO,
   arXiv:2503.20783).
3. The weights that sampled the completions are a few steps old. The *importance ratio* of a token corrects this: its
   probability now, divided by its probability at sampling, which the server reported. Clipping (PPO, arXiv:1707.06347;
   with a higher upper bound, DAPO, arXiv:2503.14476) removes the gradient of tokens whose ratio has moved far enough.
4. All tokens have the same weight: the sum over tokens is divided by a constant, not by the length of the completion,
   which would make long wrong answers cheap (Dr. GRPO). There is no KL term.
5. The server gets the new weights, with the step as their version.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reasoning_env import Verdict

from .errors import LearnError
from .model import load_weights, save_weights
from .servers import PolicyServer, ask

MASKED = -100
OPTIMIZER, PROGRESS = "optimizer.pt", "progress.json"


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters. `batch_size` counts rollouts, and `passes` counts the updates per batch.

    The sum over the tokens of a batch is divided by `length` times the number of rollouts. `shuffle_rewards` permutes
    the scores within each group: a control run, in which the model must learn nothing.
    """

    batch_size: int = 128
    learning_rate: float = 7e-4
    ramp_steps: int = 10
    passes: int = 1
    clip_low: float = 0.2
    clip_high: float = 0.28
    length: int = 8
    max_grad_norm: float = 1.0
    max_token_len: int = 64
    save_interval: int = 10
    shuffle_rewards: bool = False


@dataclass(frozen=True)
class Batch:
    """Rollouts with an advantage as rows, padded on the right.

    Shapes: `tokens` (rows, width); `active` and `old` (rows, width - 1), for tokens from index 1 on; `advantages`
    (rows, 1). `active` marks the trained tokens, and `old` has the log-probabilities at sampling. `rollouts` also
    counts the rollouts whose advantage is 0, which have no row.
    """

    tokens: torch.Tensor
    active: torch.Tensor
    old: torch.Tensor
    advantages: torch.Tensor
    rollouts: int


def advantages(group: Mapping[str, Any]) -> list[float]:
    """Return the advantage of each rollout of a group; 0 for a rollout with the override `set_advantage_to_zero`."""
    scores = [float(score >= Verdict.CORRECT_SCORE) for score in group["scores"]]
    mean = sum(scores) / len(scores)
    overrides = group.get("overrides") or [{}] * len(scores)
    return [
        0.0 if override.get("set_advantage_to_zero") else score - mean
        for score, override in zip(scores, overrides, strict=True)
    ]


def collate(groups: Sequence[Mapping[str, Any]], device: Any = "cpu") -> Batch | None:
    """Return the rollouts with an advantage other than 0 as tensors; None if there are none."""
    rows: list[tuple[Any, ...]] = [
        (tokens, [mask != MASKED for mask in masks], logprobs, advantage)
        for group in groups
        for tokens, masks, logprobs, advantage in zip(
            group["tokens"], group["masks"], group["inference_logprobs"], advantages(group), strict=True
        )
        if advantage != 0.0
    ]
    if not rows:
        return None
    width = max(len(tokens) for tokens, *_ in rows)

    def padded(place: int, filling: Any) -> torch.Tensor:
        return torch.tensor([[*row[place], *[filling] * (width - len(row[place]))] for row in rows], device=device)

    return Batch(
        tokens=padded(0, 0),
        active=padded(1, False)[:, 1:],
        old=padded(2, 0.0)[:, 1:],
        advantages=torch.tensor([row[3] for row in rows], device=device)[:, None],
        rollouts=sum(len(group["tokens"]) for group in groups),
    )


def token_logprobs(model: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probability of each token from index 1 on, and the entropy of its distribution (nats)."""
    # Attention is causal, so padding on the right changes nothing.
    logprobs = torch.log_softmax(model(tokens[:, :-1]).logits.float(), dim=-1)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(2, tokens[:, 1:, None])[..., 0], entropy


def policy_loss(model: Any, batch: Batch, recipe: Recipe) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the loss of a batch, and two figures: mean entropy (nats) and share of clipped tokens."""
    logprobs, entropy = token_logprobs(model, batch.tokens)
    ratio = torch.exp(logprobs - batch.old)
    clipped = ratio.clamp(1 - recipe.clip_low, 1 + recipe.clip_high)
    gain = torch.minimum(ratio * batch.advantages, clipped * batch.advantages)
    loss = -gain[batch.active].sum() / (batch.rollouts * recipe.length)
    share = (gain != ratio * batch.advantages)[batch.active].float().mean().item()
    return loss, {"entropy": entropy[batch.active].mean().item(), "clipped": share}


class Trainer:
    """Trains on batches of run-api, sends the weights to the server and writes checkpoints.

    A new trainer resumes from the newest checkpoint in `folder`: weights, optimizer, step and `history`, to which the
    caller appends. Steps that were done after the checkpoint are done again, with new batches.
    """

    def __init__(self, model: Any, folder: Path, run_api_url: str, server: PolicyServer, recipe: Recipe, seed: int = 0):
        self.step = 0
        self.history: list[dict[str, Any]] = []
        self.model = model
        self.recipe = recipe
        self._folder = folder
        self._run_api = run_api_url
        self._server = server
        self._rng = random.Random(seed)
        self._optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.95))
        self._resume()

    def register(self, environment_folder: Path) -> None:
        """Register at run-api: batch size, token limit, and the folder of the environment's checkpoints."""
        registration = {
            "wandb_group": "learn",
            "wandb_project": "learn",
            "batch_size": self.recipe.batch_size,
            "max_token_len": self.recipe.max_token_len,
            "checkpoint_dir": str(environment_folder),
            "save_checkpoint_interval": self.recipe.save_interval,
            "starting_step": self.step,
            "num_steps": 1_000_000,
        }
        ask(self._run_api, "/register", registration)
        self._server.publish(self.model, self.step)

    def next_batch(self) -> list[dict[str, Any]]:
        """Return the groups of a batch; an empty list if no whole batch is ready."""
        return list(ask(self._run_api, "/batch").get("batch") or [])

    def train(self, groups: list[dict[str, Any]]) -> dict[str, float | None]:
        """Take one training step and return its figures, such as loss and entropy."""
        if self.recipe.shuffle_rewards:
            for group in groups:
                self._rng.shuffle(group["scores"])
        figures: dict[str, float | None] = {"staleness": self._staleness(groups), "length": _mean_length(groups)}
        batch = collate(groups, self.model.device)
        for _ in range(self.recipe.passes):
            if batch is None:
                break
            loss, seen = policy_loss(self.model, batch, self.recipe)
            self._optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.max_grad_norm)
            # Warm up the learning rate, because Adam's first steps are as long as later ones.
            for group in self._optimizer.param_groups:
                group["lr"] = self.recipe.learning_rate * min(1.0, (self.step + 1) / self.recipe.ramp_steps)
            self._optimizer.step()
            figures |= {**seen, "loss": loss.item(), "grad_norm": float(norm)}
        self.step += 1
        self._server.publish(self.model, self.step)
        return figures

    def save(self) -> None:
        """Write a checkpoint and delete earlier checkpoints."""
        part, whole = self._folder / "checkpoint.part", self._folder / f"checkpoint-{self.step:06d}"
        if whole.exists():
            return
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        save_weights(self.model, part / "model.safetensors")
        torch.save(self._optimizer.state_dict(), part / OPTIMIZER)
        (part / PROGRESS).write_text(json.dumps({"step": self.step, "history": self.history}))
        os.replace(part, whole)
        for other in self._checkpoints():
            if other != whole:
                shutil.rmtree(other, ignore_errors=True)

    def _resume(self) -> None:
        if not (found := self._checkpoints()):
            return
        try:
            progress = json.loads((found[-1] / PROGRESS).read_text())
            load_weights(self.model, found[-1] / "model.safetensors")
            self._optimizer.load_state_dict(torch.load(found[-1] / OPTIMIZER, map_location=self.model.device))
        except Exception as error:  # files of another model, or damaged files
            reason = str(error).splitlines()[0]
            raise LearnError(
                f"{found[-1]} cannot be loaded ({reason}); delete it, or choose another --folder"
            ) from error
        self.step, self.history = progress["step"], progress["history"]

    def _checkpoints(self) -> list[Path]:
        return sorted(self._folder.glob("checkpoint-[0-9]*"))

    def _staleness(self, groups: Sequence[Mapping[str, Any]]) -> float | None:
        """Return the mean age, in steps, of the weights that sampled the groups; None if unknown."""
        prompts = [group["tokens"][0][: group["masks"][0].count(MASKED)] for group in groups]
        known = [self.step - version for version in self._server.versions(prompts) if version is not None]
        return sum(known) / len(known) if known else None


def _mean_length(groups: Sequence[Mapping[str, Any]]) -> float:
    lengths: list[int] = [len(masks) - masks.count(MASKED) for group in groups for masks in group["masks"]]
    return sum(lengths) / len(lengths)

"""A policy-gradient trainer at Atropos' run-api, short enough to be read as a lesson.

One step, in the order of this file:

1. `GET /batch` hands over groups: several completions of one prompt each, with their scores.
2. A completion earns 1 if it is right, and 0 otherwise: with partial credit a small model would settle for answers
   that are nearly right. Its *advantage* is that less the mean of its group. It is not divided by the group's standard
   deviation, which would favour problems that are nearly always or nearly never solved (Dr. GRPO, arXiv:2503.20783).
3. The completions were sampled by weights that are a few steps old. The *importance ratio* of a token, its probability
   now over that with which it was sampled, corrects for that; the server reported the latter. Clipping (PPO,
   arXiv:1707.06347; its upper bound is higher, DAPO, arXiv:2503.14476) takes the gradient from tokens that have moved
   far enough already.
4. Every token counts alike: their sum is divided by a constant, and not by the length of its completion, which would
   make long wrong answers cheap (Dr. GRPO again). There is no KL term.
5. The new weights go to the server, under the number of the step as their version.
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
    """How to learn. `batch_size` counts rollouts, `passes` the updates by each batch.

    `length` is the constant that token sums are divided by, per rollout.
    `shuffle_rewards` gives each group's scores to its rollouts at random: nothing must be learnt from that.
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
    """Rollouts as rows, padded on the right; the columns of all but `tokens` begin at token 1.

    `active` tells which tokens are trained on, `old` are the log-probabilities that they were sampled with, `rollouts`
    is how many there were before those without an advantage were left out.
    """

    tokens: torch.Tensor
    active: torch.Tensor
    old: torch.Tensor
    advantages: torch.Tensor
    rollouts: int


def advantages(group: Mapping[str, Any]) -> list[float]:
    """Return the advantage of each rollout of a group, 0 where an override says so."""
    scores = [float(score >= Verdict.CORRECT_SCORE) for score in group["scores"]]
    mean = sum(scores) / len(scores)
    overrides = group.get("overrides") or [{}] * len(scores)
    return [
        0.0 if override.get("set_advantage_to_zero") else score - mean
        for score, override in zip(scores, overrides, strict=True)
    ]


def collate(groups: Sequence[Mapping[str, Any]], device: Any = "cpu") -> Batch | None:
    """Return the rollouts that teach something as tensors; None where none does."""
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
    """Return each token's log-probability from the second on, and the entropy of what it was drawn from."""
    # Attention looks back only, so the padding behind a rollout changes nothing in it.
    logprobs = torch.log_softmax(model(tokens[:, :-1]).logits.float(), dim=-1)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(2, tokens[:, 1:, None])[..., 0], entropy


def policy_loss(model: Any, batch: Batch, recipe: Recipe) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the loss of a batch, and what is worth a curve: entropy and the share of clipped tokens."""
    logprobs, entropy = token_logprobs(model, batch.tokens)
    ratio = torch.exp(logprobs - batch.old)
    clipped = ratio.clamp(1 - recipe.clip_low, 1 + recipe.clip_high)
    gain = torch.minimum(ratio * batch.advantages, clipped * batch.advantages)
    loss = -gain[batch.active].sum() / (batch.rollouts * recipe.length)
    share = (gain != ratio * batch.advantages)[batch.active].float().mean().item()
    return loss, {"entropy": entropy[batch.active].mean().item(), "clipped": share}


class Trainer:
    """Learns from batches of run-api, and keeps the server's weights and its own checkpoints up to date.

    `folder` holds the newest checkpoint, from which a trainer that is made with it goes on: weights, optimizer, step,
    and `history`, which the caller appends to. What came after the checkpoint is learnt again from other batches.
    """

    def __init__(self, model: Any, folder: Path, run_api_url: str, server: PolicyServer, recipe: Recipe, seed: int = 0):
        self.step = 0
        self.history: list[dict[str, Any]] = []
        self.model = model
        self.recipe = recipe
        self._folder = folder
        self._run_api = run_api_url
        self._server = server
        self._chance = random.Random(seed)
        self._optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.95))
        self._resume()

    def register(self, environment_folder: Path) -> None:
        """Tell run-api what batches are wanted and, through it, the environment its folder of checkpoints."""
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
        """Return the groups of a batch, or none where there is no whole batch yet."""
        return list(ask(self._run_api, "/batch").get("batch") or [])

    def train(self, groups: list[dict[str, Any]]) -> dict[str, float | None]:
        """Take one step, and return its figures."""
        if self.recipe.shuffle_rewards:
            for group in groups:
                self._chance.shuffle(group["scores"])
        figures: dict[str, float | None] = {"staleness": self._staleness(groups), "length": _mean_length(groups)}
        batch = collate(groups, self.model.device)
        for _ in range(self.recipe.passes):
            if batch is None:
                break
            loss, seen = policy_loss(self.model, batch, self.recipe)
            self._optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.max_grad_norm)
            for group in self._optimizer.param_groups:  # Adam's first steps are as long as its later ones
                group["lr"] = self.recipe.learning_rate * min(1.0, (self.step + 1) / self.recipe.ramp_steps)
            self._optimizer.step()
            figures |= {**seen, "loss": loss.item(), "grad_norm": float(norm)}
        self.step += 1
        self._server.publish(self.model, self.step)
        return figures

    def save(self) -> None:
        """Write a checkpoint, which then takes the place of the one before it."""
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
        except Exception as error:  # files of another model, or damaged ones
            reason = str(error).splitlines()[0]
            raise LearnError(
                f"{found[-1]} cannot be taken up ({reason}); name another --folder, or delete it"
            ) from error
        self.step, self.history = progress["step"], progress["history"]

    def _checkpoints(self) -> list[Path]:
        return sorted(self._folder.glob("checkpoint-[0-9]*"))

    def _staleness(self, groups: Sequence[Mapping[str, Any]]) -> float | None:
        """Return how many steps old, in the mean, the weights were that the rollouts were sampled with."""
        prompts = [group["tokens"][0][: group["masks"][0].count(MASKED)] for group in groups]
        known = [self.step - version for version in self._server.versions(prompts) if version is not None]
        return sum(known) / len(known) if known else None


def _mean_length(groups: Sequence[Mapping[str, Any]]) -> float:
    lengths: list[int] = [len(masks) - masks.count(MASKED) for group in groups for masks in group["masks"]]
    return sum(lengths) / len(lengths)

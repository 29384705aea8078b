"""Steps of the trainer on a tiny model: loss, advantages, batches and checkpoints."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra `learn`)")

from learn.sampling import sample
from learn.servers import OwnServer
from learn.trainer import MASKED, Recipe, Trainer, advantages, collate, policy_loss

PROMPTS = [[4, 20, 21, 2, 5], [4, 30, 2, 5]]
SCORES = [1.0, 0.0, 0.25, 0.75]


@pytest.fixture
def model(tiny: tuple[Any, Any]) -> Any:
    return copy.deepcopy(tiny[0])


@pytest.fixture
def groups(tiny: tuple[Any, Any]) -> list[dict[str, Any]]:
    """Two groups as run-api sends them, sampled from the model."""
    torch.manual_seed(0)
    return [group_of(*tiny, prompt) for prompt in PROMPTS]


def group_of(model: Any, tokenizer: Any, prompt: list[int]) -> dict[str, Any]:
    samples = sample(model, tokenizer, [prompt] * len(SCORES), [6] * len(SCORES))
    return {
        "tokens": [[*prompt, *one.tokens] for one in samples],
        "masks": [[MASKED] * len(prompt) + one.tokens for one in samples],
        "inference_logprobs": [[1.0] * len(prompt) + one.logprobs for one in samples],
        "scores": SCORES,
        "overrides": [{}] * len(SCORES),
    }


def test_training_lowers_the_loss_of_a_fixed_batch(model: Any, groups: list[dict[str, Any]]) -> None:
    batch, recipe = collate(groups), Recipe()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(10):
        loss, _ = policy_loss(model, batch, recipe)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.01


def test_masked_tokens_do_not_change_the_loss(model: Any, groups: list[dict[str, Any]]) -> None:
    plain, _ = policy_loss(model, collate(groups), Recipe())
    changed = copy.deepcopy(groups)
    for group in changed:
        for masks, logprobs in zip(group["masks"], group["inference_logprobs"], strict=True):
            logprobs[: masks.count(MASKED)] = [-3.0] * masks.count(MASKED)
    assert policy_loss(model, collate(changed), Recipe())[0].item() == pytest.approx(plain.item(), abs=1e-6)
    for group in changed:
        group["masks"] = [[MASKED] * len(masks) for masks in group["masks"]]
    batch = collate(changed)
    assert batch is not None
    assert not batch.active.any()


def test_advantages_are_centred_on_the_group_mean(groups: list[dict[str, Any]]) -> None:
    assert advantages(groups[0]) == [0.75, -0.25, -0.25, -0.25]


def overridden(group: dict[str, Any]) -> dict[str, Any]:
    """Return the group with its first advantage overridden."""
    return {**group, "overrides": [{"set_advantage_to_zero": True}, {}, {}, {}]}


def test_rollout_with_an_overridden_advantage_still_counts_in_the_group_mean(
    groups: list[dict[str, Any]],
) -> None:
    assert advantages(overridden(groups[0])) == [0.0, -0.25, -0.25, -0.25]


def test_rollout_whose_advantage_is_overridden_with_zero_is_left_out_of_the_loss(groups: list[dict[str, Any]]) -> None:
    batch = collate([overridden(groups[0])])
    assert batch is not None
    assert batch.advantages[:, 0].tolist() == [-0.25, -0.25, -0.25]
    assert batch.rollouts == 4


def test_batch_whose_groups_each_have_equal_scores_is_skipped(groups: list[dict[str, Any]]) -> None:
    assert collate([{**groups[0], "scores": [0.5] * 4}]) is None


def test_trainer_resumes_from_a_checkpoint(model: Any, groups: list[dict[str, Any]], tmp_path: Path) -> None:
    trainer = quiet_trainer(model, tmp_path)
    for _ in range(2):
        trainer.train(groups)
        trainer.history.append({"step": trainer.step})
        trainer.save()
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weights in other.parameters():
            weights.zero_()
    resumed = quiet_trainer(other, tmp_path)
    assert (resumed.step, resumed.history) == (2, [{"step": 1}, {"step": 2}])
    batch = collate(groups)
    assert policy_loss(other, batch, Recipe())[0].item() == policy_loss(model, batch, Recipe())[0].item()
    for each in (trainer, resumed):  # this step depends on the optimizer's state
        each.train(groups)
    assert policy_loss(other, batch, Recipe())[0].item() == policy_loss(model, batch, Recipe())[0].item()


def test_shuffled_rewards_are_the_same_rewards_in_a_different_order(
    model: Any, groups: list[dict[str, Any]], tmp_path: Path
) -> None:
    trainer = quiet_trainer(model, tmp_path, recipe=dataclasses.replace(Recipe(), shuffle_rewards=True))
    mixed = [{**groups[0], "scores": list(range(40)), **{key: groups[0][key] * 10 for key in LISTS}}]
    trainer.train(mixed)
    assert mixed[0]["scores"] != list(range(40))
    assert sorted(mixed[0]["scores"]) == list(range(40))


LISTS = ("tokens", "masks", "inference_logprobs", "overrides")


class Quiet(OwnServer):
    """A server that ignores new weights and reports no weight versions."""

    def publish(self, model: Any, version: int) -> None:
        pass

    def versions(self, prompts: Any) -> list[int | None]:
        return [None] * len(prompts)


def quiet_trainer(model: Any, folder: Path, recipe: Recipe | None = None) -> Trainer:
    return Trainer(model, folder, "", Quiet(folder, folder), recipe or Recipe())

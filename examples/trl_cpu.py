"""GRPO with TRL on a CPU: a tiny model with random weights, on problems of a curriculum.

The example shows how to connect TRL. Its random model learns next to nothing: give GRPOTrainer your own model. With
--resume, training continues from the last checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel
from trl import GRPOConfig, GRPOTrainer

from reasoning_env.bridge import Bridge
from reasoning_env.integrations.trl import TrlEnvironment

TOKENIZER = Path(__file__).parent.parent / "reasoning_gym_testing" / "tokenizer"


def make_trainer(gym: TrlEnvironment, output: Path, steps: int, *, accumulation: int = 4) -> GRPOTrainer:
    """Return the trainer. A step trains on `accumulation` groups of each rank."""
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    special = {f"{name}_token_id": tokenizer.eos_token_id for name in ("bos", "eos", "pad")}
    shape = GPT2Config(vocab_size=len(tokenizer), n_positions=1024, n_embd=64, n_layer=2, n_head=2, **special)
    args = GRPOConfig(
        output_dir=str(output),
        max_steps=steps,
        num_generations=8,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=accumulation,
        max_completion_length=16,
        shuffle_dataset=False,
        report_to=[],
        logging_steps=1,
        save_steps=5,
        use_cpu=True,
    )
    return GRPOTrainer(
        GPT2LMHeadModel(shape),
        reward_funcs=gym.reward,
        args=args,
        train_dataset=gym.rows(),
        processing_class=tokenizer,
        callbacks=[gym.callback()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("trl-output"))
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    with Bridge(tasks=["gcd", "chain_sum"], seed=1, complexity_mode="curriculum") as bridge:
        make_trainer(TrlEnvironment(bridge), options.output, options.steps).train(resume_from_checkpoint=options.resume)
        print({name: round(value, 3) for name, value in bridge.report().items() if name.startswith("sampler/")})


if __name__ == "__main__":
    main()

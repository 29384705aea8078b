"""Trains the rig's small byte-level BPE tokenizer.

`PYTHONHASHSEED=0 python -m tests.testing.train_tokenizer [FOLDER]`; without FOLDER it rewrites `testing/tokenizer/`.
The same versions of reasoning-gym, what it computes with (numpy, sympy) and tokenizers give the same files. Takes 10 s.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from testing.chat import PADDING, TEMPLATE, TOKENIZER, TURN_END, TURN_START

VOCABULARY_SIZE = 4096
ITEMS_PER_TASK = 12
MAX_CHARS_PER_ITEM = 1200
"""Some grid puzzles fill pages with the same few symbols; uncapped they would crowd out the words."""
PROSE_REPEATS = 3
CORPUS_SEED = 20_26
HASH_SEED = "0"
"""Five tasks of the library draw from sets, so that their items depend on the interpreter's hash seed."""

PROSE = (
    "system\nYou are a careful assistant. Work through the problem step by step inside <think> and </think> tags, then"
    " give exactly one final answer inside <answer> and </answer> tags, with nothing else between them.",
    "user\nHow many legs do three spiders and a duck have together?\nassistant\n<think>A spider has eight legs, so"
    " three spiders have 24. The duck adds two more, which makes 26.</think>\n<answer>26</answer>",
    "<think>Let me read the question again. First I write down what is given, then what is asked for. The numbers are"
    " small, so I can add them up one after the other.</think>\n<answer>118</answer>",
    "<think>\nStep 1: collect the terms on the left side.\nStep 2: divide both sides by the coefficient.\nStep 3: put"
    " the value back into the equation and check that it holds.\n</think>\n\n<answer>x = 7</answer>",
    "<think>Hmm, wait. That cannot be right, because the result must be even. Where did I go wrong? I forgot to carry"
    " the one. Trying once more: the sum is 402, and half of it is 201.</think>\n<answer>201</answer>",
    "<think>The words have to be in alphabetical order, capital letters first. Comparing letter by letter puts this one"
    " in front of that one.</think>\n<answer>Apple, River, almond, stone</answer>",
    "<think>The greatest common divisor divides both numbers. I subtract the smaller from the larger until nothing"
    " remains.</think>\nThe answer is below.\n<answer>12</answer>",
    "<think>I am not sure about this puzzle. Let me guess something that looks reasonable, then move on.</think>\n"
    "<answer>unknown</answer>",
    "<think>Reading the word from its last letter to its first letter gives the answer.</think>\n<answer>txet</answer>",
    "<think>So far so good. Let us go over the same thing once more, to be certain. On the other hand, maybe it is"
    " better to start from the beginning. Let me think about it differently. Actually, no, the first attempt was"
    " correct. Let me verify that again, slowly, because it is easy to make a mistake here.</think>",
    "I would say that the answer should be 42, but I may be wrong. Therefore the final answer is 42.",
    '<think>The board has four rows. The list must keep its format: [[1, 0], [0, 1]] or {"a": 1}.</think>\n'
    "<answer>[[1, 0], [0, 1]]</answer>",
)


def main(folder: Path) -> None:
    """Train on the corpus and write the tokenizer's two files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train(corpus())
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 1_000_000,
        "eos_token": TURN_END,
        "pad_token": PADDING,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def train(texts: Iterator[str]) -> Tokenizer:
    """Return a byte-level BPE tokenizer in which every digit stands alone and every text decodes to itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in (PADDING, TURN_START, TURN_END)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def corpus() -> Iterator[str]:
    """Yield the training texts: questions and answers of every task that builds from its defaults, then the prose."""
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    rng = random.Random(CORPUS_SEED)
    for name in sorted(DATASETS):
        if name == "composite":  # has no items of its own
            continue
        with contextlib.redirect_stdout(io.StringIO()):  # codeio runs programs that print
            dataset = reasoning_gym.create_dataset(name, size=ITEMS_PER_TASK, seed=rng.randrange(2**31))
            items = [dataset[index] for index in range(ITEMS_PER_TASK)]
        for item in items:
            yield item["question"][:MAX_CHARS_PER_ITEM]
            yield f"<answer>{item['answer']}</answer>"[:MAX_CHARS_PER_ITEM]
    for _ in range(PROSE_REPEATS):
        yield from PROSE


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        sys.exit(f"set PYTHONHASHSEED={HASH_SEED} and run this again")
    main(Path(sys.argv[1] if len(sys.argv) > 1 else TOKENIZER))

"""A small GPT-2 with a tokenizer of characters, or a user's model. Both are folders in the format of transformers."""

from __future__ import annotations

import os
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from .errors import LearnError
from .tasks import SYSTEM_PROMPT, TASKS

PAD, UNKNOWN, END = "<|pad|>", "<|unknown|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def build_tokenizer(phrases: Sequence[str]) -> Any:
    """Return a tokenizer with a token for each ASCII character, the answer tags and each of the phrases.

    Phrases that all questions of a task share become single tokens, so prompts are four times shorter. The rest of a
    question, which determines the answer, is split into characters.
    """
    characters = [*string.printable[:95], "\n"]
    vocabulary = {token: number for number, token in enumerate([PAD, UNKNOWN, END, *ROLES, *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in (PAD, UNKNOWN, END, *ROLES)])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ("<answer>", "</answer>", *phrases)])
    whole = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, unk_token=UNKNOWN, clean_up_tokenization_spaces=False
    )
    whole.chat_template = CHAT_TEMPLATE
    return whole


PHRASES = tuple(phrase for task in TASKS.values() for phrase in task.phrases)


def build(seed: int, *, width: int = 128, layers: int = 4, phrases: Sequence[str] = PHRASES) -> tuple[Any, Any]:
    """Return an untrained model (0.8 million parameters by default) and its tokenizer, with a token for each phrase.

    Positions are learned embeddings, because the model learns to move characters faster than with rotary embeddings.
    """
    tokenizer = build_tokenizer([SYSTEM_PROMPT, *phrases])
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=256,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        activation_function="gelu_pytorch_tanh",  # GPT-2's own, computed by one operation of PyTorch
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    model: Any = GPT2LMHeadModel(config)
    return model.to(device()), tokenizer


def load(folder: Path) -> tuple[Any, Any]:
    """Read model and tokenizer from a folder.

    Raises LearnError: the folder cannot be read, or its tokenizer has no chat template or no end-of-text token.
    """
    disable_progress_bar()
    if not (folder / "config.json").exists():
        raise LearnError(f"no model can be read from {folder} (it has no config.json)")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        model: Any = AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=True, dtype=torch.float32)
    except Exception as error:  # transformers raises many kinds of errors for unreadable files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise LearnError(f"no model can be read from {folder} ({reason})") from error
    if not tokenizer.chat_template:
        raise LearnError(
            f"the tokenizer in {folder} has no chat template; use the tokenizer of an instruct or chat model"
        )
    if tokenizer.eos_token_id is None:
        raise LearnError(f"the tokenizer in {folder} has no end-of-text token, so completions would never end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.to(device()), tokenizer


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a folder that `load` and `from_pretrained` read."""
    disable_progress_bar()
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))


def save_weights(model: Any, path: Path) -> None:
    """Write the weights to a file beside `path`, then rename the file, so that `path` is always complete."""
    save_model(model, f"{path}.part")
    os.replace(f"{path}.part", path)


def load_weights(model: Any, path: Path) -> None:
    load_model(model, str(path))


def prompt_tokens(tokenizer: Any, question: str) -> list[int]:
    """Return the tokens of a question's prompt, rendered as in the environment."""
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))

"""Small tokenizers for the chat templates of real models, and what models of each family write."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

MARK = re.compile(r"<\|[^|<>{}\s]+\|?>|<[a-z_]+\|>|<｜[^｜]+｜>|\[/?[A-Z_]+\]|</?(?:bos|s|[a-z]+_of_[a-z]+)>|◁/?think▷")
"""What templates write that a vocabulary holds as special tokens."""
ENDS = {
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "deepseek": "<｜end▁of▁sentence｜>",
    "llama3": "<|eot_id|>",
    "idefics3": "<end_of_utterance>",
    "smolvlm": "<end_of_utterance>",
    "gemma": "<eos>",
    "diffusion_gemma": "<eos>",
    "phi3": "<|endoftext|>",
    "gptoss": "<|return|>",
    "muse": "<|eot|>",
    "glm4": "<|endoftext|>",
    "llava": "</s>",
}
"""The end-of-text token of a family's tokenizer, by how the template's name begins; else `<|im_end|>`."""


def tokenizer_with(tokenizer: Any, template: str, *, family: str = "", more: tuple[str, ...] = ()) -> Any:
    """Return the small tokenizer with a template, and with the special tokens that the template writes."""
    made = deepcopy(tokenizer)
    end = next((token for name, token in ENDS.items() if family.startswith(name)), "<|im_end|>")
    special = sorted({*MARK.findall(template), end, *more})
    made.add_special_tokens({"additional_special_tokens": special, "eos_token": end, "bos_token": "<bos>"})
    made.chat_template = template
    return made

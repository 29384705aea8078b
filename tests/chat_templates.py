"""Small tokenizers with the chat templates of real models, and the reply format of each model family."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

MARK = re.compile(r"<\|[^|<>{}\s]+\|?>|<[a-z_]+\|>|<｜[^｜]+｜>|\[/?[A-Z_]+\]|</?(?:bos|s|[a-z]+_of_[a-z]+)>|◁/?think▷")
"""Strings in chat templates that a tokenizer contains as special tokens."""
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Family:
    """The reply format of a model family.

    `thinks` is a template for the thinking, in which `{draft}` stands for the thinking's text. `end` ends a turn, and
    `eos` is the end-of-text token if it differs from `end`. `special` lists further special tokens of the tokenizer.
    """

    thinks: str = "<think>{draft}</think>"
    end: str = "<|im_end|>"
    eos: str = ""
    special: tuple[str, ...] = ()


OPENED = "{draft}</think>"
"""Thinking whose opening mark is part of the prompt."""
COHERE = "<|END_OF_TURN_TOKEN|>"
GPT_OSS = "<|channel|>analysis<|message|>{draft}<|end|><|start|>assistant<|channel|>final<|message|>"
FAMILIES = {
    "gpt-?oss": Family(GPT_OSS, "<|return|>"),
    "muse": Family(" to=self<|message|>{draft}<|eom|><|start|>assistant to=user<|message|>", "<|eot|>"),
    "gemma-?4|diffusion_gemma": Family("<|channel>thought\n{draft}<channel|>", "<turn|>", "<eos>"),
    "gemma": Family(end="<end_of_turn>", eos="<eos>"),
    "cohere2moe": Family("{draft}<|END_THINKING|>", f"<|END_TEXT|>{COHERE}", COHERE),
    "r7b|command_a": Family("<|START_THINKING|>{draft}<|END_THINKING|>", f"<|END_RESPONSE|>{COHERE}", COHERE),
    "cohere2": Family(end=f"<|END_RESPONSE|>{COHERE}", eos=COHERE),
    "cohere|aya|command-r": Family(end=COHERE),
    "deepseek_v2": Family(end="<｜end▁of▁sentence｜>"),
    "deepseek|spark": Family(OPENED, "<｜end▁of▁sentence｜>"),
    "hermes": Family(),
    "llama4": Family(end="<|eot|>"),
    "llama-?3|functionary": Family(end="<|eot_id|>"),
    "rwkv": Family(end="<|endoftext|>"),
    "smolvlm|idefics": Family(end="<end_of_utterance>"),
    "phi_4": Family(),
    "phi": Family(end="<|end|>", eos="<|endoftext|>"),
    "glm-4.7": Family(OPENED, "<|user|>", "<|endoftext|>"),
    "glm": Family(end="<|user|>", eos="<|endoftext|>"),
    "magistral|ministral": Family("[THINK]{draft}[/THINK]", "</s>"),
    "pixtral|llava|mistral": Family(end="</s>"),
    "apriel-1.5": Family("Here are my reasoning steps:\n{draft}\n[BEGIN FINAL RESPONSE]\n", "<|end|>"),
    "apriel": Family("{draft}\n[BEGIN FINAL RESPONSE]\n", "<|end|>"),
    "seed-oss": Family("<seed:think>{draft}</seed:think>", "<seed:eos>"),
    "kimi-k3": Family(
        "{draft}<|close|>think<|sep|><|open|>response<|sep|>",
        "<|end_of_msg|>",
    ),
    "minimax-m1": Family(end="<end_of_sentence>"),
    "minimax-m3": Family("<mm:think>{draft}</mm:think>", "[e~["),
    "minimax": Family(OPENED, "[e~["),
    "hy3": Family(
        "<think:opensource>{draft}</think:opensource>",
        "<｜hy_eos:opensource｜>",
        special=("<think:opensource>", "</think:opensource>"),
    ),
    "solar": Family("<|think|>{draft}<|end|><|begin|>assistant<|content|>", "<|end|>"),
    "exaone": Family(end="[|endofturn|]"),
    "nemotron-nano-v2": Family(OPENED, "<SPECIAL_12>"),
    "apertus": Family(end="<|assistant_end|>"),
    "gigachat": Family(end="<|message_sep|>", eos="</s>"),
    "granite": Family(end="<|end_of_text|>"),
    "ling-": Family(OPENED, "<|role_end|>"),
    "jamba": Family(end="<|eom|>", eos="<|endoftext|>"),
    "laguna": Family(OPENED, "</assistant>"),
    "reka": Family(end="<sep>"),
    "metharme": Family(end="<|endoftext|>"),
    "alpaca": Family(end="</s>"),
    "nemotron|qwen3[._][568]|qwq|stepfun": Family(OPENED),
}
"""Model families by a pattern for the template's file name.

The first match counts. Without a match, Family has defaults.
"""


def family_of(template: str) -> Family:
    """Return the model family for the name of a template."""
    return next((family for pattern, family in FAMILIES.items() if re.search(pattern, template.lower())), Family())


def tokenizer_with(tokenizer: Any, template: str, *, family: str = "", more: tuple[str, ...] = ()) -> Any:
    """Return a copy of the tokenizer with a template, and with the special tokens that the template contains."""
    made = deepcopy(tokenizer)
    replies = family_of(family)
    end = replies.eos or replies.end
    special = sorted({*MARK.findall(template), end, *replies.special, *more})
    made.add_special_tokens({"additional_special_tokens": special, "eos_token": end, "bos_token": "<bos>"})
    made.chat_template = template
    return made


def small_tokenizer(kind: str) -> Any:
    """Return a tokenizer with a small vocabulary and the template CHATML.

    `byte_level` splits strings as GPT-2 does, and `byte_level_prefix` adds a space in front. `first`, `always` and
    `never` say where SentencePiece marks the beginning of a word. With `prepend`, a normalizer adds the marks, as in
    Llama 2. `lower` normalizes strings as BERT does.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<unk>", *"▁aeÉé1\n日ĠThinksyur"])}
    if kind == "lower":
        built = Tokenizer(models.WordPiece(words, unk_token="<unk>"))
        built.normalizer = normalizers.BertNormalizer()
        built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        merged = [("▁", "a"), ("Ġ", "a"), ("\n", "a"), ("a", "a")]
        pairs = {"".join(pair): len(words) + number for number, pair in enumerate(merged)}
        built = Tokenizer(models.BPE(words | pairs, merged, unk_token="<unk>"))
        if kind.startswith("byte_level"):
            built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind.endswith("prefix"))
            built.decoder = decoders.ByteLevel()
        elif kind == "prepend":
            built.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        else:
            built.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=kind != "never")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=built, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"], unk_token="<unk>"
    )
    tokenizer.chat_template = CHATML
    return tokenizer

"""The rig's tokenizer and its chat format: how a conversation is laid out, and where the question stands in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

TOKENIZER = str(Path(__file__).parent / "tokenizer")
"""A folder that `AutoTokenizer.from_pretrained` takes: a small byte-level BPE, so that tests need no network."""
TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
_USER_TURN = re.compile(rf"{re.escape(TURN_START)}user\n(.*?){re.escape(TURN_END)}", re.DOTALL)


def lay_out(messages: Iterable[Mapping[str, str]]) -> str:
    """Return the prompt that the tokenizer's template makes of a conversation whose next turn is the assistant's."""
    turns = [f"{TURN_START}{message['role']}\n{message['content']}{TURN_END}\n" for message in messages]
    return f"{''.join(turns)}{TURN_START}assistant\n"


def last_question(prompt: str) -> str:
    """Return the last user turn of a prompt, or all of it where it has no turns."""
    turns = _USER_TURN.findall(prompt)
    return str(turns[-1]) if turns else prompt

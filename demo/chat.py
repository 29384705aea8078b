"""The demo's chat format: how its tokenizer lays out a conversation, and how its policy finds the question in one."""

from __future__ import annotations

import re

TURN_START, TURN_END, PADDING = "<|im_start|>", "<|im_end|>", "<|pad|>"
TEMPLATE = (
    "{% for message in messages %}"
    f"{TURN_START}{{{{ message['role'] }}}}\n{{{{ message['content'] }}}}{TURN_END}\n"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{TURN_START}assistant\n{{% endif %}}"
)
"""Jinja source, in the form that `apply_chat_template` of transformers takes."""
_USER_TURN = re.compile(rf"{re.escape(TURN_START)}user\n(.*?){re.escape(TURN_END)}", re.DOTALL)


def last_question(prompt: str) -> str:
    """Return the last user turn of a prompt, or all of it where it has no turns."""
    turns = _USER_TURN.findall(prompt)
    return str(turns[-1]) if turns else prompt

"""Use one tokenizer in several threads.

A session prepares short problems on the event loop and long problems in threads, and another thread decodes replies.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from transformers import AutoTokenizer

from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_gym_testing import TOKENIZER


def use(chat: ChatFormat, number: int) -> tuple[tuple[int, ...], str]:
    """Build a prompt of a random length, and convert its tokens back to a completion."""
    prompt = chat.prompt(build_messages("Be brief.", f"How much is {number} + {number * 7}? " * (1 + number % 50)))
    return prompt.tokens, chat.completion_text(prompt.tokens)


def test_tokenizer_works_from_several_threads() -> None:
    chat = ChatFormat(AutoTokenizer.from_pretrained(TOKENIZER), TOKENIZER)
    alone = [use(chat, number) for number in range(200)]
    with ThreadPoolExecutor(8) as executor:
        assert list(executor.map(lambda number: use(chat, number), range(200))) == alone

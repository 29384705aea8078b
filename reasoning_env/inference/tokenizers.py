"""Compare the tokenizers of servers with the environment's."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..errors import ConfigError
from ..prompts.chat_format import ChatFormat
from .completer import Completer
from .failures import describe_failure

logger = logging.getLogger(__name__)

TELLING_TEXT = (
    "The answer to 12 * 13 is <answer>156</answer>;\n\tna\u00efve caf\u00e9, \u65e5\u672c\u8a9e \U0001f642 unbelievably"
)
"""A text that tokenizers of different models read differently."""


async def compare_tokenizers(completers: Sequence[Completer], layout: ChatFormat) -> None:
    """Compare how the servers and the tokenizer read a text; raises ConfigError where they differ.

    Servers that do not say how they read a text pass. A server may add special tokens at the ends.
    """
    for completer in completers:
        try:
            theirs = await completer.read_text(TELLING_TEXT)
        except Exception as error:  # the server is absent, or takes no text; its completions are checked themselves
            logger.debug("%s does not say how it reads a text: %s", completer.address, describe_failure(error))
            continue
        ours = layout.encode(TELLING_TEXT)
        if not _reads_alike(ours, theirs):
            raise ConfigError(
                f"{layout.name!r} is not the tokenizer of the inference server at {completer.address}: the server "
                f"tokenizes a text as {_summarize_tokens(theirs)}, the tokenizer as {_summarize_tokens(ours)}",
                setting="env.tokenizer_name",
                remedy="name the tokenizer of the model that the server serves",
            )


def _reads_alike(ours: Sequence[int], theirs: Sequence[int] | int | None) -> bool:
    if theirs is None:
        return True
    added = (theirs if isinstance(theirs, int) else len(theirs)) - len(ours)
    if not 0 <= added <= 2:  # special tokens that a server may put around a text
        return False
    ends = range(added + 1)
    return isinstance(theirs, int) or any(list(theirs[at : at + len(ours)]) == list(ours) for at in ends)


def _summarize_tokens(reading: Sequence[int] | int | None) -> str:
    if not isinstance(reading, Sequence):
        return f"{reading} tokens"
    return f"{len(reading)} tokens ({', '.join(map(str, reading[:8]))}...)"

"""Check that the servers and this environment use the same tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..errors import ConfigError
from ..prompts.chat_format import ChatFormat
from .completer import Completer
from .failures import describe_failure

logger = logging.getLogger(__name__)

PROBE_TEXT = (
    "The answer to 12 * 13 is <answer>156</answer>;\n\tna\u00efve caf\u00e9, \u65e5\u672c\u8a9e \U0001f642 unbelievably"
)
"""A text that different models' tokenizers split into different tokens."""


async def compare_tokenizers(completers: Sequence[Completer], layout: ChatFormat) -> None:
    """Raise ConfigError if a server splits a test text into other tokens than this environment's tokenizer.

    Servers that do not return tokens are not checked.
    """
    for completer in completers:
        try:
            theirs = await completer.read_text(PROBE_TEXT)
        except Exception as error:  # the server is absent, or accepts no text; its completions are checked later
            logger.debug("%s returned no tokens for the test text: %s", completer.address, describe_failure(error))
            continue
        ours = layout.encode(PROBE_TEXT)
        if not _reads_alike(ours, theirs):
            raise ConfigError(
                f"{layout.name!r} is not the tokenizer of the inference server at {completer.address}: the server "
                f"splits a test text into {_summarize_tokens(theirs)}, and this tokenizer splits the text into "
                f"{_summarize_tokens(ours)}",
                setting="env.tokenizer_name",
                remedy="name the tokenizer of the model that the server serves",
            )


def _reads_alike(ours: Sequence[int], theirs: Sequence[int] | int | None) -> bool:
    if theirs is None:
        return True
    added = (theirs if isinstance(theirs, int) else len(theirs)) - len(ours)
    if not 0 <= added <= 2:  # a server may add a special token at each end
        return False
    ends = range(added + 1)
    return isinstance(theirs, int) or any(list(theirs[at : at + len(ours)]) == list(ours) for at in ends)


def _summarize_tokens(reading: Sequence[int] | int | None) -> str:
    if not isinstance(reading, Sequence):
        return f"{reading} tokens"
    return f"{len(reading)} tokens ({', '.join(map(str, reading[:8]))}...)"

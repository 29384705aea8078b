"""Read from an error message how many tokens a server allows for a completion.

There is no standard field for the allowed number, so this module compares the numbers in the message with the limit
that was sent. If a number is the sum of this limit and another number, it is the total of prompt and completion.

`allowed_tokens` returns the largest limit that the message can mean. Too small a limit would truncate completions; if
the limit is too large, the server refuses again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens")
"""Servers' names for a completion's token limit."""

_NUMBER = re.compile(
    r"""(?<![\w.-])                     # not inside a name such as gpt-4.1 or a date
    (\d{1,3}(?:,\d{3})+|\d+)
    (?!\w|\.\w|-(?!token)\w|,\d)
    (?!\s*(?:s|ms|sec\w*|min\w*|hours?|days?|%|requests?|characters?|chars|bytes|credits?|dollars?)\b)""",
    re.VERBOSE,
)
_HTTP_STATUS = frozenset({400, 413, 422})
"""Numbers in a message that are the HTTP status, not a number of tokens."""
LEAST_TOKENS = 16
"""Smaller numbers in an error message are not token limits. They may be versions, for example."""
_NAMES_LIMIT = re.compile(r"max(imum)?[\s_-]*((new|output|completion)[\s_-]*)?tokens?\b", re.IGNORECASE)
_SPEAKS_OF_COMPLETION = re.compile(r"\b(completion|output|generated|generation|new[\s_-]tokens)\b", re.IGNORECASE)
_SPEAKS_OF_PROMPT = re.compile(r"prompt|input|messages|context", re.IGNORECASE)
_SIZE = r"(\d+(?:,\d{3})*)"
_PROMPT_SIZE = re.compile(
    rf"(?:prompt|input)\D{{0,20}}?{_SIZE}"
    rf"|{_SIZE} (?:tokens )?(?:`?input|prompt|of text input|(?:in|from|of) (?:the |your )?(?:input|prompt|messages))",
    re.IGNORECASE,
)
_TOTAL = re.compile(rf"\b(?:requested|total)\D{{0,40}}?{_SIZE}|{_SIZE}(?: tokens)? requested", re.IGNORECASE)
_EXCLUSIVE = re.compile(r"(less|lower|smaller) than(?! or equal)|\bbelow\b|<(?!=)|exclusive", re.IGNORECASE)
_TOO_SMALL = re.compile(r"at least|minimum|greater than or equal|>=|≥", re.IGNORECASE)
_TOO_LARGE = re.compile(
    r"too (large|big|long|high|many)|exceed|(larger|greater|higher) than|more than|above|over the|out of range|at most"
    r"|limit|maximum|invalid",
    re.IGNORECASE,
)
_TOO_FEW = re.compile(r"higher max|output limit", re.IGNORECASE)
"""Words of messages that reject a token limit as too small."""


@dataclass(frozen=True)
class AllowedTokens:
    """The numbers of tokens that a server allows, as its error message says.

    - `completion`: tokens of the completion, for the prompt of the refused request; 0 if the prompt leaves no room.
    - `context`: tokens of prompt and completion together; None if the message limits the completion alone.
    """

    completion: int
    context: int | None = None


def names_limit(message: str) -> bool:
    """Return True if a message contains a name of the token limit, such as `max_tokens` or `maximum new tokens`."""
    return _NAMES_LIMIT.search(message) is not None


def allowed_tokens(message: str, sent: int, prompt_tokens: int) -> AllowedTokens | None:
    """Return how many tokens a server allows for a completion; None if the message does not say.

    Args:
        message: The server's error message.
        sent: The token limit of the refused request.
        prompt_tokens: Estimate for messages without the number of prompt tokens.
    """
    numbers = {int(found.replace(",", "")) for found in _NUMBER.findall(message)}
    if _TOO_FEW.search(message) or not _is_about_completion(message, sent, numbers):
        return None
    others = sorted(each for each in numbers - {sent} - _HTTP_STATUS if each >= LEAST_TOKENS)
    for allowed in (
        _from_context_and_prompt(message, sent, others),
        _from_single_limit(message, sent, others, prompt_tokens),
        _from_wording(message, sent, others),
    ):
        if allowed is not None:
            return allowed
    return None


def _is_about_completion(message: str, sent: int, numbers: set[int]) -> bool:
    """Return True if a message is about the tokens of the completion, and not only about the prompt."""
    if names_limit(message) or (sent >= LEAST_TOKENS and sent in numbers):
        return True
    total = _find_total(message, sent, numbers)
    return total is not None or (_SPEAKS_OF_COMPLETION.search(message) is not None and bool(numbers))


def _numbers_matching(pattern: re.Pattern[str], message: str) -> list[int]:
    """Search the message for a pattern, and return the number in each match."""
    return [int("".join(groups).replace(",", "")) for groups in pattern.findall(message)]


def _find_total(message: str, sent: int, numbers: set[int]) -> int | None:
    """Return the total of prompt and completion tokens that the error message states; None if it states none."""
    sums = [each for each in numbers if each - sent in numbers]
    return next((each for each in [*sums, *_numbers_matching(_TOTAL, message)] if each > sent), None)


def _from_context_and_prompt(message: str, sent: int, others: list[int]) -> AllowedTokens | None:
    """Return the context length minus the prompt's length, if the error message has both numbers."""
    total = _find_total(message, sent, set(others))
    labelled = [each for each in _numbers_matching(_PROMPT_SIZE, message) if each in others]
    if total is not None:
        prompt = total - sent
    elif labelled:
        prompt = labelled[0]
    elif _SPEAKS_OF_PROMPT.search(message) and len(others) >= 2:
        prompt = others[-2]
    else:
        return None
    # If no number is left for the context, the limit that was sent may equal the context.
    contexts = [each for each in others if each not in (prompt, total)] or [sent]
    if max(contexts) <= prompt:
        return AllowedTokens(0, max(contexts))
    fitting = [each for each in contexts if 0 < each - prompt < sent]
    return AllowedTokens(max(fitting) - prompt, max(fitting)) if fitting else None


def _from_single_limit(message: str, sent: int, others: list[int], prompt_tokens: int) -> AllowedTokens | None:
    """Return the error message's largest number below `sent`.

    If there is none, subtract `prompt_tokens` from the message's context length, and return the difference.
    """
    if smaller := [each for each in others if each < sent]:
        return AllowedTokens(max(smaller))
    if _SPEAKS_OF_PROMPT.search(message):
        # If the message has no other number, the context may equal the limit that was sent.
        context = min(others, default=sent)
        if 0 < context - prompt_tokens < sent:
            return AllowedTokens(context - prompt_tokens, context)
    return None


def _from_wording(message: str, sent: int, others: list[int]) -> AllowedTokens | None:
    """Return the next limit to try: N for `at least N`, `sent` - 1 for `less than SENT`, `sent` / 2 for `too large`."""
    if others and _TOO_SMALL.search(message):
        return AllowedTokens(others[0])
    if not names_limit(message) or sent < 2 * LEAST_TOKENS:
        return None
    if _EXCLUSIVE.search(message) and str(sent) in message.replace(",", ""):
        return AllowedTokens(sent - 1)
    return AllowedTokens(sent // 2) if _TOO_LARGE.search(message) else None

"""Read the allowed number of tokens from error messages of real servers."""

from __future__ import annotations

import pytest

from reasoning_env.inference.token_limits import AllowedTokens, allowed_tokens

SENT = 32768
PROMPT = 700
"""The estimated size of the prompt, used for messages that do not contain the size."""
LIMIT_OF_COMPLETION = {
    "Cohere": ("too many tokens: max tokens must be less than or equal to 4096", 4096),
    "Anthropic": (
        "max_tokens: 32768 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
        8192,
    ),
    "OpenAI": (
        "max_tokens is too large: 32768. This model supports at most 16384 completion tokens, whereas you provided "
        "32768.",
        16384,
    ),
    "DeepSeek": ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
    "DashScope": ("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1,8192]", 8192),
    "Groq": (
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the "
        "`context_window` for this model",
        8192,
    ),
    "a name with numbers": ("max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000", 8000),
    "a current value": ("max_tokens (current value: 32768) must be between 0 and 4000 ", 4000),
    "an identifier": (
        "max_tokens: expected a value <= 8192, but got 32768 instead. Request id: 0217724325966514087c9e55",
        8192,
    ),
    "Mistral": ("body max_tokens Input should be less than or equal to 4096", 4096),
    "Bedrock": (
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that "
        "is lower than 4096.",
        4096,
    ),
    "Gemini": (
        "it has a maxOutputTokens value of 32768 but the supported range is from 1 (inclusive) to 8193 (exclusive)",
        8193,
    ),
    "Fireworks": ("Requests with max_tokens > 4096 must have stream=true", 4096),
    "thousands": ("This model supports at most 4,096 completion tokens, whereas you provided 32,768", 4096),
    "no number": ("max_tokens is too large", 16384),
    "a pause": ("max_tokens is too large; try again in 60 seconds", 16384),
}
CONTEXT = {
    "TGI": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 1000 `inputs` tokens and "
        "32768 `max_new_tokens`",
        (3096, 4096),
    ),
    "TGI with a long context": (
        "`inputs` tokens + `max_new_tokens` must be <= 40960. Given: 10000 `inputs` tokens and 32768 `max_new_tokens`",
        (30960, 40960),
    ),
    "TGI with the limit as context": (
        "`inputs` tokens + `max_new_tokens` must be <= 32768. Given: 1000 `inputs` tokens and 32768 `max_new_tokens`",
        (31768, 32768),
    ),
    "OpenAI": (
        "This model's maximum context length is 4097 tokens. However, you requested 33768 tokens (1000 in the "
        "messages, 32768 in the completion). Please reduce the length of the messages or completion.",
        (3097, 4097),
    ),
    "vLLM": (
        "'max_tokens' or 'max_completion_tokens' is too large: 32768. This model's maximum context length is 4096 "
        "tokens and your request has 1000 input tokens (32768 > 4096 - 1000).",
        (3096, 4096),
    ),
    "newer vLLM": (
        "This model's maximum context length is 4096 tokens. However, you requested 32768 output tokens and your "
        "prompt contains at least 1000 input tokens, for a total of at least 33768 tokens. Please reduce the length "
        "of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=1000)",
        (3096, 4096),
    ),
    "SGLang": (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
        "33768 tokens: 1000 tokens from the input messages and 32768 tokens for the completion.",
        (3096, 4096),
    ),
    "Anthropic": (
        "input length and `max_tokens` exceed context limit: 180000 + 32768 > 200000, decrease input length or "
        "`max_tokens` and try again",
        (20000, 200000),
    ),
    "OpenRouter": (
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 33768 tokens (1000 of "
        "text input, 32768 in the output).",
        (31768, 32768),
    ),
    "parts in brackets": (
        "max_new_tokens (32768) + input_length (1000) must not exceed 8192",
        (7192, 8192),
    ),
    "a total alone": (
        "Request too large on tokens per minute (TPM): Limit 6000, Requested 33768, please reduce your message size",
        (5000, 6000),
    ),
    "no prompt": ("max_tokens too large: the context window is 32,768 tokens", (SENT - PROMPT, 32768)),
}
NO_LIMIT = {
    "llama.cpp": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "SGLang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "Mistral": "Prompt contains 5000 tokens and 0 draft tokens, too large for model with 4096 maximum context length",
    "OpenAI": "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
    "another parameter": "temperature must be at most 1",
    "a model": "The model `gpt-4-0613` does not exist",
}


@pytest.mark.parametrize(("message", "most"), LIMIT_OF_COMPLETION.values(), ids=LIMIT_OF_COMPLETION)
def test_token_limit_is_read_from_an_error_of_the_server(message: str, most: int) -> None:
    assert allowed_tokens(message, SENT, PROMPT) == AllowedTokens(most)


@pytest.mark.parametrize(("message", "allowed"), CONTEXT.values(), ids=CONTEXT)
def test_token_limit_read_from_an_error_leaves_room_for_the_prompt(message: str, allowed: tuple[int, int]) -> None:
    assert allowed_tokens(message, SENT, PROMPT) == AllowedTokens(*allowed)


@pytest.mark.parametrize("message", NO_LIMIT.values(), ids=NO_LIMIT)
def test_no_token_limit_is_read_from_server_errors_that_name_no_completion_limit(message: str) -> None:
    assert allowed_tokens(message, SENT, PROMPT) is None


def test_prompt_longer_than_the_context_leaves_0_tokens_for_completions() -> None:
    message = (
        "maximum context length is 4096 tokens, you requested 37768 (5000 in the messages, 32768 in the completion)"
    )
    assert allowed_tokens(message, SENT, PROMPT) == AllowedTokens(0, 4096)


@pytest.mark.parametrize(
    ("message", "sent", "allowed"),
    [
        ("Try again with a maximum tokens value that is lower than 4096.", 4096, 4095),
        ("maxOutputTokens: the supported range is from 1 (inclusive) to 8193 (exclusive)", 8193, 8192),
        ("Invalid 'max_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.", 1, 16),
    ],
)
def test_minimum_and_exclusive_maximum_token_limits_are_read_from_server_errors(
    message: str, sent: int, allowed: int
) -> None:
    assert allowed_tokens(message, sent, PROMPT) == AllowedTokens(allowed)


def test_no_token_limit_is_read_from_an_error_that_asks_for_higher_max_tokens() -> None:
    message = "max_tokens or model output limit was reached. Please try again with higher max_tokens."
    assert allowed_tokens(message, 1, PROMPT) is None

"""The shape of an inference server's reply: its keys in order, and the types of its values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("data") / "vllm_replies.json"
"""Recorded shapes of vLLM's replies.

`make integrations-vllm` compares them with a real vLLM, or records a missing file.
"""
SAMPLING = {"n": 2, "temperature": 1.0}
BY_TOKENS = {**SAMPLING, "model": "policy", "max_tokens": 3, "logprobs": 0, "return_token_ids": True}
NONE = "null"


def requests_for(prompt: list[int], context: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return requests by name, each as a path and a body.

    `prompt` begins with the token of the letter s, and `context` is the server's context length.
    """
    stopping = {"logit_bias": {str(prompt[0]): 100}, "stop": ["s"], "include_stop_str_in_output": True}
    return {
        "completions": ("/v1/completions", {**BY_TOKENS, "prompt": prompt}),
        "completions with a stop text": ("/v1/completions", {**BY_TOKENS, "prompt": prompt, **stopping}),
        "completions that are refused": ("/v1/completions", {**BY_TOKENS, "prompt": prompt, "max_tokens": 4 * context}),
        "text": ("/v1/completions", {**SAMPLING, "model": "policy", "prompt": "sun", "max_tokens": 3}),
        "chat": (
            "/v1/chat/completions",
            {**SAMPLING, "model": "policy", "messages": [{"role": "user", "content": "sun"}], "max_tokens": 3},
        ),
        "generate": ("/generate", {**SAMPLING, "prompt": {"prompt_token_ids": prompt}, "max_tokens": 3, "logprobs": 0}),
    }


def shape_of(value: Any) -> Any:
    """Return the keys in order, and the types. For a list or a mapping by token, use the first item."""
    if isinstance(value, dict):
        return {key: shape_of(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return NONE if value is None else type(value).__name__


def shape_of_reply(status: int, body: Any) -> dict[str, Any]:
    """Return the shape of a reply, without keys that are tokens."""
    for choice in body.get("choices", ()):
        for place in (choice.get("logprobs") or {}).get("top_logprobs", ()):
            place["token"] = place.pop(next(iter(place)))
    for completion in body.get("logprobs", ()):
        for (place,) in completion:
            place["token"] = place.pop(next(iter(place)))
    return {"status": status, "body": shape_of(body)}


def disagreements(imitated: Any, real: Any, where: str = "reply") -> Iterator[str]:
    """Yield the keys, key orders and types of an imitated shape that the real shape does not have.

    Missing keys are allowed.
    """
    if isinstance(imitated, dict) and isinstance(real, dict):
        shared = [key for key in imitated if key in real]
        if extra := [key for key in imitated if key not in real]:
            yield f"{where} has {extra}, which the real one has not"
        if shared != [key for key in real if key in imitated]:
            yield f"{where} has {shared} in another order than the real one"
        for key in shared:
            yield from disagreements(imitated[key], real[key], f"{where}.{key}")
    elif isinstance(imitated, list) and isinstance(real, list):
        if imitated and real:
            yield from disagreements(imitated[0], real[0], f"{where}[0]")
    elif imitated != real:
        yield f"{where} is {imitated}, and the real one {real}"

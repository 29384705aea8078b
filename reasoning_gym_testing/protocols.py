"""The protocols of inference servers: what clients send, and the replies that they expect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .completions import Completion, GenerationRequest, Tokens, lay_out

MODEL_NAME = "policy"
MAX_COMPLETIONS = 256
DEFAULT_MAX_TOKENS = 16
"""What vLLM and OpenAI assume for a request that does not say; for a chat they assume all of the context."""
CHAT_MAX_TOKENS = 2**20
CACHED_REPLIES = 256
STREAMED_CHARACTERS = 20
PATHS = ("/generate", "/v1/completions", "/v1/chat/completions", "/v1/generate/")
SGLANG_SAMPLING = {"n", "max_new_tokens", "temperature", "top_p", "top_k", "min_p", "stop"}
SGLANG_SAMPLING |= {"repetition_penalty", "presence_penalty", "frequency_penalty"}


class _Asked(BaseModel):
    """What a request says in the words of vLLM and OpenAI; other fields of it mean nothing here."""

    model_config = ConfigDict(strict=True)

    prompt: str | list[int]
    n: int = Field(1, ge=1, le=MAX_COMPLETIONS)
    max_tokens: int = Field(DEFAULT_MAX_TOKENS, ge=1)
    temperature: float = Field(1.0, ge=0.0, le=2.0)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    stream: bool = False
    stop: list[str] = Field(default_factory=list)
    include_stop_str_in_output: bool = False
    logprobs: int | None = None
    return_token_ids: bool = False


def read_request(path: str, content: bytes, tokens: Tokens) -> GenerationRequest:
    """Return what a POST to one of PATHS asks for. Raises ValueError for what no server would take."""
    body = json.loads(content)
    try:
        protocol, plain = _in_common_words(path, body)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no request that {path} takes: {error!r}") from error
    asked = _Asked.model_validate(plain)
    if protocol == "openai" and asked.return_token_ids and asked.logprobs is not None:
        protocol = "completions"
    if asked.stream and protocol != "chat":
        raise ValueError("only chats are streamed here")
    prompt, prompt_ids = tokens.read_prompt(asked.prompt)
    return GenerationRequest(
        protocol,
        prompt,
        prompt_ids,
        asked.n,
        asked.max_tokens,
        asked.temperature,
        asked.top_p,
        asked.stream,
        tuple(asked.stop),
        asked.include_stop_str_in_output or protocol in ("vllm", "sglang", "completions"),
    )


def _in_common_words(path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the protocol's name, and the body in the words of vLLM and OpenAI."""
    match path:
        case "/generate" if "sampling_params" in body:
            sampling = body["sampling_params"]
            if sampling.keys() - SGLANG_SAMPLING or body["return_logprob"] is not True:
                raise ValueError(f"expected return_logprob, and sampling_params out of {sorted(SGLANG_SAMPLING)}")
            limit = sampling.get("max_new_tokens", DEFAULT_MAX_TOKENS)
            prompt = body["text"] if "text" in body else body["input_ids"]
            return "sglang", {**sampling, "prompt": prompt, "max_tokens": limit}
        case "/generate":
            prompt = body["prompt"]
            return "vllm", {**body, "prompt": prompt["prompt_token_ids"] if isinstance(prompt, dict) else prompt}
        case "/v1/completions":
            return "openai", dict(body)
        case "/v1/chat/completions":
            limit = body.get("max_completion_tokens") or body.get("max_tokens") or CHAT_MAX_TOKENS
            return "chat", {**body, "prompt": lay_out(body["messages"]), "max_tokens": limit}
        case _:
            (prompt,) = body["prompts"]
            return "trl", {**body, "prompt": prompt}


def write_reply(asked: GenerationRequest, completions: tuple[Completion, ...], tokens: Tokens) -> bytes:
    """Return the body of a protocol's reply, as JSON."""
    if asked.protocol != "completions":
        body = _write_plain_reply(asked.protocol, completions, len(asked.prompt_ids))
        # Apart, so that the same completions of different prompts are written once.
        of_prompt = b',"prompt_token_ids":%b}' % _to_json(asked.prompt_ids)
        return body[:-1] + of_prompt if asked.protocol == "vllm" else body
    head = {"id": "0", "object": "text_completion", "created": 0, "model": MODEL_NAME}
    usage = _usage(completions, len(asked.prompt_ids))
    end = b',"prompt_token_ids":%b}' % _to_json(asked.prompt_ids)
    choices = [
        b'{"index":%d,' % index + _choice_with_tokens(completion, tokens, asked.stop) + end
        for index, completion in enumerate(completions)
    ]
    return _to_json(head)[:-1] + b',"choices":[%b],"usage":%b}' % (b",".join(choices), _to_json(usage))


@lru_cache(CACHED_REPLIES)
def _write_plain_reply(protocol: str, completions: tuple[Completion, ...], prompt_tokens: int) -> bytes:
    return _to_json(_reply(protocol, completions, prompt_tokens))


@lru_cache(CACHED_REPLIES)
def _choice_with_tokens(completion: Completion, tokens: Tokens, stop: tuple[str, ...]) -> bytes:
    """Return a completion in the words of vLLM that was asked for token ids, without the index and the prompt."""
    ids, logprobs = completion.token_ids or (), completion.logprobs or ()
    texts = list(map(tokens.text_of, ids))
    choice = {
        "text": completion.text,
        "logprobs": {
            "text_offset": [0, *accumulate(map(len, texts))][: len(texts)],
            "token_logprobs": logprobs,
            "tokens": texts,
            "top_logprobs": [{text: logprob} for text, logprob in zip(texts, logprobs, strict=False)],
        },
        "finish_reason": completion.finish_reason,
        "stop_reason": next(filter(completion.text.endswith, stop), None),
        "token_ids": ids,
        "prompt_logprobs": None,
    }
    return _to_json(choice)[1:-1]


def _usage(completions: Sequence[Completion], prompt_tokens: int) -> dict[str, int]:
    completion_tokens = sum(len(completion.token_logprobs) for completion in completions)
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def _to_json(value: object) -> bytes:
    """Return JSON without blanks, as servers write it."""
    return json.dumps(value, separators=(",", ":")).encode()


def write_stream(completions: Sequence[Completion], prompt_tokens: int) -> bytes:
    """Return a chat's reply as server-sent events: the text in pieces, then the finish reason, then the usage."""
    whole = _reply("chat", completions, prompt_tokens)
    frame = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": MODEL_NAME}
    chunks: list[dict[str, Any]] = []
    for index, completion in enumerate(completions):
        pieces = [
            completion.text[start : start + STREAMED_CHARACTERS]
            for start in range(0, len(completion.text), STREAMED_CHARACTERS)
        ]
        for piece in pieces:
            delta = {"role": "assistant", "content": piece}
            chunks.append({**frame, "choices": [{"index": index, "delta": delta, "finish_reason": None}]})
        chunks.append({**frame, "choices": [{"index": index, "delta": {}, "finish_reason": completion.finish_reason}]})
    chunks.append({**frame, "choices": [], "usage": whole["usage"]})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*events, "data: [DONE]\n\n"]).encode()


def _reply(protocol: str, completions: Sequence[Completion], prompt_tokens: int) -> Any:
    match protocol:
        case "vllm":
            return {
                "text": [completion.text for completion in completions],
                "finish_reasons": [completion.finish_reason for completion in completions],
                "logprobs": [
                    [[{str(token_id): logprob}] for token_id, logprob in completion.token_logprobs]
                    for completion in completions
                ],
            }
        case "sglang":
            replies = [
                {
                    "text": completion.text,
                    "meta_info": {
                        "finish_reason": {"type": completion.finish_reason},
                        "prompt_tokens": prompt_tokens,
                        "output_token_logprobs": [
                            [logprob, token_id, None] for token_id, logprob in completion.token_logprobs
                        ],
                    },
                }
                for completion in completions
            ]
            return replies if len(replies) != 1 else replies[0]
        case "trl":
            return {"completion_ids": [completion.token_ids for completion in completions]}
        case _:
            chat = protocol == "chat"
            return {
                "id": "0",
                "object": "chat.completion" if chat else "text_completion",
                "created": 0,
                "model": MODEL_NAME,
                "choices": [
                    {
                        "index": index,
                        **(
                            {"message": {"role": "assistant", "content": completion.text}}
                            if chat
                            else {"text": completion.text}
                        ),
                        "logprobs": None,
                        "finish_reason": completion.finish_reason,
                    }
                    for index, completion in enumerate(completions)
                ],
                "usage": _usage(completions, prompt_tokens),
            }

"""The protocols of inference servers: how requests are read and replies are written.

Each protocol is a row of PROTOCOLS. The server reads requests and writes replies with this table, and has no code for a
particular protocol, except that it can stream chats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .completions import Completion, GenerationRequest, Tokens, format_chat

MODEL_NAME = "policy"
MAX_COMPLETIONS = 256
DEFAULT_MAX_TOKENS = 16
"""Default `max_tokens` of vLLM and OpenAI for text completions. For chats, the default is the rest of the context."""
CHAT_MAX_TOKENS = 2**20
CACHED_REPLIES = 256
STREAMED_CHARACTERS = 20
SGLANG_SAMPLING = {"n", "max_new_tokens", "temperature", "top_p", "top_k", "min_p", "stop"}
SGLANG_SAMPLING |= {"repetition_penalty", "presence_penalty", "frequency_penalty"}

Body = Mapping[str, Any]
"""The JSON of a request."""
Completions = tuple[Completion, ...]
"""The completions of a policy for a request, with tokens and log-probabilities."""


@dataclass(frozen=True)
class Protocol:
    """How the server reads the requests and writes the replies of one kind of client.

    - `path`: URL path of POST requests. Protocols may share a path.
    - `takes`: returns True if a request body belongs to this protocol. The first matching row of PROTOCOLS is used.
    - `in_common_words`: converts a request to the fields of CommonRequest. Raises ValueError, KeyError, TypeError or
      AttributeError for an invalid request.
    - `write`: returns the body of the reply, as JSON.
    - `keeps_stop`: whether a completion always includes the stop string that ended it.
    """

    name: str
    path: str
    takes: Callable[[Body], bool]
    in_common_words: Callable[[Body], Mapping[str, Any]]
    write: Callable[[GenerationRequest, Completions, Tokens], bytes]
    keeps_stop: bool = False


class CommonRequest(BaseModel):
    """A request with the field names of vLLM and OpenAI. Other fields of a request are ignored."""

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


def all_paths() -> list[str]:
    """Return the URL paths of all protocols."""
    return list(dict.fromkeys(protocol.path for protocol in PROTOCOLS))


def read_request(path: str, content: bytes, tokens: Tokens) -> GenerationRequest:
    """Parse the body of a POST request. Raises ValueError for an invalid request."""
    body = json.loads(content)
    try:
        protocol = next(row for row in PROTOCOLS if row.path == path and row.takes(body))
        common = protocol.in_common_words(body)
    except (StopIteration, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"invalid request to {path}: {error!r}") from error
    asked = CommonRequest.model_validate(common)
    if asked.stream and protocol.name != CHAT:
        raise ValueError("this server streams only chats; send stream: false")
    prompt, prompt_ids = tokens.read_prompt(asked.prompt)
    return GenerationRequest(
        protocol.name,
        prompt,
        prompt_ids,
        asked.n,
        asked.max_tokens,
        asked.temperature,
        asked.top_p,
        asked.stream,
        tuple(asked.stop),
        asked.include_stop_str_in_output or protocol.keeps_stop,
    )


def write_reply(asked: GenerationRequest, completions: Completions, tokens: Tokens) -> bytes:
    """Return the body of the protocol's reply, as JSON."""
    protocol = next(row for row in PROTOCOLS if row.name == asked.protocol)
    return protocol.write(asked, completions, tokens)


def to_json(value: object) -> bytes:
    """Return JSON without spaces between tokens, as servers write it."""
    return json.dumps(value, separators=(",", ":")).encode()


def _usage(completions: Sequence[Completion], prompt_tokens: int) -> dict[str, int]:
    completion_tokens = sum(len(completion.token_logprobs) for completion in completions)
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


# ---------------------------------------------------------------------------- Atropos' vLLM server


def _vllm_request(body: Body) -> Mapping[str, Any]:
    prompt = body["prompt"]
    return {**body, "prompt": prompt["prompt_token_ids"] if isinstance(prompt, dict) else prompt}


def _vllm_reply(asked: GenerationRequest, completions: Completions, _tokens: Tokens) -> bytes:
    # Encode the prompt separately, so that equal completions of different prompts are encoded only once.
    return _vllm_completions(completions)[:-1] + b',"prompt_token_ids":%b}' % to_json(asked.prompt_ids)


@lru_cache(CACHED_REPLIES)
def _vllm_completions(completions: Completions) -> bytes:
    return to_json(
        {
            "text": [completion.text for completion in completions],
            "finish_reasons": [completion.finish_reason for completion in completions],
            "logprobs": [
                [[{str(token_id): logprob}] for token_id, logprob in completion.token_logprobs]
                for completion in completions
            ],
        }
    )


# ---------------------------------------------------------------------------- SGLang


def _sglang_request(body: Body) -> Mapping[str, Any]:
    sampling = body["sampling_params"]
    if sampling.keys() - SGLANG_SAMPLING or body["return_logprob"] is not True:
        raise ValueError(f"expected return_logprob, and sampling_params out of {sorted(SGLANG_SAMPLING)}")
    prompt = body["text"] if "text" in body else body["input_ids"]
    return {**sampling, "prompt": prompt, "max_tokens": sampling.get("max_new_tokens", DEFAULT_MAX_TOKENS)}


def _sglang_reply(asked: GenerationRequest, completions: Completions, _tokens: Tokens) -> bytes:
    return _sglang_completions(completions, len(asked.prompt_ids))


@lru_cache(CACHED_REPLIES)
def _sglang_completions(completions: Completions, prompt_tokens: int) -> bytes:
    replies = [
        {
            "text": completion.text,
            "meta_info": {
                "finish_reason": {"type": completion.finish_reason},
                "prompt_tokens": prompt_tokens,
                "output_token_logprobs": [[logprob, token_id, None] for token_id, logprob in completion.token_logprobs],
            },
        }
        for completion in completions
    ]
    return to_json(replies if len(replies) != 1 else replies[0])


# ---------------------------------------------------------------------------- /v1/completions with token ids


def _completions_reply(asked: GenerationRequest, completions: Completions, tokens: Tokens) -> bytes:
    head = {"id": "0", "object": "text_completion", "created": 0, "model": MODEL_NAME}
    usage = _usage(completions, len(asked.prompt_ids))
    end = b',"prompt_token_ids":%b}' % to_json(asked.prompt_ids)
    choices = [
        b'{"index":%d,' % index + _choice_with_tokens(completion, tokens, asked.stop) + end
        for index, completion in enumerate(completions)
    ]
    return to_json(head)[:-1] + b',"choices":[%b],"usage":%b}' % (b",".join(choices), to_json(usage))


@lru_cache(CACHED_REPLIES)
def _choice_with_tokens(completion: Completion, tokens: Tokens, stop: tuple[str, ...]) -> bytes:
    """Return a completion as JSON with token ids, as vLLM does, without the index and the prompt."""
    ids = completion.token_ids or ()
    logprobs = completion.logprobs or ()
    texts = [tokens.text_of(token_id) for token_id in ids]
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
    return to_json(choice)[1:-1]


# ---------------------------------------------------------------------------- OpenAI's text and chat, TRL


def _openai_reply(asked: GenerationRequest, completions: Completions, _tokens: Tokens) -> bytes:
    return _openai_completions(asked.protocol, completions, len(asked.prompt_ids))


@lru_cache(CACHED_REPLIES)
def _openai_completions(protocol: str, completions: Completions, prompt_tokens: int) -> bytes:
    """Return a reply in OpenAI's format: with messages for chats, otherwise with text."""
    choices = []
    for index, completion in enumerate(completions):
        content: dict[str, Any] = {"text": completion.text}
        if protocol == CHAT:
            content = {"message": {"role": "assistant", "content": completion.text}}
        choices.append({"index": index, **content, "logprobs": None, "finish_reason": completion.finish_reason})
    return to_json(
        {
            "id": "0",
            "object": "chat.completion" if protocol == CHAT else "text_completion",
            "created": 0,
            "model": MODEL_NAME,
            "choices": choices,
            "usage": _usage(completions, prompt_tokens),
        }
    )


def _chat_request(body: Body) -> Mapping[str, Any]:
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or CHAT_MAX_TOKENS
    return {**body, "prompt": format_chat(body["messages"]), "max_tokens": limit}


def write_stream(completions: Completions, prompt_tokens: int) -> bytes:
    """Return the reply to a chat as server-sent events: pieces of text, then the finish reason, then the usage."""
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
    chunks.append({**frame, "choices": [], "usage": _usage(completions, prompt_tokens)})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*events, "data: [DONE]\n\n"]).encode()


# ---------------------------------------------------------------------------- the table


def _asks_for_tokens(body: Body) -> bool:
    return body.get("return_token_ids") is True and body.get("logprobs") is not None


CHAT = "chat"
PROTOCOLS: list[Protocol] = [
    Protocol(
        "sglang",
        "/generate",
        takes=lambda body: "sampling_params" in body,
        in_common_words=_sglang_request,
        write=_sglang_reply,
        keeps_stop=True,
    ),
    Protocol(
        "vllm",
        "/generate",
        takes=lambda body: True,
        in_common_words=_vllm_request,
        write=_vllm_reply,
        keeps_stop=True,
    ),
    Protocol(
        "completions",
        "/v1/completions",
        takes=_asks_for_tokens,
        in_common_words=dict,
        write=_completions_reply,
        keeps_stop=True,
    ),
    Protocol(
        "openai",
        "/v1/completions",
        takes=lambda body: True,
        in_common_words=dict,
        write=_openai_reply,
    ),
    Protocol(
        CHAT,
        "/v1/chat/completions",
        takes=lambda body: True,
        in_common_words=_chat_request,
        write=_openai_reply,
    ),
]
"""All protocols of the server. To add a protocol, add a row."""

"""Add a reply format as docs/development.md describes, and collect a group with this format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from reasoning_env.atropos import servers
from reasoning_env.inference import formats
from reasoning_env.inference.formats.tokens import (
    Body,
    Numbers,
    RawCompletion,
    TokenFormat,
    as_ids,
    decode,
    read_floats,
)
from reasoning_gym_testing import GenerationRequest, InferenceServer, protocols
from reasoning_gym_testing.completions import Tokens
from reasoning_gym_testing.protocols import Completions, Protocol, to_json

from .conftest import WRONG, Collect, MakeEnv

# ------------------------------------------------------------ reasoning_env/inference/formats/NAME.py


class Sample(msgspec.Struct):
    ids: msgspec.Raw
    logprobs: msgspec.Raw
    end: str


class Reply(msgspec.Struct):
    samples: list[Sample]


def request(prompt: Sequence[int], _model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"ids": list(prompt), "count": options["n"], "limit": options["max_tokens"]}


def request_for_text(text: str, _model: str) -> dict[str, Any]:
    return {"ids": text, "count": 1, "limit": 1}


def cut(body: Body) -> Iterator[RawCompletion]:
    for sample in decode(body, msgspec.json.Decoder(Reply)).samples:
        yield RawCompletion(sample.ids, sample.logprobs, sample.end)


def read(completion: RawCompletion) -> Numbers:
    yield
    return as_ids(msgspec.json.decode(completion.ids)), read_floats(completion.logprobs)


MADE_UP = TokenFormat(
    name="made-up",
    path="/samples",
    below_v1=True,
    request=request,
    cut=cut,
    read=read,
    request_for_text=request_for_text,
    prompt_of=lambda body: None,
)

# ------------------------------------------------------------ reasoning_env/inference/formats/__init__.py


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (formats, servers):
            patch.setattr(module, "REPLY_FORMATS", [MADE_UP, *formats.REPLY_FORMATS])
        patch.setattr(protocols, "PROTOCOLS", [RIG_ROW, *protocols.PROTOCOLS])
        yield


# ------------------------------------------------------------ reasoning_gym_testing/protocols.py


def in_common_words(body: protocols.Body) -> Mapping[str, Any]:
    return {"prompt": body["ids"], "n": body["count"], "max_tokens": body["limit"]}


def write(_asked: GenerationRequest, completions: Completions, _tokens: Tokens) -> bytes:
    samples = [{"ids": one.token_ids, "logprobs": one.logprobs, "end": one.finish_reason} for one in completions]
    return to_json({"samples": samples})


RIG_ROW = Protocol("made-up", "/v1/samples", lambda body: True, in_common_words, write, keeps_stop=True)

# ------------------------------------------------------------ the tests


@pytest.mark.parametrize("kind", ["made-up", "auto"])
async def test_group_is_collected_with_a_custom_reply_format(
    make_env: MakeEnv, server: InferenceServer, collect: Collect, kind: str
) -> None:
    env = await make_env(kind)
    group, item = await collect(env, "right", WRONG, WRONG, WRONG)
    assert group["scores"] == [1.0, 0.0, 0.0, 0.0]
    assert {asked.protocol for asked in server.requests} == {"made-up"}
    assert group["inference_logprobs"][0][: len(item.prompt.tokens)] == [1.0] * len(item.prompt.tokens)

"""Ask every inference server at startup for one token, the way training will.

The type of a server of type `auto` is found out. Then the servers' tokenizer is compared with the environment's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from atroposlib.envs.server_handling.server_baseline import APIServer

from ...errors import ConfigError, ServerError
from ...inference.addresses import PROBE_S, Absence, wait_for_server
from ...inference.chat import PlainChat
from ...inference.failures import describe_failure
from ...inference.hosted import HostedModel, HostedServer
from ...inference.probes import NO_REPLY, explain_probe
from ...prompts.chat_format import ChatFormat
from ...runtime.concurrency import cancel_all
from .replies import TokenRequests
from .servers import (
    Options,
    ReplyKind,
    Training,
    address,
    ask_for_one_token,
    describe_replies,
    find_type,
    named_type,
    shared_reply_kind,
    type_of,
    watched,
)

logger = logging.getLogger(__name__)

OTHERS_S = 2.0
"""How much longer the check waits for the other servers once a server has answered."""
TELLING_TEXT = (
    "The answer to 12 * 13 is <answer>156</answer>;\n\tna\u00efve caf\u00e9, \u65e5\u672c\u8a9e \U0001f642 unbelievably"
)
"""A text that tokenizers of different models read differently."""


async def check_servers(servers: Sequence[object], timeout_s: float, options: Options = lambda kind: {}) -> None:
    """Return once a server has given a token; requests carry `options`, as training's do.

    `timeout_s` may be infinite. Stand-ins for servers, as tests use them, are not asked.

    Raises:
        ServerError: a server answers and does not support its type.
        ServerError: no server gives a token within `timeout_s`.
    """

    async def probe(timeout_s: float) -> Sequence[Absence]:
        absences = await _probe_all(servers, timeout_s, options)
        absent = [
            replace(absence, reason=f"{address(server)}: {absence.reason}")
            for server, absence in zip(servers, absences, strict=True)
            if absence is not None
        ]
        if len(absent) == len(servers):
            return absent
        if absent:
            logger.warning("not every inference server answers yet (%s)", "; ".join(one.reason for one in absent))
        return []

    await wait_for_server(probe, timeout_s)


async def _probe_all(servers: Sequence[object], timeout_left_s: float, options: Options) -> list[Absence | None]:
    """Probe all servers. Return why each is absent, or None; once a server works, the others get OTHERS_S."""
    probes = [asyncio.ensure_future(_probe(server, options)) for server in servers]
    left = set(probes)
    deadline = time.monotonic() + timeout_left_s
    try:
        while left and (wait_s := deadline - time.monotonic()) > 0:
            done, left = await asyncio.wait(left, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if any(probe.result() is None for probe in done):
                deadline = min(deadline, time.monotonic() + OTHERS_S)
        return [probe.result() if probe.done() else NO_REPLY for probe in probes]
    finally:
        await cancel_all(probes)


async def _probe(server: object, options: Options) -> Absence | None:
    """Return None if the server works, or why it is absent; raises ServerError if it will never work."""
    if not isinstance(server, APIServer):
        return None
    watched(server)
    server_type = type_of(server)
    kind = server_type.reply_kind
    try:
        if kind is None:
            await find_type(server, options)
            return None
        usable = await ask_for_one_token(server, server_type, options(kind))
    except ServerError:
        raise
    except Exception as error:
        return explain_probe(
            error,
            address(server),
            server_type.endpoint,
            is_chat=kind is ReplyKind.CHAT,
            below_v1=kind is not ReplyKind.TOKENS,
            hint=_type_hint(server, kind),
        )
    if usable:
        return None
    raise ServerError(f"the inference server at {address(server)} answered a request for one token with none")


def _type_hint(server: APIServer, kind: ReplyKind | None) -> str:
    if kind is ReplyKind.CHAT:
        return " ({openai.server_type} is 'chat')"
    return (
        f" ({{openai.server_type}} is {named_type(server.config).name!r}; 'openai' works with any OpenAI-compatible "
        "server, and 'chat' where it has chat completions only)"
    )


def log_reply_kind(servers: Sequence[object], *, has_trainer: bool) -> None:
    """Log the kind of the servers' replies; with `has_trainer`, a warning if the trainer gets no log-probabilities."""
    summary = describe_replies(servers)
    kind = shared_reply_kind(servers)
    if has_trainer and kind is not None and kind.for_training is Training.WITHOUT_LOGPROBS:
        logger.warning(
            "%s. For exact tokens serve the model with `vllm serve`, Atropos' vLLM server or SGLang, and set "
            "openai.server_type to auto",
            summary,
        )
    elif summary:
        logger.info("%s", summary)


async def check_tokenizer(servers: Sequence[object], chat: ChatFormat | PlainChat) -> None:
    """Compare how the servers and the environment's tokenizer read a text; raises ConfigError where they differ.

    Only servers whose token protocol is known are asked. A server may add special tokens at the ends.
    """
    if not isinstance(chat, ChatFormat):
        return
    for server in servers:
        if not isinstance(server, TokenRequests):
            continue
        protocol = type_of(server).protocol
        if protocol is None:
            continue
        try:
            async with asyncio.timeout(PROBE_S):
                theirs = await server.read_text(protocol, TELLING_TEXT)
        except Exception as error:  # the server is absent, or takes no text; its completions are checked by themselves
            logger.debug("%s does not tell how it reads a text: %s", address(server), describe_failure(error))
            continue
        ours = chat.encode(TELLING_TEXT)
        if not _reads_alike(ours, theirs):
            raise ConfigError(
                f"{chat.name!r} is not the tokenizer of the inference server at {address(server)}: the server reads a "
                f"text as {_summarize_tokens(theirs)}, the tokenizer as {_summarize_tokens(ours)}",
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


async def context_length(server: object) -> int | None:
    """Return how many tokens a server takes for prompt plus completion; None if its list of models does not say.

    An importer's own class and a stand-in are not asked: nobody knows what is at their address.
    """
    if not isinstance(server, APIServer) or type_of(server).is_importers_class:
        return None
    config = server.config
    async with HostedModel(HostedServer(config.base_url, config.model_name, config.api_key, PROBE_S)) as model:
        [length] = await model.context_lengths()
    return length

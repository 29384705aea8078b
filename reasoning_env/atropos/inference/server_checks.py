"""Ask every inference server at startup for one token, the way training will.

A server of type `auto` is asked in each way, the best first, and keeps to the first way that works.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer
from openai import AsyncOpenAI

from ...errors import ConfigError, ServerError
from ...prompts.chat_format import ChatFormat
from ...runtime.concurrency import cancel_all
from ...runtime.outage_log import OutageLog
from ...runtime.retries import pauses
from .chat import AUTO, CHAT, ChatRequests, PlainChat
from .failures import (
    ANSWERS,
    Failure,
    Meaning,
    address,
    describe_failure,
    describe_status,
    explain_failure,
    is_quota,
)
from .protocols import COMPLETIONS, SGLANG, VLLM
from .replies import Mode, ReplyError, TokenProtocol

logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 30.0
"""How long a server may take for its first token, where nothing else limits it."""
LEAST_PROBE_S = 1.0
"""How long it may take however little time is left; a server on the same machine answers within milliseconds."""
OTHERS_S = 2.0
"""How much longer the other servers are waited for once one has answered."""
ONE_TOKEN = "1 + 1 ="
"""What servers are asked to continue by a single token."""
TELLING_TEXT = (
    "The answer to 12 * 13 is <answer>156</answer>;\n\tna\u00efve caf\u00e9, \u65e5\u672c\u8a9e \U0001f642 unbelievably"
)
"""A text that tokenizers of different models read differently."""
NO_REPLY = "it accepts requests and does not reply"
NO_SPECIAL_TOKENS = (
    "leaves out the special tokens with which this model marks its thinking; use openai.server_type vllm or sglang "
    "(tokens), or chat; `thinking: think` if the model does not think in that format"
)

Options = Callable[[Mode], Mapping[str, Any]]
"""What requests for such replies carry besides prompt and sampling."""

WAYS: Sequence[tuple[Mode, TokenProtocol | None]] = (
    (Mode.TOKENS, VLLM),
    (Mode.TOKENS, SGLANG),
    (Mode.TOKENS, COMPLETIONS),
    (Mode.TEXT, None),
    (Mode.CHAT, None),
)
"""How an unknown server is asked, the best way first."""


async def wait_for_address(urls: Sequence[str], timeout_s: float) -> None:
    """Return when something listens at one of the URLs; raises ServerError when nothing does in time.

    Behind a proxy nobody can tell, and nothing is waited for.
    """
    if getproxies():
        return
    deadline, waits = time.monotonic() + timeout_s, pauses()
    is_told = False
    while True:
        problems = []
        for url in urls:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            try:
                async with asyncio.timeout(max(LEAST_PROBE_S, deadline - time.monotonic())):
                    _, writer = await asyncio.open_connection(parts.hostname, port)
                writer.close()
                return
            except (OSError, TimeoutError) as error:
                problems.append(f"{url}: {_in_the_systems_words(error)}")
        if time.monotonic() >= deadline:
            raise ServerError(_nobody(timeout_s, "; ".join(problems)))
        if not is_told:
            logger.info("waiting up to %g s for an inference server (%s)", timeout_s, "; ".join(problems))
            is_told = True
        await asyncio.sleep(min(next(waits), max(0.0, deadline - time.monotonic())))


def _in_the_systems_words(error: OSError) -> str:
    """Return why there is no connection: `Connection refused`, `Name or service not known`."""
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _nobody(timeout_s: float, problems: str) -> str:
    """Return why no server can be used; one that answers is there, and only cannot serve now."""
    if ANSWERS in problems:
        return (
            f"no inference server gave a completion within {timeout_s:g} s ({problems}); try again later, check your "
            "plan with its provider, or look into its log"
        )
    return f"no inference server answered within {timeout_s:g} s ({problems}); start one, or correct openai.base_url"


async def check_servers(
    servers: Sequence[Any], mode: Mode, timeout_s: float, options: Options = lambda mode: {}
) -> None:
    """Return when one of the servers has given a token; requests carry `options`, as training's do.

    Raises ServerError when a server answers but cannot do what its type promises, or when none is there in time;
    `timeout_s` may be infinite.
    """
    deadline = time.monotonic() + timeout_s
    absent, waits = OutageLog(logger), pauses()
    problems: list[str | None] = [None] * len(servers)
    while True:
        timeout_left_s = min(PROBE_TIMEOUT_S, max(LEAST_PROBE_S, deadline - time.monotonic()))
        replies = await _probe_all(servers, mode, timeout_left_s, options)
        # A probe that was cut short says less than the one before it.
        problems = [(old if reply == NO_REPLY else None) or reply for reply, old in zip(replies, problems, strict=True)]
        named = [f"{address(server)}: {problem}" for server, problem in zip(servers, problems, strict=True) if problem]
        summary = "; ".join(named)
        if len(named) < len(servers):
            absent.over("an inference server answers")
            if named:
                logger.warning("not every inference server answers yet (%s)", summary)
            return
        if time.monotonic() >= deadline:
            raise ServerError(_nobody(timeout_s, summary))
        absent.note(f"waiting for an inference server ({summary})")
        await asyncio.sleep(min(next(waits), max(0.0, deadline - time.monotonic())))


async def _probe_all(servers: Sequence[Any], mode: Mode, timeout_left_s: float, options: Options) -> list[str | None]:
    """Return what is wrong with each server, or None; once one is well, the others get OTHERS_S."""
    probes = [asyncio.ensure_future(_probe(server, mode, options)) for server in servers]
    left, deadline = set(probes), time.monotonic() + timeout_left_s
    try:
        while left and (wait_s := deadline - time.monotonic()) > 0:
            done, left = await asyncio.wait(left, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if any(probe.result() is None for probe in done):
                deadline = min(deadline, time.monotonic() + OTHERS_S)
        return [probe.result() if probe.done() else NO_REPLY for probe in probes]
    finally:
        await cancel_all(probes)


async def _probe(server: Any, mode: Mode, options: Options) -> str | None:
    """Return None if the server works, or why it is absent; raises ServerError if it will never work.

    A stand-in for a server, as tests use them, is not asked.
    """
    if not isinstance(server, APIServer):
        return None
    hidden = "skip_special_tokens" in options(mode).get("extra_body", {})
    if hidden and isinstance(server, TrlVllmServer):
        raise ServerError(f"the inference server at {address(server)} {NO_SPECIAL_TOKENS}")
    try:
        if _type_of(server, mode) == AUTO:
            await find_out(server, options)
            return None
        usable = await ask_for_one_token(server, mode, options(mode))
    except ServerError:
        raise
    except Exception as error:
        if hidden and "skip_special_tokens" in str(error):
            raise ServerError(f"the inference server at {address(server)} {NO_SPECIAL_TOKENS}") from error
        return _explain(server, mode, error)
    if usable:
        return None
    raise ServerError(f"the inference server at {address(server)} answered a request for one token with none")


async def find_out(server: Any, options: Options) -> Mode:
    """Return what a server of type `auto` gives, and let it keep to that; `options` are those of training's requests.

    Raises what a client raises where the server is not there, and ServerError where it gives nothing at all.
    """
    refusals: list[str] = []
    passing: Exception | None = None
    for mode, protocol in WAYS:
        try:
            if not await ask_for_one_token(server, mode, options(mode), protocol):
                raise ReplyError("no token")
        except Exception as error:
            failure = explain_failure(error)
            if failure.status in (401, 403):
                raise
            if failure.meaning in (Meaning.ABSENT, Meaning.BUSY):
                if failure.status is None:
                    raise
                passing = error
            refusals.append(f"{_endpoint(mode, protocol)}: {describe_failure(error)}")
        else:
            server.mode, server.protocol = mode, protocol
            return mode
    if passing is not None:
        raise passing
    raise ServerError(
        f"the inference server at {address(server)} gives no completions in any way that was tried "
        f"({'; '.join(refusals)}); check openai.base_url, which mostly ends in /v1, and openai.model_name"
    )


async def ask_for_one_token(
    server: Any, mode: Mode, options: Mapping[str, Any], protocol: TokenProtocol | None = None
) -> bool:
    """Ask as training does, but for one token; return whether one came. Raises what clients raise.

    `protocol` is that of a server of type `auto`.
    """
    arguments = {
        "model": server.config.model_name,
        "prompt": ONE_TOKEN,
        "n": 1,
        "max_tokens": 1,
        "temperature": 1.0,
        **options,
    }
    if mode is Mode.CHAT:
        await ChatRequests().ask(server, [{"role": "user", "content": ONE_TOKEN}], 1, options)
        return True
    if mode is Mode.TEXT:
        reply = await server._completion_wrapper(**arguments)
        return bool(reply.choices)
    sample = server._tokens_and_logprobs_completion_wrapper if protocol is None else partial(server.sample, protocol)
    _, outputs, _, _ = await sample(**arguments)
    return bool(outputs) and len(outputs[0]) > 0


def _endpoint(mode: Mode, protocol: TokenProtocol | None) -> str:
    """Return what a server must answer."""
    if mode is Mode.TOKENS:
        return protocol.endpoint if protocol else "POST /generate with tokens and log-probabilities"
    return "POST /v1/completions" if mode is Mode.TEXT else "POST /v1/chat/completions"


def what_comes(mode: Mode | None, servers: Sequence[Any]) -> str:
    """Return in words what the servers give; empty for stand-ins, of which no mode is known."""
    match mode:
        case Mode.TOKENS:
            endpoints = {server.protocol.endpoint for server in servers if getattr(server, "protocol", None)}
            named = f" ({', '.join(sorted(endpoints))})" if endpoints else ""
            return f"tokens and log-probabilities as sampled{named}"
        case Mode.TEXT:
            return (
                "text only: tokens are made again from the text, without log-probabilities; fine for evaluation and "
                "data, not for training"
            )
        case Mode.CHAT:
            return "chat only: text without tokens; for evaluation and data, not for training"
        case None:
            return ""


def _explain(server: Any, mode: Mode, error: Exception) -> str | None:
    """Return why the server is absent, or None if it works all the same; raises ServerError if it never will."""
    failure = explain_failure(error)
    if failure.meaning is Meaning.BUSY and is_quota(error):
        raise ServerError(
            f"the inference server at {address(server)} refuses: the quota of this key is used up "
            f"({failure.description}); check your plan with its provider, or openai.api_key"
        ) from error
    if failure.status is not None and failure.meaning in (Meaning.ABSENT, Meaning.BUSY):
        return describe_status(error)
    if failure.meaning is Meaning.ABSENT:
        return failure.description
    if mode is Mode.CHAT and "output limit" in str(error):
        return None  # it thinks before it answers, for which a single token is too few
    fault = "refuses" if failure.meaning is Meaning.REFUSED and failure.status != 404 else "does not answer"
    endpoint = _endpoint(mode, getattr(server, "protocol", None))
    raise ServerError(
        f"the inference server at {address(server)} cannot be used: it {fault} {endpoint} "
        f"({failure.description}); {_remedy(server, mode, failure)}"
    ) from error


def _remedy(server: Any, mode: Mode, failure: Failure) -> str:
    """Return what to do, with what is known of the server where that narrows it down."""
    where = address(server).rstrip("/")
    if failure.status == 404 and mode is not Mode.TOKENS and not urlsplit(where).path:
        return f"check openai.base_url: most servers want {where}/v1"
    if "openai.server_type" not in failure.remedy:
        return failure.remedy
    return (
        f"{failure.remedy} (openai.server_type is {_type_of(server, mode)!r}; 'openai' works with any "
        "OpenAI-compatible server, and 'chat' where it has chat completions only)"
    )


def _type_of(server: Any, mode: Mode) -> str:
    return CHAT if mode is Mode.CHAT else getattr(server.config, "server_type", "unknown")


async def check_tokenizer(servers: Sequence[Any], chat: ChatFormat | PlainChat) -> None:
    """Compare how the servers and the environment's tokenizer read a text; raises ConfigError where they differ.

    Only what gives tokens and is there is asked; a server may add special tokens at the ends.
    """
    for server in servers:
        # Only servers whose replies are read here have a protocol.
        if getattr(server, "protocol", None) is None or not isinstance(chat, ChatFormat):
            continue
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                theirs = await server.read_text(TELLING_TEXT)
        except Exception as error:  # it is not there, or takes no text; its completions are checked by themselves
            logger.debug("%s does not tell how it reads a text: %s", address(server), describe_failure(error))
            continue
        ours = chat.encode(TELLING_TEXT)
        if not _reads_alike(ours, theirs):
            raise ConfigError(
                f"env.tokenizer_name: {chat.name!r} is not the tokenizer of the inference server at {address(server)}, "
                f"which reads {_in_short(theirs)} where it reads {_in_short(ours)}; name the tokenizer of "
                f"{server.config.model_name!r}"
            )


def _reads_alike(ours: Sequence[int], theirs: Sequence[int] | int | None) -> bool:
    if theirs is None:
        return True
    added = (theirs if isinstance(theirs, int) else len(theirs)) - len(ours)
    if not 0 <= added <= 2:  # special tokens that a server may put around a text
        return False
    ends = range(added + 1)
    return isinstance(theirs, int) or any(list(theirs[at : at + len(ours)]) == list(ours) for at in ends)


def _in_short(reading: Sequence[int] | int | None) -> str:
    if not isinstance(reading, Sequence):
        return f"{reading} tokens"
    return f"{len(reading)} tokens ({', '.join(map(str, reading[:8]))}...)"


async def context_length(server: Any) -> int | None:
    """Return how many tokens a server takes for prompt plus completion; None where it does not say."""
    if not isinstance(server, APIServer):  # a stand-in, as tests use them
        return None
    config = server.config
    client = getattr(server, "openai", None) or AsyncOpenAI(api_key=config.api_key, base_url=config.base_url)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            models = [model async for model in client.models.list()]
    except Exception as error:  # not every server lists its models
        logger.debug("%s lists no models: %s", address(server), describe_failure(error))
        return None
    finally:
        if client is not getattr(server, "openai", None):
            await client.close()
    named = [model for model in models if model.id == config.model_name] or models[:1]
    lengths = [getattr(model, name, None) for model in named for name in ("max_model_len", "context_length")]
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)

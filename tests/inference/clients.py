"""Clients of inference servers, without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from reasoning_env.inference.completer import ServerSettings
from reasoning_env.inference.failures import Timeouts
from reasoning_env.inference.formats import REPLY_FORMATS
from reasoning_env.inference.formats.choices import PlainChat
from reasoning_env.inference.formats.reply_format import ReplyFormat
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import RequestOptions, Server

PATIENT = Timeouts(reply_s=5.0, outage_s=5.0)


def serve(
    *urls: str,
    formats: Sequence[ReplyFormat] = REPLY_FORMATS,
    key: str = "",
    options: RequestOptions | None = None,
    timeouts: Timeouts = PATIENT,
    timeout_s: float = 5.0,
) -> ServedModel:
    """Return the model `m` at these server addresses, without a tokenizer."""
    settings = ServerSettings(model_name="m", api_key=key).model_copy(update={"timeout": timeout_s})
    servers = [Server(settings.model_copy(update={"base_url": url}), formats=formats) for url in urls]
    return ServedModel(lambda: servers, PlainChat(), options or RequestOptions(), lambda: timeouts, model="m")

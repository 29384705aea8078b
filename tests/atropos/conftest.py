from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_manager import ServerManager

from reasoning_env.atropos.config import complete_servers
from reasoning_env.atropos.launch import choose_server_class
from reasoning_env.atropos.servers import Completers, close_connections
from reasoning_env.inference.failures import Timeouts
from reasoning_env.inference.formats.choices import PlainChat
from reasoning_env.inference.formats.reply_format import ReplyKind
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import RequestOptions
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.runtime.concurrency import cancel_all
from reasoning_gym_testing import TOKENIZER
from tests.waiting import PATIENCE_S

PATIENT = Timeouts(reply_s=None, outage_s=PATIENCE_S)
Manage = Callable[..., ServerManager]


@pytest.fixture
async def manage() -> AsyncIterator[Manage]:
    """Makes Atropos server managers with the given settings, and ends the tasks and connections that Atropos leaves
    open.
    """
    managers: list[ServerManager] = []

    def make(*configs: Any) -> ServerManager:
        completed = complete_servers(list(configs), TOKENIZER)
        managers.append(ServerManager(completed, server_class=choose_server_class(APIServer, completed)))
        return managers[-1]

    yield make
    for server in [server for manager in managers for server in manager.servers]:
        if server.check_task is not None:
            await cancel_all([server.check_task])
        await close_connections(server)


def managed(
    manager: Any,
    chat: ChatFormat | PlainChat | None = None,
    *,
    expected: ReplyKind | None = None,
    options: RequestOptions | None = None,
    timeouts: Timeouts = PATIENT,
) -> ServedModel:
    """Return the model that an environment would use for the servers of a manager."""
    completers = Completers(lambda: manager, expected)
    return ServedModel(completers, chat or PlainChat(), options or RequestOptions(), lambda: timeouts, model="m")

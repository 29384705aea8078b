from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_manager import ServerManager

from reasoning_env.atropos.inference.servers import choose_server_class, close_connections, complete_servers
from reasoning_env.runtime.concurrency import cancel_all
from reasoning_gym_testing import TOKENIZER

Manage = Callable[..., ServerManager]


@pytest.fixture
async def manage() -> AsyncIterator[Manage]:
    """Makes Atropos' managers of servers with these settings; ends the tasks and connections that Atropos leaves."""
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

"""Chat completions of Atropos' servers, by their clients of OpenAI."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from openai import AsyncOpenAI


class ChatServerClient(Protocol):
    """What chat requests use of a server of Atropos."""

    config: APIServerConfig
    openai: AsyncOpenAI
    sem: asyncio.Semaphore
    eval_sem: asyncio.Semaphore


@dataclass(frozen=True)
class OpenAIChat:
    """A server's client. The split decides which of the server's limits on requests under way holds; None for none."""

    server: ChatServerClient
    split: str | None = None

    @property
    def model(self) -> str:
        return str(self.server.config.model_name)

    async def create(self, **request: Any) -> Any:
        """Send a request and return the reply; raises the errors of OpenAI's client."""
        async with self._slot():
            return await self.server.openai.chat.completions.create(**request)

    def _slot(self) -> contextlib.AbstractAsyncContextManager[None]:
        if self.split is None:
            return contextlib.nullcontext()
        return self.server.sem if self.split == "train" else self.server.eval_sem

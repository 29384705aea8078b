"""What `evaluate` asks a server before anything is loaded: which model it has, and whether chat completions suffice.

An evaluation needs no tokens. A server with chat completions applies the model's own chat template, and no tokenizer is
loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from ...errors import ServerError
from ...inference.addresses import PROBE_S
from ...inference.failures import explain_failure
from ...inference.hosted import ENDPOINT, HostedModel, HostedServer, StatusError, only_model
from ...inference.keys import read_key
from ...inference.probes import path_remedy
from ..config import DEFAULT_MODEL, ReasoningGymEnvConfig
from .servers import AUTO, CHAT, named_type

logger = logging.getLogger(__name__)


async def choose_model(
    config: ReasoningGymEnvConfig, servers: list[APIServerConfig], typed: Collection[str]
) -> tuple[ReasoningGymEnvConfig, list[APIServerConfig]]:
    """Return settings with a model, and with chat requests, where the user names neither type nor tokenizer.

    `typed` names the user's own settings, as `section.name`. Several servers stay as they are. Raises ConfigError where
    the model is not named and the server does not have exactly one.
    """
    if len(servers) != 1:
        return config, servers
    [server] = servers
    key = read_key(str(server.api_key or ""), for_chat=True)
    if server.model_name == DEFAULT_MODEL and "openai.model_name" not in typed:
        server = server.model_copy(update={"model_name": await only_model(str(server.base_url), key)})
    asked = HostedServer(str(server.base_url), server.model_name, key, PROBE_S)
    if config.tokenizer_name == DEFAULT_MODEL and "env.tokenizer_name" not in typed:
        if "openai.server_type" not in typed and named_type(server).name == AUTO and await _gives_chat(asked):
            server = server.model_copy(update={"server_type": CHAT})
        else:
            config = config.model_copy(update={"tokenizer_name": server.model_name})
    return config, [server]


async def _gives_chat(server: HostedServer) -> bool:
    """Tell whether a server has chat completions for its model; True too if the server cannot answer now.

    Raises ServerError for a URL that most likely lacks its `/v1`.
    """
    async with HostedModel(server) as model:
        try:
            await model.create(model=server.model, messages=[{"role": "user", "content": "Hello"}], max_tokens=1)
        except StatusError as error:
            remedy = path_remedy(explain_failure(error), server.base_url)
            if remedy is not None and not _is_path(server.model):
                # No folder has the model's tokenizer, and a wait for the hub would hide the mistake.
                problem = f"the inference server at {server.base_url} does not answer POST {ENDPOINT} ({error})"
                raise ServerError(problem, remedy=remedy) from error
            # 404 may also mean that there is no such model.
            lacks_endpoint = error.status in (404, 405, 501) and "model" not in str(error).lower()
            return not lacks_endpoint and "chat template" not in str(error).lower()
        except Exception as error:
            logger.debug("%s does not tell whether it has chat completions: %s", server.base_url, error)
    return True


def _is_path(model: str) -> bool:
    return Path(model).exists()

"""What `evaluate` asks a server before anything is loaded: which model it has, and whether chat completions suffice.

An evaluation needs no tokens. A server with chat completions applies the model's own chat template, and no tokenizer is
loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

import openai
from atroposlib.envs.server_handling.server_baseline import APIServerConfig

from ...errors import ConfigError
from ...inference.addresses import check_scheme
from ...inference.failures import describe_failure
from ...inference.hosted import list_models
from ..config import DEFAULT_MODEL, ReasoningGymEnvConfig
from .servers import AUTO, CHAT, named_type, read_key

logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 30.0


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
    if server.model_name == DEFAULT_MODEL and "openai.model_name" not in typed:
        server = server.model_copy(update={"model_name": await _only_model(server)})
    if config.tokenizer_name == DEFAULT_MODEL and "env.tokenizer_name" not in typed:
        if "openai.server_type" not in typed and named_type(server).name == AUTO and await _gives_chat(server):
            server = server.model_copy(update={"server_type": CHAT})
        else:
            config = config.model_copy(update={"tokenizer_name": server.model_name})
    return config, [server]


def _client(server: APIServerConfig) -> openai.AsyncClient:
    key = read_key(server.model_copy(update={"server_type": CHAT}))
    return openai.AsyncClient(api_key=key, base_url=server.base_url, timeout=PROBE_TIMEOUT_S, max_retries=0)


async def _only_model(server: APIServerConfig) -> str:
    """Return the name of the only model that a server lists; raises ConfigError for none, several or no list."""
    missing = "MODEL is missing, as in `evaluate MODEL`"
    async with _client(server) as client:
        try:
            names = [model.id async for model in client.models.list()]
        except Exception as error:  # not every server lists its models
            await check_scheme(server.base_url)
            told = describe_failure(error)
            raise ConfigError(f"{missing}; {server.base_url} does not say which it has ({told})") from error
    if len(names) == 1:
        logger.info("evaluating %s, the only model at %s", names[0], server.base_url)
        return names[0]
    raise ConfigError(f"{missing}; {server.base_url} has {list_models(names)}")


async def _gives_chat(server: APIServerConfig) -> bool:
    """Tell whether a server has chat completions for its model; a server that cannot answer now counts as one."""
    async with _client(server) as client:
        try:
            await client.chat.completions.create(
                model=server.model_name, messages=[{"role": "user", "content": "Hello"}], max_tokens=1
            )
        except openai.APIStatusError as error:
            # 404 may also mean that there is no such model.
            lacks_endpoint = error.status_code in (404, 405, 501) and "model" not in str(error).lower()
            return not lacks_endpoint and "chat template" not in str(error).lower()
        except Exception as error:
            logger.debug("%s does not tell whether it has chat completions: %s", server.base_url, error)
    return True

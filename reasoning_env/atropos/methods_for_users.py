"""The methods of Atropos' server interface that only users' own code calls."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from atroposlib.envs.server_handling.vllm_server import VLLMServer
from openai import AsyncOpenAI
from transformers import AutoTokenizer

from ..inference.addresses import find_format
from ..inference.formats import names_of_kind
from ..inference.formats.reply_format import ReplyError, ReplyKind, TokenCompletion
from ..inference.formats.tokens import TokenFormat
from ..inference.server import RequestOptions, Server
from ..records import Prompt


class MethodsForUsers(VLLMServer):  # type: ignore[misc]
    """A subclass of Atropos' server class whose requests for token ids go to `server`.

    Requests for text and chat go through Atropos' own code, which returns OpenAI's objects.
    """

    server: Server

    @cached_property
    def tokenizer(self) -> Any:
        name = self.config.tokenizer_name
        return AutoTokenizer.from_pretrained(self.config.model_name if name == "none" else name)

    @cached_property
    def openai(self) -> AsyncOpenAI:
        # Turn off the client's own retries, which would wait silently for as long as Retry-After demands.
        config = self.config
        address = urlsplit(config.base_url or "")
        return AsyncOpenAI(
            api_key=config.api_key,
            base_url=address._replace(query="").geturl(),
            default_query=dict(parse_qsl(address.query)),
            default_headers=getattr(config, "headers", {}),
            timeout=config.timeout,
            max_retries=0,
        )

    async def _tokens_and_logprobs_completion_wrapper(
        self, **parameters: Any
    ) -> tuple[list[int], list[list[int]], list[list[float]], list[str]]:
        text = parameters.pop("prompt", None)
        del parameters["model"]
        tokens = list(parameters.pop("input_ids", None) or self.tokenizer.encode(text))
        # As in Atropos' own classes: drop a second BOS token, since both chat template and tokenizer may add one.
        if len(tokens) >= 2 and tokens[0] == self.tokenizer.bos_token_id == tokens[1]:
            tokens = tokens[1:]
        for name in ("max_new_tokens", "max_completion_tokens"):
            if name in parameters:
                parameters["max_tokens"] = parameters.pop(name)
        prompt = Prompt(({"role": "user", "content": text or ""},), text or "", tuple(tokens))
        found = self.server.format or await find_format(self.server, prompt, RequestOptions())
        if not isinstance(found, TokenFormat):
            raise ReplyError(
                f"the server returns no token ids; use a server_type with token ids: {names_of_kind(ReplyKind.TOKENS)}"
            )
        reply = await self.server.ask(found, prompt, parameters)
        completions = [one for one in reply.completions if isinstance(one, TokenCompletion)]
        ids = [list(map(int, one.tokens)) for one in completions]
        logprobs = [list(map(float, one.logprobs)) for one in completions]
        return tokens, ids, logprobs, [one.finish_reason for one in completions]

"""Measure what docs/servers.md says: what tokenizing again changes, log-probabilities, and CPU for each token.

`.venv-vllm/bin/python -m tests.integrations.vllm_figures` starts vLLM on the CPU with a model of random weights and a
byte-level BPE of 4,096 tokens. 32 completions come with token ids; their text is then tokenized again, as for a server
that gives text only. Processor time is that of a reply of 8 completions, from its bytes to the rollouts, the least of
seven runs. Prints one line of JSON after some minutes.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from atroposlib.envs.server_handling.server_baseline import APIServer, APIServerConfig
from atroposlib.envs.server_handling.server_manager import ServerManager
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from reasoning_env.atropos.inference.client import InferenceClient
from reasoning_env.atropos.inference.protocols.completions import COMPLETIONS
from reasoning_env.atropos.inference.protocols.vllm import VLLM
from reasoning_env.atropos.inference.rollouts import rollout_from_text, rollout_from_tokens
from reasoning_env.atropos.inference.servers import choose_server_class
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Prompt, Rollout, Sampling, Timeouts
from reasoning_env.runtime.turns import in_turns
from reasoning_gym_testing import TOKENIZER, Processes, server_settings
from reasoning_gym_testing.completions import Completion, GenerationRequest, Tokens
from reasoning_gym_testing.protocols import write_reply
from tests.integrations.vllm_servers import CONTEXT, RealServer, largest_difference

SAMPLING = Sampling(temperature=1.0, top_p=1.0, token_limit=CONTEXT, split="train")
COMPLETIONS_IN_ALL = 32
LENGTHS = (200, 2000, 8000)
GROUP_SIZE = 8
RUNS = 7


def build_model(size: int, end: int) -> Any:
    """Return a Qwen2 of random weights; attention on CPUs needs heads of 32 dimensions or more."""
    torch.manual_seed(0)
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=size, eos_token_id=end, bos_token_id=None, **shape, **heads))


async def sample(url: str, folder: Path, chat: ChatFormat, prompt: Prompt) -> Sequence[Rollout]:
    named = server_settings(url, "completions")
    config = APIServerConfig(**named, tokenizer_name=str(folder))
    manager = ServerManager([config], server_class=choose_server_class(APIServer, [config]))
    client = InferenceClient(lambda: manager, chat)
    rollouts = await client.complete(prompt, COMPLETIONS_IN_ALL, SAMPLING, Timeouts(reply_s=None, outage_s=60.0))
    for server in manager.servers:
        await server.openai.close()
    return rollouts


def tokenize_again(chat: ChatFormat, prompt: Prompt, rollouts: Sequence[Rollout]) -> dict[str, int]:
    """Return what becomes of the tokens where only the text comes, without a limit and with that of SAMPLING."""
    unlimited = Sampling(temperature=1.0, top_p=1.0, token_limit=10**6, split="train")
    found = {"completions": len(rollouts), "other_tokens": 0, "sampled": 0, "from_text": 0, "cut": 0, "tokens_cut": 0}
    for rollout in rollouts:
        choice = SimpleNamespace(text=rollout.text, finish_reason=rollout.finish_reason)
        whole = rollout_from_text(chat, prompt, unlimited, choice)
        limited = rollout_from_text(chat, prompt, SAMPLING, choice)
        assert isinstance(whole, Rollout)
        assert isinstance(limited, Rollout)
        lost = len(whole.tokens) - len(limited.tokens)
        if list(whole.tokens) != list(rollout.tokens):
            found["other_tokens"] += 1
        found["sampled"] += rollout.token_count or 0
        found["from_text"] += whole.token_count or 0
        if lost > 0:
            found["cut"] += 1
        found["tokens_cut"] += lost
    return found


def measure_reading(chat: ChatFormat, tokens: Tokens, length: int) -> dict[str, dict[str, float]]:
    """Return bytes and microseconds of CPU a token, by protocol."""
    numbers = random.Random(0)
    prompt = tuple(range(5, 105))
    completions = tuple(
        Completion(
            "",
            "length",
            tuple(numbers.randrange(100, chat.vocabulary_size - 10) for _ in range(length)),
            tuple(-9 * numbers.random() for _ in range(length)),
        )
        for _ in range(GROUP_SIZE)
    )
    found = {}
    for name, protocol in {"vllm": VLLM, "completions": COMPLETIONS}.items():
        asked = GenerationRequest(name, "", prompt, GROUP_SIZE, length, 1.0, 1.0)
        body = write_reply(asked, completions, tokens)
        least = float("inf")
        for _ in range(RUNS):
            began = time.process_time()
            for one in protocol.cut(body):
                rollout = rollout_from_tokens(
                    chat, 10**6, prompt, (*asyncio.run(in_turns(protocol.read(one))), one.finish_reason)
                )
                assert isinstance(rollout, Rollout)
            least = min(least, time.process_time() - began)
        in_all = GROUP_SIZE * length
        found[name] = {"bytes": round(len(body) / in_all, 1), "cpu_us": round(1e6 * least / in_all, 2)}
    return found


def main() -> None:
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    chat = ChatFormat(tokenizer, "random")
    prompt = chat.prompt(build_messages("", "Spell this word backward: sun"))
    reading = {str(length): measure_reading(chat, Tokens(TOKENIZER), length) for length in LENGTHS}
    model = build_model(len(tokenizer), tokenizer.eos_token_id)
    with tempfile.TemporaryDirectory() as temporary, Processes(Path(temporary)) as processes:
        folder = Path(temporary) / "model"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        server = RealServer(processes, "vllm", folder)
        server.wait()
        rollouts = asyncio.run(sample(server.url, folder, chat, prompt))
    differences = [largest_difference(model, one.tokens, one.masks, one.logprobs or ()) for one in rollouts]
    again = tokenize_again(chat, prompt, rollouts)
    print(json.dumps({"tokenized_again": again, "logprob_difference": max(differences), "a_token": reading}))


if __name__ == "__main__":
    main()

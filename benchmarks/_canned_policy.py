"""An inference server that costs next to nothing: vLLM's native protocol, answered from replies made beforehand.

`python -m benchmarks._canned_policy --port N [--latency-s 2] [--tokens 200]` stands for a fleet of GPU servers: a reply
takes its latency, give or take half of it, however many requests are under way. All completions have the same length
and end in a number as the answer; within a group the answers cluster, as a policy's do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from functools import cache

from aiohttp import web
from tokenizers import Tokenizer

from demo.generation import TOKENIZER_FOLDER

VARIANTS = 64
"""Different replies for a group; which one a request gets is drawn."""
LATENCY_SPREAD = 0.5


def make_app(latency_s: float, tokens: int) -> web.Application:
    """The server as an aiohttp application; `tokens` is the length of a completion, its end-of-turn token included."""
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FOLDER / "tokenizer.json"))
    thought = tokenizer.encode("<think>" + "so it goes on and on " * tokens, add_special_tokens=False).ids
    chance = random.Random(0)

    @cache
    def reply(n: int, length: int, variant: int) -> bytes:
        draw = random.Random(f"{n} {length} {variant}")
        answers = draw.choices([draw.randrange(1000) for _ in range(n)], [0.5**rank for rank in range(n)], k=n)
        ends = [tokenizer.encode(f"</think>\n<answer>{answer}</answer><|im_end|>").ids for answer in answers]
        outputs = [[*thought[: max(0, length - len(end))], *end][-length:] for end in ends]
        return json.dumps(
            {
                "text": tokenizer.decode_batch(outputs),
                "finish_reasons": ["stop"] * n,
                "logprobs": [[[{str(token): -0.5}] for token in output] for output in outputs],
            }
        ).encode()

    async def generate(request: web.Request) -> web.Response:
        asked = await request.json()
        if latency_s:
            await asyncio.sleep(latency_s * chance.uniform(1 - LATENCY_SPREAD, 1 + LATENCY_SPREAD))
        body = reply(asked["n"], min(tokens, asked["max_tokens"]), chance.randrange(VARIANTS))
        return web.Response(body=body, content_type="application/json")

    async def health(_request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_get("/health", health)
    app.router.add_post("/generate", generate)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--latency-s", type=float, default=0.0, help="mean seconds that a reply takes")
    parser.add_argument("--tokens", type=int, default=200, help="length of a completion")
    options = parser.parse_args()
    web.run_app(
        make_app(options.latency_s, options.tokens), host="127.0.0.1", port=options.port, access_log=None, print=None
    )


if __name__ == "__main__":
    main()

"""The model as an inference server: vLLM's /generate, with the log-probabilities that it sampled with.

A process of its own: `python -m learn.server FOLDER --port PORT`. Beside what the rig's server answers, it takes new
weights (POST /update_weights `{"weights": PATH, "version": N}`) and tells which version answered a prompt last (POST
/versions `{"prompts": [[TOKEN, ...], ...]}`), and how many completions it gave in all.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from aiohttp import web

import testing as rig
from testing.inference_server import serve

from .model import load, load_weights
from .sampling import sample, text_of

GATHER_S = 0.01
"""How long the first request waits for others, which are then answered in the same batch."""
MAX_ROWS = 128
REMEMBERED = 20_000

_Waiting = tuple[rig.GenerationRequest, "asyncio.Future[list[rig.Completion]]"]


class ModelServer(rig.InferenceServer):
    """Answers with samples of the model in `folder`; requests that come together are sampled together."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(self.sample, tokenizer=str(folder), port=port)
        self._model, self._chars = load(folder)
        self._model.eval()
        self._version = 0
        self._completions = 0
        self._versions: OrderedDict[tuple[int, ...], int] = OrderedDict()
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None
        # A batch is sampled with one version of the weights from its first token to its last.
        self._weights = threading.Lock()

    def make_app(self) -> web.Application:
        app = super().make_app()
        app.router.add_post("/update_weights", self._update)
        app.router.add_post("/versions", self._tell_versions)
        return app

    async def sample(self, asked: rig.GenerationRequest) -> list[rig.Completion]:
        """Return completions of a prompt. A top_p other than 1 is refused: log-probabilities would not be true."""
        if asked.top_p != 1.0:
            raise web.HTTPBadRequest(text="top_p: this server samples with 1 only")
        answer: asyncio.Future[list[rig.Completion]] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        await asyncio.sleep(GATHER_S)
        while self._waiting:
            batch = [self._waiting.pop(0)]
            temperature = batch[0][0].temperature
            rows = batch[0][0].n
            while self._waiting and self._waiting[0][0].temperature == temperature:
                rows += self._waiting[0][0].n
                if rows > MAX_ROWS:
                    break
                batch.append(self._waiting.pop(0))
            batch = [(asked, answer) for asked, answer in batch if not answer.done()]  # callers that are still there
            if batch:
                await self._answer(batch, temperature)

    async def _answer(self, batch: Sequence[_Waiting], temperature: float) -> None:
        try:
            completions = await asyncio.to_thread(self._sample, [asked for asked, _ in batch], temperature)
        except Exception as error:  # the caller's request fails, the server goes on
            completions = [error] * len(batch)
        for (_, answer), given in zip(batch, completions, strict=True):
            if not answer.done():
                answer.set_exception(given) if isinstance(given, Exception) else answer.set_result(given)

    def _sample(self, batch: Sequence[rig.GenerationRequest], temperature: float) -> list[Any]:
        prompts = [self._chars.encode(asked.prompt, add_special_tokens=False) for asked in batch]
        rows = [prompt for prompt, asked in zip(prompts, batch, strict=True) for _ in range(asked.n)]
        limits = [asked.max_tokens for asked in batch for _ in range(asked.n)]
        with self._weights:
            samples = iter(sample(self._model, self._chars, rows, limits, temperature=temperature))
            version = self._version
        self._completions += len(rows)
        for prompt in prompts:
            self._versions[tuple(prompt)] = version
            self._versions.move_to_end(tuple(prompt))
        while len(self._versions) > REMEMBERED:
            self._versions.popitem(last=False)
        return [[self._completion(next(samples)) for _ in range(asked.n)] for asked in batch]

    def _completion(self, one: Any) -> rig.Completion:
        reason = "stop" if one.finished else "length"
        return rig.Completion(text_of(self._chars, one), reason, tuple(one.tokens), tuple(one.logprobs))

    async def _update(self, request: web.Request) -> web.Response:
        order = await request.json()
        await asyncio.to_thread(self._take, Path(order["weights"]), int(order["version"]))
        return web.json_response({"version": self._version})

    def _take(self, path: Path, version: int) -> None:
        with self._weights:
            load_weights(self._model, path)
            self._version = version

    async def _tell_versions(self, request: web.Request) -> web.Response:
        prompts = (await request.json())["prompts"]
        versions = [self._versions.get(tuple(prompt)) for prompt in prompts]
        return web.json_response({"versions": versions, "completions": self._completions})


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="learn.server", description="A model behind vLLM's /generate.")
    parser.add_argument("folder", type=Path, help="model and tokenizer, in the format of transformers")
    parser.add_argument("--port", type=int, help="where to listen; a free one where it is not given")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    asyncio.run(serve(ModelServer(options.folder, options.port)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

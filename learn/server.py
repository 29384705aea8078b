"""Serve the model behind vLLM's /generate, with the log-probabilities of sampled tokens.

Runs in its own process: `python -m learn.server FOLDER --port PORT`. Adds two endpoints to the test server's:

- POST /update_weights `{"weights": PATH, "version": N}` loads weights.
- POST /versions `{"prompts": [[TOKEN, ...], ...]}` returns the version that answered each prompt last.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import torch
from aiohttp import web

import reasoning_gym_testing as rig
from reasoning_gym_testing.inference_server import serve

from .model import load, load_weights
from .sampling import Sample, sample, text_of

GATHER_S = 0.02
"""Seconds that a request waits for other requests, so that they share a batch."""

_Waiting = tuple[rig.GenerationRequest, "asyncio.Future[list[rig.Completion]]"]


class ModelServer(rig.InferenceServer):
    """Serves completions that are sampled from the model in `folder`. Concurrent requests share a batch."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(self.sample, tokenizer=str(folder), port=port)
        self._model, self._tokenizer_of_model = load(folder)
        self._model.eval()
        self._version = 0
        self._versions: dict[tuple[int, ...], int] = {}
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None
        # While a batch is sampled, new weights wait, so that one version of the weights samples the whole batch.
        self._weights = threading.Lock()

    def make_app(self) -> web.Application:
        app = super().make_app()
        app.router.add_post("/update_weights", self._update)
        app.router.add_post("/versions", self._get_versions)
        return app

    async def sample(self, asked: rig.GenerationRequest) -> list[rig.Completion]:
        """Return completions of a prompt. Refuse a top_p other than 1, which would make log-probabilities wrong."""
        if asked.top_p != 1.0:
            raise web.HTTPBadRequest(text="top_p: must be 1; this server supports no other value")
        answer: asyncio.Future[list[rig.Completion]] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER_S)
            waiting, self._waiting = self._waiting, []
            batch = [(asked, answer) for asked, answer in waiting if not answer.done()]  # skip cancelled callers
            for temperature in {asked.temperature for asked, _ in batch}:
                await self._answer([request for request in batch if request[0].temperature == temperature], temperature)

    async def _answer(self, batch: Sequence[_Waiting], temperature: float) -> None:
        try:
            sampled = await asyncio.to_thread(self._sample, [asked for asked, _ in batch], temperature)
        except Exception as error:  # only these requests fail
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), completions in zip(batch, sampled, strict=True):
            if not answer.done():
                answer.set_result(completions)

    def _sample(self, batch: Sequence[rig.GenerationRequest], temperature: float) -> list[list[rig.Completion]]:
        prompts = [self._tokenizer_of_model.encode(asked.prompt, add_special_tokens=False) for asked in batch]
        rows = [prompt for prompt, asked in zip(prompts, batch, strict=True) for _ in range(asked.n)]
        limits = [asked.max_tokens for asked in batch for _ in range(asked.n)]
        with self._weights:
            sampled = sample(self._model, self._tokenizer_of_model, rows, limits, temperature=temperature)
            self._versions |= {tuple(prompt): self._version for prompt in prompts}
        completions = iter(map(self._completion, sampled))
        return [[next(completions) for _ in range(asked.n)] for asked in batch]

    def _completion(self, sampled: Sample) -> rig.Completion:
        reason = "stop" if sampled.finished else "length"
        return rig.Completion(
            text_of(self._tokenizer_of_model, sampled), reason, tuple(sampled.tokens), tuple(sampled.logprobs)
        )

    async def _update(self, request: web.Request) -> web.Response:
        order = await request.json()
        await asyncio.to_thread(self._take, Path(order["weights"]), int(order["version"]))
        return web.json_response({"version": self._version})

    def _take(self, path: Path, version: int) -> None:
        with self._weights:
            load_weights(self._model, path)
            self._version = version

    async def _get_versions(self, request: web.Request) -> web.Response:
        prompts = (await request.json())["prompts"]
        return web.json_response({"versions": [self._versions.get(tuple(prompt)) for prompt in prompts]})


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="learn.server", description="A model behind vLLM's /generate.")
    parser.add_argument("folder", type=Path, help="folder of model and tokenizer, in the format of transformers")
    parser.add_argument("--port", type=int, help="port to listen on (default: a free port)")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    asyncio.run(serve(ModelServer(options.folder, options.port)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
